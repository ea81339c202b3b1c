#include "proto/core/dims.h"

namespace telensor {

std::string Dims::ToString() const {
  std::string out = "[";
  for (int i = 0; i < size_; ++i) {
    if (i > 0) out += ", ";
    out += std::to_string(data_[i]);
  }
  return out + "]";
}

int64_t CheckedNumel(const Dims& sizes) {
  constexpr int64_t kLimit = int64_t{1} << 59;
  int64_t n = 1;
  bool empty = false;
  for (int64_t s : sizes) {
    if (s < 0) return -1;
    if (s == 0) {
      empty = true;
      continue;
    }
    if (n > kLimit / s) return -1;
    n *= s;
  }
  return empty ? 0 : n;
}

Dims ContiguousStrides(const Dims& sizes) {
  Dims strides;
  strides.resize(sizes.size());
  int64_t step = 1;
  for (int i = sizes.size() - 1; i >= 0; --i) {
    strides[i] = step;
    // Sizes were checked by CheckedNumel over their non-zero part, so this can't overflow.
    step *= std::max<int64_t>(sizes[i], 1);
  }
  return strides;
}

bool IsContiguous(const Dims& sizes, const Dims& strides) {
  int64_t step = 1;
  for (int i = sizes.size() - 1; i >= 0; --i) {
    if (sizes[i] == 0) return true;
    if (sizes[i] != 1) {
      if (strides[i] != step) return false;
      step *= sizes[i];
    }
  }
  return true;
}

bool IsNonOverlappingAndDense(const Dims& sizes, const Dims& strides) {
  if (IsContiguous(sizes, strides)) return true;
  int order[kMaxRank];
  int n = 0;
  for (int i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) return true;
    if (sizes[i] != 1) order[n++] = i;
  }
  std::sort(order, order + n, [&](int a, int b) { return strides[a] < strides[b]; });
  int64_t step = 1;
  for (int i = 0; i < n; ++i) {
    if (strides[order[i]] != step) return false;
    step *= sizes[order[i]];
  }
  return true;
}

}  // namespace telensor
