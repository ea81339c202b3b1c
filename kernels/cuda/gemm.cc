#include "kernels/cuda/gemm.h"

#include <cublas_v2.h>

#include "kernels/cuda/gemm_plan.h"
#include "kernels/cuda/library.h"

namespace telensor::cuda {
namespace {

// The functions used, with the names that cublas_v2.h's macros stand for.
struct Blas {
  decltype(&cublasCreate_v2) create;
  decltype(&cublasSetStream_v2) set_stream;
  decltype(&cublasSetWorkspace_v2) set_workspace;
  decltype(&cublasSetMathMode) set_math_mode;
  cublasStatus_t (*gemm)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int64_t, int64_t, int64_t, const void*,
                         const void*, cudaDataType, int64_t, long long, const void*, cudaDataType, int64_t, long long,
                         const void*, void*, cudaDataType, int64_t, long long, int64_t, cublasComputeType_t,
                         cublasGemmAlgo_t);
  decltype(&cublasGetStatusString) words;
};

constexpr const char* kNames[] = {"libcublas.so." TELENSOR_CUBLAS_MAJOR, "libcublas.so", nullptr};
Library library("cuBLAS (libcublas.so." TELENSOR_CUBLAS_MAJOR ")", kNames);

int LoadBlas(tt_call* call, Blas* blas) {
  if (const int code = library.Open(call); code != TT_OK) return code;
  const auto load = [call](auto* function, const char* name) {
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(library.Find(call, name));
    return *function != nullptr;
  };
  const bool all = load(&blas->create, "cublasCreate_v2") && load(&blas->set_stream, "cublasSetStream_v2") &&
                   load(&blas->set_workspace, "cublasSetWorkspace_v2") &&
                   load(&blas->set_math_mode, "cublasSetMathMode") &&
                   load(&blas->gemm, "cublasGemmStridedBatchedEx_64") && load(&blas->words, "cublasGetStatusString");
  return all ? TT_OK : TT_UNIMPLEMENTED;
}

int CheckBlas(tt_call* call, const Blas& blas, cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return TT_OK;
  const int code = status == CUBLAS_STATUS_ALLOC_FAILED ? TT_OUT_OF_MEMORY : TT_INTERNAL;
  return Fail(call, code, "%s failed: %s", what, blas.words(status));
}

// One handle a device. A handle's settings and workspace are of one call at a time, hence the mutex.
struct Handle {
  std::mutex mutex;
  Blas blas = {};
  cublasHandle_t handle = nullptr;
};
constexpr int kMostDevices = 64;
Handle handles[kMostDevices];

cudaDataType TypeOf(int dtype) {
  return dtype == TT_FLOAT64    ? CUDA_R_64F
         : dtype == TT_FLOAT16  ? CUDA_R_16F
         : dtype == TT_BFLOAT16 ? CUDA_R_16BF
                                : CUDA_R_32F;
}

// A matrix cuBLAS can read; `batch_stride` counts elements.
struct Operand {
  const void* data;
  MatrixPlan plan;
  int64_t batch_stride;
};
int Prepare(tt_call* call, const Matrix& m, int64_t batch, int dtype, Operand* out) {
  out->plan = PlanMatrix(m.rows, m.columns, m.row_stride, m.column_stride);
  out->data = m.data;
  out->batch_stride = m.batch_stride;
  if (!out->plan.copy) return TT_OK;
  const int64_t size = ElementSize(dtype);
  // Matrices that are all the same are copied once.
  const int64_t copies = m.batch_stride == 0 ? 1 : batch;
  int code = TT_OK;
  void* copy = Workspace(call, copies * m.rows * m.columns * size, &code);
  if (copy == nullptr) return code;
  Dims<2> dims;
  dims.Add(copies, {m.rows * m.columns, m.batch_stride});
  dims.Add(m.rows, {m.columns, m.row_stride});
  dims.Add(m.columns, {1, m.column_stride});
  out->data = copy;
  out->batch_stride = m.batch_stride == 0 ? 0 : m.rows * m.columns;
  return CopyStrided(call, size, copy, m.data, dims);
}

}  // namespace

int Multiply(tt_call* call, const Product& p) {
  const int64_t m = p.a.rows, n = p.b.columns, k = p.a.columns;
  if (p.batch == 0 || m == 0 || n == 0) return TT_OK;
  if (p.dtype < TT_FLOAT16) return MultiplyIntegers(call, p);
  if (k == 0 && p.beta == 0) return ZeroFill(call, p.c, p.batch * m * n * ElementSize(p.dtype));
  if (call->device < 0 || call->device >= kMostDevices) return Fail(call, TT_INTERNAL, "device number out of range");

  Operand a, b;
  int code = Prepare(call, p.a, p.batch, p.dtype, &a);
  if (code == TT_OK) code = Prepare(call, p.b, p.batch, p.dtype, &b);
  if (code != TT_OK) return code;

  Handle& h = handles[call->device];
  const std::lock_guard<std::mutex> lock(h.mutex);
  if (h.handle == nullptr) {
    if (code = LoadBlas(call, &h.blas); code != TT_OK) return code;
    code = CheckBlas(call, h.blas, h.blas.create(&h.handle), "cublasCreate");
    if (code != TT_OK) {
      h.handle = nullptr;
      return code;
    }
    // float32 stays float32, and sums of 16-bit products are not rounded to 16 bits on the way.
    (void)h.blas.set_math_mode(
        h.handle, static_cast<cublasMath_t>(CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION));
  }
  code = CheckBlas(call, h.blas, h.blas.set_stream(h.handle, StreamOf(call)->stream), "cublasSetStream");
  if (code != TT_OK) return code;
  // Setting the stream took away the workspace of the call before. Its own would be shared between streams. Small
  // products do not profit from more than a little.
  const double work =
      static_cast<double>(p.batch) * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const size_t bytes = work > 1e9 ? size_t{32} << 20 : size_t{4} << 20;
  void* space = call->workspace(call, bytes);
  if (space != nullptr) (void)h.blas.set_workspace(h.handle, space, bytes);

  const cudaDataType type = TypeOf(p.dtype);
  const float alpha32 = static_cast<float>(p.alpha), beta32 = static_cast<float>(p.beta);
  const bool wide = p.dtype == TT_FLOAT64;
  const void* alpha = wide ? static_cast<const void*>(&p.alpha) : &alpha32;
  const void* beta = wide ? static_cast<const void*>(&p.beta) : &beta32;
  const cublasStatus_t status = h.blas.gemm(
      h.handle, b.plan.transposed ? CUBLAS_OP_T : CUBLAS_OP_N, a.plan.transposed ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, k,
      alpha, b.data, type, b.plan.ld, b.batch_stride, a.data, type, a.plan.ld, a.batch_stride, beta, p.c, type, n,
      m * n, p.batch, wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  return CheckBlas(call, h.blas, status, "a matrix product");
}

}  // namespace telensor::cuda
