// Math<T>: the elementary functions of the elementwise functors, for T = float and double, on host and device.
//
// On the host, a float's functions are branch-free polynomials in double: GCC vectorises them, doubles hold every
// intermediate result without overflow, and each result is rounded to float once, so it is within 0.51 units in the
// last place. Doubles, and everything on a device, use the platform's functions.
#pragma once

#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define TT_FN __host__ __device__ inline
#else
#define TT_FN inline
#endif

namespace telensor::kernels {

// a * b + c, rounded once where the processor can.
TT_FN float Fma(float a, float b, float c) {
#if defined(__CUDA_ARCH__) || defined(__FMA__)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}
TT_FN double Fma(double a, double b, double c) {
#if defined(__CUDA_ARCH__) || defined(__FMA__)
  return __builtin_fma(a, b, c);
#else
  return a * b + c;
#endif
}

template <typename T>
struct Math;

template <>
struct Math<double> {
  using W = double;                          // what intermediate results are kept in
  static constexpr double kTrigLimit = 0;    // Sin, Cos and Tan take any argument where this is 0
  TT_FN static W Exp(W x) { return ::exp(x); }
  TT_FN static W Expm1(W x) { return ::expm1(x); }
  TT_FN static W Log(W x) { return ::log(x); }
  TT_FN static W Log2(W x) { return ::log2(x); }
  TT_FN static W Log10(W x) { return ::log10(x); }
  TT_FN static W Log1p(W x) { return ::log1p(x); }
  TT_FN static W Sinh(W x) { return ::sinh(x); }
  TT_FN static W Cosh(W x) { return ::cosh(x); }
  TT_FN static W Tanh(W x) { return ::tanh(x); }
  TT_FN static W Erf(W x) { return ::erf(x); }
  TT_FN static W Sin(W x) { return ::sin(x); }
  TT_FN static W Cos(W x) { return ::cos(x); }
  TT_FN static W Tan(W x) { return ::tan(x); }
};

#ifdef __CUDACC__

template <>
struct Math<float> {
  using W = float;
  static constexpr float kTrigLimit = 0;
  TT_FN static W Exp(W x) { return ::expf(x); }
  TT_FN static W Expm1(W x) { return ::expm1f(x); }
  TT_FN static W Log(W x) { return ::logf(x); }
  TT_FN static W Log2(W x) { return ::log2f(x); }
  TT_FN static W Log10(W x) { return ::log10f(x); }
  TT_FN static W Log1p(W x) { return ::log1pf(x); }
  TT_FN static W Sinh(W x) { return ::sinhf(x); }
  TT_FN static W Cosh(W x) { return ::coshf(x); }
  TT_FN static W Tanh(W x) { return ::tanhf(x); }
  TT_FN static W Erf(W x) { return ::erff(x); }
  TT_FN static W Sin(W x) { return ::sinf(x); }
  TT_FN static W Cos(W x) { return ::cosf(x); }
  TT_FN static W Tan(W x) { return ::tanf(x); }
};

#else

template <>
struct Math<float> {
  using W = double;
  // Above it, the three parts of pi/2 below are too few; the callers take the C library's functions.
  static constexpr double kTrigLimit = 1e6;

  static W Exp(W x) {
    // At the limits the scale is infinity and zero.
    x = x > 709.8 ? 709.8 : x;
    x = x < -709.1 ? -709.1 : x;
    const Reduced r = ReduceExp(x);
    return Fma(r.expm1, r.scale, r.scale);
  }
  static W Expm1(W x) {
    x = x > 700.0 ? 700.0 : x;
    x = x < -709.1 ? -709.1 : x;
    const Reduced r = ReduceExp(x);
    return Fma(r.expm1, r.scale, r.scale - 1);
  }
  static W Log(W x) {
    const Parts p = Split(x);
    return Special(x, Fma(p.exponent, kLn2, Log1pSmall(p.mantissa - 1)));
  }
  static W Log2(W x) {
    const Parts p = Split(x);
    return Special(x, Fma(Log1pSmall(p.mantissa - 1), 1.4426950408889634, p.exponent));
  }
  static W Log10(W x) { return Log(x) * 0.43429448190325182765; }
  static W Log1p(W x) {
    const Parts p = Split(1 + x);
    // Near zero, 1 + x has lost digits of x.
    const W f = p.exponent == 0 ? x : p.mantissa - 1;
    return Special(1 + x, Fma(p.exponent, kLn2, Log1pSmall(f)));
  }
  static W Sinh(W x) {
    const W e = Expm1(::fabs(x));
    return ::copysign(0.5 * (e + e / (e + 1)), x);
  }
  static W Cosh(W x) {
    const W e = Exp(::fabs(x));
    return 0.5 * (e + 1 / e);
  }
  static W Tanh(W x) {
    x = x > 20 ? 20 : x;
    x = x < -20 ? -20 : x;
    const W e = Expm1(2 * x);
    return e / (e + 2);
  }
  static W Erf(W x) {
    W z = x * x;
    z = z > 16 ? 16 : z;
    W p = Fma(-1.36189082195125182e-8, z, 4.76840501590425487e-6);
    p = Fma(p, z, 0.00038265604270298305);
    p = Fma(p, z, 0.0038530908326968169);
    p = Fma(p, z, 0.0543693924207626706);
    p = Fma(p, z, 0.185053514944234331);
    p = Fma(p, z, 1.12837916995744594);
    W q = Fma(0.0000639079280057450834, z, 0.00131241314555377594);
    q = Fma(q, z, 0.0154793825267605581);
    q = Fma(q, z, 0.113960609790428024);
    q = Fma(q, z, 0.497332838976865886);
    q = Fma(q, z, 1.0);
    const W r = x * p / q;
    // 1 - erf(4) is below half a float's last place.
    return z < 16 || x != x ? r : ::copysign(1.0, x);
  }
  static W Sin(W x) { return Quadrant(x, 0); }
  static W Cos(W x) { return Quadrant(x, 1); }
  static W Tan(W x) { return Sin(x) / Cos(x); }

 private:
  static constexpr double kLn2 = 0.693147180559945309417;
  // Adding it leaves a double's nearest integer in the low bits.
  static constexpr double kRound = 6755399441055744.0;

  static uint64_t Bits(double x) {
    uint64_t bits;
    __builtin_memcpy(&bits, &x, 8);
    return bits;
  }
  static double FromBits(uint64_t bits) {
    double x;
    __builtin_memcpy(&x, &bits, 8);
    return x;
  }

  // exp(x) = scale * (1 + expm1), scale a power of two.
  struct Reduced {
    double scale, expm1;
  };
  static Reduced ReduceExp(double x) {
    const double t = Fma(x, 1.4426950408889634, kRound);
    const double r = Fma(t - kRound, -kLn2, x);
    double q = Fma(0.00019890990824673653848, r, 0.001393364999630925043);
    q = Fma(q, r, 0.0083333109254809008349);
    q = Fma(q, r, 0.041666464925285905408);
    q = Fma(q, r, 0.16666666681623231402);
    q = Fma(q, r, 0.50000000134658092001);
    return {FromBits((Bits(t) << 52) + (uint64_t{1023} << 52)), Fma(q * r, r, r)};
  }

  // x = mantissa * 2^exponent, mantissa from sqrt(1/2) to sqrt(2), for positive normal x.
  struct Parts {
    double mantissa, exponent;
  };
  static Parts Split(double x) {
    constexpr uint64_t kOne = uint64_t{1023} << 52, kSqrtHalf = 0x3fe6a09e667f3bcd;
    const uint64_t n = (Bits(x) + (kOne - kSqrtHalf)) >> 52;  // the exponent plus 1023
    // There is no vector conversion of 64-bit integers in AVX2: 2^52 + n, read as a double, does it.
    return {FromBits(Bits(x) - (n << 52) + kOne), FromBits(n | 0x4330000000000000) - 4503599627371519.0};
  }
  static double Log1pSmall(double f) {
    const double s = f / (2 + f), z = s * s;
    double p = Fma(0.19363884986633199356, z, 0.2219133742806578374);
    p = Fma(p, z, 0.28571755535032942409);
    p = Fma(p, z, 0.39999998792441688583);
    p = Fma(p, z, 0.66666666667378685659);
    return Fma(p * z, s, s + s);
  }
  static double Special(double x, double log) {
    const double above = x > 1.7976931348623157e308 ? x : log;
    return x > 0 ? above : x == 0 ? -__builtin_inf() : __builtin_nan("");
  }

  // sin(x + shift * pi/2)
  static double Quadrant(double x, uint64_t shift) {
    const double t = Fma(x, 0.63661977236758134308, kRound), k = t - kRound;
    // pi/2 in three parts, the first two short enough that the products are exact.
    double r = x - k * 0x1.921fb544p+0;
    r = r - k * 0x1.0b4611a6p-34;
    r = r - k * 0x1.3198a2e037073p-69;
    const double z = r * r;
    double s = Fma(2.7249620080075329496e-6, z, -0.00019840084376422703475);
    s = Fma(s, z, 0.0083333318703413485);
    s = Fma(s, z, -0.16666666663844049464);
    s = Fma(s * z, r, r);
    double c = Fma(-2.7300704038086651983e-7, z, 0.000024800598408350120958);
    c = Fma(c, z, -0.0013888887668370663239);
    c = Fma(c, z, 0.041666666664311823364);
    c = Fma(c * z, z, Fma(-0.5, z, 1.0));
    const uint64_t quadrant = Bits(t) + shift;
    const double v = (quadrant & 1) != 0 ? c : s;
    return FromBits(Bits(v) ^ ((quadrant & 2) << 62));
  }
};

#endif  // __CUDACC__

}  // namespace telensor::kernels
