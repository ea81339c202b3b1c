// Binary rows of floating point dtypes: division, angles and the backward kernels of two operands.
#include <limits>

#include "kernels/clamp_limits.h"
#include "kernels/cuda/elementwise.cuh"
#include "kernels/functors.h"

namespace telensor::cuda {
namespace {

namespace f = functors;

template <typename F>
int With(tt_call* call, const F& fn) {
  return DispatchFloating(call, call->inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return Binary<T, T>(call, fn);
  });
}
template <typename F>
int FloatBinary(tt_call* call) {
  return With(call, F());
}

int ClampBackward(tt_call* call) {
  return DispatchFloating(call, call->inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const f::Clamp<C> limits = ClampLimits<C>(call->attrs[0], call->attrs[1]);
    return Binary<T, T>(call, f::ClampBackward<C>{limits.low, limits.high});
  });
}
int LeakyReluBackward(tt_call* call) { return With(call, f::LeakyReluBackward{call->attrs[0].f}); }
int SoftplusBackward(tt_call* call) { return With(call, f::SoftplusBackward{call->attrs[0].f, call->attrs[1].f}); }
int GeluBackward(tt_call* call) {
  return call->attrs[0].text[0] == 't' ? With(call, f::GeluTanhBackward()) : With(call, f::GeluErfBackward());
}

}  // namespace

void AppendFloatBinaryKernels(KernelList* list) {
#define X(row, fn) list->push_back({row, TT_FLOATING, OnDevice<FloatBinary<f::fn>>});
  TT_FLOAT_BINARY_OPS(X)
#undef X
  list->push_back({"_clamp_backward", TT_FLOATING, OnDevice<ClampBackward>});
  list->push_back({"_leaky_relu_backward", TT_FLOATING, OnDevice<LeakyReluBackward>});
  list->push_back({"_softplus_backward", TT_FLOATING, OnDevice<SoftplusBackward>});
  list->push_back({"_gelu_backward", TT_FLOATING, OnDevice<GeluBackward>});
}

}  // namespace telensor::cuda
