// Binary rows of pointwise.toml and the backward kernels of two operands.
#include "kernels/cpu/families.h"
#include "kernels/cpu/loops.h"
#include "kernels/functors.h"

namespace telensor::cpu::TT_CPU_VARIANT {
namespace {

namespace f = functors;

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
int NumberBinary(tt_call* call) {
  return DispatchNumber(call, call->inputs[0].dtype, [&](auto tag) {
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
  const tt_tensor* const tensors[1] = {&divisor};
  ForEachRow<1>(tensors, {sizeof(T)}, [&zero](char* const* p, int64_t n, const int64_t* step) {
    bool found = false;
    for (int64_t i = 0; i < n; ++i) found |= *reinterpret_cast<const T*>(p[0] + i * step[0]) == T(0);
    if (found) {
#pragma omp atomic write
      zero = true;
    }
  });
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
      W factor;
      if constexpr (std::is_floating_point_v<C>) {
        factor = static_cast<W>(alpha.f * sign);
      } else {
        factor = static_cast<W>(sign > 0 ? static_cast<uint64_t>(alpha.i) : 0 - static_cast<uint64_t>(alpha.i));
      }
      BinaryLoop<T, T>(call, [factor](C a, C b) {
        return static_cast<C>(static_cast<W>(a) + static_cast<W>(factor * static_cast<W>(b)));
      });
    }
    return TT_OK;
  });
}
int Add(tt_call* call) { return Sum(call, 1); }
int Sub(tt_call* call) { return Sum(call, -1); }

int ClampBackward(tt_call* call) {
  const tt_value &low = call->attrs[0], &high = call->attrs[1];
  return DispatchFloating(call, call->inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const C lo = low.kind != 0 ? static_cast<C>(low.f) : -std::numeric_limits<C>::infinity();
    const C hi = high.kind != 0 ? static_cast<C>(high.f) : std::numeric_limits<C>::infinity();
    BinaryLoop<T, T>(call, [lo, hi](C g, C x) { return x < lo || x > hi ? C(0) : g; });
    return TT_OK;
  });
}

int LeakyReluBackward(tt_call* call) {
  const double slope = call->attrs[0].f;
  return DispatchFloating(call, call->inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    BinaryLoop<T, T>(call, [slope](auto g, auto x) { return x > 0 ? g : g * static_cast<decltype(g)>(slope); });
    return TT_OK;
  });
}

int SoftplusBackward(tt_call* call) {
  const double beta = call->attrs[0].f, threshold = call->attrs[1].f;
  return DispatchFloating(call, call->inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    BinaryLoop<T, T>(call, [beta, threshold](auto g, auto x) {
      using C = decltype(g);
      if (x * C(beta) > C(threshold)) return g;
      const C e = std::exp(x * C(beta));
      return g * e / (e + C(1));
    });
    return TT_OK;
  });
}

int GeluBackward(tt_call* call) {
  const bool exact = call->attrs[0].text[0] != 't';
  return DispatchFloating(call, call->inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (exact) {
      BinaryLoop<T, T>(call, [](auto g, auto x) {
        using C = decltype(g);
        const C cdf = C(0.5) * (C(1) + std::erf(x * C(0.70710678118654752)));
        return g * (cdf + x * std::exp(x * x * C(-0.5)) * C(0.39894228040143268));
      });
    } else {
      BinaryLoop<T, T>(call, [](auto g, auto x) {
        using C = decltype(g);
        const C t = std::tanh(C(0.79788456080286536) * (x + C(0.044715) * x * x * x));
        const C dt = (C(1) - t * t) * C(0.79788456080286536) * (C(1) + C(0.134145) * x * x);
        return g * C(0.5) * (C(1) + t + x * dt);
      });
    }
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
#define X(row, fn) list->push_back({row, kNumber, NumberBinary<f::fn>});
  TT_NUMBER_BINARY_OPS(X)
#undef X
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
