// Philox4x32-10: random numbers by counter. Number i of a call depends on the seed, the call's offset and i alone, so
// every device and every split into threads draws the same.
#pragma once

#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define TT_PHILOX_FN __host__ __device__ inline
#else
#define TT_PHILOX_FN inline
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

// [0, 1) with the resolution of the type.
TT_PHILOX_FN float PhiloxUniform(const PhiloxBlock& b, float) { return static_cast<float>(b.v[0] >> 8) * 0x1p-24f; }
TT_PHILOX_FN double PhiloxUniform(const PhiloxBlock& b, double) {
  return static_cast<double>((uint64_t{b.v[0]} << 32 | b.v[1]) >> 11) * 0x1p-53;
}
TT_PHILOX_FN uint64_t PhiloxBits(const PhiloxBlock& b) { return uint64_t{b.v[0]} << 32 | b.v[1]; }
// Standard normal by Box and Muller, computed in double so that devices differ by rounding at most.
TT_PHILOX_FN double PhiloxNormal(const PhiloxBlock& b) {
  const double u = (static_cast<double>((uint64_t{b.v[0]} << 32 | b.v[1]) >> 11) + 1.0) * 0x1p-53;  // (0, 1]
  const double v = static_cast<double>((uint64_t{b.v[2]} << 32 | b.v[3]) >> 11) * 0x1p-53;
  return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * v);
}

}  // namespace telensor
