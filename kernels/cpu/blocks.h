// Small dense blocks of elements: how operands of any strides, and 16-bit floats, reach a dense loop and return.
#pragma once

#include <type_traits>
#ifdef __F16C__
#include <immintrin.h>
#endif

#include "kernels/cpu/kernel.h"

namespace telensor::cpu::TT_CPU_VARIANT {

inline constexpr int64_t kBlock = 512;  // elements of a dense block: all operands' blocks fit the first-level cache

// What an operand's memory holds. 16-bit floats are handed to the functor as float.
enum class Format : uint8_t { kBytes1, kBytes2, kBytes4, kBytes8, kHalf, kBFloat16 };

// The elements of a dtype as bytes, for loops that move them unseen.
inline Format RawFormat(int dtype) {
  switch (dtype) {
    case TT_BOOL:
    case TT_UINT8:
    case TT_INT8: return Format::kBytes1;
    case TT_INT16:
    case TT_FLOAT16:
    case TT_BFLOAT16: return Format::kBytes2;
    case TT_INT32:
    case TT_FLOAT32: return Format::kBytes4;
    default: return Format::kBytes8;
  }
}
inline Format FormatFor(int dtype) {
  return dtype == TT_FLOAT16 ? Format::kHalf : dtype == TT_BFLOAT16 ? Format::kBFloat16 : RawFormat(dtype);
}
template <typename T>
constexpr Format FormatOf() {
  if (std::is_same_v<T, Half>) return Format::kHalf;
  if (std::is_same_v<T, BFloat16>) return Format::kBFloat16;
  return sizeof(T) == 1   ? Format::kBytes1
         : sizeof(T) == 2 ? Format::kBytes2
         : sizeof(T) == 4 ? Format::kBytes4
                          : Format::kBytes8;
}
inline int64_t ItemSize(Format f) {
  constexpr uint8_t kSizes[] = {1, 2, 4, 8, 2, 2};
  return kSizes[static_cast<int>(f)];
}

// Elements `step` bytes apart, to and from dense memory. One is what Format::kHalf and kBFloat16 widen to: float.
template <typename T, typename One>
void Gather(const char* src, int64_t step, void* dst, int64_t n) {
  One* out = static_cast<One*>(dst);
  int64_t i = 0;
#ifdef __F16C__
  if (std::is_same_v<T, Half> && step == 2) {
    for (; i + 8 <= n; i += 8) {
      _mm256_storeu_ps(static_cast<float*>(dst) + i,
                       _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(src) + i / 8)));
    }
  }
#endif
  if (step == sizeof(T)) {
    const T* in = reinterpret_cast<const T*>(src);
    for (; i < n; ++i) out[i] = static_cast<One>(in[i]);
  } else {
    for (; i < n; ++i) out[i] = static_cast<One>(*reinterpret_cast<const T*>(src + i * step));
  }
}
template <typename T, typename One>
void Scatter(const void* src, char* dst, int64_t step, int64_t n) {
  const One* in = static_cast<const One*>(src);
  int64_t i = 0;
#ifdef __F16C__
  if (std::is_same_v<T, Half> && step == 2) {
    for (; i + 8 <= n; i += 8) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(dst) + i / 8,
                       _mm256_cvtps_ph(_mm256_loadu_ps(static_cast<const float*>(src) + i), _MM_FROUND_TO_NEAREST_INT));
    }
  }
#endif
  if (step == sizeof(T)) {
    T* out = reinterpret_cast<T*>(dst);
    for (; i < n; ++i) out[i] = static_cast<T>(in[i]);
  } else {
    for (; i < n; ++i) *reinterpret_cast<T*>(dst + i * step) = static_cast<T>(in[i]);
  }
}
inline void GatherBlock(Format f, const char* src, int64_t step, void* dst, int64_t n) {
  switch (f) {
    case Format::kBytes1: return Gather<uint8_t, uint8_t>(src, step, dst, n);
    case Format::kBytes2: return Gather<uint16_t, uint16_t>(src, step, dst, n);
    case Format::kBytes4: return Gather<uint32_t, uint32_t>(src, step, dst, n);
    case Format::kBytes8: return Gather<uint64_t, uint64_t>(src, step, dst, n);
    case Format::kHalf: return Gather<Half, float>(src, step, dst, n);
    case Format::kBFloat16: return Gather<BFloat16, float>(src, step, dst, n);
  }
}
inline void ScatterBlock(Format f, const void* src, char* dst, int64_t step, int64_t n) {
  switch (f) {
    case Format::kBytes1: return Scatter<uint8_t, uint8_t>(src, dst, step, n);
    case Format::kBytes2: return Scatter<uint16_t, uint16_t>(src, dst, step, n);
    case Format::kBytes4: return Scatter<uint32_t, uint32_t>(src, dst, step, n);
    case Format::kBytes8: return Scatter<uint64_t, uint64_t>(src, dst, step, n);
    case Format::kHalf: return Scatter<Half, float>(src, dst, step, n);
    case Format::kBFloat16: return Scatter<BFloat16, float>(src, dst, step, n);
  }
}

}  // namespace telensor::cpu::TT_CPU_VARIANT
