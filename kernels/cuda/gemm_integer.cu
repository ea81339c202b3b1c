// Products of integer matrices, which cuBLAS has for int8 alone. Sums wrap as the dtype does.
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/kernel.cuh"

namespace telensor::cuda {
namespace {

constexpr int kTile = 16;

template <typename T>
__global__ void MultiplyKernel(Matrix a, Matrix b, T* c, uint64_t alpha, uint64_t beta, int64_t batch) {
  __shared__ T tile_a[kTile][kTile], tile_b[kTile][kTile + 1];
  const int x = threadIdx.x, y = threadIdx.y;
  const int64_t row = int64_t{blockIdx.x} * kTile + y, column = int64_t{blockIdx.y} * kTile + x;
  for (int64_t z = blockIdx.z; z < batch; z += gridDim.z) {
    const T* from_a = static_cast<const T*>(a.data) + z * a.batch_stride;
    const T* from_b = static_cast<const T*>(b.data) + z * b.batch_stride;
    uint64_t sum = 0;
    for (int64_t k0 = 0; k0 < a.columns; k0 += kTile) {
      tile_a[y][x] =
          row < a.rows && k0 + x < a.columns ? from_a[row * a.row_stride + (k0 + x) * a.column_stride] : T(0);
      tile_b[y][x] =
          k0 + y < b.rows && column < b.columns ? from_b[(k0 + y) * b.row_stride + column * b.column_stride] : T(0);
      __syncthreads();
#pragma unroll
      for (int k = 0; k < kTile; ++k) sum += static_cast<uint64_t>(tile_a[y][k]) * static_cast<uint64_t>(tile_b[k][x]);
      __syncthreads();
    }
    if (row < a.rows && column < b.columns) {
      T* to = c + (z * a.rows + row) * b.columns + column;
      *to = static_cast<T>(alpha * sum + (beta == 0 ? 0 : beta * static_cast<uint64_t>(*to)));
    }
  }
}

}  // namespace

int MultiplyIntegers(tt_call* call, const Product& p) {
  const int64_t across = (p.a.rows + kTile - 1) / kTile, down = (p.b.columns + kTile - 1) / kTile;
  if (down > 65535 || across > INT32_MAX)
    return Fail(call, TT_UNIMPLEMENTED, "an integer product of more than 2^20 columns");
  const dim3 grid(static_cast<unsigned>(across), static_cast<unsigned>(down),
                  static_cast<unsigned>(p.batch < 65535 ? p.batch : 65535));
  return DispatchInteger(call, p.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    MultiplyKernel<T><<<grid, dim3(kTile, kTile), 0, StreamOf(call)->stream>>>(
        p.a, p.b, static_cast<T*>(p.c), static_cast<uint64_t>(p.whole_alpha), static_cast<uint64_t>(p.whole_beta),
        p.batch);
    return Launched(call);
  });
}

}  // namespace telensor::cuda
