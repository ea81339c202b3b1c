// Walking strided tensors: what the reductions share with the scan, shape and indexing kernels.
//
// A Walk moves several offsets together over the positions of some axes; loads turn a strided run of any dtype into
// a dense run of one compute type, so that arithmetic is written once, over dense memory; CopyStrided moves elements
// by their size alone. Nothing here allocates.
#pragma once

#include <cstring>
#include <type_traits>
#ifdef __F16C__
#include <immintrin.h>
#endif

#include "kernels/cpu/kernel.h"

namespace telensor::cpu::TT_CPU_VARIANT {

inline int64_t ElementSize(int dtype) {
  constexpr uint8_t kSizes[] = {0, 1, 1, 1, 2, 4, 8, 2, 2, 4, 8};
  return kSizes[dtype];
}

// fn(TypeTag<unsigned of that many bytes>) for kernels that move elements without looking at them.
template <typename Fn>
void DispatchSize(int64_t size, const Fn& fn) {
  switch (size) {
    case 1: return fn(TypeTag<uint8_t>());
    case 2: return fn(TypeTag<uint16_t>());
    case 4: return fn(TypeTag<uint32_t>());
    default: return fn(TypeTag<uint64_t>());
  }
}

// Stands for "all dimensions" (None, or an empty list) or the listed ones, as bits.
inline uint32_t DimMask(const tt_value& dim, int rank) {
  if (dim.kind == 2) return rank > 0 ? 1u << WrapDim(dim.i, rank) : 0;
  if (dim.kind != 4 || dim.count == 0) return (1u << rank) - 1;
  uint32_t mask = 0;
  for (int i = 0; i < dim.count && rank > 0; ++i) mask |= 1u << WrapDim(dim.ints[i], rank);
  return mask;
}

struct Axis {
  int64_t size;
  int64_t stride;
};

// N offsets, in elements, over the positions of some axes; row-major, the last axis added runs fastest.
template <int N>
class Walk {
 public:
  // Outermost first. Axes of size 1 vanish, and neighbours that all N tensors store as one axis are merged.
  template <typename... Strides>
  void Add(int64_t size, Strides... strides) {
    static_assert(sizeof...(Strides) == N);
    const int64_t given[N] = {static_cast<int64_t>(strides)...};
    if (size == 1) return;
    count_ *= size;
    bool merges = rank_ > 0;
    for (int k = 0; k < N && merges; ++k) merges = axes_[rank_ - 1].strides[k] == given[k] * size;
    if (!merges) axes_[rank_++].size = 1;
    axes_[rank_ - 1].size *= size;
    for (int k = 0; k < N; ++k) axes_[rank_ - 1].strides[k] = given[k];
  }

  struct Inner {
    int64_t size = 1;
    int64_t strides[N];
  };
  // Takes the fastest axis out of the walk: the caller's inner loop.
  Inner PopInner() {
    Inner inner;
    for (int k = 0; k < N; ++k) inner.strides[k] = 1;
    if (rank_ == 0) return inner;
    --rank_;
    inner.size = axes_[rank_].size;
    for (int k = 0; k < N; ++k) inner.strides[k] = axes_[rank_].strides[k];
    count_ = 1;
    for (int d = 0; d < rank_; ++d) count_ *= axes_[d].size;
    return inner;
  }

  int64_t count() const { return count_; }
  int64_t offset(int k) const { return offsets_[k]; }

  // To a position below count(). Needed before the first use.
  void Seek(int64_t position) {
    for (int k = 0; k < N; ++k) offsets_[k] = 0;
    for (int d = rank_ - 1; d >= 0; --d) {
      const int64_t at = position == 0 ? 0 : position % axes_[d].size;
      position = position == 0 ? 0 : position / axes_[d].size;
      at_[d] = at;
      for (int k = 0; k < N; ++k) offsets_[k] += at * axes_[d].strides[k];
    }
  }

  // Past the last position it starts again.
  void Next() {
    for (int d = rank_ - 1; d >= 0; --d) {
      if (++at_[d] < axes_[d].size) {
        for (int k = 0; k < N; ++k) offsets_[k] += axes_[d].strides[k];
        return;
      }
      for (int k = 0; k < N; ++k) offsets_[k] -= (axes_[d].size - 1) * axes_[d].strides[k];
      at_[d] = 0;
    }
  }

 private:
  struct Entry {
    int64_t size;
    int64_t strides[N];
  };
  int rank_ = 0;
  int64_t count_ = 1;
  int64_t offsets_[N];
  Entry axes_[TT_MAX_RANK];
  int64_t at_[TT_MAX_RANK];
};

// n elements, `stride` elements apart, to dense memory of the loader's own compute type.
using LoadFn = void (*)(const void* src, int64_t n, int64_t stride, void* dst);

template <typename T, typename C>
void LoadAs(const void* src, int64_t n, int64_t stride, void* dst) {
  const T* x = static_cast<const T*>(src);
  C* y = static_cast<C*>(dst);
  if (stride != 1) {
    for (int64_t i = 0; i < n; ++i) y[i] = static_cast<C>(x[i * stride]);
    return;
  }
  int64_t i = 0;
#ifdef __F16C__
  if constexpr (std::is_same_v<T, Half> && std::is_same_v<C, float>) {
    for (; i + 8 <= n; i += 8) {
      _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i))));
    }
  }
