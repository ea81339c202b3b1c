// What every .cu file shares: element types, choosing one by dtype, launching.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/device.h"

namespace telensor::cuda {

using Half = __half;
using BFloat16 = __nv_bfloat16;

inline constexpr int kThreads = 256;

template <typename T>
struct TypeTag {
  using type = T;
};

// The type to compute in: float for the 16-bit floats, the type itself otherwise.
template <typename T>
using ComputeType = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;
template <typename T>
inline constexpr bool kIsFloating = std::is_floating_point_v<ComputeType<T>>;
// The type to sum in: double for every float, so that no order of summing shows; int64 for integers and bool.
template <typename T>
using AccumulateType = std::conditional_t<kIsFloating<T>, double, int64_t>;

template <typename T>
__host__ __device__ __forceinline__ ComputeType<T> Widen(T v) {
  return static_cast<ComputeType<T>>(v);
}
// From a compute type, rounded once.
template <typename T, typename C>
__host__ __device__ __forceinline__ T Narrow(C v) {
  if constexpr (std::is_same_v<T, bool>) {
    return v != C(0);
  } else {
    return static_cast<T>(static_cast<ComputeType<T>>(v));
  }
}

// Makes the call's device the thread's own before the kernel runs.
template <tt_kernel_fn kRun>
int OnDevice(tt_call* call) {
  const cudaError_t error = UseDevice(call->device);
  return error == cudaSuccess ? kRun(call) : Check(call, error, "cudaSetDevice");
}

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
// Where only the bytes matter.
template <typename Fn>
int DispatchSize(int64_t size, const Fn& fn) {
  switch (size) {
    case 1: return fn(TypeTag<uint8_t>());
    case 2: return fn(TypeTag<uint16_t>());
    case 4: return fn(TypeTag<uint32_t>());
    default: return fn(TypeTag<uint64_t>());
  }
}

inline unsigned Blocks(int64_t n, int64_t each = kThreads) { return static_cast<unsigned>((n + each - 1) / each); }

// One thread for each of n elements, however many: fn(i) on the device.
template <typename Fn>
__global__ void __launch_bounds__(kThreads) ForEachKernel(int64_t n, const __grid_constant__ Fn fn) {
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < n; i += int64_t{gridDim.x} * kThreads) fn(i);
}
template <typename Fn>
int ForEach(tt_call* call, int64_t n, const Fn& fn) {
  if (n <= 0) return TT_OK;
  const int64_t most = int64_t{ComputeUnits(call->device)} * 32, blocks = (n + kThreads - 1) / kThreads;
  ForEachKernel<<<static_cast<unsigned>(blocks < most ? blocks : most), kThreads, 0, StreamOf(call)->stream>>>(n, fn);
  return Launched(call);
}

// The first to be wrong writes; the kind comes last, so that whoever reads it finds the numbers.
__device__ inline void ReportError(Report* report, Report::Kind kind, int64_t value, int dim, int64_t size) {
  if (report->kind != Report::kNone) return;
  report->value = value;
  report->dim = dim;
  report->size = size;
  __threadfence_system();
  report->kind = kind;
}

// A number as an element.
template <typename T>
T NumberAs(const tt_value& v) {
  if constexpr (std::is_same_v<T, bool>) {
    return v.kind == 3 ? v.f != 0 : v.i != 0;
  } else if constexpr (std::is_integral_v<T>) {
    if (v.kind != 3) return static_cast<T>(v.i);
    return v.f > -9.2e18 && v.f < 9.2e18 ? static_cast<T>(static_cast<int64_t>(v.f)) : T(0);
  } else {
    return static_cast<T>(static_cast<ComputeType<T>>(v.f));
  }
}

}  // namespace telensor::cuda
