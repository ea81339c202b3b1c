// Binary rows of pointwise.toml and the backward kernels of two operands.
#include <limits>

#include "kernels/clamp_limits.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/loops.h"
#include "kernels/functors.h"

namespace telensor::cpu::TT_CPU_VARIANT {
namespace {

namespace f = functors;

constexpr int64_t kMathGrain = kGrain / 4;

template <typename Fn>
int Binary(tt_call* call) {
  const int dtype = call->inputs[0].dtype;
  if (dtype == TT_BOOL) {
    // mul, maximum and minimum of truth values are and, and or.
    BinaryLoop<uint8_t, uint8_t>(call, Fn());
    return TT_OK;
  }
  return DispatchNumber(call, dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    BinaryLoop<T, T>(call, Fn());
    return TT_OK;
  });
}
template <typename Fn>
int FloatBinary(tt_call* call) {
  return DispatchFloating(call, call->inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    BinaryLoop<T, T>(call, Fn());
    return TT_OK;
  });
}
template <typename Fn>
int IntegerBinary(tt_call* call) {
  if (call->inputs[0].dtype == TT_BOOL) {
    BinaryLoop<uint8_t, uint8_t>(call, Fn());
    return TT_OK;
  }
  return DispatchInteger(call, call->inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    BinaryLoop<T, T>(call, Fn());
    return TT_OK;
  });
}

// Whether a divisor of an integer division is zero: looked for first, so that nothing is written.
template <typename T>
bool HasZero(const tt_tensor& divisor) {
  bool zero = false;
  const DenseFn find = [](const void* found, void* const* at, unsigned standing, int64_t n) {
    const T* x = static_cast<const T*>(at[0]);
    int zeros = 0;
    for (int64_t i = 0; i < (standing != 0 ? 1 : n); ++i) zeros += x[i] == T(0);
    if (zeros != 0) {
#pragma omp atomic write
      *static_cast<bool*>(const_cast<void*>(found)) = true;
    }
  };
  const tt_tensor* const tensors[] = {&divisor};
  RunLoop({find, &zero, 1, 1, 0, 1, {FormatOf<T>()}}, tensors, kGrain);
  return zero;
}

template <typename Fn>
int Dividing(tt_call* call) {
  return DispatchNumber(call, call->inputs[0].dtype, [&](auto tag) -> int {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_integral_v<T>) {
      if (HasZero<T>(call->inputs[1])) return Fail(call, TT_INVALID_ARGUMENT, "ZeroDivisionError");
    }
    BinaryLoop<T, T>(call, Fn());
    return TT_OK;
  });
}

// pow by one exponent that is a functor of its own, where it is.
template <typename T>
bool PowByNumber(tt_call* call) {
  using C = ComputeType<T>;
  const tt_tensor& exponent = call->inputs[1];
  bool same = true;
  for (int d = 0; d < exponent.rank; ++d) same = same && exponent.strides[d] == 0;
  if (!same || exponent.numel == 0) return false;
  const C e = static_cast<C>(*static_cast<const T*>(exponent.data));
  if (e == C(2)) return UnaryLoop<T, T>(call, f::Square()), true;
  if constexpr (std::is_floating_point_v<C>) {
    if (e == C(3)) return UnaryLoop<T, T>(call, [](C x) { return x * x * x; }), true;
    if (e == C(0.5)) return UnaryLoop<T, T>(call, f::Sqrt()), true;
    if (e == C(-0.5)) return UnaryLoop<T, T>(call, f::Rsqrt()), true;
    if (e == C(-1)) return UnaryLoop<T, T>(call, f::Reciprocal()), true;
    if (e == C(-2)) return UnaryLoop<T, T>(call, [](C x) { return C(1) / (x * x); }), true;
  }
  return false;
}
int Pow(tt_call* call) {
  return DispatchNumber(call, call->inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (!PowByNumber<T>(call)) BinaryLoop<T, T>(call, f::Pow(), kMathGrain);
    return TT_OK;
  });
}

