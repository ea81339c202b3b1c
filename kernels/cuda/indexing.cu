// Reads by index: gather, index_select, index, embedding; and index_put, index_add, _embedding_backward, whose rows
// are written in the order of the index.
#include "kernels/cuda/indexing.cuh"

#include <algorithm>

namespace telensor::cuda {
namespace {

struct AddOffsets {
  IndexData index;
  Locator where;
  int64_t* offsets;
  int64_t size, stride;
  int dim;
  bool wrap;
  Report* report;
  __device__ void operator()(int64_t i) const {
    int64_t v = index.At(where(i));
    if (wrap && v < 0 && v >= -size) v += size;
    if (v < 0 || v >= size) {
      ReportError(report, Report::kIndex, v, dim, size);
      offsets[i] = kNowhere;
    } else if (offsets[i] >= 0) {
      offsets[i] += v * stride;
    }
  }
};

}  // namespace

int ChosenRows::ByTensors(tt_call* call, const tt_tensor& self, const tt_tensor* indices, int number, bool wrap,
                          const tt_tensor* other) {
  int rank = 0, first = -1, last = -1, present = 0;
  if (number > self.rank)
    return Fail(call, TT_OUT_OF_RANGE, "too many indices for a tensor of dimension %d", self.rank);
  for (int i = 0; i < number; ++i) {
    if (indices[i].dtype == 0) continue;
    if (!IsIndex(indices[i])) return FailIndexType(call);
    rank = std::max(rank, static_cast<int>(indices[i].rank));
    first = first < 0 ? i : first;
    last = i;
    ++present;
  }
  int64_t sizes[TT_MAX_RANK];
  std::fill(sizes, sizes + rank, int64_t{1});
  for (int i = 0; i < number; ++i) {
    for (int d = 0; indices[i].dtype != 0 && d < indices[i].rank; ++d) {
      const int64_t size = indices[i].sizes[d];
      int64_t& common = sizes[rank - indices[i].rank + d];
      if (size != 1 && common != 1 && common != size) {
        return Fail(call, TT_OUT_OF_RANGE, "shape mismatch: indexing tensors could not be broadcast together");
      }
      if (size != 1) common = size;
    }
  }
  for (int d = 0; d < rank; ++d) count *= sizes[d];
  int code = TT_OK;
  offsets = static_cast<int64_t*>(Workspace(call, count * 8, &code));
  if (code == TT_OK) code = ZeroFill(call, offsets, count * 8);
  for (int i = 0; i < number && code == TT_OK; ++i) {
    if (indices[i].dtype == 0) continue;
    Dims<1> where;
    const int lacks = rank - indices[i].rank;
    for (int d = 0; d < rank; ++d) {
      where.Add(sizes[d], {d < lacks || indices[i].sizes[d - lacks] == 1 ? 0 : indices[i].strides[d - lacks]});
    }
    code = ForEach(call, count,
                   AddOffsets{IndexData(indices[i]), Locator(where), offsets, self.sizes[i], self.strides[i], i, wrap,
                              StreamOf(call)->report});
  }
  if (code != TT_OK) return code;

  // Index tensors that stand together are replaced in place; else what they make goes first.
  const bool together = present > 0 && last - first + 1 == present;
  const int before = together ? first : 0;
  const int result_rank = self.rank - present + rank;
  // `other` is aligned at the right; what it lacks, or has once, is repeated.
  const auto stride = [&](int d) -> int64_t {
    const int at = other == nullptr ? -1 : d - (result_rank - other->rank);
    return at < 0 || other->sizes[at] == 1 ? 0 : other->strides[at];
  };
  for (int d = 0; d < rank; ++d) rows.Add(sizes[d], {stride(before + d)});
  int at = 0;
  for (int d = 0; d < self.rank; ++d) {
    if (d < number && indices[d].dtype != 0) continue;
    const bool is_pre = at < before;
    (is_pre ? pre : post).Add(self.sizes[d], {self.strides[d], stride(is_pre ? at : at + rank)});
    ++at;
  }
  return TT_OK;
}

int ChosenRows::ByDimension(tt_call* call, const tt_tensor& self, int dim, const tt_tensor& index,
                            const tt_tensor* other) {
  static const int64_t kOne = 1;
  tt_tensor indices[TT_MAX_RANK];
  for (int d = 0; d < dim; ++d) indices[d] = {};
  const auto lift = [](tt_tensor tensor) {
    if (tensor.rank == 0) tensor.rank = 1, tensor.sizes = &kOne, tensor.strides = &kOne;
    return tensor;
  };
  indices[dim] = lift(index);
  return ByTensors(call, lift(self), indices, dim + 1, false, other);
}

namespace {

// [pre..., B, post...]: the chosen side's offset, the position in B, the other side's offset but for B.
Dims<3> Everything(const ChosenRows& c) {
  Dims<3> dims;
  for (int d = 0; d < c.pre.rank; ++d) dims.Add(c.pre.sizes[d], {c.pre.strides[0][d], 0, c.pre.strides[1][d]});
  dims.Add(c.count, {0, 1, 0});
  for (int d = 0; d < c.post.rank; ++d) dims.Add(c.post.sizes[d], {c.post.strides[0][d], 0, c.post.strides[1][d]});
  return dims;
}

template <typename U>
struct ReadAt {
  Locators<3> where;
  const int64_t* offsets;
  const U* from;
  U* out;
  __device__ void operator()(int64_t i) const {
    int64_t at[3];
    where.Find(i, at);
    const int64_t offset = offsets[at[1]];
    out[i] = offset < 0 ? U(0) : from[at[0] + offset];
  }
};

int Read(tt_call* call, const ChosenRows& chosen) {
  const tt_tensor &self = call->inputs[0], &out = call->outputs[0];
  return DispatchSize(ElementSize(out.dtype), [&](auto tag) {
    using U = typename decltype(tag)::type;
    return ForEach(call, out.numel,
                   ReadAt<U>{Locators<3>(Everything(chosen)), chosen.offsets, static_cast<const U*>(self.data),
                             static_cast<U*>(out.data)});
  });
}

int IndexSelect(tt_call* call) {
  const tt_tensor& self = call->inputs[0];
  ChosenRows chosen;
  const int code = chosen.ByDimension(call, self, WrapDim(call->attrs[0].i, self.rank), call->inputs[1], nullptr);
  return code != TT_OK ? code : Read(call, chosen);
}

// Also embedding, which is told from an index by what a negative value means.
template <bool kWrap>
int Index(tt_call* call) {
  ChosenRows chosen;
  const int code = chosen.ByTensors(call, call->inputs[0], call->inputs + 1, call->num_inputs - 1, kWrap, nullptr);
  return code != TT_OK ? code : Read(call, chosen);
}

// Adds, or writes, the rows of `source` to the places of the output. One thread for each element of each position in
// order; the first of a place does the work of all that write there.
template <typename T>
struct AddRowsAt {
  Locators<3> where;
  Order order;
  Locator rows;
  T* out;
  const T* source;
  ComputeType<T> alpha;
  __device__ void operator()(int64_t i) const {
    int64_t at[3];
    where.Find(i, at);
    int64_t k = at[1];
    if (!order.First(k)) return;
    T* to = out + at[0] + static_cast<int64_t>(order.keys[k]);
    ComputeType<T> sum = Widen(*to);
    const uint64_t key = order.keys[k];
    for (; k < order.n && order.keys[k] == key; ++k) AddTo<T>(sum, source[at[2] + rows(order.values[k])], alpha);
    *to = static_cast<T>(sum);
  }
};
template <typename U>
struct WriteRowsAt {
  Locators<3> where;
  Order order;
  Locator rows;
  U* out;
  const U* source;
  __device__ void operator()(int64_t i) const {
    int64_t at[3];
    where.Find(i, at);
    if (!order.Last(at[1])) return;
    out[at[0] + static_cast<int64_t>(order.keys[at[1]])] = source[at[2] + rows(order.values[at[1]])];
  }
};

int OrderRows(tt_call* call, const ChosenRows& chosen, Order* order) {
  const tt_tensor& out = call->outputs[0];
  return MakeOrder(call, chosen.offsets, chosen.count, Extent(out.sizes, out.strides, out.rank), order);
}

int AddRows(tt_call* call, const ChosenRows& chosen, const tt_tensor& source, const tt_value* alpha) {
  const tt_tensor& out = call->outputs[0];
  const Dims<3> dims = Everything(chosen);
  const int64_t total = dims.numel();
  if (total == 0) return TT_OK;
  Order order;
  if (const int code = OrderRows(call, chosen, &order); code != TT_OK) return code;
  return DispatchAll(call, out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    return ForEach(
        call, total,
        AddRowsAt<T>{Locators<3>(dims), order, Locator(chosen.rows), static_cast<T*>(out.data),
                     static_cast<const T*>(source.data), alpha == nullptr ? static_cast<C>(1) : NumberAs<C>(*alpha)});
  });
}

int FailSourceType(tt_call* call) {
  return Fail(call, TT_INVALID_ARGUMENT, "self and the values written to it must have one dtype");
}

int IndexAdd(tt_call* call) {
  const tt_tensor &self = call->inputs[0], &source = call->inputs[2], &out = call->outputs[0];
  if (source.dtype != self.dtype) return FailSourceType(call);
  int code = StartAs(call, out, self);
  ChosenRows chosen;
  if (code == TT_OK)
    code = chosen.ByDimension(call, out, WrapDim(call->attrs[0].i, out.rank), call->inputs[1], &source);
  return code == TT_OK ? AddRows(call, chosen, source, &call->attrs[1]) : code;
}

int IndexPut(tt_call* call) {
  const tt_tensor &self = call->inputs[0], &values = call->inputs[call->num_inputs - 1], &out = call->outputs[0];
  if (values.dtype != self.dtype) return FailSourceType(call);
  int code = StartAs(call, out, self);
  ChosenRows chosen;
  if (code == TT_OK) code = chosen.ByTensors(call, out, call->inputs + 1, call->num_inputs - 2, true, &values);
  if (code != TT_OK) return code;
  if (call->attrs[0].i != 0) return AddRows(call, chosen, values, nullptr);
  const Dims<3> dims = Everything(chosen);
  const int64_t total = dims.numel();
  if (total == 0) return TT_OK;
  Order order;
  if (code = OrderRows(call, chosen, &order); code != TT_OK) return code;
  return DispatchSize(ElementSize(out.dtype), [&](auto tag) {
    using U = typename decltype(tag)::type;
    return ForEach(call, total,
                   WriteRowsAt<U>{Locators<3>(dims), order, Locator(chosen.rows), static_cast<U*>(out.data),
                                  static_cast<const U*>(values.data)});
  });
}

struct SkipOffset {
  int64_t* offsets;
  int64_t skipped;
  __device__ void operator()(int64_t i) const {
    if (offsets[i] == skipped) offsets[i] = kNowhere;
  }
};

int EmbeddingBackward(tt_call* call) {
  const tt_tensor &grad = call->inputs[0], &out = call->outputs[0];
  const tt_value& padding = call->attrs[1];
  int code = ZeroFill(call, out.data, out.numel * ElementSize(out.dtype));
  ChosenRows chosen;
  if (code == TT_OK) code = chosen.ByTensors(call, out, call->inputs + 1, 1, false, &grad);
  if (code == TT_OK && padding.kind != 0) {
    const int64_t row = padding.i < 0 ? padding.i + out.sizes[0] : padding.i;
    code = ForEach(call, chosen.count, SkipOffset{chosen.offsets, row * out.strides[0]});
  }
  return code == TT_OK ? AddRows(call, chosen, grad, nullptr) : code;
}

// A position of an index tensor: offsets in the index, in the indexed tensor but for `dim`.
Dims<2> ElementDims(const tt_tensor& index, const tt_tensor& target, int dim) {
  Dims<2> dims;
  // A number counts as one dimension, whichever of them it is.
  for (int d = 0; d < index.rank; ++d) {
    dims.Add(index.sizes[d], {index.strides[d], d == dim || d >= target.rank ? 0 : target.strides[d]});
  }
  return dims;
}

template <typename U>
struct GatherAt {
  Locators<2> where;
  IndexData index;
  const U* from;
  U* out;
  int64_t size, stride;
  int dim;
  Report* report;
  __device__ void operator()(int64_t i) const {
    int64_t at[2];
    where.Find(i, at);
    const int64_t v = index.At(at[0]);
    if (v < 0 || v >= size) {
      ReportError(report, Report::kIndex, v, dim, size);
      out[i] = U(0);
    } else {
      out[i] = from[at[1] + v * stride];
    }
  }
};

int Gather(tt_call* call) {
  const tt_tensor &self = call->inputs[0], &index = call->inputs[1], &out = call->outputs[0];
  if (!IsIndex(index)) return FailIndexType(call);
  const int dim = WrapDim(call->attrs[0].i, self.rank);
  return DispatchSize(ElementSize(out.dtype), [&](auto tag) {
    using U = typename decltype(tag)::type;
    return ForEach(
        call, out.numel,
        GatherAt<U>{Locators<2>(ElementDims(index, self, dim)), IndexData(index), static_cast<const U*>(self.data),
                    static_cast<U*>(out.data), self.rank > 0 ? self.sizes[dim] : 1,
                    self.rank > 0 ? self.strides[dim] : 0, dim, StreamOf(call)->report});
  });
}

struct OneHotAt {
  Locator where;
  IndexData index;
  int64_t* out;
  int64_t classes;
  Report* report;
  __device__ void operator()(int64_t i) const {
    const int64_t v = index.At(where(i));
    if (v < 0 || v >= classes) {
      ReportError(report, Report::kClass, v, 0, classes);
    } else {
      out[i * classes + v] = 1;
    }
  }
};

int OneHot(tt_call* call) {
  const tt_tensor &self = call->inputs[0], &out = call->outputs[0];
  if (!IsIndex(self)) return FailIndexType(call);
  const int code = ZeroFill(call, out.data, out.numel * 8);
  if (code != TT_OK) return code;
  return ForEach(call, self.numel,
                 OneHotAt{Locator(self), IndexData(self), static_cast<int64_t*>(out.data), out.sizes[out.rank - 1],
                          StreamOf(call)->report});
}

}  // namespace

void AppendIndexingKernels(KernelList* list) {
  list->push_back({"gather", TT_ALL_DTYPES, OnDevice<Gather>});
  list->push_back({"index_select", TT_ALL_DTYPES, OnDevice<IndexSelect>});
  list->push_back({"index_add", TT_ALL_DTYPES, OnDevice<IndexAdd>});
  list->push_back({"index", TT_ALL_DTYPES, OnDevice<Index<true>>});
  list->push_back({"index_put", TT_ALL_DTYPES, OnDevice<IndexPut>});
  list->push_back({"embedding", TT_FLOATING, OnDevice<Index<false>>});
  list->push_back({"_embedding_backward", TT_FLOATING, OnDevice<EmbeddingBackward>});
  list->push_back({"_one_hot", TT_INTEGER, OnDevice<OneHot>});
}

}  // namespace telensor::cuda
