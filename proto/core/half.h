// Half and BFloat16: storage types for float16 and bfloat16; arithmetic happens in float.
// Plain C++ without other includes of ours, so CUDA sources can use it on the host side too.
#pragma once

#include <cstdint>
#include <cstring>

namespace telensor {

inline float HalfBitsToFloat(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  const uint32_t rest = h & 0x7fffu;
  uint32_t bits;
  if (rest >= 0x7c00u) {  // inf, nan
    bits = sign | 0x7f800000u | ((rest & 0x3ffu) << 13);
  } else if (rest >= 0x400u) {
    bits = sign | ((rest << 13) + 0x38000000u);
  } else {  // zero, subnormal: the value is rest * 2^-24
    const float magnitude = static_cast<float>(rest) * 5.9604644775390625e-08f;
    std::memcpy(&bits, &magnitude, 4);
    bits |= sign;
  }
  float out;
  std::memcpy(&out, &bits, 4);
  return out;
}

// Rounds to nearest, ties to even.
inline uint16_t FloatToHalfBits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  bits &= 0x7fffffffu;
  if (bits > 0x7f800000u) return sign | 0x7e00u;
  if (bits >= 0x47800000u) return sign | 0x7c00u;  // 65536 and above
  if (bits < 0x38800000u) {                        // below the smallest normal half
    // Adding 0.5 lets the float adder round at bit 2^-24.
    float magnitude;
    std::memcpy(&magnitude, &bits, 4);
    magnitude += 0.5f;
    uint32_t rounded;
    std::memcpy(&rounded, &magnitude, 4);
    return static_cast<uint16_t>(sign | (rounded - 0x3f000000u));
  }
  const uint32_t rounded = bits + 0xfffu + ((bits >> 13) & 1u) - 0x38000000u;
  return static_cast<uint16_t>(sign | (rounded >> 13));
}

inline float BFloat16BitsToFloat(uint16_t b) {
  const uint32_t bits = static_cast<uint32_t>(b) << 16;
  float out;
  std::memcpy(&out, &bits, 4);
  return out;
}

inline uint16_t FloatToBFloat16Bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fc0u;
  bits += 0x7fffu + ((bits >> 16) & 1u);
  return static_cast<uint16_t>(bits >> 16);
}

struct Half {
  uint16_t bits = 0;
  Half() = default;
  Half(float v) : bits(FloatToHalfBits(v)) {}
  operator float() const { return HalfBitsToFloat(bits); }
};

struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  BFloat16(float v) : bits(FloatToBFloat16Bits(v)) {}
  operator float() const { return BFloat16BitsToFloat(bits); }
};

}  // namespace telensor
