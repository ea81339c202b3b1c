// Unary rows of pointwise.toml, and the tests of a value.
#include <limits>

#include "kernels/clamp_limits.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/loops.h"
#include "kernels/functors.h"

namespace telensor::cpu::TT_CPU_VARIANT {
namespace {

namespace f = functors;

// For functions that cost some nanoseconds an element.
constexpr int64_t kMathGrain = kGrain / 4;

template <typename Fn>
int NumberUnary(tt_call* call) {
  return DispatchNumber(call, call->inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    UnaryLoop<T, T>(call, Fn());
    return TT_OK;
  });
}
template <typename Fn>
int FloatUnary(tt_call* call) {
  return DispatchFloating(call, call->inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    UnaryLoop<T, T>(call, Fn(), kMathGrain);
    return TT_OK;
  });
}
template <typename Fn>
int AllUnary(tt_call* call) {
  return DispatchAll(call, call->inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    UnaryLoop<T, T>(call, Fn());
    return TT_OK;
  });
}
template <typename Fn>
int IntegerUnary(tt_call* call) {
  if (call->inputs[0].dtype == TT_BOOL) {
    UnaryLoop<bool, bool>(call, Fn());
    return TT_OK;
  }
  return DispatchInteger(call, call->inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    UnaryLoop<T, T>(call, Fn());
    return TT_OK;
  });
}
template <typename Fn>
int Test(tt_call* call) {
  return DispatchAll(call, call->inputs[0].dtype, [&](auto tag) {
    UnaryLoop<bool, typename decltype(tag)::type>(call, Fn());
    return TT_OK;
  });
}

// A functor with attributes of the call.
template <typename Fn>
int With(tt_call* call, const Fn& fn) {
  return DispatchFloating(call, call->inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    UnaryLoop<T, T>(call, fn, kMathGrain);
    return TT_OK;
  });
}
int Gelu(tt_call* call) { return call->attrs[0].text[0] == 't' ? With(call, f::GeluTanh()) : With(call, f::GeluErf()); }
int LeakyRelu(tt_call* call) { return With(call, f::LeakyRelu{call->attrs[0].f}); }
int Softplus(tt_call* call) { return With(call, f::Softplus{call->attrs[0].f, call->attrs[1].f}); }

int Clamp(tt_call* call) {
  return DispatchNumber(call, call->inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    UnaryLoop<T, T>(call, ClampLimits<ComputeType<T>>(call->attrs[0], call->attrs[1]));
    return TT_OK;
  });
}

}  // namespace

void AppendPointwiseKernels(KernelList* list) {
  constexpr uint32_t kNumber = TT_FLOATING | TT_INTEGER, kIntBool = TT_INTEGER | TT_DTYPE_BIT(TT_BOOL);
#define X(row, fn) list->push_back({row, kNumber, NumberUnary<f::fn>});
  TT_NUMBER_UNARY_OPS(X)
#undef X
#define X(row, fn) list->push_back({row, TT_FLOATING, FloatUnary<f::fn>});
  TT_FLOAT_UNARY_OPS(X)
#undef X
#define X(row, fn) list->push_back({row, TT_ALL_DTYPES, AllUnary<f::fn>});
  TT_ALL_UNARY_OPS(X)
#undef X
#define X(row, fn) list->push_back({row, kIntBool, IntegerUnary<f::fn>});
  TT_INTEGER_UNARY_OPS(X)
#undef X
#define X(row, fn) list->push_back({row, TT_ALL_DTYPES, Test<f::fn>});
  TT_TEST_OPS(X)
#undef X
  list->push_back({"gelu", TT_FLOATING, Gelu});
  list->push_back({"leaky_relu", TT_FLOATING, LeakyRelu});
  list->push_back({"softplus", TT_FLOATING, Softplus});
  list->push_back({"clamp", kNumber, Clamp});
  AppendBinaryKernels(list);
}

}  // namespace telensor::cpu::TT_CPU_VARIANT
