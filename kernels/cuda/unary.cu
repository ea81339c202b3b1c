// Unary rows that take integers too, and the tests for NaN and infinity.
#include <algorithm>
#include <limits>

#include "kernels/cuda/elementwise.cuh"
#include "kernels/functors.h"

namespace telensor::cuda {
namespace {

namespace f = functors;

template <typename F>
int NumberUnary(tt_call* call) {
  return DispatchNumber(call, call->inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return Unary<T, T>(call, F());
  });
}
template <typename F>
int AllUnary(tt_call* call) {
  return DispatchAll(call, call->inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return Unary<T, T>(call, F());
  });
}
template <typename F>
int IntegerUnary(tt_call* call) {
  if (call->inputs[0].dtype == TT_BOOL) return Unary<bool, bool>(call, F());
  return DispatchInteger(call, call->inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return Unary<T, T>(call, F());
  });
}
template <typename F>
int Test(tt_call* call) {
  return DispatchAll(call, call->inputs[0].dtype,
                     [&](auto tag) { return Unary<bool, typename decltype(tag)::type>(call, F()); });
}

int Clamp(tt_call* call) {
  const tt_value &low = call->attrs[0], &high = call->attrs[1];
  return DispatchNumber(call, call->inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    using Limits = std::numeric_limits<C>;
    f::Clamp<C> clamp;
    if constexpr (std::is_floating_point_v<C>) {
      clamp.low = low.kind != 0 ? static_cast<C>(low.f) : -Limits::infinity();
      clamp.high = high.kind != 0 ? static_cast<C>(high.f) : Limits::infinity();
      clamp.undefined = f::IsNan(clamp.low) || f::IsNan(clamp.high);
    } else {
      // A limit beyond the dtype's range limits as the end of the range does.
      const auto within = [](int64_t v) {
        return static_cast<C>(std::clamp<int64_t>(v, Limits::min(), Limits::max()));
      };
      clamp.low = low.kind != 0 ? within(WholeOf(low)) : Limits::min();
      clamp.high = high.kind != 0 ? within(WholeOf(high)) : Limits::max();
    }
    return Unary<T, T>(call, clamp);
  });
}

}  // namespace

void AppendUnaryKernels(KernelList* list) {
  constexpr uint32_t kNumber = TT_FLOATING | TT_INTEGER, kIntBool = TT_INTEGER | TT_DTYPE_BIT(TT_BOOL);
#define X(row, fn) list->push_back({row, kNumber, OnDevice<NumberUnary<f::fn>>});
  TT_NUMBER_UNARY_OPS(X)
#undef X
#define X(row, fn) list->push_back({row, TT_ALL_DTYPES, OnDevice<AllUnary<f::fn>>});
  TT_ALL_UNARY_OPS(X)
#undef X
#define X(row, fn) list->push_back({row, kIntBool, OnDevice<IntegerUnary<f::fn>>});
  TT_INTEGER_UNARY_OPS(X)
#undef X
#define X(row, fn) list->push_back({row, TT_ALL_DTYPES, OnDevice<Test<f::fn>>});
  TT_TEST_OPS(X)
#undef X
  list->push_back({"clamp", kNumber, OnDevice<Clamp>});
}

}  // namespace telensor::cuda
