// Sizes and strides of several tensors walked together, and how a kernel finds an element from a linear index.
//
// Host logic is plain C++, so that it is tested on machines without a GPU; the two functions that kernels call are
// compiled for both sides.
#pragma once

#include <cstdint>

#include "kernels/plugin_abi.h"

#ifdef __CUDACC__
#define TT_CUDA_FN __host__ __device__ __forceinline__
#else
#define TT_CUDA_FN inline
#endif

namespace telensor::cuda {

// Division of numbers below 2^31 by a fixed one, as a multiplication and a shift.
struct FastDivisor {
  uint32_t divisor = 1, magic = 0, shift = 0;

  FastDivisor() = default;
  explicit FastDivisor(uint32_t d) : divisor(d) {
    if (d == 0) return;  // an empty dimension: nothing will be divided
    while (shift < 31 && (uint64_t{1} << shift) < d) ++shift;
    magic = static_cast<uint32_t>((uint64_t{1} << 32) * ((uint64_t{1} << shift) - d) / d + 1);
  }
  TT_CUDA_FN uint32_t Divide(uint32_t n) const {
#ifdef __CUDA_ARCH__
    const uint32_t high = __umulhi(n, magic);
#else
    const uint32_t high = static_cast<uint32_t>(uint64_t{n} * magic >> 32);
#endif
    return (high + n) >> shift;
  }
};

// What a kernel gets by value: up to 16 dimensions of N tensors, for fewer than 2^31 elements.
template <int N>
struct Layout {
  int rank = 0;
  FastDivisor sizes[TT_MAX_RANK];
  int64_t strides[N][TT_MAX_RANK];

  // The offset of element `index`, counted row-major, in each tensor.
  TT_CUDA_FN void Find(uint32_t index, int64_t (&offsets)[N]) const {
    for (int k = 0; k < N; ++k) offsets[k] = 0;
    for (int d = rank - 1; d > 0; --d) {
      const uint32_t rest = sizes[d].Divide(index);
      const int64_t at = index - rest * sizes[d].divisor;
      for (int k = 0; k < N; ++k) offsets[k] += at * strides[k][d];
      index = rest;
    }
    if (rank > 0) {
      for (int k = 0; k < N; ++k) offsets[k] += static_cast<int64_t>(index) * strides[k][0];
    }
  }
};

// The same on the host, for any number of elements.
template <int N>
struct Dims {
  int rank = 0;
  int64_t sizes[TT_MAX_RANK];
  int64_t strides[N][TT_MAX_RANK];

  void Add(int64_t size, const int64_t (&step)[N]) {
    if (size == 1) return;
    // The dimension before joins this one where every tensor steps over it as if they were one.
    bool merge = rank > 0;
    for (int k = 0; k < N && merge; ++k) merge = strides[k][rank - 1] == step[k] * size;
    if (merge) {
      sizes[rank - 1] *= size;
    } else {
      sizes[rank++] = size;
    }
    for (int k = 0; k < N; ++k) strides[k][rank - 1] = step[k];
  }
  int64_t numel() const {
    int64_t n = 1;
    for (int d = 0; d < rank; ++d) n *= sizes[d];
    return n;
  }
  // Puts the dimension with the smallest stride of tensor `by` last; only for work whose order does not matter.
  void Sort(int by) {
    Dims sorted;
    bool used[TT_MAX_RANK] = {};
    for (int i = 0; i < rank; ++i) {
      int best = -1;
      for (int d = 0; d < rank; ++d) {
        if (!used[d] && (best < 0 || Magnitude(strides[by][d]) > Magnitude(strides[by][best]))) best = d;
      }
      used[best] = true;
      int64_t step[N];
      for (int k = 0; k < N; ++k) step[k] = strides[k][best];
      sorted.Add(sizes[best], step);
    }
    *this = sorted;
  }
  Layout<N> ForDevice() const {
    Layout<N> out;
    out.rank = rank;
    for (int d = 0; d < rank; ++d) {
      out.sizes[d] = FastDivisor(static_cast<uint32_t>(sizes[d]));
      for (int k = 0; k < N; ++k) out.strides[k][d] = strides[k][d];
    }
    return out;
  }

  static int64_t Magnitude(int64_t v) { return v < 0 ? -v : v; }
};

inline constexpr int64_t kMostPerLaunch = INT32_MAX;

// Where element i lies in N tensors, for any number of elements.
template <int N>
struct Locators {
  Layout<N> layout;
  int64_t sizes[TT_MAX_RANK];
  bool wide;  // too many elements for the fast division

