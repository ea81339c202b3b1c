// Rows of view.toml that move data: cat, stack, flip, tril, triu, _slice_backward. All but the triangles are copies.
#include "kernels/cuda/kernel.cuh"

#include <algorithm>

namespace telensor::cuda {
namespace {

char* Bytes(const tt_tensor& t) { return static_cast<char*>(t.data); }

// Each input into its part of the output along dimension `joined`.
int Join(tt_call* call, int joined, bool stacked) {
  const tt_tensor& out = call->outputs[0];
  const int64_t size = ElementSize(out.dtype);
  char* to = Bytes(out);
  for (int k = 0; k < call->num_inputs; ++k) {
    const tt_tensor& in = call->inputs[k];
    // An empty vector may stand between tensors of any rank.
    if (in.numel == 0) continue;
    Dims<2> dims;
    for (int d = 0; d < in.rank; ++d)
      dims.Add(in.sizes[d], {out.strides[stacked && d >= joined ? d + 1 : d], in.strides[d]});
    if (const int code = CopyStrided(call, size, to, in.data, dims); code != TT_OK) return code;
    to += out.strides[joined] * (stacked ? 1 : in.sizes[joined]) * size;
  }
  return TT_OK;
}
int Cat(tt_call* call) { return Join(call, WrapDim(call->attrs[0].i, call->outputs[0].rank), false); }
int Stack(tt_call* call) { return Join(call, WrapDim(call->attrs[0].i, call->outputs[0].rank), true); }

int Flip(tt_call* call) {
  const tt_tensor &in = call->inputs[0], &out = call->outputs[0];
  if (out.numel == 0) return TT_OK;
  const tt_value& flipped = call->attrs[0];
  uint32_t mask = 0;
  for (int i = 0; i < flipped.count && in.rank > 0; ++i) mask |= 1u << WrapDim(flipped.ints[i], in.rank);
  const int64_t size = ElementSize(in.dtype);
  const char* from = Bytes(in);
  Dims<2> dims;
  for (int d = 0; d < in.rank; ++d) {
    const bool turned = mask >> d & 1;
    if (turned) from += (in.sizes[d] - 1) * in.strides[d] * size;
    dims.Add(in.sizes[d], {out.strides[d], turned ? -in.strides[d] : in.strides[d]});
  }
  return CopyStrided(call, size, out.data, from, dims);
}

template <typename U>
struct TriangleAt {
  Locators<2> where;
  const U* from;
  U* to;
  int64_t rows, columns, diagonal;
  bool lower;
  __device__ void operator()(int64_t i) const {
    int64_t at[2];
    where.Find(i, at);
    const int64_t column = i % columns, row = i / columns % rows;
    const bool kept = lower ? column - row <= diagonal : column - row >= diagonal;
    to[at[0]] = kept ? from[at[1]] : U(0);
  }
};
template <bool kLower>
int Triangle(tt_call* call) {
  const tt_tensor &in = call->inputs[0], &out = call->outputs[0];
  if (out.numel == 0) return TT_OK;
  if (out.rank < 2) return Fail(call, TT_INVALID_ARGUMENT, "a triangle needs a matrix");
  Dims<2> dims;
  for (int d = 0; d < out.rank; ++d) dims.Add(out.sizes[d], {out.strides[d], in.strides[d]});
  return DispatchSize(ElementSize(out.dtype), [&](auto tag) {
    using U = typename decltype(tag)::type;
    return ForEach(call, out.numel,
                   TriangleAt<U>{Locators<2>(dims), static_cast<const U*>(in.data), static_cast<U*>(out.data),
                                 out.sizes[out.rank - 2], out.sizes[out.rank - 1], call->attrs[0].i, kLower});
  });
}

int SliceBackward(tt_call* call) {
  const tt_tensor &grad = call->inputs[0], &out = call->outputs[0];
  const int64_t size = ElementSize(out.dtype);
  if (const int code = ZeroFill(call, out.data, out.numel * size); code != TT_OK || grad.numel == 0) return code;
  if (out.rank == 0) return Fail(call, TT_INVALID_ARGUMENT, "a number has no slices");
  const int dim = WrapDim(call->attrs[1].i, out.rank);
  const int64_t length = out.sizes[dim], step = call->attrs[4].i;
  int64_t start = call->attrs[2].kind == 0 ? 0 : call->attrs[2].i;
  start = std::clamp<int64_t>(start < 0 ? start + length : start, 0, length);
  bool fits = grad.rank == out.rank && step > 0;
  for (int d = 0; fits && d < out.rank; ++d) {
    fits =
        d != dim ? grad.sizes[d] == out.sizes[d] : start < length && grad.sizes[d] - 1 <= (length - 1 - start) / step;
  }
  if (!fits) return Fail(call, TT_INVALID_ARGUMENT, "the gradient does not have the size of the slice");
  Dims<2> dims;
  for (int d = 0; d < grad.rank; ++d) {
    // A step beyond the dimension is taken no times.
    dims.Add(grad.sizes[d], {out.strides[d] * (d == dim ? std::min(step, length) : 1), grad.strides[d]});
  }
  return CopyStrided(call, size, Bytes(out) + start * out.strides[dim] * size, grad.data, dims);
}

}  // namespace

void AppendShapeKernels(KernelList* list) {
  list->push_back({"cat", TT_ALL_DTYPES, OnDevice<Cat>});
  list->push_back({"stack", TT_ALL_DTYPES, OnDevice<Stack>});
  list->push_back({"flip", TT_ALL_DTYPES, OnDevice<Flip>});
  list->push_back({"tril", TT_ALL_DTYPES, OnDevice<Triangle<true>>});
  list->push_back({"triu", TT_ALL_DTYPES, OnDevice<Triangle<false>>});
  list->push_back({"_slice_backward", TT_ALL_DTYPES, OnDevice<SliceBackward>});
}

}  // namespace telensor::cuda
