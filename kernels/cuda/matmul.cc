// Rows of matmul.toml that have kernels.
#include "kernels/cuda/gemm.h"

namespace telensor::cuda {
namespace {

Matrix Of(const tt_tensor& t, int row = 0) {
  return {t.data, t.sizes[row], t.sizes[row + 1], t.strides[row], t.strides[row + 1], row > 0 ? t.strides[0] : 0};
}

int Use(tt_call* call) { return Check(call, UseDevice(call->device), "cudaSetDevice"); }

int Mm(tt_call* call) {
  if (const int code = Use(call); code != TT_OK) return code;
  const tt_tensor &a = call->inputs[0], &b = call->inputs[1], &out = call->outputs[0];
  return Multiply(call, Product{out.dtype, 1, Of(a), Of(b), out.data});
}

int Bmm(tt_call* call) {
  if (const int code = Use(call); code != TT_OK) return code;
  const tt_tensor &a = call->inputs[0], &b = call->inputs[1], &out = call->outputs[0];
  return Multiply(call, Product{out.dtype, a.sizes[0], Of(a, 1), Of(b, 1), out.data});
}

// The output starts as `start`, expanded; an element that is multiplied by zero is not read, so that a NaN in it
// does not show.
int Start(tt_call* call, const tt_tensor& start, double beta) {
  const tt_tensor& out = call->outputs[0];
  return beta == 0 ? TT_OK : CopyExpanded(call, out.data, start, out.sizes, out.rank);
}

int Addmm(tt_call* call) {
  if (const int code = Use(call); code != TT_OK) return code;
  const tt_tensor &self = call->inputs[0], &a = call->inputs[1], &b = call->inputs[2], &out = call->outputs[0];
  Product p{out.dtype, 1, Of(a), Of(b), out.data};
  p.beta = call->attrs[0].f;
  p.alpha = call->attrs[1].f;
  p.whole_beta = WholeOf(call->attrs[0]);
  p.whole_alpha = WholeOf(call->attrs[1]);
  const int code = Start(call, self, out.dtype < TT_FLOAT16 ? static_cast<double>(p.whole_beta != 0) : p.beta);
  return code == TT_OK ? Multiply(call, p) : code;
}

int Linear(tt_call* call) {
  if (const int code = Use(call); code != TT_OK) return code;
  const tt_tensor &input = call->inputs[0], &weight = call->inputs[1], &bias = call->inputs[2], &out = call->outputs[0];
  const int64_t features = weight.sizes[1], outputs = weight.sizes[0];
  if (out.numel == 0) return TT_OK;
  const int64_t rows = out.numel / outputs;
  Matrix a = {input.data, rows, features, features, 1, 0};
  if (input.rank == 2) {
    a = Of(input);
  } else {
    int code = TT_OK;
    a.data = Dense(call, input, &code);
    if (code != TT_OK) return code;
  }
  Product p{out.dtype, 1, a, {weight.data, features, outputs, weight.strides[1], weight.strides[0], 0}, out.data};
  if (bias.dtype != 0) {
    p.beta = 1;
    if (const int code = Start(call, bias, 1); code != TT_OK) return code;
  }
  return Multiply(call, p);
}

}  // namespace

void AppendMatmulKernels(KernelList* list) {
  constexpr uint32_t kNumber = TT_FLOATING | TT_INTEGER;
  list->push_back({"mm", kNumber, Mm});
  list->push_back({"bmm", kNumber, Bmm});
  list->push_back({"addmm", kNumber, Addmm});
  list->push_back({"linear", TT_FLOATING, Linear});
}

}  // namespace telensor::cuda
