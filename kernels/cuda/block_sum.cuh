// Sums over a block of threads, whole and running, in a fixed order.
#pragma once

#include "kernels/cuda/kernel.cuh"

namespace telensor::cuda {

// The sum of every thread's `v`, in every thread. `shared` holds 33 values; the block is whole warps.
template <typename A, typename Join>
__device__ A BlockJoin(A v, A* shared, A nothing, const Join& join) {
  for (int k = 16; k > 0; k /= 2) v = join(v, __shfl_down_sync(~0u, v, k));
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  __syncthreads();  // whoever still reads the result before this one
  if (lane == 0) shared[warp] = v;
  __syncthreads();
  if (warp == 0) {
    v = lane < static_cast<int>(blockDim.x / 32) ? shared[lane] : nothing;
    for (int k = 16; k > 0; k /= 2) v = join(v, __shfl_down_sync(~0u, v, k));
    if (lane == 0) shared[32] = v;
  }
  __syncthreads();
  return shared[32];
}

template <typename A>
struct Plus {
  __device__ A operator()(A a, A b) const { return a + b; }
};
// A NaN is beyond every number.
template <typename A>
struct Most {
  __device__ A operator()(A a, A b) const { return a != a || a > b ? a : b; }
};

template <typename A>
__device__ A BlockSum(A v, A* shared) {
  return BlockJoin(v, shared, A(0), Plus<A>());
}

// The sum of `v` over the threads before this one; of all of them in `all`. `shared` holds a value for each warp.
template <typename A>
__device__ A BlockPrefix(A v, A* shared, A* all) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int k = 1; k < 32; k *= 2) {
    const A before = __shfl_up_sync(~0u, v, k);
    if (lane >= k) v = before + v;
  }
  const A before = __shfl_up_sync(~0u, v, 1);
  __syncthreads();  // whoever still reads the sums of the call before
  if (lane == 31) shared[warp] = v;
  __syncthreads();
  A sum = A(0), total = A(0);
  for (int w = 0; w < static_cast<int>(blockDim.x / 32); ++w) {
    if (w == warp) sum = total;
    total += shared[w];
  }
  *all = total;
  return lane == 0 ? sum : sum + before;
}

// How many threads a row of n elements should get.
inline int RowThreads(int64_t n) {
  int threads = 32;
  while (threads < 1024 && int64_t{threads} * 4 < n) threads *= 2;
  return threads;
}

}  // namespace telensor::cuda
