// Writes element by element where an index says, in the index's row-major order: scatter, scatter_add and
// _as_strided_backward.
#include "kernels/cuda/indexing.cuh"

#include <algorithm>

namespace telensor::cuda {
namespace {

struct PlaceOf {
  Locators<2> where;
  IndexData index;
  int64_t* places;
  int64_t size, stride;
  int dim;
  Report* report;
  __device__ void operator()(int64_t i) const {
    int64_t at[2];
    where.Find(i, at);
    const int64_t v = index.At(at[0]);
    if (v < 0 || v >= size) {
      ReportError(report, Report::kIndex, v, dim, size);
      places[i] = kNowhere;
    } else {
      places[i] = at[1] + v * stride;
    }
  }
};

// The output as self, and the positions of the index ordered by the place they write to.
int StartScatter(tt_call* call, const tt_tensor* source, Order* order) {
  const tt_tensor &index = call->inputs[1], &out = call->outputs[0];
  if (!IsIndex(index)) return FailIndexType(call);
  if (source != nullptr && source->dtype != out.dtype) {
    return Fail(call, TT_INVALID_ARGUMENT, "self and the values written to it must have one dtype");
  }
  int code = StartAs(call, out, call->inputs[0]);
  order->n = 0;
  if (code != TT_OK || index.numel == 0) return code;
  const int dim = WrapDim(call->attrs[0].i, out.rank);
  Dims<2> dims;
  for (int d = 0; d < index.rank; ++d) {
    dims.Add(index.sizes[d], {index.strides[d], d == dim || d >= out.rank ? 0 : out.strides[d]});
  }
  auto* places = static_cast<int64_t*>(Workspace(call, index.numel * 8, &code));
  if (places == nullptr) return code;
  code = ForEach(call, index.numel,
                 PlaceOf{Locators<2>(dims), IndexData(index), places, out.rank > 0 ? out.sizes[dim] : 1,
                         out.rank > 0 ? out.strides[dim] : 0, dim, StreamOf(call)->report});
  if (code != TT_OK) return code;
  return MakeOrder(call, places, index.numel, Extent(out.sizes, out.strides, out.rank), order);
}

// The source's offsets over the positions of the index, which may cover only a part of it.
Locator SourceOver(const tt_tensor& index, const tt_tensor& source) {
  Dims<1> dims;
  for (int d = 0; d < index.rank; ++d) dims.Add(index.sizes[d], {d < source.rank ? source.strides[d] : 0});
  return Locator(dims);
}

template <typename U>
struct ScatterAt {
  Order order;
  Locator where;
  const U* source;  // NULL: `number`
  U number;
  U* out;
  __device__ void operator()(int64_t i) const {
    if (order.Last(i)) out[order.keys[i]] = source != nullptr ? source[where(order.values[i])] : number;
  }
};

int Scatter(tt_call* call) {
  const tt_tensor &index = call->inputs[1], &source = call->inputs[2], &out = call->outputs[0];
  Order order;
  const int code = StartScatter(call, &source, &order);
  if (code != TT_OK || order.n == 0) return code;
  return DispatchSize(ElementSize(out.dtype), [&](auto tag) {
    using U = typename decltype(tag)::type;
    return ForEach(call, order.n,
                   ScatterAt<U>{order, SourceOver(index, source), static_cast<const U*>(source.data), U(0),
                                static_cast<U*>(out.data)});
  });
}

int ScatterNumber(tt_call* call) {
  const tt_tensor &index = call->inputs[1], &out = call->outputs[0];
  Order order;
  const int code = StartScatter(call, nullptr, &order);
  if (code != TT_OK || order.n == 0) return code;
  return DispatchAll(call, out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return ForEach(
        call, order.n,
        ScatterAt<T>{order, Locator(index), nullptr, NumberAs<T>(call->attrs[1]), static_cast<T*>(out.data)});
  });
}

// out[place] += the sources of all positions that name it.
template <typename T, typename A>
struct ScatterAddAt {
  Order order;
  Locator where;
  const T* source;
  A* out;
  __device__ void operator()(int64_t i) const {
    if (!order.First(i)) return;
    const uint64_t key = order.keys[i];
    ComputeType<T> sum = static_cast<ComputeType<T>>(out[key]);
    for (; i < order.n && order.keys[i] == key; ++i) AddTo<T>(sum, source[where(order.values[i])], ComputeType<T>(1));
    out[key] = static_cast<A>(sum);
  }
};

int ScatterAdd(tt_call* call) {
  const tt_tensor &index = call->inputs[1], &source = call->inputs[2], &out = call->outputs[0];
  Order order;
  const int code = StartScatter(call, &source, &order);
  if (code != TT_OK || order.n == 0) return code;
  return DispatchAll(call, out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return ForEach(call, order.n,
                   ScatterAddAt<T, T>{order, SourceOver(index, source), static_cast<const T*>(source.data),
                                      static_cast<T*>(out.data)});
  });
}

// ---- _as_strided_backward: adds `grad` into the places of the base that the view had; a base whose elements share
// places gets what a place received in equal parts. What lies beyond the base has no gradient.

