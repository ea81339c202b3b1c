// Math<float> of the host. Included by functors_math.h.
//
// Branch-free polynomials in double: GCC vectorises them, doubles hold every intermediate result without overflow, and
// each result is rounded to float once, so that it is within 0.55 units in the last place.
#pragma once

#include "kernels/functors_math.h"

namespace telensor::functors {

template <>
struct Math<float> {
  using W = double;
  // Above it, the three parts of pi/2 below are too few; the callers take the C library's functions.
  static constexpr double kTrigLimit = 1e6;

  // In float alone: twice as fast, and within one unit in the last place.
  TT_FN static float ExpShort(float x) {
    x = x > 89.0f ? 89.0f : x;
    x = x < -104.5f ? -104.5f : x;
    const float t = Fma(x, 1.44269504f, 12582912.0f), k = t - 12582912.0f;
    const float r = Fma(k, -1.42860682e-6f, Fma(k, -0.693145752f, x));
    float q = Fma(0.00139262508f, r, 0.00836323288f);
    q = Fma(q, r, 0.0416665542f);
    q = Fma(q, r, 0.166665767f);
    q = Fma(q, r, 0.5f);
    const float e = Fma(q * r, r, r) + 1.0f;
    // Two factors, so that neither leaves the range where the product is subnormal or overflows.
    uint32_t bits;
    __builtin_memcpy(&bits, &t, 4);
    const int32_t n = static_cast<int32_t>(bits - 0x4b400000u), half = n >> 1;
    return e * PowerOfTwo(half) * PowerOfTwo(n - half);
  }
  TT_FN static W Exp(W x) {
    // At the limits the scale is infinity and zero.
    x = Limit(x, -709.1, 709.8);
    const Reduced r = ReduceExp(x);
    return Fma(r.expm1, r.scale, r.scale);
  }
  TT_FN static W Expm1(W x) {
    x = Limit(x, -709.1, 700.0);
    const Reduced r = ReduceExp(x);
    return ::copysign(Fma(r.expm1, r.scale, r.scale - 1), x);
  }
  TT_FN static W Log(W x) {
    const Parts p = Split(x);
    return Special(x, Fma(p.exponent, kLn2, Log1pSmall(p.mantissa - 1)));
  }
  TT_FN static W Log2(W x) {
    const Parts p = Split(x);
    return Special(x, Fma(Log1pSmall(p.mantissa - 1), 1.4426950408889634, p.exponent));
  }
  TT_FN static W Log10(W x) { return Log(x) * 0.43429448190325182765; }
  TT_FN static W Log1p(W x) {
    const Parts p = Split(1 + x);
    // Near zero, 1 + x has lost digits of x.
    const W f = p.exponent == 0 ? x : p.mantissa - 1;
    return ::copysign(Special(1 + x, Fma(p.exponent, kLn2, Log1pSmall(f))), x);
  }
  TT_FN static W Sinh(W x) {
    const W e = Expm1(::fabs(x));
    return ::copysign(0.5 * (e + e / (e + 1)), x);
  }
  TT_FN static W Cosh(W x) {
    const W e = Exp(::fabs(x));
    return 0.5 * (e + 1 / e);
  }
  TT_FN static W Tanh(W x) {
    const Reduced r = ReduceExp(Limit(2 * x, -40, 40));
    const W e = Fma(r.expm1, r.scale, r.scale - 1);
    return ::copysign(e / (e + 2), x);
  }
  TT_FN static W Erf(W x) {
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
    return x * x >= 16 ? ::copysign(1.0, x) : r;
  }
  TT_FN static W Sin(W x) { return x == 0 ? x : Quadrant(x, 0); }
  TT_FN static W Cos(W x) { return Quadrant(x, 1); }
  TT_FN static W Tan(W x) { return Sin(x) / Cos(x); }
  TT_FN static W Asin(W x) { return Atan2(x, ::sqrt((1 - x) * (1 + x))); }
  TT_FN static W Acos(W x) { return Atan2(::sqrt((1 - x) * (1 + x)), x); }
  TT_FN static W Atan(W x) {
    const W a = ::fabs(x);
    const W r = AtanOfQuotient(a > 1 ? 1.0 : a, a > 1 ? a : 1.0);
    return ::copysign(a > 1 ? 1.57079632679489661923 - r : r, x);
  }
  TT_FN static W Atan2(W y, W x) {
    const W a = ::fabs(y), b = ::fabs(x);
    W least = a < b ? a : b, most = a < b ? b : a;
    least = most > kMost ? (least > kMost ? 1.0 : 0.0 * least) : least;
    most = most > kMost || most == 0 ? 1.0 : most;
    W r = AtanOfQuotient(least, most);
    r = a > b ? 1.57079632679489661923 - r : r;
    r = ::copysign(1.0, x) < 0 ? 3.14159265358979323846 - r : r;
    return ::copysign(r, y);
  }
  TT_FN static W Pow(W x, W y) {
    const W a = ::fabs(x), half = 0.5 * y;
    const W power = y * Log(a);
    const W r = Exp((y == 0) | (a == 1) ? 0.0 : power);
    const bool whole = ::rint(y) == y, odd = whole & (::rint(half) != half);
    const W with_sign = ::copysign(r, odd ? x : 1.0);
    const W real = !whole & (x < 0) & (x >= -kMost) ? __builtin_nan("") : with_sign;
    return x == 1 ? 1.0 : real;
  }
  // Exact where the quotient is small enough for its product with y to be.
  TT_FN static W Fmod(W x, W y) {
    const W q = x / y;
    if (::fabs(q) < 268435456.0 && ::fabs(y) <= kMost) return ::copysign(x - ::trunc(q) * y, x);
    return ::fmod(x, y);
  }

