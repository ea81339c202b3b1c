// Rows of comparison.toml, and the choosing ones: where, masked_fill.
#include "kernels/cuda/elementwise.cuh"
#include "kernels/functors.h"

namespace telensor::cuda {
namespace {

namespace f = functors;

template <typename F>
int Compare(tt_call* call) {
  return DispatchAll(call, call->inputs[0].dtype,
                     [&](auto tag) { return Binary<bool, typename decltype(tag)::type>(call, F()); });
}

template <typename U>
struct Chosen {
  __device__ U operator()(uint8_t condition, U a, U b) const { return condition != 0 ? a : b; }
};

int Choose(tt_call* call, const tt_tensor& condition, const tt_tensor& a, const tt_tensor& b) {
  const tt_tensor& out = call->outputs[0];
  return DispatchSize(ElementSize(out.dtype), [&](auto tag) {
    using U = typename decltype(tag)::type;
    return Elementwise<U, uint8_t, U, U>(call, Chosen<U>(), out, {&condition, &a, &b});
  });
}

int Where(tt_call* call) { return Choose(call, call->inputs[0], call->inputs[1], call->inputs[2]); }
int MaskedFill(tt_call* call) { return Choose(call, call->inputs[1], call->inputs[2], call->inputs[0]); }

}  // namespace

void AppendComparisonKernels(KernelList* list) {
#define X(row, fn) list->push_back({row, TT_ALL_DTYPES, OnDevice<Compare<f::fn>>});
  TT_COMPARISON_OPS(X)
#undef X
  list->push_back({"where", TT_ALL_DTYPES, OnDevice<Where>});
  list->push_back({"masked_fill", TT_ALL_DTYPES, OnDevice<MaskedFill>});
}

}  // namespace telensor::cuda
