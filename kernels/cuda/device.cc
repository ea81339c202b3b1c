#include "kernels/cuda/device.h"

#include <atomic>
#include <cstdarg>
#include <cstdio>

namespace telensor::cuda {
namespace {

thread_local char last_error[512];
thread_local int current_device = -1;

}  // namespace

cudaError_t UseDevice(int device) {
  if (device == current_device) return cudaSuccess;
  const cudaError_t error = cudaSetDevice(device);
  current_device = error == cudaSuccess ? device : -1;
  return error;
}

int ComputeUnits(int device) {
  static std::atomic<int> known[64];
  if (device < 0 || device >= 64) return 64;
  int units = known[device].load(std::memory_order_relaxed);
  if (units == 0) {
    if (cudaDeviceGetAttribute(&units, cudaDevAttrMultiProcessorCount, device) != cudaSuccess || units <= 0) units = 64;
    known[device].store(units, std::memory_order_relaxed);
  }
  return units;
}

int Fail(tt_call* call, int code, const char* format, ...) {
  va_list args;
  va_start(args, format);
  std::vsnprintf(last_error, sizeof(last_error), format, args);
  va_end(args);
  if (call != nullptr && call->error != nullptr && call->error_size > 0) {
    std::snprintf(call->error, call->error_size, "%s", last_error);
  }
  return code;
}

int Check(tt_call* call, cudaError_t error, const char* what) {
  if (error == cudaSuccess) return TT_OK;
  // An error that does not stick must not be met again by the next launch's check.
  (void)cudaGetLastError();
  int code = TT_INTERNAL;
  switch (error) {
    case cudaErrorMemoryAllocation: code = TT_OUT_OF_MEMORY; break;
    case cudaErrorNotReady: code = TT_NOT_READY; break;
    case cudaErrorInvalidDevice: code = TT_INVALID_ARGUMENT; break;
    case cudaErrorNotSupported:
    case cudaErrorNoKernelImageForDevice: code = TT_UNIMPLEMENTED; break;
    default: break;
  }
  return Fail(call, code, "%s failed: %s (%s)", what, cudaGetErrorString(error), cudaGetErrorName(error));
}

const char* LastError() { return last_error; }

int TakeReport(Report* report) {
  if (report == nullptr || report->kind == Report::kNone) return TT_OK;
  const int kind = report->kind;
  const long long value = report->value, size = report->size;
  report->kind = Report::kNone;
  switch (kind) {
    case Report::kIndex:
      return Fail(nullptr, TT_OUT_OF_RANGE, "index %lld is out of bounds for dimension %d with size %lld", value,
                  report->dim, size);
    case Report::kTarget: return Fail(nullptr, TT_OUT_OF_RANGE, "Target %lld is out of bounds.", value);
    case Report::kClass:
      return Fail(nullptr, TT_INVALID_ARGUMENT, "Class values must be non-negative and smaller than num_classes.");
    case Report::kZeroDivision: return Fail(nullptr, TT_INVALID_ARGUMENT, "ZeroDivisionError");
    case Report::kProbability:
      return Fail(nullptr, TT_INVALID_ARGUMENT, "Expected p_in >= 0 && p_in <= 1 to be true, but got false.");
    case Report::kCount:
      return Fail(nullptr, TT_INVALID_ARGUMENT, "%s elements are not zero than were counted",
                  value > size ? "more" : "fewer");
    default: return Fail(nullptr, TT_INTERNAL, "a kernel reported an unknown error %d", kind);
  }
}

}  // namespace telensor::cuda
