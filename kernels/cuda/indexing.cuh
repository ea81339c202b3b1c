// Index tensors on the device: reading and checking their values, and writing where they point in a fixed order.
//
// Index values are a peer's data. Each is read once and checked where it is read; a wrong one is reported, to be found
// at the next synchronisation, and what it points to is skipped.
#pragma once

#include "kernels/cuda/kernel.cuh"
#include "kernels/cuda/sort.h"

namespace telensor::cuda {

// What a wrong index is turned into.
inline constexpr int64_t kNowhere = INT64_MIN / 2;

struct IndexData {
  const void* data;
  bool wide;

  explicit IndexData(const tt_tensor& t) : data(t.data), wide(t.dtype == TT_INT64) {}
  __device__ int64_t At(int64_t i) const {
    return wide ? static_cast<const int64_t*>(data)[i] : static_cast<const int32_t*>(data)[i];
  }
};

inline bool IsIndex(const tt_tensor& t) { return t.dtype == TT_INT64 || t.dtype == TT_INT32; }
inline int FailIndexType(tt_call* call) {
  return Fail(call, TT_INVALID_ARGUMENT, "tensors used as indices must be int64 or int32");
}

// Where index tensors point in a tensor: the tensor seen as [pre..., chosen, post...], and another side of the shape
// [pre..., B..., post...], where B... are the sizes of the indices. Strides of the other side are those of `other`,
// which broadcasts to that shape, or 0 without one.
struct ChosenRows {
  Dims<2> pre, post;           // strides of the chosen side, of the other side
  Dims<1> rows;                // strides of the other side over B...
  int64_t count = 1;           // of B
  int64_t* offsets = nullptr;  // device memory: where each of B starts, kNowhere for a wrong index

  // The tensors of `index` and `index_put`; absent ones take their whole dimension.
  int ByTensors(tt_call* call, const tt_tensor& self, const tt_tensor* indices, int number, bool wrap,
                const tt_tensor* other);
  // One tensor for one dimension. A number counts as one dimension, on either side.
  int ByDimension(tt_call* call, const tt_tensor& self, int dim, const tt_tensor& index, const tt_tensor* other);
};

// The output starts as self, unless it is self. Outputs of these ops are dense, or self.
inline int StartAs(tt_call* call, const tt_tensor& out, const tt_tensor& self) {
  if (out.data == self.data || out.numel == 0) return TT_OK;
  Dims<2> dims;
  for (int d = 0; d < out.rank; ++d) dims.Add(out.sizes[d], {out.strides[d], self.strides[d]});
  return CopyStrided(call, ElementSize(out.dtype), out.data, self.data, dims);
}

struct OrderKeys {
  const int64_t* places;
  uint64_t* keys;
  int64_t* values;
  uint64_t nowhere;
  __device__ void operator()(int64_t i) const {
    keys[i] = places[i] < 0 ? nowhere : static_cast<uint64_t>(places[i]);
    values[i] = i;
  }
};

// Positions by the place they write to, those of one place in their own order.
struct Order {
  int64_t n;
  const uint64_t* keys;
  const int64_t* values;
  uint64_t nowhere;

  __device__ bool First(int64_t i) const { return keys[i] != nowhere && (i == 0 || keys[i] != keys[i - 1]); }
  __device__ bool Last(int64_t i) const { return keys[i] != nowhere && (i + 1 == n || keys[i] != keys[i + 1]); }
};
// `places` holds n numbers below `limit`, or negative ones for none.
inline int MakeOrder(tt_call* call, const int64_t* places, int64_t n, int64_t limit, Order* order) {
  int code = TT_OK;
  auto* space = static_cast<uint64_t*>(Workspace(call, n * 32, &code));
  if (space == nullptr) return code;
  const uint64_t nowhere = static_cast<uint64_t>(limit > 0 ? limit : 0);
  auto* values = reinterpret_cast<int64_t*>(space + 2 * n);
  code = ForEach(call, n, OrderKeys{places, space, values, nowhere});
  if (code == TT_OK) code = SortPairs(call, n, space, space + n, values, values + n, BitsOf(nowhere));
  *order = {n, space + n, values + n, nowhere};
  return code;
}

// One more than the last place a tensor's sizes and strides reach.
inline int64_t Extent(const int64_t* sizes, const int64_t* strides, int rank) {
  int64_t last = 0;
  for (int d = 0; d < rank; ++d) {
    if (sizes[d] == 0) return 0;
    last += (sizes[d] - 1) * strides[d];
  }
  return last + 1;
}

template <typename T>
__device__ void AddTo(ComputeType<T>& sum, T value, ComputeType<T> alpha) {
  if constexpr (std::is_same_v<T, bool>) {
    sum = sum || (value && alpha);
  } else if constexpr (std::is_integral_v<T>) {
    // Unsigned arithmetic wraps around.
    sum = static_cast<T>(static_cast<uint64_t>(sum) + static_cast<uint64_t>(value) * static_cast<uint64_t>(alpha));
  } else {
    sum += Widen(value) * alpha;
  }
}

}  // namespace telensor::cuda
