// Device and pinned host memory: the memory_* and host_* functions of the ABI.
#pragma once

#include <cstddef>
#include <cstdint>

namespace telensor::cuda {

int MemoryInfo(int32_t device, uint64_t* free_bytes, uint64_t* total_bytes);
int MemoryAllocate(int32_t device, size_t bytes, void** out);
int MemoryFree(int32_t device, void* data, size_t bytes);
int HostAllocate(size_t bytes, void** out);
int HostFree(void* data, size_t bytes);

}  // namespace telensor::cuda
