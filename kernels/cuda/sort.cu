#include "kernels/cuda/sort.h"

#include <cub/device/device_radix_sort.cuh>

namespace telensor::cuda {

int SortPairs(tt_call* call, int64_t n, const uint64_t* keys_in, uint64_t* keys_out, const int64_t* values_in,
              int64_t* values_out, int bits) {
  if (n <= 0) return TT_OK;
  const cudaStream_t stream = StreamOf(call)->stream;
  size_t bytes = 0;
  cudaError_t error =
      cub::DeviceRadixSort::SortPairs(nullptr, bytes, keys_in, keys_out, values_in, values_out, n, 0, bits, stream);
  if (error != cudaSuccess) return Check(call, error, "preparing a sort");
  int code = TT_OK;
  void* space = Workspace(call, static_cast<int64_t>(bytes), &code);
  if (space == nullptr) return code;
  error = cub::DeviceRadixSort::SortPairs(space, bytes, keys_in, keys_out, values_in, values_out, n, 0, bits, stream);
  return Check(call, error, "a sort");
}

}  // namespace telensor::cuda
