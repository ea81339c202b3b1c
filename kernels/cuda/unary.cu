// Unary rows that take integers too, and the tests for NaN and infinity.
#include <algorithm>
#include <limits>

#include "kernels/clamp_limits.h"
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
  return DispatchNumber(call, call->inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return Unary<T, T>(call, ClampLimits<ComputeType<T>>(call->attrs[0], call->attrs[1]));
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
