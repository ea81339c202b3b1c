// The order of elements as the order of unsigned numbers: NaN is last, all NaNs are equal, and -0.0 equals 0.0.
// Every backend sorts by these keys, so that ties and NaN fall the same way everywhere.
#pragma once

#include <cstdint>

#include "kernels/plugin_abi.h"

#ifdef __CUDACC__
#define TT_KEY_FN __host__ __device__ inline
#else
// Never a function of its own: the CPU backend is compiled for several instruction sets, and the linker would keep one.
#define TT_KEY_FN inline __attribute__((always_inline))
#endif

namespace telensor {

// How the bits of a dtype become keys.
struct KeyRule {
  int size;  // of an element, in bytes
  bool is_signed;
  bool floating;
  uint64_t infinity;  // the bits of it
};

TT_KEY_FN KeyRule KeyRuleOf(int dtype) {
  switch (dtype) {
    case TT_FLOAT16: return {2, true, true, 0x7c00};
    case TT_BFLOAT16: return {2, true, true, 0x7f80};
    case TT_FLOAT32: return {4, true, true, 0x7f800000};
    case TT_FLOAT64: return {8, true, true, 0x7ff0000000000000};
    case TT_INT16: return {2, true, false, 0};
    case TT_INT32: return {4, true, false, 0};
    case TT_INT64: return {8, true, false, 0};
    default: return {1, dtype == TT_INT8, false, 0};
  }
}

// The key of an element with these bits. Descending order is the order of the inverted keys.
template <typename U>
TT_KEY_FN U SortKey(const KeyRule& rule, bool descending, U bits) {
  const U top = static_cast<U>(U(1) << (8 * sizeof(U) - 1)), all = static_cast<U>(~U(0));
  if (rule.floating) {
    const U magnitude = static_cast<U>(bits & ~top);
    if (magnitude > rule.infinity) {
      bits = all;
    } else {
      bits = magnitude == 0 || magnitude == bits ? static_cast<U>(magnitude | top) : static_cast<U>(~bits);
    }
  } else if (rule.is_signed) {
    bits = static_cast<U>(bits ^ top);
  }
  return static_cast<U>(bits ^ (descending ? all : U(0)));
}

}  // namespace telensor
