#include "kernels/cuda/copy.h"

#include "kernels/cuda/device.h"

namespace telensor::cuda {
namespace {

int Copy(int32_t device, void* dst, const void* src, size_t bytes, tt_stream stream, cudaMemcpyKind kind) {
  if (bytes == 0) return TT_OK;
  cudaError_t error = UseDevice(device);
  if (error == cudaSuccess) error = cudaMemcpyAsync(dst, src, bytes, kind, static_cast<Stream*>(stream)->stream);
  return Check(nullptr, error, "cudaMemcpyAsync");
}

}  // namespace

int CopyToDevice(int32_t device, void* dst, const void* src, size_t bytes, tt_stream stream) {
  return Copy(device, dst, src, bytes, stream, cudaMemcpyHostToDevice);
}
int CopyToHost(int32_t device, void* dst, const void* src, size_t bytes, tt_stream stream) {
  return Copy(device, dst, src, bytes, stream, cudaMemcpyDeviceToHost);
}
int CopyOnDevice(int32_t device, void* dst, const void* src, size_t bytes, tt_stream stream) {
  return Copy(device, dst, src, bytes, stream, cudaMemcpyDeviceToDevice);
}

}  // namespace telensor::cuda