struct ViewPlace {
  Locator view;
  int64_t base, extent;
  int64_t* places;
  __device__ void operator()(int64_t i) const {
    const int64_t at = base + view(i);
    places[i] = at < 0 || at >= extent ? kNowhere : at;
  }
};
struct CountOwners {
  Locator base;
  int* owners;
  __device__ void operator()(int64_t i) const { atomicAdd(owners + base(i), 1); }
};
template <typename T>
struct SpreadAt {
  Locator base;
  const ComputeType<T>* places;
  const int* owners;
  T* out;
  __device__ void operator()(int64_t i) const {
    const int64_t at = base(i);
    const ComputeType<T> v = places[at];
    if constexpr (kIsFloating<T>) {
      out[i] = static_cast<T>(v / static_cast<ComputeType<T>>(owners[at]));
    } else {
      out[i] = v;
    }
  }
};

// -1 where the sizes and strides make no sensible number.
int64_t SafeExtent(const int64_t* sizes, const int64_t* strides, int rank) {
  int64_t last = 0;
  for (int d = 0; d < rank; ++d) {
    if (sizes[d] == 0) return 0;
    int64_t reach;
    if (strides[d] < 0 || __builtin_mul_overflow(sizes[d] - 1, strides[d], &reach) ||
        __builtin_add_overflow(last, reach, &last)) {
      return -1;
    }
  }
  return last < INT64_MAX / 64 ? last + 1 : -1;
}

Dims<1> DimsWith(const int64_t* sizes, const int64_t* strides, int rank) {
  Dims<1> dims;
  for (int d = 0; d < rank; ++d) dims.Add(sizes[d], {strides[d]});
  return dims;
}

template <typename T>
int AsStridedBackwardOf(tt_call* call, int64_t extent, const Order& order, const int* owners) {
  using A = ComputeType<T>;
  const tt_tensor &grad = call->inputs[0], &out = call->outputs[0];
  int code = TT_OK;
  auto* places = static_cast<A*>(Workspace(call, extent * static_cast<int64_t>(sizeof(A)), &code));
  if (code == TT_OK) code = ZeroFill(call, places, extent * static_cast<int64_t>(sizeof(A)));
  if (code == TT_OK) {
    code = ForEach(call, order.n, ScatterAddAt<T, A>{order, Locator(grad), static_cast<const T*>(grad.data), places});
  }
  if (code != TT_OK) return code;
  return ForEach(call, out.numel,
                 SpreadAt<T>{Locator(DimsWith(out.sizes, call->attrs[1].ints, out.rank)), places, owners,
                             static_cast<T*>(out.data)});
}

int AsStridedBackward(tt_call* call) {
  const tt_tensor &grad = call->inputs[0], &out = call->outputs[0];
  if (out.numel == 0) return TT_OK;
  const tt_value* attrs = call->attrs;
  constexpr int64_t kFar = int64_t{1} << 60;
  const bool counts = attrs[1].count == out.rank && attrs[4].count == grad.rank;
  const int64_t extent = counts ? SafeExtent(out.sizes, attrs[1].ints, out.rank) : -1;
  if (extent < 0 || attrs[2].i < 0 || attrs[2].i > kFar || attrs[5].i < 0 || attrs[5].i > kFar ||
      SafeExtent(grad.sizes, attrs[4].ints, grad.rank) < 0) {
    return Fail(call, TT_INVALID_ARGUMENT, "_as_strided_backward got sizes, strides or offsets that make no view");
  }
  int code = TT_OK;
  Order order = {};
  if (grad.numel > 0) {
    auto* places = static_cast<int64_t*>(Workspace(call, grad.numel * 8, &code));
    if (places == nullptr) return code;
    code = ForEach(
        call, grad.numel,
        ViewPlace{Locator(DimsWith(grad.sizes, attrs[4].ints, grad.rank)), attrs[5].i - attrs[2].i, extent, places});
    if (code == TT_OK) code = MakeOrder(call, places, grad.numel, extent, &order);
  }
  auto* owners = code == TT_OK ? static_cast<int*>(Workspace(call, extent * 4, &code)) : nullptr;
  if (code == TT_OK) code = ZeroFill(call, owners, extent * 4);
  if (code == TT_OK) {
    code = ForEach(call, out.numel, CountOwners{Locator(DimsWith(out.sizes, attrs[1].ints, out.rank)), owners});
  }
  if (code != TT_OK) return code;
  return DispatchAll(call, out.dtype, [&](auto tag) {
    return AsStridedBackwardOf<typename decltype(tag)::type>(call, extent, order, owners);
  });
}

}  // namespace

void AppendScatterKernels(KernelList* list) {
  list->push_back({"scatter", TT_ALL_DTYPES, OnDevice<Scatter>});
  list->push_back({"scatter.value", TT_ALL_DTYPES, OnDevice<ScatterNumber>});
  list->push_back({"scatter_add", TT_ALL_DTYPES, OnDevice<ScatterAdd>});
  list->push_back({"_as_strided_backward", TT_ALL_DTYPES, OnDevice<AsStridedBackward>});
}

}  // namespace telensor::cuda
