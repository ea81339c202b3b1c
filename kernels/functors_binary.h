// Functors of two values: arithmetic, comparisons, and the backward ones of a gradient and a saved value.
#pragma once

#include "kernels/functors_unary.h"

namespace telensor::functors {

#define TT_BINARY(Name, expression)      \
  struct Name {                          \
    template <typename T>                \
    TT_FN T operator()(T a, T b) const { \
      return static_cast<T>(expression); \
    }                                    \
  };
TT_BINARY(Mul, WrapType<T>(a) * WrapType<T>(b))
TT_BINARY(Div, a / b)
TT_BINARY(Maximum, IsNan(a) || a > b ? a : b)
TT_BINARY(Minimum, IsNan(a) || a < b ? a : b)
TT_BINARY(Atan2, Math<T>::Atan2(a, b))
TT_BINARY(BitwiseAnd, a& b)
TT_BINARY(BitwiseOr, a | b)
TT_BINARY(BitwiseXor, a ^ b)

// Quotients and remainders of integers: the caller has refused a divisor of zero; -1 is safe here.
struct TruncDivide {
  template <typename T>
  TT_FN T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      return std::trunc(a / b);
    } else {
      if (std::is_signed_v<T> && b == T(-1)) return Neg()(a);
      return static_cast<T>(a / b);
    }
  }
};
struct Fmod {
  template <typename T>
  TT_FN T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      return static_cast<T>(Math<T>::Fmod(a, b));
    } else {
      if (std::is_signed_v<T> && b == T(-1)) return T(0);
      return static_cast<T>(a % b);
    }
  }
};
struct FloorDivide {
  template <typename T>
  TT_FN T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      if (b == T(0)) return a / b;
      // By the remainder, so that a quotient just below an integer is not rounded up to it.
      T mod = Fmod()(a, b);
      T div = (a - mod) / b;
      if (mod != T(0) && (b < T(0)) != (mod < T(0))) div -= T(1);
      if (div == T(0)) return std::copysign(T(0), a / b);
      T floored = std::floor(div);
      if (div - floored > T(0.5)) floored += T(1);
      return floored;
    } else {
      if (std::is_signed_v<T> && b == T(-1)) return Neg()(a);
      const T q = static_cast<T>(a / b);
      return a % b != 0 && (a < T(0)) != (b < T(0)) ? static_cast<T>(q - 1) : q;
    }
  }
};
struct Remainder {
  template <typename T>
  TT_FN T operator()(T a, T b) const {
    const T m = Fmod()(a, b);
    const T moved = static_cast<T>(static_cast<WrapType<T>>(m) + static_cast<WrapType<T>>(b));
    return (m != T(0)) & ((m < T(0)) != (b < T(0))) ? moved : m;
  }
};
struct Pow {
  template <typename T>
  TT_FN T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      return static_cast<T>(Math<T>::Pow(a, b));
    } else {
      if (b < T(0)) return a == T(1) ? T(1) : a == T(-1) && std::is_signed_v<T> ? (b % T(2) != 0 ? a : T(1)) : T(0);
      // Through 64 bits, where multiplication wraps as it would in T.
      uint64_t result = 1, base = static_cast<uint64_t>(a);
      for (uint64_t e = static_cast<uint64_t>(b); e != 0; e >>= 1) {
        if (e & 1) result *= base;
        base *= base;
      }
      return static_cast<T>(result);
    }
  }
};

// a + factor * b. add and sub; `factor` is alpha or its negative.
template <typename C>
struct AddScaled {
  WrapType<C> factor;
  TT_FN C operator()(C a, C b) const {
    if constexpr (std::is_floating_point_v<C>) {
      return Fma(b, factor, a);
    } else {
      return static_cast<C>(static_cast<WrapType<C>>(a) +
                            static_cast<WrapType<C>>(factor * static_cast<WrapType<C>>(b)));
    }
  }
};

#define TT_COMPARISON(Name, expression)     \
  struct Name {                             \
    template <typename T>                   \
    TT_FN bool operator()(T a, T b) const { \
      return expression;                    \
    }                                       \
  };
TT_COMPARISON(Eq, a == b)
TT_COMPARISON(Ne, a != b)
TT_COMPARISON(Lt, a < b)
TT_COMPARISON(Le, a <= b)
TT_COMPARISON(Gt, a > b)
TT_COMPARISON(Ge, a >= b)
TT_COMPARISON(LogicalAnd, (a != T(0)) & (b != T(0)))
TT_COMPARISON(LogicalOr, (a != T(0)) | (b != T(0)))
TT_COMPARISON(LogicalXor, (a != T(0)) != (b != T(0)))
#undef TT_COMPARISON

// Backward: of the gradient a, and the result or the argument b.
TT_BINARY(ReluBackward, b > T(0) ? a : T(0))
TT_BINARY(TanhBackward, a*(T(1) - b * b))
TT_BINARY(SigmoidBackward, a*(T(1) - b) * b)
#undef TT_BINARY

struct SiluBackward {
  template <typename T>
  TT_FN T operator()(T grad, T self) const {
    const T s = T(1) / (T(1) + Math<T>::ExpShort(-self));
    return grad * s * (T(1) + self * (T(1) - s));
  }
};

#define TT_BACKWARD_MATH(Name, ...)            \
  struct Name {                                \
    template <typename T>                      \
    TT_FN T operator()(T grad, T self) const { \
      using M = Math<T>;                       \
      using W = typename M::W;                 \
      const W g = grad, x = self;              \
      __VA_ARGS__                              \
    }                                          \
  };
TT_BACKWARD_MATH(GeluErfBackward, const W cdf = W(0.5) * (1 + M::Erf(x * W(0.70710678118654752)));
                 return static_cast<T>(g * (cdf + x * M::Exp(x * x * W(-0.5)) * W(0.39894228040143268)));)
TT_BACKWARD_MATH(GeluTanhBackward, const W t = M::Tanh(W(0.79788456080286536) * (x + W(0.044715) * x * x * x));
                 const W dt = (1 - t * t) * W(0.79788456080286536) * (1 + W(0.134145) * x * x);
                 return static_cast<T>(g * W(0.5) * (1 + t + x * dt));)
#undef TT_BACKWARD_MATH

struct LeakyReluBackward {
  double slope;
  template <typename T>
  TT_FN T operator()(T grad, T self) const {
    const T below = grad * static_cast<T>(slope);
    return self > T(0) ? grad : below;
  }
};
struct SoftplusBackward {
  double beta, threshold;
  template <typename T>
  TT_FN T operator()(T grad, T self) const {
    const T scaled = self * static_cast<T>(beta);
    const T curve = grad / (T(1) + Math<T>::ExpShort(-scaled));
    return scaled > static_cast<T>(threshold) ? grad : curve;
  }
};
template <typename C>
struct ClampBackward {
  C low, high;
  TT_FN C operator()(C grad, C self) const { return self >= low && self <= high ? grad : C(0); }
};

}  // namespace telensor::functors
