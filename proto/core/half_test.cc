#include "proto/core/half.h"

#include <cmath>

#include <gtest/gtest.h>

namespace telensor {
namespace {

// The value that a float16 or bfloat16 pattern stands for, from its definition.
double Exact(uint16_t bits, int mantissa_bits, int bias) {
  const int exponent_bits = 15 - mantissa_bits;
  const int exponent = (bits & 0x7fff) >> mantissa_bits;
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return mantissa != 0 ? std::nan("") : sign * HUGE_VAL;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

template <typename ToFloat, typename FromFloat>
void CheckAllPatterns(int mantissa_bits, int bias, ToFloat to_float, FromFloat from_float) {
  for (int bits = 0; bits < 65536; ++bits) {
    const uint16_t pattern = static_cast<uint16_t>(bits);
    const float value = to_float(pattern);
    const double want = Exact(pattern, mantissa_bits, bias);
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_TRUE(std::isnan(to_float(from_float(value)))) << bits;
      continue;
    }
    ASSERT_EQ(value, want) << bits;
    ASSERT_EQ(std::signbit(value), (bits & 0x8000) != 0) << bits;
    ASSERT_EQ(from_float(value), pattern) << bits;
  }
}

// Every number half way between two neighbours goes to the even one, and those beside it to the nearer.
template <typename ToFloat, typename FromFloat>
void CheckRounding(uint16_t largest, ToFloat to_float, FromFloat from_float) {
  for (uint16_t bits = 0; bits < largest; ++bits) {
    const float low = to_float(bits), high = to_float(bits + 1);
    const float middle = static_cast<float>((static_cast<double>(low) + high) / 2);
    ASSERT_EQ(from_float(middle), bits % 2 == 0 ? bits : bits + 1) << bits;
    ASSERT_EQ(from_float(std::nextafterf(middle, 0)), bits) << bits;
    ASSERT_EQ(from_float(std::nextafterf(middle, HUGE_VALF)), bits + 1) << bits;
    ASSERT_EQ(from_float(-middle), 0x8000 | (bits % 2 == 0 ? bits : bits + 1)) << bits;
  }
}

TEST(Half, AllPatterns) { CheckAllPatterns(10, 15, HalfBitsToFloat, FloatToHalfBits); }
TEST(BFloat16, AllPatterns) { CheckAllPatterns(7, 127, BFloat16BitsToFloat, FloatToBFloat16Bits); }
TEST(Half, RoundsToNearestEven) { CheckRounding(0x7bff, HalfBitsToFloat, FloatToHalfBits); }
TEST(BFloat16, RoundsToNearestEven) { CheckRounding(0x7f7f, BFloat16BitsToFloat, FloatToBFloat16Bits); }

TEST(Half, Extremes) {
  EXPECT_EQ(FloatToHalfBits(65519.996f), 0x7bff);
  EXPECT_EQ(FloatToHalfBits(65520.0f), 0x7c00);
  EXPECT_EQ(FloatToHalfBits(1e30f), 0x7c00);
  EXPECT_EQ(FloatToHalfBits(-1e30f), 0xfc00);
  EXPECT_EQ(FloatToHalfBits(HUGE_VALF), 0x7c00);
  EXPECT_EQ(FloatToHalfBits(1e-30f), 0);
  EXPECT_EQ(FloatToHalfBits(-1e-30f), 0x8000);
  EXPECT_EQ(FloatToBFloat16Bits(HUGE_VALF), 0x7f80);
  EXPECT_EQ(FloatToBFloat16Bits(3.4e38f), 0x7f80);
  EXPECT_EQ(float(Half(1.5f)), 1.5f);
  EXPECT_EQ(float(BFloat16(-2.0f)), -2.0f);
}

}  // namespace
}  // namespace telensor
