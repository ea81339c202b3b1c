// A stable radix sort of (64-bit key, 64-bit value) pairs, by CUB; compiled once, because it is slow to compile.
#pragma once

#include "kernels/cuda/device.h"

namespace telensor::cuda {

// Sorts by the low `bits` bits of the keys. All four arrays hold n elements; the inputs may be overwritten.
int SortPairs(tt_call* call, int64_t n, const uint64_t* keys_in, uint64_t* keys_out, const int64_t* values_in,
              int64_t* values_out, int bits);

inline int BitsOf(uint64_t most) {
  int bits = 1;
  while (bits < 64 && most >> bits != 0) ++bits;
  return bits;
}

}  // namespace telensor::cuda
