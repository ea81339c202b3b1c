// Stand-ins for cuBLAS, cuDNN and CUB, by the words of their documentation: plain loops. They check how the plug-in
// describes its matrices and convolutions, not the libraries.
#include <cublas_v2.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/cuda/library.h"
#include "kernels/cuda/sort.h"
#include "tests/gpu/runner.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include <cudnn.h>

namespace telensor::cuda {
namespace {

DType TypeOf(cudaDataType t) {
  return t == CUDA_R_64F    ? DType::kFloat64
         : t == CUDA_R_16F  ? DType::kFloat16
         : t == CUDA_R_16BF ? DType::kBFloat16
                            : DType::kFloat32;
}
double Load(DType t, const void* data, int64_t i) {
  return conformance::LoadElement(t, static_cast<const char*>(data) + i * static_cast<int64_t>(ItemSize(t)));
}
void Store(DType t, void* data, int64_t i, double v) {
  conformance::StoreElement(t, v, static_cast<char*>(data) + i * static_cast<int64_t>(ItemSize(t)));
}

cublasStatus_t Create(cublasHandle_t* out) {
  *out = reinterpret_cast<cublasHandle_t>(uintptr_t{1});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t SetStream(cublasHandle_t, cudaStream_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t SetWorkspace(cublasHandle_t, void*, size_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t SetMathMode(cublasHandle_t, cublasMath_t) { return CUBLAS_STATUS_SUCCESS; }
const char* Words(cublasStatus_t) { return "a status of the stand-in"; }

// Column-major, as cuBLAS is: C = alpha op(A) op(B) + beta C.
cublasStatus_t Gemm(cublasHandle_t, cublasOperation_t opa, cublasOperation_t opb, int64_t m, int64_t n, int64_t k,
                    const void* alpha, const void* a, cudaDataType type_a, int64_t lda, long long step_a, const void* b,
                    cudaDataType type_b, int64_t ldb, long long step_b, const void* beta, void* c, cudaDataType type_c,
                    int64_t ldc, long long step_c, int64_t batch, cublasComputeType_t compute, cublasGemmAlgo_t) {
  const int64_t rows_a = opa == CUBLAS_OP_N ? m : k, rows_b = opb == CUBLAS_OP_N ? k : n;
  if (lda < std::max<int64_t>(1, rows_a) || ldb < std::max<int64_t>(1, rows_b) || ldc < std::max<int64_t>(1, m))
    return CUBLAS_STATUS_INVALID_VALUE;
  const bool wide = compute == CUBLAS_COMPUTE_64F;
  const double al = wide ? *static_cast<const double*>(alpha) : *static_cast<const float*>(alpha);
  const double be = wide ? *static_cast<const double*>(beta) : *static_cast<const float*>(beta);
  for (int64_t z = 0; z < batch; ++z) {
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t i = 0; i < m; ++i) {
        double sum = 0;
        for (int64_t l = 0; l < k; ++l) {
          const double x = Load(TypeOf(type_a), a, z * step_a + (opa == CUBLAS_OP_N ? i + l * lda : l + i * lda));
          const double y = Load(TypeOf(type_b), b, z * step_b + (opb == CUBLAS_OP_N ? l + j * ldb : j + l * ldb));
          sum += x * y;
        }
        const int64_t at = z * step_c + i + j * ldc;
        Store(TypeOf(type_c), c, at, al * sum + (be == 0 ? 0 : be * Load(TypeOf(type_c), c, at)));
      }
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}

// A descriptor of any kind.
struct Description {
  int n[12] = {};
  DType type = DType::kNone;
};
template <typename D>
Description& Of(D descriptor) {
  return *reinterpret_cast<Description*>(const_cast<void*>(static_cast<const void*>(descriptor)));
}
template <typename D>
cudnnStatus_t New(D* out) {
  *out = reinterpret_cast<D>(new Description());
  return CUDNN_STATUS_SUCCESS;
}
template <typename D>
cudnnStatus_t Delete(D descriptor) {
  delete &Of(descriptor);
  return CUDNN_STATUS_SUCCESS;
}
DType TypeOf(cudnnDataType_t t) {
  return t == CUDNN_DATA_DOUBLE     ? DType::kFloat64
         : t == CUDNN_DATA_HALF     ? DType::kFloat16
         : t == CUDNN_DATA_BFLOAT16 ? DType::kBFloat16
                                    : DType::kFloat32;
}
cudnnStatus_t DnnCreate(cudnnHandle_t* out) {
  *out = reinterpret_cast<cudnnHandle_t>(uintptr_t{1});
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t DnnStream(cudnnHandle_t, cudaStream_t) { return CUDNN_STATUS_SUCCESS; }
const char* DnnWords(cudnnStatus_t) { return "a status of the stand-in"; }
cudnnStatus_t SetTensor(cudnnTensorDescriptor_t d, cudnnTensorFormat_t, cudnnDataType_t type, int n, int c, int h,
                        int w) {
  Of(d) = {{n, c, h, w}, TypeOf(type)};
  return n > 0 && c > 0 && h > 0 && w > 0 ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}
cudnnStatus_t SetFilter(cudnnFilterDescriptor_t d, cudnnDataType_t type, cudnnTensorFormat_t, int k, int c, int h,
                        int w) {
  Of(d) = {{k, c, h, w}, TypeOf(type)};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t SetConvolution(cudnnConvolutionDescriptor_t d, int pad_h, int pad_w, int u, int v, int dilation_h,
                             int dilation_w, cudnnConvolutionMode_t, cudnnDataType_t) {
  Of(d) = {{pad_h, pad_w, u, v, dilation_h, dilation_w, 1}, DType::kNone};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t SetGroups(cudnnConvolutionDescriptor_t d, int groups) {
  Of(d).n[6] = groups;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t SetMath(cudnnConvolutionDescriptor_t, cudnnMathType_t) { return CUDNN_STATUS_SUCCESS; }

// One algorithm that is not deterministic, then one that is and wants a workspace.
template <typename Performance, typename A, typename B, typename C>
cudnnStatus_t Choose(cudnnHandle_t, A, B, cudnnConvolutionDescriptor_t, C, int, int* count, Performance* out) {
  *count = 2;
  out[0] = out[1] = {};
  out[0].determinism = CUDNN_NON_DETERMINISTIC;
  out[1].determinism = CUDNN_DETERMINISTIC;
  out[1].memory = 100;
  out[1].algo = static_cast<decltype(out[1].algo)>(1);
  return CUDNN_STATUS_SUCCESS;
}

// visit(input, weight, output) for the offsets of every product of a convolution.
template <typename Visit>
void ForProducts(const Description& x, const Description& w, const Description& c, const Description& y,
                 const Visit& visit) {
  const int groups = c.n[6], per_in = w.n[1], per_out = w.n[0] / groups;
  for (int n = 0; n < y.n[0]; ++n)
    for (int k = 0; k < y.n[1]; ++k)
      for (int oy = 0; oy < y.n[2]; ++oy)
        for (int ox = 0; ox < y.n[3]; ++ox)
          for (int ci = 0; ci < per_in; ++ci)
            for (int fy = 0; fy < w.n[2]; ++fy)
              for (int fx = 0; fx < w.n[3]; ++fx) {
                const int iy = oy * c.n[2] - c.n[0] + fy * c.n[4], ix = ox * c.n[3] - c.n[1] + fx * c.n[5];
                if (iy < 0 || ix < 0 || iy >= x.n[2] || ix >= x.n[3]) continue;
                const int channel = k / per_out * per_in + ci;
                visit(((int64_t{n} * x.n[1] + channel) * x.n[2] + iy) * x.n[3] + ix,
                      ((int64_t{k} * per_in + ci) * w.n[2] + fy) * w.n[3] + fx,
                      ((int64_t{n} * y.n[1] + k) * y.n[2] + oy) * y.n[3] + ox);
              }
}
void Finish(const Description& d, const std::vector<double>& sums, const void* beta, void* out) {
  const double be = d.type == DType::kFloat64 ? *static_cast<const double*>(beta) : *static_cast<const float*>(beta);
  for (size_t i = 0; i < sums.size(); ++i) {
    const int64_t at = static_cast<int64_t>(i);
    Store(d.type, out, at, sums[i] + (be == 0 ? 0 : be * Load(d.type, out, at)));
  }
}
std::vector<double> Zeros(const Description& d) {
  return std::vector<double>(static_cast<size_t>(d.n[0]) * static_cast<size_t>(d.n[1] * d.n[2] * d.n[3]));
}

cudnnStatus_t Forward(cudnnHandle_t, const void*, const cudnnTensorDescriptor_t dx, const void* x,
                      const cudnnFilterDescriptor_t dw, const void* w, const cudnnConvolutionDescriptor_t dc,
                      cudnnConvolutionFwdAlgo_t, void*, size_t, const void* beta, const cudnnTensorDescriptor_t dy,
                      void* y) {
  std::vector<double> sums = Zeros(Of(dy));
  ForProducts(Of(dx), Of(dw), Of(dc), Of(dy), [&](int64_t i, int64_t f, int64_t o) {
    sums[static_cast<size_t>(o)] += Load(Of(dx).type, x, i) * Load(Of(dw).type, w, f);
  });
  Finish(Of(dy), sums, beta, y);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t BackwardData(cudnnHandle_t, const void*, const cudnnFilterDescriptor_t dw, const void* w,
                           const cudnnTensorDescriptor_t dy, const void* y, const cudnnConvolutionDescriptor_t dc,
                           cudnnConvolutionBwdDataAlgo_t, void*, size_t, const void* beta,
                           const cudnnTensorDescriptor_t dx, void* x) {
  std::vector<double> sums = Zeros(Of(dx));
  ForProducts(Of(dx), Of(dw), Of(dc), Of(dy), [&](int64_t i, int64_t f, int64_t o) {
    sums[static_cast<size_t>(i)] += Load(Of(dy).type, y, o) * Load(Of(dw).type, w, f);
  });
  Finish(Of(dx), sums, beta, x);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t BackwardFilter(cudnnHandle_t, const void*, const cudnnTensorDescriptor_t dx, const void* x,
                             const cudnnTensorDescriptor_t dy, const void* y, const cudnnConvolutionDescriptor_t dc,
                             cudnnConvolutionBwdFilterAlgo_t, void*, size_t, const void* beta,
                             const cudnnFilterDescriptor_t dw, void* w) {
  std::vector<double> sums = Zeros(Of(dw));
  ForProducts(Of(dx), Of(dw), Of(dc), Of(dy), [&](int64_t i, int64_t f, int64_t o) {
    sums[static_cast<size_t>(f)] += Load(Of(dy).type, y, o) * Load(Of(dx).type, x, i);
  });
  Finish(Of(dw), sums, beta, w);
  return CUDNN_STATUS_SUCCESS;
}

// The type of each stand-in is checked against the library's header here.
#define TT_SAME(name, function) \
  { #name, reinterpret_cast < void*>(static_cast <decltype(&::name)>(function)) }
const std::map<std::string, void*> kFunctions = {TT_SAME(cublasCreate_v2, Create),
                                                 TT_SAME(cublasSetStream_v2, SetStream),
                                                 TT_SAME(cublasSetWorkspace_v2, SetWorkspace),
                                                 TT_SAME(cublasSetMathMode, SetMathMode),
                                                 {"cublasGemmStridedBatchedEx_64", reinterpret_cast<void*>(&Gemm)},
                                                 TT_SAME(cublasGetStatusString, Words),
                                                 TT_SAME(cudnnCreate, DnnCreate),
                                                 TT_SAME(cudnnSetStream, DnnStream),
                                                 TT_SAME(cudnnGetErrorString, DnnWords),
                                                 TT_SAME(cudnnCreateTensorDescriptor, New),
                                                 TT_SAME(cudnnDestroyTensorDescriptor, Delete),
                                                 TT_SAME(cudnnSetTensor4dDescriptor, SetTensor),
                                                 TT_SAME(cudnnCreateFilterDescriptor, New),
                                                 TT_SAME(cudnnDestroyFilterDescriptor, Delete),
                                                 TT_SAME(cudnnSetFilter4dDescriptor, SetFilter),
                                                 TT_SAME(cudnnCreateConvolutionDescriptor, New),
                                                 TT_SAME(cudnnDestroyConvolutionDescriptor, Delete),
                                                 TT_SAME(cudnnSetConvolution2dDescriptor, SetConvolution),
                                                 TT_SAME(cudnnSetConvolutionGroupCount, SetGroups),
                                                 TT_SAME(cudnnSetConvolutionMathType, SetMath),
                                                 TT_SAME(cudnnGetConvolutionForwardAlgorithm_v7, Choose),
                                                 TT_SAME(cudnnGetConvolutionBackwardDataAlgorithm_v7, Choose),
                                                 TT_SAME(cudnnGetConvolutionBackwardFilterAlgorithm_v7, Choose),
                                                 TT_SAME(cudnnConvolutionForward, Forward),
                                                 TT_SAME(cudnnConvolutionBackwardData, BackwardData),
                                                 TT_SAME(cudnnConvolutionBackwardFilter, BackwardFilter)};

}  // namespace

int Library::Open(tt_call*) { return TT_OK; }
void* Library::Find(tt_call* call, const char* function) {
  const auto it = kFunctions.find(function);
  if (it != kFunctions.end()) return it->second;
  Fail(call, TT_UNIMPLEMENTED, "%s has no stand-in", function);
  return nullptr;
}

int SortPairs(tt_call*, int64_t n, const uint64_t* keys_in, uint64_t* keys_out, const int64_t* values_in,
              int64_t* values_out, int bits) {
  const uint64_t mask = bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return (keys_in[a] & mask) < (keys_in[b] & mask); });
  for (int64_t i = 0; i < n; ++i) {
    keys_out[i] = keys_in[order[static_cast<size_t>(i)]];
    values_out[i] = values_in[order[static_cast<size_t>(i)]];
  }
  return TT_OK;
}

}  // namespace telensor::cuda
