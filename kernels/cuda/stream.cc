#include "kernels/cuda/stream.h"

#include <cstring>
#include <new>

#include "kernels/cuda/device.h"

namespace telensor::cuda {

int StreamCreate(int32_t device, tt_stream* out) {
  *out = nullptr;
  auto* s = new (std::nothrow) Stream{nullptr, device, nullptr};
  if (s == nullptr) return Fail(nullptr, TT_OUT_OF_MEMORY, "no host memory for a stream");
  cudaError_t error = UseDevice(device);
  // Not ordered with the legacy default stream, which nothing here uses.
  if (error == cudaSuccess) error = cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking);
  if (error == cudaSuccess) {
    void* report = nullptr;
    error = cudaHostAlloc(&report, sizeof(Report), cudaHostAllocPortable | cudaHostAllocMapped);
    if (error == cudaSuccess) {
      std::memset(report, 0, sizeof(Report));
      s->report = static_cast<Report*>(report);
    }
  }
  if (error != cudaSuccess) {
    if (s->stream != nullptr) cudaStreamDestroy(s->stream);
    delete s;
    return Check(nullptr, error, "creating a stream");
  }
  *out = s;
  return TT_OK;
}

int StreamDestroy(int32_t device, tt_stream stream) {
  auto* s = static_cast<Stream*>(stream);
  if (s == nullptr) return TT_OK;
  cudaError_t error = UseDevice(device);
  // Kernels may still hold the report's address.
  if (error == cudaSuccess) error = cudaStreamSynchronize(s->stream);
  cudaStreamDestroy(s->stream);
  cudaFreeHost(s->report);
  delete s;
  return Check(nullptr, error, "destroying a stream");
}

int StreamSynchronize(int32_t device, tt_stream stream) {
  auto* s = static_cast<Stream*>(stream);
  cudaError_t error = UseDevice(device);
  if (error == cudaSuccess) error = cudaStreamSynchronize(s->stream);
  return error == cudaSuccess ? TakeReport(s->report) : Check(nullptr, error, "synchronising a stream");
}

int StreamWaitEvent(int32_t device, tt_stream stream, tt_event event) {
  cudaError_t error = UseDevice(device);
  if (error == cudaSuccess) {
    error = cudaStreamWaitEvent(static_cast<Stream*>(stream)->stream, static_cast<cudaEvent_t>(event), 0);
  }
  return Check(nullptr, error, "waiting for an event");
}

int EventCreate(int32_t device, tt_event* out) {
  cudaEvent_t event = nullptr;
  cudaError_t error = UseDevice(device);
  if (error == cudaSuccess) error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  *out = event;
  return Check(nullptr, error, "creating an event");
}

int EventDestroy(int32_t device, tt_event event) {
  cudaError_t error = UseDevice(device);
  if (error == cudaSuccess) error = cudaEventDestroy(static_cast<cudaEvent_t>(event));
  return Check(nullptr, error, "destroying an event");
}

int EventRecord(int32_t device, tt_event event, tt_stream stream) {
  cudaError_t error = UseDevice(device);
  if (error == cudaSuccess) {
    error = cudaEventRecord(static_cast<cudaEvent_t>(event), static_cast<Stream*>(stream)->stream);
  }
  return Check(nullptr, error, "recording an event");
}

int EventQuery(int32_t device, tt_event event) {
  cudaError_t error = UseDevice(device);
  if (error == cudaSuccess) error = cudaEventQuery(static_cast<cudaEvent_t>(event));
  if (error == cudaErrorNotReady) {
    (void)cudaGetLastError();
    return TT_NOT_READY;
  }
  return Check(nullptr, error, "asking for an event");
}

int EventSynchronize(int32_t device, tt_event event) {
  cudaError_t error = UseDevice(device);
  if (error == cudaSuccess) error = cudaEventSynchronize(static_cast<cudaEvent_t>(event));
  return Check(nullptr, error, "waiting for an event");
}

}  // namespace telensor::cuda
