// What every CPU kernel file shares: failing with words, choosing a type by dtype, cutting work into threads.
//
// The files of this folder are compiled once for every instruction set (TT_CPU_VARIANT names the namespace), so
// nothing here may have external linkage outside it. Kernels run on the device's compute thread, or on a session's
// own thread when the work is small; ParallelFor stays on the calling thread below its grain.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "kernels/plugin_abi.h"
#include "proto/core/half.h"

#ifndef TT_CPU_VARIANT
#define TT_CPU_VARIANT base
#endif

namespace telensor::cpu::TT_CPU_VARIANT {

using KernelList = std::vector<tt_kernel>;

// Work below this many elements is not worth waking a second thread.
inline constexpr int64_t kGrain = 32768;

__attribute__((format(printf, 3, 4))) inline int Fail(tt_call* call, int code, const char* format, ...) {
  va_list args;
  va_start(args, format);
  std::vsnprintf(call->error, call->error_size, format, args);
  va_end(args);
  return code;
}

// fn(begin, end) over [0, n), in chunks of at least `grain`, on the threads OpenMP gives the caller.
template <typename Fn>
void ParallelFor(int64_t n, int64_t grain, const Fn& fn) {
  const int64_t most = std::max<int64_t>(1, n / std::max<int64_t>(grain, 1));
  const int threads = static_cast<int>(std::min<int64_t>(most, omp_in_parallel() ? 1 : omp_get_max_threads()));
  if (threads <= 1) {
    if (n > 0) fn(int64_t{0}, n);
    return;
  }
#pragma omp parallel num_threads(threads)
  {
    // OpenMP may give fewer threads than asked.
    const int64_t count = omp_get_num_threads();
    const int64_t each = (n + count - 1) / count;
    const int64_t begin = std::min(n, omp_get_thread_num() * each);
    const int64_t end = std::min(n, begin + each);
    if (begin < end) fn(begin, end);
  }
}

// `count` elements that live until the call's end; NULL where there is no memory. More than any memory has can be asked
// for: an expanded view has as many elements as a client likes.
template <typename T>
T* Workspace(tt_call* call, int64_t count) {
  constexpr int64_t kMost = int64_t{1} << 56;
  if (count > kMost) return nullptr;
  return static_cast<T*>(call->workspace(call, static_cast<size_t>(std::max<int64_t>(count, 1)) * sizeof(T)));
}
inline int FailMemory(tt_call* call) { return Fail(call, TT_OUT_OF_MEMORY, "no memory for the workspace of a kernel"); }

template <typename T>
struct TypeTag {
  using type = T;
};

// The type to compute in: float for the 16-bit floats, the type itself otherwise.
template <typename T>
struct ComputeTypeOf {
  using type = T;
};
template <>
struct ComputeTypeOf<Half> {
  using type = float;
};
template <>
struct ComputeTypeOf<BFloat16> {
  using type = float;
};
template <typename T>
using ComputeType = typename ComputeTypeOf<T>::type;

// The type to sum in: double for float64, float for the other floats, int64 for integers and bool.
template <typename T>
struct AccumulateTypeOf {
  using type = int64_t;
};
template <> struct AccumulateTypeOf<double> { using type = double; };
template <> struct AccumulateTypeOf<float> { using type = float; };
template <> struct AccumulateTypeOf<Half> { using type = float; };
template <> struct AccumulateTypeOf<BFloat16> { using type = float; };
template <typename T>
using AccumulateType = typename AccumulateTypeOf<T>::type;

// fn(TypeTag<T>) for the element type of a dtype. Kernels are only called with dtypes they registered, so `default`
// is a bug of the caller; it is reported, not asserted.
template <typename Fn>
int DispatchFloating(tt_call* call, int dtype, const Fn& fn) {
  switch (dtype) {
    case TT_FLOAT32: return fn(TypeTag<float>());
    case TT_FLOAT64: return fn(TypeTag<double>());
    case TT_FLOAT16: return fn(TypeTag<Half>());
    case TT_BFLOAT16: return fn(TypeTag<BFloat16>());
    default: return Fail(call, TT_INTERNAL, "unexpected dtype %d", dtype);
  }
}

template <typename Fn>
int DispatchInteger(tt_call* call, int dtype, const Fn& fn) {
  switch (dtype) {
    case TT_UINT8: return fn(TypeTag<uint8_t>());
    case TT_INT8: return fn(TypeTag<int8_t>());
    case TT_INT16: return fn(TypeTag<int16_t>());
    case TT_INT32: return fn(TypeTag<int32_t>());
    case TT_INT64: return fn(TypeTag<int64_t>());
    default: return Fail(call, TT_INTERNAL, "unexpected dtype %d", dtype);
  }
}

template <typename Fn>
int DispatchNumber(tt_call* call, int dtype, const Fn& fn) {
  return dtype >= TT_FLOAT16 ? DispatchFloating(call, dtype, fn) : DispatchInteger(call, dtype, fn);
}

template <typename Fn>
int DispatchAll(tt_call* call, int dtype, const Fn& fn) {
  return dtype == TT_BOOL ? fn(TypeTag<bool>()) : DispatchNumber(call, dtype, fn);
}

// Negative dimension numbers count from the end; the dispatcher has checked the range.
inline int WrapDim(int64_t dim, int rank) { return static_cast<int>(dim < 0 ? dim + std::max(rank, 1) : dim); }

}  // namespace telensor::cpu::TT_CPU_VARIANT
