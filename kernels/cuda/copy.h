// Copies queued on a stream: the copy_* functions of the ABI.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/plugin_abi.h"

namespace telensor::cuda {

int CopyToDevice(int32_t device, void* dst, const void* src, size_t bytes, tt_stream stream);
int CopyToHost(int32_t device, void* dst, const void* src, size_t bytes, tt_stream stream);
int CopyOnDevice(int32_t device, void* dst, const void* src, size_t bytes, tt_stream stream);

}  // namespace telensor::cuda