  explicit Locators(const Dims<N>& dims) : layout(dims.ForDevice()), wide(dims.numel() > kMostPerLaunch) {
    for (int d = 0; d < dims.rank; ++d) sizes[d] = dims.sizes[d];
  }
  TT_CUDA_FN void Find(int64_t i, int64_t (&at)[N]) const {
    if (!wide) return layout.Find(static_cast<uint32_t>(i), at);
    for (int k = 0; k < N; ++k) at[k] = 0;
    for (int d = layout.rank - 1; d >= 0; --d) {
      for (int k = 0; k < N; ++k) at[k] += i % sizes[d] * layout.strides[k][d];
      i /= sizes[d];
    }
  }
};

// In one tensor.
struct Locator {
  Locators<1> places;

  explicit Locator(const Dims<1>& dims) : places(dims) {}
  explicit Locator(const tt_tensor& t) : places(DimsOf(t)) {}

  TT_CUDA_FN int64_t operator()(int64_t i) const {
    if (places.layout.rank <= 1) return places.layout.rank == 0 ? 0 : i * places.layout.strides[0][0];
    int64_t at[1];
    places.Find(i, at);
    return at[0];
  }

  static Dims<1> DimsOf(const tt_tensor& t) {
    Dims<1> dims;
    for (int d = 0; d < t.rank; ++d) dims.Add(t.sizes[d], {t.strides[d]});
    return dims;
  }
};

// fn(part, offsets) for pieces of at most `most` elements that together are `dims`; the first code but 0 ends it.
template <int N, typename Fn>
int ForEachPart(const Dims<N>& dims, int64_t most, const int64_t (&offsets)[N], const Fn& fn) {
  if (dims.numel() == 0) return 0;
  if (dims.numel() <= most) return fn(dims, offsets);
  int longest = 0;
  for (int d = 1; d < dims.rank; ++d) {
    if (dims.sizes[d] > dims.sizes[longest]) longest = d;
  }
  Dims<N> first = dims, second = dims;
  first.sizes[longest] = dims.sizes[longest] / 2;
  second.sizes[longest] = dims.sizes[longest] - first.sizes[longest];
  int64_t moved[N];
  for (int k = 0; k < N; ++k) moved[k] = offsets[k] + first.sizes[longest] * dims.strides[k][longest];
  const int code = ForEachPart(first, most, offsets, fn);
  return code != 0 ? code : ForEachPart(second, most, moved, fn);
}

// How the dimensions of a reduction's input divide into the kept and the reduced ones.
struct ReductionDims {
  Dims<1> kept, reduced;
};

// Bit d: dimension d is reduced. No dims given: all of them.
inline uint32_t DimMask(const tt_value& dims, int rank) {
  const uint32_t all = rank >= 32 ? ~0u : (1u << rank) - 1;
  if (dims.kind == 0 || (dims.kind == 4 && dims.count == 0)) return all;
  uint32_t mask = 0;
  const int count = dims.kind == 4 ? dims.count : 1;
  for (int i = 0; i < count; ++i) {
    const int64_t d = dims.kind == 4 ? dims.ints[i] : dims.i;
    mask |= 1u << ((d < 0 ? d + (rank > 0 ? rank : 1) : d) & 31);
  }
  return mask & all;
}

// The reduced dimensions keep their order where `ordered`: their row-major index is then PyTorch's.
inline ReductionDims SplitReduction(const tt_tensor& in, uint32_t mask, bool ordered) {
  ReductionDims out;
  for (int d = 0; d < in.rank; ++d) {
    (mask >> d & 1 ? out.reduced : out.kept).Add(in.sizes[d], {in.strides[d]});
  }
  if (!ordered) out.reduced.Sort(0);
  return out;
}

// How a reduction is shared out: a block is `across` outputs wide and `along` threads deep, and each output's
// elements are cut into `splits` parts of `each`, whose results a second launch combines in order.
struct ReductionPlan {
  int across = 1, along = 256;
  int64_t splits = 1, each = 0;
};

inline ReductionPlan PlanReduction(int64_t outputs, int64_t count, bool kept_is_fast, int compute_units) {
  ReductionPlan p;
  if (kept_is_fast) {
    // Neighbouring threads read neighbouring outputs' elements.
    p.across = 32;
    p.along = 8;
    while (p.along < 32 && count > int64_t{p.along} * 64) p.along *= 2;
  } else {
    // A row a block; short rows share one.
    while (p.along > 32 && count <= p.along) p.along /= 2;
    p.across = 256 / p.along;
  }
  const int64_t blocks = (outputs + p.across - 1) / p.across;
  const int64_t wanted = (int64_t{compute_units} * 8 + blocks - 1) / blocks;
  // A part is worth its second launch where every thread has 16 elements at least.
  const int64_t most = count / (int64_t{p.along} * 16);
  p.splits = wanted < most ? wanted : most;
  if (p.splits < 1) p.splits = 1;
  if (p.splits > 1024) p.splits = 1024;
  p.each = (count + p.splits - 1) / p.splits;
  if (p.each < 1) p.each = 1;
  p.splits = (count + p.each - 1) / p.each;
  if (p.splits < 1) p.splits = 1;
  return p;
}

}  // namespace telensor::cuda
