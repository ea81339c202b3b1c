#include "kernels/cuda/memory.h"

#include "kernels/cuda/device.h"

namespace telensor::cuda {

int MemoryInfo(int32_t device, uint64_t* free_bytes, uint64_t* total_bytes) {
  size_t free_size = 0, total_size = 0;
  cudaError_t error = UseDevice(device);
  if (error == cudaSuccess) error = cudaMemGetInfo(&free_size, &total_size);
  *free_bytes = free_size;
  *total_bytes = total_size;
  return Check(nullptr, error, "cudaMemGetInfo");
}

int MemoryAllocate(int32_t device, size_t bytes, void** out) {
  *out = nullptr;
  cudaError_t error = UseDevice(device);
  if (error == cudaSuccess && bytes > 0) error = cudaMalloc(out, bytes);
  return Check(nullptr, error, "cudaMalloc");
}

int MemoryFree(int32_t device, void* data, size_t) {
  cudaError_t error = UseDevice(device);
  if (error == cudaSuccess) error = cudaFree(data);
  return Check(nullptr, error, "cudaFree");
}

int HostAllocate(size_t bytes, void** out) {
  *out = nullptr;
  // Portable: a session's staging memory may serve several devices.
  return bytes == 0 ? TT_OK : Check(nullptr, cudaHostAlloc(out, bytes, cudaHostAllocPortable), "cudaHostAlloc");
}

int HostFree(void* data, size_t) { return Check(nullptr, cudaFreeHost(data), "cudaFreeHost"); }

}  // namespace telensor::cuda