 private:
  TT_FN static float PowerOfTwo(int32_t n) {
    const uint32_t bits = static_cast<uint32_t>(n + 127) << 23;
    float x;
    __builtin_memcpy(&x, &bits, 4);
    return x;
  }

  static constexpr double kMost = 1.7976931348623157e308;
  static constexpr double kLn2 = 0.693147180559945309417;
  // Adding it leaves a double's nearest integer in the low bits.
  static constexpr double kRound = 6755399441055744.0;

  TT_FN static uint64_t Bits(double x) {
    uint64_t bits;
    __builtin_memcpy(&bits, &x, 8);
    return bits;
  }
  TT_FN static double FromBits(uint64_t bits) {
    double x;
    __builtin_memcpy(&x, &bits, 8);
    return x;
  }

  // NaN stays NaN. Both comparisons look at the given value, so that neither depends on the other.
  TT_FN static double Limit(double x, double low, double high) {
    const double y = x < low ? low : x;
    return x > high ? high : y;
  }

  // exp(x) = scale * (1 + expm1), scale a power of two.
  struct Reduced {
    double scale, expm1;
  };
  TT_FN static Reduced ReduceExp(double x) {
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
  TT_FN static Parts Split(double x) {
    constexpr uint64_t kOne = uint64_t{1023} << 52, kSqrtHalf = 0x3fe6a09e667f3bcd;
    const uint64_t n = (Bits(x) + (kOne - kSqrtHalf)) >> 52;  // the exponent plus 1023
    // There is no vector conversion of 64-bit integers in AVX2: 2^52 + n, read as a double, does it.
    return {FromBits(Bits(x) - (n << 52) + kOne), FromBits(n | 0x4330000000000000) - 4503599627371519.0};
  }
  TT_FN static double Log1pSmall(double f) {
    const double s = f / (2 + f), z = s * s;
    double p = Fma(0.19363884986633199356, z, 0.2219133742806578374);
    p = Fma(p, z, 0.28571755535032942409);
    p = Fma(p, z, 0.39999998792441688583);
    p = Fma(p, z, 0.66666666667378685659);
    return Fma(p * z, s, s + s);
  }
  TT_FN static double Special(double x, double log) {
    const double above = x > kMost ? x : log;
    return x > 0 ? above : x == 0 ? -__builtin_inf() : __builtin_nan("");
  }

  // atan(least / most), from 0 to pi/4.
  TT_FN static double AtanOfQuotient(double least, double most) {
    // Above tan(pi/8): atan(q) = pi/4 + atan((q - 1) / (q + 1)).
    const bool steep = least > 0.41421356237309503 * most;
    const double s = (steep ? least - most : least) / (steep ? least + most : most), z = s * s;
    double p = Fma(0.050441168270641104101, z, -0.086231160250902678412);
    p = Fma(p, z, 0.11071155604715894264);
    p = Fma(p, z, -0.14284139883081258016);
    p = Fma(p, z, 0.19999977048786139609);
    p = Fma(p, z, -0.33333333278646672411);
    return Fma(p * z, s, s) + (steep ? 0.78539816339744830962 : 0.0);
  }

  // sin(x + shift * pi/2)
  TT_FN static double Quadrant(double x, uint64_t shift) {
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

}  // namespace telensor::functors
