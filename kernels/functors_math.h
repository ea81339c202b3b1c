// Math<T>: the elementary functions of the elementwise functors, for T = float and double, on host and device.
//
// W is the type that intermediate results are kept in. A float's functions on the host are of its own making
// (functors_float.h); doubles, and everything on a device, use the platform's.
#pragma once

#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define TT_FN __host__ __device__ inline
#else
// Never a function of its own: the CPU backend is compiled for several instruction sets, and the linker would keep one.
#define TT_FN inline __attribute__((always_inline))
#endif

namespace telensor::functors {

// a * b + c, rounded once where the processor can.
TT_FN float Fma(float a, float b, float c) {
#if defined(__CUDA_ARCH__) || defined(__FMA__)
  return std::fma(a, b, c);
#else
  return a * b + c;
#endif
}
TT_FN double Fma(double a, double b, double c) {
#if defined(__CUDA_ARCH__) || defined(__FMA__)
  return std::fma(a, b, c);
#else
  return a * b + c;
#endif
}

template <typename T>
struct Math;

#define TT_PLATFORM_1(Name, function) \
  TT_FN static W Name(W x) { return std::function(x); }
#define TT_PLATFORM_2(Name, function) \
  TT_FN static W Name(W x, W y) { return std::function(x, y); }
#define TT_PLATFORM_MATH       \
  TT_PLATFORM_1(Exp, exp)      \
  TT_PLATFORM_1(ExpShort, exp) \
  TT_PLATFORM_1(Expm1, expm1)  \
  TT_PLATFORM_1(Log, log)      \
  TT_PLATFORM_1(Log2, log2)    \
  TT_PLATFORM_1(Log10, log10)  \
  TT_PLATFORM_1(Log1p, log1p)  \
  TT_PLATFORM_1(Sin, sin)      \
  TT_PLATFORM_1(Cos, cos)      \
  TT_PLATFORM_1(Tan, tan)      \
  TT_PLATFORM_1(Asin, asin)    \
  TT_PLATFORM_1(Acos, acos)    \
  TT_PLATFORM_1(Atan, atan)    \
  TT_PLATFORM_1(Sinh, sinh)    \
  TT_PLATFORM_1(Cosh, cosh)    \
  TT_PLATFORM_1(Tanh, tanh)    \
  TT_PLATFORM_1(Erf, erf)      \
  TT_PLATFORM_2(Atan2, atan2)  \
  TT_PLATFORM_2(Pow, pow)      \
  TT_PLATFORM_2(Fmod, fmod)

template <>
struct Math<double> {
  using W = double;
  static constexpr double kTrigLimit = 0;  // Sin, Cos and Tan take any argument where this is 0
  TT_PLATFORM_MATH
};

#ifdef __CUDACC__

template <>
struct Math<float> {
  using W = float;
  static constexpr float kTrigLimit = 0;
  TT_PLATFORM_MATH
};

#endif  // __CUDACC__: the host's is in functors_float.h

#undef TT_PLATFORM_1
#undef TT_PLATFORM_2
#undef TT_PLATFORM_MATH

}  // namespace telensor::functors

#ifndef __CUDACC__
#include "kernels/functors_float.h"
#endif
