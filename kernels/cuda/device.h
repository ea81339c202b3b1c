// What every file of the plug-in shares on the host: the current device, streams with their error report, failing
// with words, and dense copies of strided inputs.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "kernels/cuda/layout.h"
#include "kernels/plugin_abi.h"

namespace telensor::cuda {

using KernelList = std::vector<tt_kernel>;

// What a kernel found wrong with values that only the device sees. It lies in host memory that kernels can write;
// the next synchronisation of the stream reads it. Racing writers may mix their numbers, never the code.
struct Report {
  enum Kind : int32_t { kNone, kIndex, kZeroDivision, kTarget, kProbability, kClass, kCount };
  volatile int32_t kind;
  int32_t dim;
  int64_t value;
  int64_t size;
};

// What a tt_stream points to.
struct Stream {
  cudaStream_t stream;
  int device;
  Report* report;
};

inline Stream* StreamOf(const tt_call* call) { return static_cast<Stream*>(call->stream); }

// Makes a device the calling thread's current one; remembers it, because asking the driver costs more.
cudaError_t UseDevice(int device);
int ComputeUnits(int device);

// Writes the words where last_error() finds them, and in `call` where there is one.
__attribute__((format(printf, 3, 4))) int Fail(tt_call* call, int code, const char* format, ...);
// TT_OK, or the ABI's code for an error of the runtime, with its words.
int Check(tt_call* call, cudaError_t error, const char* what);
const char* LastError();
// Reads and clears a stream's report.
int TakeReport(Report* report);

// After a launch.
inline int Launched(tt_call* call) {
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? TT_OK : Check(call, error, "a kernel launch");
}

inline int64_t ElementSize(int dtype) {
  switch (dtype) {
    case TT_BOOL:
    case TT_UINT8:
    case TT_INT8: return 1;
    case TT_INT16:
    case TT_FLOAT16:
    case TT_BFLOAT16: return 2;
    case TT_INT32:
    case TT_FLOAT32: return 4;
    default: return 8;
  }
}

inline int WrapDim(int64_t dim, int rank) { return static_cast<int>(dim < 0 ? dim + (rank > 0 ? rank : 1) : dim); }

// A number for an op of integers.
inline int64_t WholeOf(const tt_value& v) {
  return v.kind != 3 ? v.i : v.f > -9.2e18 && v.f < 9.2e18 ? static_cast<int64_t>(v.f) : 0;
}

inline bool SameSizes(const tt_tensor& a, const tt_tensor& b) {
  bool same = a.rank == b.rank;
  for (int d = 0; same && d < a.rank; ++d) same = a.sizes[d] == b.sizes[d];
  return same;
}

// copy_strided.cu: moves elements of `size` bytes; tensor 0 of `dims` is the destination.
int CopyStrided(tt_call* call, int64_t size, void* to, const void* from, const Dims<2>& dims);
// From `in`, aligned at the right and repeated where it has one, to a dense tensor of `sizes`.
int CopyExpanded(tt_call* call, void* to, const tt_tensor& in, const int64_t* sizes, int rank);
// The data of `t`, dense and row-major: its own, or a copy in the call's workspace. NULL after a failure.
const void* Dense(tt_call* call, const tt_tensor& t, int* code);
int ZeroFill(tt_call* call, void* data, int64_t bytes);

inline void* Workspace(tt_call* call, int64_t bytes, int* code) {
  void* p = call->workspace(call, static_cast<size_t>(bytes > 0 ? bytes : 1));
  if (p == nullptr)
    *code =
        Fail(call, TT_OUT_OF_MEMORY, "no device memory for a workspace of %lld bytes", static_cast<long long>(bytes));
  return p;
}

// Every family's kernels.
void AppendUnaryKernels(KernelList* list);
void AppendFloatUnaryKernels(KernelList* list);
void AppendBinaryKernels(KernelList* list);
void AppendFloatBinaryKernels(KernelList* list);
void AppendComparisonKernels(KernelList* list);
void AppendCopyKernels(KernelList* list);
void AppendCreationKernels(KernelList* list);
void AppendRandomKernels(KernelList* list);
void AppendReductionKernels(KernelList* list);
void AppendExtremumKernels(KernelList* list);
void AppendMatmulKernels(KernelList* list);
void AppendConvolutionKernels(KernelList* list);
void AppendPoolingKernels(KernelList* list);
void AppendNormKernels(KernelList* list);
void AppendSoftmaxKernels(KernelList* list);
void AppendScanKernels(KernelList* list);
void AppendOrderKernels(KernelList* list);
void AppendIndexingKernels(KernelList* list);
void AppendScatterKernels(KernelList* list);
void AppendShapeKernels(KernelList* list);
void AppendOptimKernels(KernelList* list);

}  // namespace telensor::cuda
