// Philox4x32-10: random numbers by counter. Number i of a call depends on the seed, the call's offset and i alone, so
// every device and every split into threads draws the same bits.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#ifdef __CUDACC__
#define TT_PHILOX_FN __host__ __device__ inline
#else
// Never a function of its own: the CPU backend is compiled for several instruction sets, and the linker would keep one.
#define TT_PHILOX_FN inline __attribute__((always_inline))
#endif

namespace telensor {

struct PhiloxBlock {
  uint32_t v[4];
};

TT_PHILOX_FN PhiloxBlock Philox(uint64_t seed, uint64_t offset, uint64_t index) {
  uint32_t c0 = static_cast<uint32_t>(index), c1 = static_cast<uint32_t>(index >> 32);
  uint32_t c2 = static_cast<uint32_t>(offset), c3 = static_cast<uint32_t>(offset >> 32);
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c0;
    const uint64_t p1 = uint64_t{0xCD9E8D57} * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return {{c0, c1, c2, c3}};
}

TT_PHILOX_FN uint64_t PhiloxBitsOf(double x) {
  uint64_t bits;
  __builtin_memcpy(&bits, &x, 8);
  return bits;
}
TT_PHILOX_FN double PhiloxDoubleOf(uint64_t bits) {
  double x;
  __builtin_memcpy(&x, &bits, 8);
  return x;
}

// The upper 53 bits of two words, as an integer. Through 2^52 + word, which vector units of all ages convert.
TT_PHILOX_FN double PhiloxMantissa(uint32_t high, uint32_t low) {
  const double h = PhiloxDoubleOf(0x4330000000000000u | high) - 4503599627370496.0;
  const double l = PhiloxDoubleOf(0x4330000000000000u | (low >> 11)) - 4503599627370496.0;
  return h * 2097152.0 + l;
}

// [0, 1) with the resolution of the type.
TT_PHILOX_FN float PhiloxUniform(const PhiloxBlock& b, float) { return static_cast<float>(b.v[0] >> 8) * 0x1p-24f; }
TT_PHILOX_FN double PhiloxUniform(const PhiloxBlock& b, double) { return PhiloxMantissa(b.v[0], b.v[1]) * 0x1p-53; }
// How many binary digits a type has; a backend adds its 16-bit floats, and one it forgets does not compile.
template <typename T>
struct PhiloxDigits;
template <>
struct PhiloxDigits<float> : std::integral_constant<int, 24> {};
// The same in a type that T is computed in, and with no more digits than T has: rounded to T it stays below one.
template <typename T>
TT_PHILOX_FN auto PhiloxUniformFor(const PhiloxBlock& b) {
  if constexpr (std::is_same_v<T, double>) {
    return PhiloxUniform(b, double());
  } else {
    constexpr int kDigits = PhiloxDigits<T>::value;
    return static_cast<float>(b.v[0] >> (32 - kDigits)) * (1.0f / (1 << kDigits));
  }
}
TT_PHILOX_FN uint64_t PhiloxBits(const PhiloxBlock& b) { return uint64_t{b.v[0]} << 32 | b.v[1]; }

// Rounded on their own: a fused product would give other bits on some devices.
TT_PHILOX_FN double PhiloxMul(double a, double b) {
#ifdef __CUDA_ARCH__
  return __dmul_rn(a, b);
#else
  return a * b;
#endif
}
TT_PHILOX_FN double PhiloxMulAdd(double a, double b, double c) {
#ifdef __CUDA_ARCH__
  return __dadd_rn(__dmul_rn(a, b), c);
#else
  return a * b + c;
#endif
}

// Standard normal by Box and Muller. The logarithm and the cosine are polynomials of this file, exact to 1e-11, so that
// the numbers do not depend on a device's library.
TT_PHILOX_FN double PhiloxNormal(const PhiloxBlock& b) {
  constexpr double kRound = 6755399441055744.0;  // adding it leaves the nearest integer in the low bits
  constexpr uint64_t kOne = uint64_t{1023} << 52, kSqrtHalf = 0x3fe6a09e667f3bcd;

  // log(u), u in (0, 1], as mantissa * 2^exponent with the mantissa around one.
  const double u = (PhiloxMantissa(b.v[0], b.v[1]) + 1.0) * 0x1p-53;
  const uint64_t n = (PhiloxBitsOf(u) + (kOne - kSqrtHalf)) >> 52;
  const double f = PhiloxDoubleOf(PhiloxBitsOf(u) - (n << 52) + kOne) - 1.0;
  const double exponent = PhiloxDoubleOf(n | 0x4330000000000000u) - 4503599627371519.0;
  const double s = f / (2.0 + f), z = PhiloxMul(s, s);
  double p = PhiloxMulAdd(0.19363884986633199356, z, 0.2219133742806578374);
  p = PhiloxMulAdd(p, z, 0.28571755535032942409);
  p = PhiloxMulAdd(p, z, 0.39999998792441688583);
  p = PhiloxMulAdd(p, z, 0.66666666667378685659);
  const double log = PhiloxMulAdd(exponent, 0.693147180559945309417, PhiloxMulAdd(PhiloxMul(p, z), s, s + s));

  // cos(2 pi v), by the nearest quarter turn and the rest.
  const double quarters = PhiloxMantissa(b.v[2], b.v[3]) * 0x1p-51, t = quarters + kRound;
  const double r = PhiloxMul(quarters - (t - kRound), 1.57079632679489661923), q = PhiloxMul(r, r);
  double sine = PhiloxMulAdd(2.7249620080075329496e-6, q, -0.00019840084376422703475);
  sine = PhiloxMulAdd(sine, q, 0.0083333318703413485);
  sine = PhiloxMulAdd(sine, q, -0.16666666663844049464);
  sine = PhiloxMulAdd(PhiloxMul(sine, q), r, r);
  double cosine = PhiloxMulAdd(-2.7300704038086651983e-7, q, 0.000024800598408350120958);
  cosine = PhiloxMulAdd(cosine, q, -0.0013888887668370663239);
  cosine = PhiloxMulAdd(cosine, q, 0.041666666664311823364);
  cosine = PhiloxMulAdd(PhiloxMul(cosine, q), q, PhiloxMulAdd(-0.5, q, 1.0));
  // Quarter turn 0: cos, 1: -sin, 2: -cos, 3: sin.
  const uint64_t turn = PhiloxBitsOf(t);
  const double v = (turn & 1) != 0 ? sine : cosine;
  const double signed_v = PhiloxDoubleOf(PhiloxBitsOf(v) ^ (((turn + 1) & 2) << 62));
  return PhiloxMul(std::sqrt(PhiloxMul(-2.0, log)), signed_v);
}

}  // namespace telensor
