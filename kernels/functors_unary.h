// Functors of one value. functor_list.h names their rows.
#pragma once

#include <type_traits>

#include "kernels/functors_math.h"

namespace telensor::functors {

template <typename T>
TT_FN bool IsNan(T x) {
  if constexpr (std::is_floating_point_v<T>) return x != x;
  return false;
}

// Integers wrap instead of overflowing.
template <typename T>
using Wrapping =
    std::conditional_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, std::make_unsigned<T>, std::common_type<T>>;
template <typename T>
using WrapType = typename Wrapping<T>::type;

#define TT_UNARY(Name, expression)       \
  struct Name {                          \
    template <typename T>                \
    TT_FN T operator()(T x) const {      \
      return static_cast<T>(expression); \
    }                                    \
  };
TT_UNARY(Square, WrapType<T>(x) * WrapType<T>(x))
TT_UNARY(Sqrt, std::sqrt(x))
TT_UNARY(Rsqrt, T(1) / std::sqrt(x))
TT_UNARY(Reciprocal, T(1) / x)
TT_UNARY(Exp, Math<T>::ExpShort(x))
TT_UNARY(Sigmoid, T(1) / (T(1) + Math<T>::ExpShort(-x)))
TT_UNARY(Silu, x / (T(1) + Math<T>::ExpShort(-x)))
TT_UNARY(Relu, x < T(0) ? T(0) : x)
TT_UNARY(Sign, (x > T(0)) - (x < T(0)))
#undef TT_UNARY

struct Neg {
  template <typename T>
  TT_FN T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) return -x;  // of zero too
    return static_cast<T>(WrapType<T>(0) - WrapType<T>(x));
  }
};

// By way of the type that Math computes in; rounded once.
#define TT_UNARY_MATH(Name, expression)  \
  struct Name {                          \
    template <typename T>                \
    TT_FN T operator()(T value) const {  \
      using M = Math<T>;                 \
      using W = typename M::W;           \
      const W x = value;                 \
      return static_cast<T>(expression); \
    }                                    \
  };
TT_UNARY_MATH(Expm1, M::Expm1(x))
TT_UNARY_MATH(Log, M::Log(x))
TT_UNARY_MATH(Log2, M::Log2(x))
TT_UNARY_MATH(Log10, M::Log10(x))
TT_UNARY_MATH(Log1p, M::Log1p(x))
TT_UNARY_MATH(Sinh, M::Sinh(x))
TT_UNARY_MATH(Cosh, M::Cosh(x))
TT_UNARY_MATH(Asin, M::Asin(x))
TT_UNARY_MATH(Acos, M::Acos(x))
TT_UNARY_MATH(Atan, M::Atan(x))
TT_UNARY_MATH(Tanh, M::Tanh(x))
TT_UNARY_MATH(Erf, M::Erf(x))
TT_UNARY_MATH(LogSigmoid, (x < 0 ? x : 0) - M::Log1p(M::Exp(-std::fabs(x))))
TT_UNARY_MATH(GeluErf, x* W(0.5) * (1 + M::Erf(x * W(0.70710678118654752))))
TT_UNARY_MATH(GeluTanh, W(0.5) * x * (1 + M::Tanh(W(0.79788456080286536) * (x + W(0.044715) * x * x * x))))
#undef TT_UNARY_MATH

// Within(x) tells whether Fast(x) may be taken: for loops that look at many values before they choose.
#define TT_UNARY_TRIG(Name, function)                            \
  struct Name {                                                  \
    template <typename T>                                        \
    TT_FN static bool Within(T x) {                              \
      return std::fabs(x) <= Math<T>::kTrigLimit;                \
    }                                                            \
    template <typename T>                                        \
    TT_FN static T Fast(T x) {                                   \
      return static_cast<T>(Math<T>::Name(x));                   \
    }                                                            \
    template <typename T>                                        \
    TT_FN T operator()(T x) const {                              \
      if (Math<T>::kTrigLimit == 0 || Within(x)) return Fast(x); \
      return static_cast<T>(std::function(x));                   \
    }                                                            \
  };
TT_UNARY_TRIG(Sin, sin)
TT_UNARY_TRIG(Cos, cos)
TT_UNARY_TRIG(Tan, tan)
#undef TT_UNARY_TRIG

struct Abs {
  template <typename T>
  TT_FN T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) return std::fabs(x);
    if constexpr (std::is_unsigned_v<T>) return x;
    return x < T(0) ? static_cast<T>(WrapType<T>(0) - WrapType<T>(x)) : x;
  }
};

#define TT_ROUNDING(Name, function)                                  \
  struct Name {                                                      \
    template <typename T>                                            \
    TT_FN T operator()(T x) const {                                  \
      if constexpr (std::is_floating_point_v<T>) return function(x); \
      return x;                                                      \
    }                                                                \
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

struct LeakyRelu {
  double slope;
  template <typename T>
  TT_FN T operator()(T x) const {
    const T below = x * static_cast<T>(slope);
    return x > T(0) ? x : below;
  }
};

struct Softplus {
  double beta, threshold;
  template <typename T>
  TT_FN T operator()(T x) const {
    using M = Math<T>;
    using W = typename M::W;
    const T scaled = x * static_cast<T>(beta);
    const W z = scaled;
    // exp of the negative side alone: it never overflows.
    const T curve = static_cast<T>(((z > 0 ? z : 0) + M::Log1p(M::Exp(-std::fabs(z)))) / static_cast<W>(beta));
    return scaled > static_cast<T>(threshold) ? x : curve;
  }
};

// NaN stays NaN. `low` and `high` are the limits that hold where none is given.
template <typename C>
struct Clamp {
  C low, high;
  bool undefined = false;  // a limit is NaN, and so is every result
  TT_FN C operator()(C x) const {
    x = x < low ? low : x;
    x = x > high ? high : x;
    return undefined ? low + high : x;
  }
};

// To bool.
#define TT_TEST(Name, expression)      \
  struct Name {                        \
    template <typename T>              \
    TT_FN bool operator()(T x) const { \
      return expression;               \
    }                                  \
  };
TT_TEST(IsNanOp, IsNan(x))
TT_TEST(LogicalNot, x == T(0))
#undef TT_TEST
struct IsInf {
  template <typename T>
  TT_FN bool operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) return std::fabs(x) == static_cast<T>(__builtin_huge_val());
    return false;
  }
};
struct IsFinite {
  template <typename T>
  TT_FN bool operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) return x - x == T(0);
    return true;
  }
};

}  // namespace telensor::functors
