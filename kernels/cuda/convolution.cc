// conv2d and its gradients by cuDNN, with deterministic algorithms and, for float32, without TF32.
#include "kernels/cuda/convolution_shape.h"
#include "kernels/cuda/library.h"

// cuDNN 9 marks these functions as superseded by its graph interface; they are what a plain convolution needs.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include <cudnn.h>

namespace telensor::cuda {
namespace {

constexpr const char* kNames[] = {"libcudnn.so.9", nullptr};
Library library("cuDNN 9 (libcudnn.so.9)", kNames);

#define TT_CUDNN_FUNCTIONS(X)                                                                                         \
  X(cudnnCreate)                                                                                                      \
  X(cudnnSetStream)                                                                                                   \
  X(cudnnGetErrorString)                                                                                              \
  X(cudnnCreateTensorDescriptor) X(cudnnDestroyTensorDescriptor) X(cudnnSetTensor4dDescriptor)                        \
      X(cudnnCreateFilterDescriptor) X(cudnnDestroyFilterDescriptor) X(cudnnSetFilter4dDescriptor)                    \
          X(cudnnCreateConvolutionDescriptor) X(cudnnDestroyConvolutionDescriptor) X(cudnnSetConvolution2dDescriptor) \
              X(cudnnSetConvolutionGroupCount) X(cudnnSetConvolutionMathType)                                         \
                  X(cudnnGetConvolutionForwardAlgorithm_v7) X(cudnnGetConvolutionBackwardDataAlgorithm_v7)            \
                      X(cudnnGetConvolutionBackwardFilterAlgorithm_v7) X(cudnnConvolutionForward)                     \
                          X(cudnnConvolutionBackwardData) X(cudnnConvolutionBackwardFilter)

struct Dnn {
#define X(name) decltype(&::name) name = nullptr;
  TT_CUDNN_FUNCTIONS(X)
#undef X
};

int LoadDnn(tt_call* call, Dnn* dnn) {
  if (const int code = library.Open(call); code != TT_OK) return code;
#define X(name)                                                               \
  dnn->name = reinterpret_cast<decltype(&::name)>(library.Find(call, #name)); \
  if (dnn->name == nullptr) return TT_UNIMPLEMENTED;
  TT_CUDNN_FUNCTIONS(X)
#undef X
  return TT_OK;
}

enum Direction { kForward, kInput, kWeight };

struct Choice {
  int algorithm;
  cudnnMathType_t math;
  size_t workspace;
};

// One handle a device, with what was chosen on it; of one call at a time.
struct Handle {
  std::mutex mutex;
  Dnn dnn;
  cudnnHandle_t handle = nullptr;
  AlgorithmCache<Choice> choices;
};
constexpr int kMostDevices = 64;
Handle handles[kMostDevices];

int CheckDnn(tt_call* call, const Dnn& dnn, cudnnStatus_t status, const char* what) {
  if (status == CUDNN_STATUS_SUCCESS) return TT_OK;
  const int code = status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
                           status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED
                       ? TT_OUT_OF_MEMORY
                       : TT_INTERNAL;
  return Fail(call, code, "%s failed: %s", what, dnn.cudnnGetErrorString(status));
}

struct Descriptors {
  const Dnn& dnn;
  cudnnTensorDescriptor_t input = nullptr, output = nullptr;
  cudnnFilterDescriptor_t weight = nullptr;
  cudnnConvolutionDescriptor_t convolution = nullptr;

  explicit Descriptors(const Dnn& functions) : dnn(functions) {}
  Descriptors(const Descriptors&) = delete;
  ~Descriptors() {
    if (input != nullptr) dnn.cudnnDestroyTensorDescriptor(input);
    if (output != nullptr) dnn.cudnnDestroyTensorDescriptor(output);
    if (weight != nullptr) dnn.cudnnDestroyFilterDescriptor(weight);
    if (convolution != nullptr) dnn.cudnnDestroyConvolutionDescriptor(convolution);
  }

  cudnnStatus_t Set(const ConvolutionShape& s, int dtype) {
    const cudnnDataType_t type = dtype == TT_FLOAT64    ? CUDNN_DATA_DOUBLE
                                 : dtype == TT_FLOAT16  ? CUDNN_DATA_HALF
                                 : dtype == TT_BFLOAT16 ? CUDNN_DATA_BFLOAT16
                                                        : CUDNN_DATA_FLOAT;
    const cudnnDataType_t compute = dtype == TT_FLOAT64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
    const auto i = [](int64_t v) { return static_cast<int>(v); };
    cudnnStatus_t status = dnn.cudnnCreateTensorDescriptor(&input);
    const auto then = [&status](cudnnStatus_t next) { status = next; };
    const auto good = [&status] { return status == CUDNN_STATUS_SUCCESS; };
    if (good()) then(dnn.cudnnCreateTensorDescriptor(&output));
    if (good()) then(dnn.cudnnCreateFilterDescriptor(&weight));
    if (good()) then(dnn.cudnnCreateConvolutionDescriptor(&convolution));
    if (good()) then(dnn.cudnnSetTensor4dDescriptor(input, CUDNN_TENSOR_NCHW, type, i(s.n), i(s.c), i(s.h), i(s.w)));
    if (good()) then(dnn.cudnnSetTensor4dDescriptor(output, CUDNN_TENSOR_NCHW, type, i(s.n), i(s.k), i(s.oh), i(s.ow)));
    if (good()) {
      then(
          dnn.cudnnSetFilter4dDescriptor(weight, type, CUDNN_TENSOR_NCHW, i(s.k), i(s.c / s.groups), i(s.kh), i(s.kw)));
    }
    if (good()) {
      then(dnn.cudnnSetConvolution2dDescriptor(convolution, i(s.padding[0]), i(s.padding[1]), i(s.stride[0]),
                                               i(s.stride[1]), i(s.dilation[0]), i(s.dilation[1]),
                                               CUDNN_CROSS_CORRELATION, compute));
    }
    if (good()) then(dnn.cudnnSetConvolutionGroupCount(convolution, i(s.groups)));
    // CUDNN_DEFAULT_MATH would let float32 be rounded to TF32.
    if (good()) {
      then(dnn.cudnnSetConvolutionMathType(
          convolution, type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16 ? CUDNN_TENSOR_OP_MATH : CUDNN_FMA_MATH));
    }
    return status;
  }
};

constexpr int kMostAlgorithms = 16;
constexpr size_t kMostWorkspace = size_t{1} << 30;

// The fastest that is deterministic, by cuDNN's own estimate.
template <typename Performance>
bool Pick(const Performance* found, int count, bool fma, Choice* choice) {
  for (int i = 0; i < count; ++i) {
    if (found[i].status != CUDNN_STATUS_SUCCESS || found[i].determinism != CUDNN_DETERMINISTIC) continue;
    if (found[i].memory > kMostWorkspace) continue;
    *choice = {static_cast<int>(found[i].algo), fma ? CUDNN_FMA_MATH : found[i].mathType, found[i].memory};
    return true;
  }
  return false;
}

int Choose(tt_call* call, const Handle& h, const Descriptors& d, Direction direction, bool fma, Choice* choice) {
  int count = 0;
  bool found = false;
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  if (direction == kForward) {
    cudnnConvolutionFwdAlgoPerf_t list[kMostAlgorithms];
    status = h.dnn.cudnnGetConvolutionForwardAlgorithm_v7(h.handle, d.input, d.weight, d.convolution, d.output,
                                                          kMostAlgorithms, &count, list);
    found = Pick(list, count, fma, choice);
  } else if (direction == kInput) {
    cudnnConvolutionBwdDataAlgoPerf_t list[kMostAlgorithms];
    status = h.dnn.cudnnGetConvolutionBackwardDataAlgorithm_v7(h.handle, d.weight, d.output, d.convolution, d.input,
                                                               kMostAlgorithms, &count, list);
    found = Pick(list, count, fma, choice);
  } else {
    cudnnConvolutionBwdFilterAlgoPerf_t list[kMostAlgorithms];
    status = h.dnn.cudnnGetConvolutionBackwardFilterAlgorithm_v7(h.handle, d.input, d.output, d.convolution, d.weight,
                                                                 kMostAlgorithms, &count, list);
    found = Pick(list, count, fma, choice);
  }
  if (status != CUDNN_STATUS_SUCCESS) return CheckDnn(call, h.dnn, status, "choosing a convolution algorithm");
  return found ? TT_OK : Fail(call, TT_UNIMPLEMENTED, "cuDNN has no deterministic algorithm for this convolution");
}

// Reads two of the three tensors, dense, and writes the third: result = convolution + beta * result.
int Convolve(tt_call* call, Direction direction, const ConvolutionShape& s, const tt_tensor& first,
             const tt_tensor& second, const tt_tensor& result, double beta) {
  int code = TT_OK;
  const void* x = Dense(call, first, &code);
  const void* y = code == TT_OK ? Dense(call, second, &code) : nullptr;
  if (code != TT_OK) return code;
  if (call->device < 0 || call->device >= kMostDevices) return Fail(call, TT_INTERNAL, "device number out of range");

  Handle& h = handles[call->device];
  const std::lock_guard<std::mutex> lock(h.mutex);
  if (h.handle == nullptr) {
    if (code = LoadDnn(call, &h.dnn); code != TT_OK) return code;
    if (code = CheckDnn(call, h.dnn, h.dnn.cudnnCreate(&h.handle), "cudnnCreate"); code != TT_OK) {
      h.handle = nullptr;
      return code;
    }
  }
  code = CheckDnn(call, h.dnn, h.dnn.cudnnSetStream(h.handle, StreamOf(call)->stream), "cudnnSetStream");
  if (code != TT_OK) return code;
  Descriptors d(h.dnn);
  if (code = CheckDnn(call, h.dnn, d.Set(s, result.dtype), "describing a convolution"); code != TT_OK) return code;

  auto key = s.Key();
  key.back() = direction * 16 + result.dtype;
  Choice choice;
  if (const Choice* known = h.choices.Find(key); known != nullptr) {
    choice = *known;
  } else {
    const bool fma = result.dtype == TT_FLOAT32 || result.dtype == TT_FLOAT64;
    if (code = Choose(call, h, d, direction, fma, &choice); code != TT_OK) return code;
    h.choices.Add(key, choice);
  }
  code =
      CheckDnn(call, h.dnn, h.dnn.cudnnSetConvolutionMathType(d.convolution, choice.math), "a convolution's settings");
  if (code != TT_OK) return code;
  void* space = nullptr;
  if (choice.workspace > 0) {
    space = Workspace(call, static_cast<int64_t>(choice.workspace), &code);
    if (space == nullptr) return code;
  }
  const float alpha32 = 1, beta32 = static_cast<float>(beta);
  const double alpha64 = 1;
  const bool wide = result.dtype == TT_FLOAT64;
  const void* alpha = wide ? static_cast<const void*>(&alpha64) : &alpha32;
  const void* scale = wide ? static_cast<const void*>(&beta) : &beta32;
  cudnnStatus_t status;
  if (direction == kForward) {
    status = h.dnn.cudnnConvolutionForward(h.handle, alpha, d.input, x, d.weight, y, d.convolution,
                                           static_cast<cudnnConvolutionFwdAlgo_t>(choice.algorithm), space,
                                           choice.workspace, scale, d.output, result.data);
  } else if (direction == kInput) {
    status = h.dnn.cudnnConvolutionBackwardData(h.handle, alpha, d.weight, y, d.output, x, d.convolution,
                                                static_cast<cudnnConvolutionBwdDataAlgo_t>(choice.algorithm), space,
                                                choice.workspace, scale, d.input, result.data);
  } else {
    status = h.dnn.cudnnConvolutionBackwardFilter(h.handle, alpha, d.input, y, d.output, x, d.convolution,
                                                  static_cast<cudnnConvolutionBwdFilterAlgo_t>(choice.algorithm), space,
                                                  choice.workspace, scale, d.weight, result.data);
  }
  return CheckDnn(call, h.dnn, status, "a convolution");
}

int Refuse(tt_call* call) { return Fail(call, TT_INVALID_ARGUMENT, "the sizes of a convolution do not fit"); }

int Conv2d(tt_call* call) {
  if (const int code = Check(call, UseDevice(call->device), "cudaSetDevice"); code != TT_OK) return code;
  const tt_tensor &input = call->inputs[0], &weight = call->inputs[1], &bias = call->inputs[2], &out = call->outputs[0];
  ConvolutionShape s;
  if (!ReadConvolution(input, weight, out, call->attrs, &s)) return Refuse(call);
  if (out.numel == 0) return TT_OK;
  double beta = 0;
  if (bias.dtype != 0) {
    // The bias is where the sums start.
    Dims<2> dims;
    dims.Add(s.n, {s.k * s.oh * s.ow, 0});
    dims.Add(s.k, {s.oh * s.ow, bias.strides[0]});
    dims.Add(s.oh * s.ow, {1, 0});
    if (const int code = CopyStrided(call, ElementSize(out.dtype), out.data, bias.data, dims); code != TT_OK)
      return code;
    beta = 1;
  }
  if (input.numel == 0 || weight.numel == 0)
    return beta == 1 ? TT_OK : ZeroFill(call, out.data, out.numel * ElementSize(out.dtype));
  return Convolve(call, kForward, s, input, weight, out, beta);
}

int InputBackward(tt_call* call) {
  if (const int code = Check(call, UseDevice(call->device), "cudaSetDevice"); code != TT_OK) return code;
  const tt_tensor &grad = call->inputs[0], &weight = call->inputs[1], &out = call->outputs[0];
  ConvolutionShape s;
  if (!ReadConvolution(out, weight, grad, call->attrs + 1, &s)) return Refuse(call);
  if (grad.numel == 0 || weight.numel == 0) return ZeroFill(call, out.data, out.numel * ElementSize(out.dtype));
  return out.numel == 0 ? TT_OK : Convolve(call, kInput, s, grad, weight, out, 0);
}

int WeightBackward(tt_call* call) {
  if (const int code = Check(call, UseDevice(call->device), "cudaSetDevice"); code != TT_OK) return code;
  const tt_tensor &grad = call->inputs[0], &input = call->inputs[1], &out = call->outputs[0];
  ConvolutionShape s;
  if (!ReadConvolution(input, out, grad, call->attrs + 1, &s)) return Refuse(call);
  if (grad.numel == 0 || input.numel == 0) return ZeroFill(call, out.data, out.numel * ElementSize(out.dtype));
  return out.numel == 0 ? TT_OK : Convolve(call, kWeight, s, grad, input, out, 0);
}

}  // namespace

void AppendConvolutionKernels(KernelList* list) {
  list->push_back({"conv2d", TT_FLOATING, Conv2d});
  list->push_back({"_conv2d_input_backward", TT_FLOATING, InputBackward});
  list->push_back({"_conv2d_weight_backward", TT_FLOATING, WeightBackward});
}

}  // namespace telensor::cuda
