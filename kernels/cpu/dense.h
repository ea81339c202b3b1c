// Dense operands: what the layer kernels (matmul, convolution, pooling, norm, softmax) share.
//
// They compute on row-major memory in float or double: operands stored otherwise are copied to the workspace, and
// 16-bit floats pass through short buffers on the stack, a run at a time.
#pragma once

#include <type_traits>

#include "kernels/cpu/reduction.h"

namespace telensor::cpu::TT_CPU_VARIANT {

// Elements that pass through a stack buffer at once.
inline constexpr int64_t kRun = 1024;

inline bool Present(const tt_tensor& tensor) { return tensor.dtype != 0; }

inline bool SameSizes(const tt_tensor& a, const tt_tensor& b) {
  return a.rank == b.rank && std::equal(a.sizes, a.sizes + a.rank, b.sizes);
}

inline double NumberOf(const tt_value& v) { return v.kind == 3 ? v.f : static_cast<double>(v.i); }

template <typename T>
inline constexpr bool kIs16Bit = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

// A run in its compute type: the memory itself where that is the storage type, else converted into `buffer`.
template <typename T>
const ComputeType<T>* LoadRun(const T* src, int64_t n, ComputeType<T>* buffer) {
  if constexpr (kIs16Bit<T>) {
    LoadAs<T, float>(src, n, 1, buffer);
    return buffer;
  } else {
    return src;
  }
}

// Where to compute a run that StoreRun then rounds into `dst`.
template <typename T>
ComputeType<T>* RunTarget(T* dst, ComputeType<T>* buffer) {
  if constexpr (kIs16Bit<T>) {
    return buffer;
  } else {
    return dst;
  }
}

template <typename T>
void StoreRun(const ComputeType<T>* values, int64_t n, T* dst) {
  if constexpr (kIs16Bit<T>) {
    int64_t i = 0;
#ifdef __F16C__
    if constexpr (std::is_same_v<T, Half>) {
      for (; i + 8 <= n; i += 8) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + i), _mm256_cvtps_ph(_mm256_loadu_ps(values + i), 0));
      }
    }
#endif
    for (; i < n; ++i) dst[i] = T(values[i]);
  }
}

// A whole dense array rounded into another, on several threads.
template <typename T>
void StoreAll(const float* values, int64_t n, T* dst) {
  ParallelFor(n, kGrain, [=](int64_t begin, int64_t end) { StoreRun<T>(values + begin, end - begin, dst + begin); });
}

// A stack buffer for runs; costs nothing for types that need none.
template <typename T>
struct RunBuffer {
  alignas(64) ComputeType<T> data[kIs16Bit<T> ? kRun : 1];
};

// The elements of `tensor` row-major, as C: its own memory, or a copy in the workspace. NULL: no memory.
// C is the type itself, or the type to convert to.
template <typename T, typename C = T>
const C* Dense(tt_call* call, const tt_tensor& tensor) {
  if constexpr (std::is_same_v<T, C>) {
    if (tensor.contiguous || tensor.numel == 0) return static_cast<const C*>(tensor.data);
  }
  C* copy = Workspace<C>(call, tensor.numel);
  if (copy == nullptr || tensor.numel == 0) return copy;
  int64_t dense[TT_MAX_RANK];
  int64_t stride = 1;
  for (int d = tensor.rank - 1; d >= 0; --d) {
    dense[d] = stride;
    stride *= tensor.sizes[d];
  }
  if constexpr (std::is_same_v<T, C>) {
    CopyStrided(sizeof(T), copy, dense, tensor.data, tensor.strides, tensor.sizes, tensor.rank);
  } else {
    Walk<2> walk;
    for (int d = 0; d < tensor.rank; ++d) walk.Add(tensor.sizes[d], dense[d], tensor.strides[d]);
    const Walk<2>::Inner inner = walk.PopInner();
    const T* src = static_cast<const T*>(tensor.data);
    if (walk.count() == 1) {
      ParallelFor(inner.size, kGrain, [=](int64_t begin, int64_t end) {
        LoadAs<T, C>(src + begin * inner.strides[1], end - begin, inner.strides[1], copy + begin);
      });
    } else {
      ParallelFor(walk.count(), std::max<int64_t>(1, kGrain / inner.size), [=](int64_t begin, int64_t end) {
        Walk<2> at = walk;
        at.Seek(begin);
        for (int64_t i = begin; i < end; ++i, at.Next()) {
          LoadAs<T, C>(src + at.offset(1), inner.size, inner.strides[1], copy + at.offset(0));
        }
      });
    }
  }
  return copy;
}

// A parameter of any floating dtype, dense, as C. Absent: `*out` is NULL and the answer TT_OK.
template <typename C>
int DenseParameter(tt_call* call, const tt_tensor& tensor, const C** out) {
  *out = nullptr;
  if (!Present(tensor)) return TT_OK;
  const int code = DispatchFloating(call, tensor.dtype, [&](auto tag) {
    *out = Dense<typename decltype(tag)::type, C>(call, tensor);
    return TT_OK;
  });
  if (code != TT_OK) return code;
  return *out == nullptr && tensor.numel > 0 ? FailMemory(call) : TT_OK;
}

// Sums of f(i) over [0, n): kept in lanes, so that the compiler uses vectors, in blocks, so that rounding errors
// don't grow with n. Sixteen lanes hide the latency of an addition.
template <typename C, typename F>
C SumOf(int64_t n, const F& f) {
  constexpr int kLanes = 16;
  constexpr int64_t kBlock = 1024;
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t end = std::min(n, begin + kBlock);
    C lanes[kLanes] = {};
    int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      for (int k = 0; k < kLanes; ++k) lanes[k] += f(i + k);
    }
    for (int k = 0; k < 8; ++k) lanes[k] += lanes[k + 8];
    if (i + 8 <= end) {
      for (int k = 0; k < 8; ++k) lanes[k] += f(i + k);
      i += 8;
    }
    for (int k = 0; k < 4; ++k) lanes[k] += lanes[k + 4];
    C rest = 0;
    for (; i < end; ++i) rest += f(i);
    const C sum = ((lanes[0] + lanes[2]) + (lanes[1] + lanes[3])) + rest;
    if (n <= kBlock) return sum;
    total += static_cast<double>(sum);
  }
  return static_cast<C>(total);
}

}  // namespace telensor::cpu::TT_CPU_VARIANT
