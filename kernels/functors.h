// The elementwise functors: one list for every backend. An elementwise op is its row in the table and one line here.
//
// Functors compute in the type they are given: backends hand 16-bit floats over as float.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kernels/functor_list.h"

#ifdef __CUDACC__
#define TT_FN __host__ __device__ inline
#else
#define TT_FN inline
#endif

namespace telensor::functors {

template <typename T>
TT_FN bool IsNan(T x) {
  if constexpr (std::is_floating_point_v<T>) return x != x;
  return false;
}

// Integers wrap instead of overflowing.
template <typename T> using Wrapping = std::conditional_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, std::make_unsigned<T>, std::common_type<T>>;
template <typename T> using WrapType = typename Wrapping<T>::type;

#define TT_UNARY(Name, expression)                                     \
  struct Name {                                                        \
    template <typename T>                                              \
    TT_FN T operator()(T x) const { return static_cast<T>(expression); } \
  };
TT_UNARY(Neg, WrapType<T>(0) - WrapType<T>(x))
TT_UNARY(Square, WrapType<T>(x) * WrapType<T>(x))
TT_UNARY(Exp, std::exp(x))
TT_UNARY(Expm1, std::expm1(x))
TT_UNARY(Log, std::log(x))
TT_UNARY(Log2, std::log2(x))
TT_UNARY(Log10, std::log10(x))
TT_UNARY(Log1p, std::log1p(x))
TT_UNARY(Sqrt, std::sqrt(x))
TT_UNARY(Rsqrt, T(1) / std::sqrt(x))
TT_UNARY(Reciprocal, T(1) / x)
TT_UNARY(Sin, std::sin(x))
TT_UNARY(Cos, std::cos(x))
TT_UNARY(Tan, std::tan(x))
TT_UNARY(Sinh, std::sinh(x))
TT_UNARY(Cosh, std::cosh(x))
TT_UNARY(Asin, std::asin(x))
TT_UNARY(Acos, std::acos(x))
TT_UNARY(Atan, std::atan(x))
TT_UNARY(Tanh, std::tanh(x))
TT_UNARY(Sigmoid, T(1) / (T(1) + std::exp(-x)))
TT_UNARY(Erf, std::erf(x))
TT_UNARY(Relu, x < T(0) ? T(0) : x)
TT_UNARY(Silu, x / (T(1) + std::exp(-x)))
TT_UNARY(LogSigmoid, (x < T(0) ? x : T(0)) - std::log1p(std::exp(-std::fabs(x))))
#undef TT_UNARY

struct Abs {
  template <typename T>
  TT_FN T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) return std::fabs(x);
    if constexpr (std::is_unsigned_v<T>) return x;
    return x < T(0) ? static_cast<T>(WrapType<T>(0) - WrapType<T>(x)) : x;
  }
};
struct Sign {
  template <typename T>
  TT_FN T operator()(T x) const {
    return static_cast<T>((x > T(0)) - (x < T(0)));
  }
};

#define TT_ROUNDING(Name, function)                                \
  struct Name {                                                    \
    template <typename T>                                          \
    TT_FN T operator()(T x) const {                                \
      if constexpr (std::is_floating_point_v<T>) return function(x); \
      return x;                                                    \
    }                                                              \
  };
TT_ROUNDING(Floor, std::floor)
TT_ROUNDING(Ceil, std::ceil)
TT_ROUNDING(Trunc, std::trunc)
TT_ROUNDING(Round, std::nearbyint)
#undef TT_ROUNDING

struct BitwiseNot {
  template <typename T>
  TT_FN T operator()(T x) const {
    if constexpr (std::is_same_v<T, bool>) {
      return !x;
    } else {
      return static_cast<T>(~x);
    }
  }
};

#define TT_BINARY(Name, expression)                                           \
  struct Name {                                                               \
    template <typename T>                                                     \
    TT_FN T operator()(T a, T b) const { return static_cast<T>(expression); } \
  };
TT_BINARY(Mul, WrapType<T>(a) * WrapType<T>(b))
TT_BINARY(Div, a / b)
TT_BINARY(Maximum, IsNan(a) || a > b ? a : b)
TT_BINARY(Minimum, IsNan(a) || a < b ? a : b)
TT_BINARY(Atan2, std::atan2(a, b))
#undef TT_BINARY

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
struct FloorDivide {
  template <typename T>
  TT_FN T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      if (b == T(0)) return a / b;
      // By the remainder, so that a quotient just below an integer is not rounded up to it.
      T mod = std::fmod(a, b);
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
struct Fmod {
  template <typename T>
  TT_FN T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      return std::fmod(a, b);
    } else {
      if (std::is_signed_v<T> && b == T(-1)) return T(0);
      return static_cast<T>(a % b);
    }
  }
};
struct Remainder {
  template <typename T>
  TT_FN T operator()(T a, T b) const {
    T m = Fmod()(a, b);
    if (m != T(0) && (m < T(0)) != (b < T(0))) m = static_cast<T>(m + b);
    return m;
  }
};
struct Pow {
  template <typename T>
  TT_FN T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      return std::pow(a, b);
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

#define TT_BITWISE(Name, op)                                             \
  struct Name {                                                          \
    template <typename T>                                                \
    TT_FN T operator()(T a, T b) const { return static_cast<T>(a op b); } \
  };
TT_BITWISE(BitwiseAnd, &)
TT_BITWISE(BitwiseOr, |)
TT_BITWISE(BitwiseXor, ^)
#undef TT_BITWISE
#define TT_COMPARISON(Name, expression)                        \
  struct Name {                                                \
    template <typename T>                                      \
    TT_FN bool operator()(T a, T b) const { return expression; } \
  };
TT_COMPARISON(Eq, a == b)
TT_COMPARISON(Ne, a != b)
TT_COMPARISON(Lt, a < b)
TT_COMPARISON(Le, a <= b)
TT_COMPARISON(Gt, a > b)
TT_COMPARISON(Ge, a >= b)
TT_COMPARISON(LogicalAnd, a != T(0) && b != T(0))
TT_COMPARISON(LogicalOr, a != T(0) || b != T(0))
TT_COMPARISON(LogicalXor, (a != T(0)) != (b != T(0)))
#undef TT_COMPARISON

#define TT_TEST(Name, expression)                         \
  struct Name {                                           \
    template <typename T>                                 \
    TT_FN bool operator()(T x) const { return expression; } \
  };
TT_TEST(IsNanOp, IsNan(x))
TT_TEST(LogicalNot, x == T(0))
#undef TT_TEST
struct IsInf {
  template <typename T>
  TT_FN bool operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) return x == x && x - x != x - x;
    return false;
  }
};
struct IsFinite {
  template <typename T>
  TT_FN bool operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) return x - x == x - x;
    return true;
  }
};

// Backward functors: of the gradient and a saved value.
#define TT_BACKWARD(Name, expression)                                         \
  struct Name {                                                               \
    template <typename T>                                                     \
    TT_FN T operator()(T g, T y) const { return static_cast<T>(expression); } \
  };
TT_BACKWARD(ReluBackward, y > T(0) ? g : T(0))
TT_BACKWARD(TanhBackward, g * (T(1) - y * y))
TT_BACKWARD(SigmoidBackward, g * (T(1) - y) * y)
#undef TT_BACKWARD
struct SiluBackward {
  template <typename T>
  TT_FN T operator()(T g, T x) const {
    const T s = T(1) / (T(1) + std::exp(-x));
    return g * s * (T(1) + x * (T(1) - s));
  }
};

}  // namespace telensor::functors
