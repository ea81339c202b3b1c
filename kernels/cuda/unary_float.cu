// Unary rows of floating point dtypes.
#include "kernels/cuda/elementwise.cuh"
#include "kernels/functors.h"

namespace telensor::cuda {
namespace {

namespace f = functors;

template <typename F>
int FloatUnary(tt_call* call) {
  return DispatchFloating(call, call->inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return Unary<T, T>(call, F());
  });
}

template <typename F>
int With(tt_call* call, const F& fn) {
  return DispatchFloating(call, call->inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return Unary<T, T>(call, fn);
  });
}
int Gelu(tt_call* call) { return call->attrs[0].text[0] == 't' ? With(call, f::GeluTanh()) : With(call, f::GeluErf()); }
int LeakyRelu(tt_call* call) { return With(call, f::LeakyRelu{call->attrs[0].f}); }
int Softplus(tt_call* call) { return With(call, f::Softplus{call->attrs[0].f, call->attrs[1].f}); }

}  // namespace

void AppendFloatUnaryKernels(KernelList* list) {
#define X(row, fn) list->push_back({row, TT_FLOATING, OnDevice<FloatUnary<f::fn>>});
  TT_FLOAT_UNARY_OPS(X)
#undef X
  list->push_back({"gelu", TT_FLOATING, OnDevice<Gelu>});
  list->push_back({"leaky_relu", TT_FLOATING, OnDevice<LeakyRelu>});
  list->push_back({"softplus", TT_FLOATING, OnDevice<Softplus>});
}

}  // namespace telensor::cuda
