// Binary rows that take integers too.
#include "kernels/cuda/elementwise.cuh"
#include "kernels/functors.h"

namespace telensor::cuda {
namespace {

namespace f = functors;

template <typename F>
int AllBinary(tt_call* call) {
  // mul, maximum and minimum of truth values are and, and or.
  if (call->inputs[0].dtype == TT_BOOL) return Binary<uint8_t, uint8_t>(call, F());
  return DispatchNumber(call, call->inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return Binary<T, T>(call, F());
  });
}
template <typename F>
int NumberBinary(tt_call* call) {
  return DispatchNumber(call, call->inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return Binary<T, T>(call, F());
  });
}
template <typename F>
int IntegerBinary(tt_call* call) {
  if (call->inputs[0].dtype == TT_BOOL) return Binary<uint8_t, uint8_t>(call, F());
  return DispatchInteger(call, call->inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return Binary<T, T>(call, F());
  });
}

// Integers divided by zero give zero here and an error at the next synchronisation.
template <typename T, typename F>
struct Divided {
  F f;
  Report* report;
  __device__ T operator()(T a, T b) const {
    if (b == T(0)) {
      ReportError(report, Report::kZeroDivision, 0, 0, 0);
      return T(0);
    }
    return f(a, b);
  }
};
template <typename F>
int Dividing(tt_call* call) {
  const tt_tensor& divisor = call->inputs[1];
  return DispatchNumber(call, call->inputs[0].dtype, [&](auto tag) -> int {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_integral_v<T>) {
      // A number is known before the launch.
      if (call->outputs[0].numel == 0) return TT_OK;
      if (divisor.on_host && *static_cast<const T*>(divisor.data) == T(0)) {
        return Fail(call, TT_INVALID_ARGUMENT, "ZeroDivisionError");
      }
      return Binary<T, T>(call, Divided<T, F>{F(), StreamOf(call)->report});
    } else {
      return Binary<T, T>(call, F());
    }
  });
}

struct OrIf {
  uint8_t use;
  __device__ uint8_t operator()(uint8_t a, uint8_t b) const { return a | (b & use); }
};

int Sum(tt_call* call, int sign) {
  const tt_value& alpha = call->attrs[0];
  if (call->inputs[0].dtype == TT_BOOL) return Binary<uint8_t, uint8_t>(call, OrIf{static_cast<uint8_t>(alpha.f != 0)});
  return DispatchNumber(call, call->inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    using W = f::WrapType<C>;
    f::AddScaled<C> add;
    if constexpr (std::is_floating_point_v<C>) {
      add.factor = static_cast<W>(alpha.f * sign);
    } else {
      add.factor =
          static_cast<W>(sign > 0 ? static_cast<uint64_t>(WholeOf(alpha)) : 0 - static_cast<uint64_t>(WholeOf(alpha)));
    }
    return Binary<T, T>(call, add);
  });
}
int Add(tt_call* call) { return Sum(call, 1); }
int Sub(tt_call* call) { return Sum(call, -1); }

}  // namespace

void AppendBinaryKernels(KernelList* list) {
  constexpr uint32_t kNumber = TT_FLOATING | TT_INTEGER, kIntBool = TT_INTEGER | TT_DTYPE_BIT(TT_BOOL);
  list->push_back({"add", TT_ALL_DTYPES, OnDevice<Add>});
  list->push_back({"sub", kNumber, OnDevice<Sub>});
#define X(row, fn) list->push_back({row, TT_ALL_DTYPES, OnDevice<AllBinary<f::fn>>});
  TT_ALL_BINARY_OPS(X)
#undef X
#define X(row, fn) list->push_back({row, kNumber, OnDevice<NumberBinary<f::fn>>});
  TT_NUMBER_BINARY_OPS(X)
#undef X
#define X(row, fn) list->push_back({row, kNumber, OnDevice<Dividing<f::fn>>});
  TT_DIVIDING_OPS(X)
#undef X
#define X(row, fn) list->push_back({row, kIntBool, OnDevice<IntegerBinary<f::fn>>});
  TT_INTEGER_BINARY_OPS(X)
#undef X
}

}  // namespace telensor::cuda
