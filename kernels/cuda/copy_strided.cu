// Moves elements between tensors of any strides, by size alone: what other kernels prepare their inputs with.
#include "kernels/cuda/kernel.cuh"

namespace telensor::cuda {
namespace {

constexpr int kTile = 32;

template <typename U>
__global__ void __launch_bounds__(kThreads)
    MoveKernel(uint32_t n, const __grid_constant__ Layout<2> layout, U* to, const U* from) {
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= n) return;
  int64_t at[2];
  layout.Find(i, at);
  to[at[0]] = from[at[1]];
}

// A matrix whose fast dimension differs between the two goes through shared memory, so that both sides are read and
// written in runs. Tile (x, y) of matrix z; 32 x 8 threads.
template <typename U>
__global__ void TransposeKernel(int64_t rows, int64_t columns, int64_t to_row, int64_t from_column, int64_t to_step,
                                int64_t from_step, U* to, const U* from) {
  __shared__ U tile[kTile][kTile + 1];
  to += blockIdx.z * to_step;
  from += blockIdx.z * from_step;
  const int64_t row0 = int64_t{blockIdx.x} * kTile, column0 = int64_t{blockIdx.y} * kTile;
  for (int k = threadIdx.y; k < kTile; k += 8) {
    const int64_t row = row0 + threadIdx.x, column = column0 + k;
    if (row < rows && column < columns) tile[k][threadIdx.x] = from[column * from_column + row];
  }
  __syncthreads();
  for (int k = threadIdx.y; k < kTile; k += 8) {
    const int64_t row = row0 + k, column = column0 + threadIdx.x;
    if (row < rows && column < columns) to[row * to_row + column] = tile[threadIdx.x][k];
  }
}

template <typename U>
int MoveOf(tt_call* call, U* to, const U* from, const Dims<2>& dims) {
  const cudaStream_t stream = StreamOf(call)->stream;
  const int r = dims.rank;
  const bool matrix = (r == 2 || r == 3) && dims.strides[0][r - 1] == 1 && dims.strides[1][r - 2] == 1;
  if (matrix && dims.sizes[r - 1] >= 8 && dims.sizes[r - 2] >= 8) {
    const int64_t rows = dims.sizes[r - 2], columns = dims.sizes[r - 1], batch = r == 3 ? dims.sizes[0] : 1;
    const int64_t across = (rows + kTile - 1) / kTile, down = (columns + kTile - 1) / kTile;
    if (down <= 65535 && batch <= 65535 && across <= INT32_MAX) {
      const dim3 grid(static_cast<unsigned>(across), static_cast<unsigned>(down), static_cast<unsigned>(batch));
      TransposeKernel<U><<<grid, dim3(kTile, 8), 0, stream>>>(rows, columns, dims.strides[0][r - 2],
                                                              dims.strides[1][r - 1], r == 3 ? dims.strides[0][0] : 0,
                                                              r == 3 ? dims.strides[1][0] : 0, to, from);
      return Launched(call);
    }
  }
  return ForEachPart<2>(dims, kMostPerLaunch, {}, [&](const Dims<2>& part, const int64_t(&offsets)[2]) {
    const int64_t n = part.numel();
    MoveKernel<U><<<Blocks(n), kThreads, 0, stream>>>(static_cast<uint32_t>(n), part.ForDevice(), to + offsets[0],
                                                      from + offsets[1]);
    return Launched(call);
  });
}

}  // namespace

int CopyStrided(tt_call* call, int64_t size, void* to, const void* from, const Dims<2>& dims) {
  const int64_t n = dims.numel();
  if (n == 0) return TT_OK;
  if (dims.rank == 0 || (dims.rank == 1 && dims.strides[0][0] == 1 && dims.strides[1][0] == 1)) {
    return Check(
        call,
        cudaMemcpyAsync(to, from, static_cast<size_t>(n * size), cudaMemcpyDeviceToDevice, StreamOf(call)->stream),
        "cudaMemcpyAsync");
  }
  return DispatchSize(size, [&](auto tag) {
    using U = typename decltype(tag)::type;
    return MoveOf<U>(call, static_cast<U*>(to), static_cast<const U*>(from), dims);
  });
}

int CopyExpanded(tt_call* call, void* to, const tt_tensor& in, const int64_t* sizes, int rank) {
  Dims<2> dims;
  int64_t dense[TT_MAX_RANK], step = 1;
  for (int d = rank - 1; d >= 0; --d) {
    dense[d] = step;
    step *= sizes[d];
  }
  for (int d = 0; d < rank; ++d) {
    const int from = d - (rank - in.rank);
    dims.Add(sizes[d], {dense[d], from < 0 || in.sizes[from] == 1 ? 0 : in.strides[from]});
  }
  return CopyStrided(call, ElementSize(in.dtype), to, in.data, dims);
}

const void* Dense(tt_call* call, const tt_tensor& t, int* code) {
  if (t.contiguous || t.numel == 0) return t.data;
  void* copy = Workspace(call, t.numel * ElementSize(t.dtype), code);
  if (copy == nullptr) return nullptr;
  *code = CopyExpanded(call, copy, t, t.sizes, t.rank);
  return *code == TT_OK ? copy : nullptr;
}

int ZeroFill(tt_call* call, void* data, int64_t bytes) {
  if (bytes <= 0) return TT_OK;
  return Check(call, cudaMemsetAsync(data, 0, static_cast<size_t>(bytes), StreamOf(call)->stream), "cudaMemsetAsync");
}

}  // namespace telensor::cuda