// a + alpha * b, or with `sign` -1, a - alpha * b.
int Sum(tt_call* call, int sign) {
  const tt_value& alpha = call->attrs[0];
  const int dtype = call->inputs[0].dtype;
  const bool one = alpha.f == 1;
  if (dtype == TT_BOOL) {
    const bool use = alpha.f != 0;
    BinaryLoop<uint8_t, uint8_t>(call, [use](uint8_t a, uint8_t b) { return static_cast<uint8_t>(a | (b & use)); });
    return TT_OK;
  }
  return DispatchNumber(call, dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    using W = f::WrapType<C>;
    if (one && sign > 0) {
      BinaryLoop<T, T>(call, [](C a, C b) { return static_cast<C>(static_cast<W>(a) + static_cast<W>(b)); });
    } else if (one) {
      BinaryLoop<T, T>(call, [](C a, C b) { return static_cast<C>(static_cast<W>(a) - static_cast<W>(b)); });
    } else {
      f::AddScaled<C> add;
      if constexpr (std::is_floating_point_v<C>) {
        add.factor = static_cast<W>(alpha.f * sign);
      } else {
        add.factor = static_cast<W>(sign > 0 ? static_cast<uint64_t>(alpha.i) : 0 - static_cast<uint64_t>(alpha.i));
      }
      BinaryLoop<T, T>(call, add);
    }
    return TT_OK;
  });
}
int Add(tt_call* call) { return Sum(call, 1); }
int Sub(tt_call* call) { return Sum(call, -1); }

// Backward functors with attributes of the call.
template <typename Fn>
int With(tt_call* call, const Fn& fn) {
  return DispatchFloating(call, call->inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    BinaryLoop<T, T>(call, fn, kMathGrain);
    return TT_OK;
  });
}
int LeakyReluBackward(tt_call* call) { return With(call, f::LeakyReluBackward{call->attrs[0].f}); }
int SoftplusBackward(tt_call* call) { return With(call, f::SoftplusBackward{call->attrs[0].f, call->attrs[1].f}); }
int GeluBackward(tt_call* call) {
  return call->attrs[0].text[0] == 't' ? With(call, f::GeluTanhBackward()) : With(call, f::GeluErfBackward());
}
int ClampBackward(tt_call* call) {
  return DispatchFloating(call, call->inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const f::Clamp<C> limits = ClampLimits<C>(call->attrs[0], call->attrs[1]);
    BinaryLoop<T, T>(call, f::ClampBackward<C>{limits.low, limits.high});
    return TT_OK;
  });
}

}  // namespace

void AppendBinaryKernels(KernelList* list) {
  constexpr uint32_t kNumber = TT_FLOATING | TT_INTEGER, kIntBool = TT_INTEGER | TT_DTYPE_BIT(TT_BOOL);
  list->push_back({"add", TT_ALL_DTYPES, Add});
  list->push_back({"sub", kNumber, Sub});
#define X(row, fn) list->push_back({row, TT_ALL_DTYPES, Binary<f::fn>});
  TT_ALL_BINARY_OPS(X)
#undef X
  list->push_back({"pow", kNumber, Pow});
#define X(row, fn) list->push_back({row, kNumber, Dividing<f::fn>});
  TT_DIVIDING_OPS(X)
#undef X
#define X(row, fn) list->push_back({row, TT_FLOATING, FloatBinary<f::fn>});
  TT_FLOAT_BINARY_OPS(X)
#undef X
#define X(row, fn) list->push_back({row, kIntBool, IntegerBinary<f::fn>});
  TT_INTEGER_BINARY_OPS(X)
#undef X
  list->push_back({"_clamp_backward", TT_FLOATING, ClampBackward});
  list->push_back({"_leaky_relu_backward", TT_FLOATING, LeakyReluBackward});
  list->push_back({"_softplus_backward", TT_FLOATING, SoftplusBackward});
  list->push_back({"_gelu_backward", TT_FLOATING, GeluBackward});
}

}  // namespace telensor::cpu::TT_CPU_VARIANT
