// Kernels that move elements to other places: joins, flips, triangles, and the way back from views.
#include "kernels/cpu/families.h"
#include "kernels/cpu/reduction.h"

namespace telensor::cpu::TT_CPU_VARIANT {
namespace {

// `joined` is the dimension of the output that inputs lie along; a stacked input lacks it.
void Join(tt_call* call, int joined, bool stacked) {
  const tt_tensor& out = call->outputs[0];
  const int64_t size = ElementSize(out.dtype);
  char* to = Bytes(out);
  for (int i = 0; i < call->num_inputs; ++i) {
    const tt_tensor& in = call->inputs[i];
    // An empty tensor may have any one dimension.
    if (in.numel == 0) continue;
    int64_t strides[TT_MAX_RANK];
    for (int d = 0; d < in.rank; ++d) strides[d] = out.strides[stacked && d >= joined ? d + 1 : d];
    CopyStrided(size, to, strides, in.data, in.strides, in.sizes, in.rank);
    to += out.strides[joined] * (stacked ? 1 : in.sizes[joined]) * size;
  }
}

int Cat(tt_call* call) {
  Join(call, WrapDim(call->attrs[0].i, call->outputs[0].rank), false);
  return TT_OK;
}

int Stack(tt_call* call) {
  Join(call, WrapDim(call->attrs[0].i, call->outputs[0].rank), true);
  return TT_OK;
}

int Flip(tt_call* call) {
  const tt_tensor& in = call->inputs[0];
  const tt_tensor& out = call->outputs[0];
  if (out.numel == 0) return TT_OK;
  const tt_value& dims = call->attrs[0];
  const int64_t size = ElementSize(in.dtype);
  int64_t strides[TT_MAX_RANK];
  std::copy(in.strides, in.strides + in.rank, strides);
  const char* from = Bytes(in);
  uint32_t flipped = 0;
  for (int i = 0; i < dims.count && in.rank > 0; ++i) flipped |= 1u << WrapDim(dims.ints[i], in.rank);
  for (int d = 0; d < in.rank; ++d) {
    if ((flipped >> d & 1) == 0) continue;
    from += (in.sizes[d] - 1) * strides[d] * size;
    strides[d] = -strides[d];
  }
  CopyStrided(size, out.data, out.strides, from, strides, out.sizes, out.rank);
  return TT_OK;
}

// Row i keeps the columns [0, i + diagonal] of a lower triangle, [i + diagonal, ...) of an upper one.
template <typename U>
void TriangleOf(const tt_tensor& out, const tt_tensor& in, int64_t diagonal, bool lower) {
  const int last = out.rank - 1;
  const int64_t rows = out.sizes[last - 1], columns = out.sizes[last];
  const int64_t to_stride = out.strides[last], from_stride = in.strides[last];
  Walk<2> matrices;
  for (int d = 0; d < last - 1; ++d) matrices.Add(out.sizes[d], out.strides[d], in.strides[d]);
  const bool in_place = out.data == in.data;
  // Beyond these every row is kept or none; nearer to zero, the sums below cannot overflow.
  diagonal = std::clamp(diagonal, -rows, columns);
  ParallelFor(matrices.count() * rows, std::max<int64_t>(1, kGrain / columns), [&](int64_t begin, int64_t end) {
    Walk<2> at = matrices;
    at.Seek(begin / rows);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i % rows;
      U* to = static_cast<U*>(out.data) + at.offset(0) + row * out.strides[last - 1];
      const U* from = static_cast<const U*>(in.data) + at.offset(1) + row * in.strides[last - 1];
      const int64_t edge = std::clamp<int64_t>(row + diagonal + (lower ? 1 : 0), 0, columns);
      const int64_t kept = lower ? 0 : edge, kept_end = lower ? edge : columns;
      const int64_t cut = lower ? edge : 0, cut_end = lower ? columns : edge;
      if (!in_place) {
        CopyRun(to + kept * to_stride, to_stride, from + kept * from_stride, from_stride, kept_end - kept);
      }
      for (int64_t j = cut; j < cut_end; ++j) to[j * to_stride] = 0;
      if (row == rows - 1) at.Next();
    }
  });
}

template <bool kLower>
int Triangle(tt_call* call) {
  const tt_tensor& out = call->outputs[0];
  if (out.numel == 0) return TT_OK;
  if (out.rank < 2) return Fail(call, TT_INVALID_ARGUMENT, "a triangle needs a matrix");
  DispatchSize(ElementSize(out.dtype), [&](auto tag) {
    TriangleOf<typename decltype(tag)::type>(out, call->inputs[0], call->attrs[0].i, kLower);
  });
  return TT_OK;
}

int SliceBackward(tt_call* call) {
  const tt_tensor& grad = call->inputs[0];
  const tt_tensor& out = call->outputs[0];
  const int64_t size = ElementSize(out.dtype);
  Zero(out.data, out.numel * size);
  if (grad.numel == 0) return TT_OK;
  const int dim = WrapDim(call->attrs[1].i, out.rank);
  const int64_t length = out.sizes[dim], step = call->attrs[4].i;
  int64_t start = call->attrs[2].kind == 0 ? 0 : call->attrs[2].i;
  start = std::clamp<int64_t>(start < 0 ? start + length : start, 0, length);
  bool fits = grad.rank == out.rank && step > 0;
  for (int d = 0; fits && d < out.rank; ++d) {
    fits = d != dim ? grad.sizes[d] == out.sizes[d]
                    : start < length && grad.sizes[d] - 1 <= (length - 1 - start) / step;
  }
  if (!fits) return Fail(call, TT_INVALID_ARGUMENT, "the gradient does not have the size of the slice");
  int64_t strides[TT_MAX_RANK];
  std::copy(out.strides, out.strides + out.rank, strides);
  // A step beyond the dimension is taken no times.
  strides[dim] *= std::min(step, length);
  CopyStrided(size, Bytes(out) + start * out.strides[dim] * size, strides, grad.data, grad.strides, grad.sizes,
              grad.rank);
  return TT_OK;
}

// One more than the last place that sizes and strides reach; -1 where that is no sensible number.
int64_t Extent(const int64_t* sizes, const int64_t* strides, int rank) {
  int64_t last = 0;
  for (int d = 0; d < rank; ++d) {
    if (sizes[d] == 0) return 0;
    int64_t reach;
    if (strides[d] < 0 || __builtin_mul_overflow(sizes[d] - 1, strides[d], &reach) ||
        __builtin_add_overflow(last, reach, &last)) {
      return -1;
    }
  }
  return last < INT64_MAX / 16 ? last + 1 : -1;
}

// Whether two positions may share a place: true unless each stride steps over all that the smaller ones reach.
bool MayOverlap(const int64_t* sizes, const int64_t* strides, int rank) {
  int order[TT_MAX_RANK];
  for (int d = 0; d < rank; ++d) order[d] = d;
  std::sort(order, order + rank, [&](int a, int b) { return strides[a] < strides[b]; });
  int64_t reach = 0;
  for (int i = 0; i < rank; ++i) {
    const int d = order[i];
    if (sizes[d] <= 1) continue;
    if (strides[d] <= reach) return true;
    reach += (sizes[d] - 1) * strides[d];
  }
  return false;
}

// Adds `grad` into the places of the base that the view had; a base whose elements share places gets what a place
// received in equal parts, as PyTorch does. Only the places of the base exist here; what lies beyond has no gradient.
template <typename T>
int AsStridedBackwardOf(tt_call* call) {
  using A = std::conditional_t<std::is_same_v<AccumulateType<T>, int64_t>, T, AccumulateType<T>>;
  const tt_tensor& grad = call->inputs[0];
  const tt_tensor& out = call->outputs[0];
  const int64_t* strides = call->attrs[1].ints;
  const int64_t* view_strides = call->attrs[4].ints;
  const int64_t extent = Extent(out.sizes, strides, out.rank);
  const bool direct = std::is_same_v<A, T> && std::equal(strides, strides + out.rank, out.strides);
  const bool shared = !direct && MayOverlap(out.sizes, strides, out.rank);
  A* places = static_cast<A*>(out.data);
  int32_t* owners = nullptr;
  if (!direct) {
    places = Workspace<A>(call, extent);
    if (places == nullptr) return TT_OUT_OF_MEMORY;
  }
  Zero(places, extent * sizeof(A));

  Walk<2> from;
  for (int d = 0; d < grad.rank; ++d) from.Add(grad.sizes[d], grad.strides[d], view_strides[d]);
  const Walk<2>::Inner run = from.PopInner();
  const T* x = static_cast<const T*>(grad.data);
  from.Seek(0);
  const int64_t base = call->attrs[5].i - call->attrs[2].i;
  for (int64_t i = 0; grad.numel > 0 && i < from.count(); ++i, from.Next()) {
    for (int64_t j = 0; j < run.size; ++j) {
      const int64_t at = base + from.offset(1) + j * run.strides[1];
      if (at < 0 || at >= extent) continue;
      const A value = static_cast<A>(x[from.offset(0) + j * run.strides[0]]);
      if constexpr (std::is_same_v<A, bool>) {
        places[at] = places[at] || value;
      } else if constexpr (std::is_integral_v<A>) {
        places[at] = static_cast<A>(static_cast<uint64_t>(places[at]) + static_cast<uint64_t>(value));
      } else {
        places[at] += value;
      }
    }
  }
  if (direct) return TT_OK;

  Walk<2> to;
  for (int d = 0; d < out.rank; ++d) to.Add(out.sizes[d], out.strides[d], strides[d]);
  if (shared && std::is_floating_point_v<A>) {
    owners = Workspace<int32_t>(call, extent);
    if (owners == nullptr) return TT_OUT_OF_MEMORY;
    Zero(owners, extent * sizeof(int32_t));
    to.Seek(0);
    for (int64_t i = 0; i < to.count(); ++i, to.Next()) ++owners[to.offset(1)];
  }
  T* y = static_cast<T*>(out.data);
  to.Seek(0);
  for (int64_t i = 0; i < to.count(); ++i, to.Next()) {
    const A value = places[to.offset(1)];
    y[to.offset(0)] = static_cast<T>(owners == nullptr ? value : static_cast<A>(value / owners[to.offset(1)]));
  }
  return TT_OK;
}

int AsStridedBackward(tt_call* call) {
  const tt_tensor& grad = call->inputs[0];
  const tt_tensor& out = call->outputs[0];
  if (out.numel == 0) return TT_OK;
  const tt_value* attrs = call->attrs;
  constexpr int64_t kFar = int64_t{1} << 60;
  if (attrs[1].count != out.rank || attrs[4].count != grad.rank || attrs[2].i < 0 || attrs[2].i > kFar ||
      attrs[5].i < 0 || attrs[5].i > kFar || Extent(out.sizes, attrs[1].ints, out.rank) < 0 ||
      Extent(grad.sizes, attrs[4].ints, grad.rank) < 0) {
    return Fail(call, TT_INVALID_ARGUMENT, "_as_strided_backward got sizes, strides or offsets that make no view");
  }
  return DispatchAll(call, out.dtype,
                     [&](auto tag) { return AsStridedBackwardOf<typename decltype(tag)::type>(call); });
}

}  // namespace

void AppendShapeKernels(KernelList* list) {
  list->push_back({"cat", TT_ALL_DTYPES, Cat});
  list->push_back({"stack", TT_ALL_DTYPES, Stack});
  list->push_back({"flip", TT_ALL_DTYPES, Flip});
  list->push_back({"tril", TT_ALL_DTYPES, Triangle<true>});
  list->push_back({"triu", TT_ALL_DTYPES, Triangle<false>});
  list->push_back({"_slice_backward", TT_ALL_DTYPES, SliceBackward});
  list->push_back({"_as_strided_backward", TT_ALL_DTYPES, AsStridedBackward});
}

}  // namespace telensor::cpu::TT_CPU_VARIANT