#endif
  for (; i < n; ++i) y[i] = static_cast<C>(x[i]);
}

// 1 where the element, less the bits of `kMask`'s complement, is not zero. NaN is not zero, -0.0 is.
template <typename T, uint64_t kMask = ~uint64_t{0}>
void LoadTruth(const void* src, int64_t n, int64_t stride, void* dst) {
  const T* x = static_cast<const T*>(src);
  uint8_t* y = static_cast<uint8_t*>(dst);
  const T mask = static_cast<T>(kMask);
  if (stride == 1) {
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] & mask) != 0;
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i * stride] & mask) != 0;
  }
}

inline LoadFn TruthLoader(int dtype) {
  switch (dtype) {
    case TT_FLOAT16:
    case TT_BFLOAT16: return LoadTruth<uint16_t, 0x7fff>;
    case TT_FLOAT32: return LoadTruth<uint32_t, 0x7fffffff>;
    case TT_FLOAT64: return LoadTruth<uint64_t, (~uint64_t{0} >> 1)>;
    case TT_INT16: return LoadTruth<uint16_t>;
    case TT_INT32: return LoadTruth<uint32_t>;
    case TT_INT64: return LoadTruth<uint64_t>;
    default: return LoadTruth<uint8_t>;
  }
}

// Writes finished results as elements begin.. of a dense output, rounding once.
template <typename T, typename R>
void StoreAs(const tt_tensor& out, int64_t begin, const R* values, int64_t n) {
  T* y = static_cast<T*>(out.data) + begin;
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(values[i]);
}

inline void Store(const tt_tensor& out, int64_t begin, const double* values, int64_t n) {
  switch (out.dtype) {
    case TT_FLOAT32: return StoreAs<float>(out, begin, values, n);
    case TT_FLOAT64: return StoreAs<double>(out, begin, values, n);
    case TT_FLOAT16: return StoreAs<Half>(out, begin, values, n);
    default: return StoreAs<BFloat16>(out, begin, values, n);
  }
}

inline void Store(const tt_tensor& out, int64_t begin, const int64_t* values, int64_t n) {
  switch (out.dtype) {
    case TT_BOOL: return StoreAs<bool>(out, begin, values, n);
    case TT_UINT8: return StoreAs<uint8_t>(out, begin, values, n);
    case TT_INT8: return StoreAs<int8_t>(out, begin, values, n);
    case TT_INT16: return StoreAs<int16_t>(out, begin, values, n);
    case TT_INT32: return StoreAs<int32_t>(out, begin, values, n);
    default: return StoreAs<int64_t>(out, begin, values, n);
  }
}

template <typename U>
void CopyRun(U* dst, int64_t dst_stride, const U* src, int64_t src_stride, int64_t n) {
  if (dst_stride == 1 && src_stride == 1) {
    std::memcpy(dst, src, n * sizeof(U));
  } else if (dst_stride == 1 && src_stride == -1) {
    for (int64_t i = 0; i < n; ++i) dst[i] = src[-i];
  } else if (dst_stride == 1 && src_stride == 0) {
    std::fill(dst, dst + n, *src);
  } else {
    for (int64_t i = 0; i < n; ++i) dst[i * dst_stride] = src[i * src_stride];
  }
}

template <typename U>
void CopyWalk(U* dst, const U* src, Walk<2> walk) {
  const Walk<2>::Inner inner = walk.PopInner();
  const int64_t to = inner.strides[0], from = inner.strides[1];
  if (walk.count() == 1) {
    ParallelFor(inner.size, kGrain, [=](int64_t begin, int64_t end) {
      CopyRun(dst + begin * to, to, src + begin * from, from, end - begin);
    });
    return;
  }
  ParallelFor(walk.count(), std::max<int64_t>(1, kGrain / inner.size), [=](int64_t begin, int64_t end) {
    Walk<2> at = walk;
    at.Seek(begin);
    for (int64_t i = begin; i < end; ++i, at.Next()) {
      CopyRun(dst + at.offset(0), to, src + at.offset(1), from, inner.size);
    }
  });
}

// Copies a region of elements of `size` bytes; the two must not overlap.
inline void CopyStrided(int64_t size, void* dst, const int64_t* dst_strides, const void* src,
                        const int64_t* src_strides, const int64_t* sizes, int rank) {
  Walk<2> walk;
  for (int d = 0; d < rank; ++d) walk.Add(sizes[d], dst_strides[d], src_strides[d]);
  if (walk.count() == 0) return;
  DispatchSize(size, [&](auto tag) {
    using U = typename decltype(tag)::type;
    CopyWalk(static_cast<U*>(dst), static_cast<const U*>(src), walk);
  });
}

inline void Zero(void* data, int64_t bytes) {
  ParallelFor(bytes, 8 * kGrain, [=](int64_t begin, int64_t end) {
    std::memset(static_cast<char*>(data) + begin, 0, static_cast<size_t>(end - begin));
  });
}

inline char* Bytes(const tt_tensor& tensor) { return static_cast<char*>(tensor.data); }

}  // namespace telensor::cpu::TT_CPU_VARIANT
