// What translated CUDA sources need to run on the host: thread numbers, barriers, warp functions, launches.
//
// Blocks run one after the other on the calling thread. It checks what kernels compute and whether they wait for each
// other rightly; it says nothing of races, speed, or how nvcc compiles them.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>

#undef __shared__
#undef __grid_constant__
#define __grid_constant__

inline uint3 threadIdx, blockIdx;
inline dim3 blockDim, gridDim;

using std::fabs;
using std::fmax;
using std::max;
using std::min;
using std::pow;
using std::sqrt;

namespace cudasim {

// Runs body() as every thread of every block; as fibers where the kernel waits.
void Run(dim3 grid, dim3 block, size_t shared, bool waits, const std::function<void()>& body);
char* DynamicShared();
void WaitForBlock();
void WaitForWarp();
// 8 bytes for each lane of the calling thread's warp.
uint64_t* WarpSlots();
inline unsigned Lane() { return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32; }

template <bool kWaits, typename Kernel, typename... Args>
void Launch(dim3 grid, dim3 block, size_t shared, const Kernel& kernel, const Args&... args) {
  static_assert((sizeof(Args) + ... + 0) <= 4096, "more parameters than a kernel may have");
  const std::tuple<Args...> values(args...);
  Run(grid, block, shared, kWaits, [&] { std::apply(kernel, values); });
}

}  // namespace cudasim

inline void __syncthreads() { cudasim::WaitForBlock(); }
inline void __syncwarp() { cudasim::WaitForWarp(); }
inline void __threadfence_system() {}

template <typename T>
T __shfl_down_sync(unsigned, T v, unsigned delta) {
  static_assert(sizeof(T) <= 8);
  uint64_t* slots = cudasim::WarpSlots();
  const unsigned lane = cudasim::Lane();
  std::memcpy(&slots[lane], &v, sizeof(T));
  cudasim::WaitForWarp();
  if (lane + delta < 32) std::memcpy(&v, &slots[lane + delta], sizeof(T));
  cudasim::WaitForWarp();
  return v;
}
template <typename T>
T __shfl_up_sync(unsigned, T v, unsigned delta) {
  static_assert(sizeof(T) <= 8);
  uint64_t* slots = cudasim::WarpSlots();
  const unsigned lane = cudasim::Lane();
  std::memcpy(&slots[lane], &v, sizeof(T));
  cudasim::WaitForWarp();
  if (lane >= delta) std::memcpy(&v, &slots[lane - delta], sizeof(T));
  cudasim::WaitForWarp();
  return v;
}
inline unsigned __match_any_sync(unsigned, long long v) {
  uint64_t* slots = cudasim::WarpSlots();
  slots[cudasim::Lane()] = static_cast<uint64_t>(v);
  cudasim::WaitForWarp();
  unsigned same = 0;
  for (unsigned i = 0; i < 32; ++i) same |= (slots[i] == static_cast<uint64_t>(v) ? 1u : 0u) << i;
  cudasim::WaitForWarp();
  return same;
}

inline int __ffs(int v) { return __builtin_ffs(v); }
inline uint64_t __umul64hi(uint64_t a, uint64_t b) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(a) * b) >> 64);
}
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline int atomicAdd(int* at, int v) {
  const int old = *at;
  *at += v;
  return old;
}
