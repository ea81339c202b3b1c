// Reads and writes by index.
//
// Index values come from a peer. Each is read once, into private memory, checked there, and used from there, so that
// nothing that happens to an index tensor meanwhile can lead outside the memory of another. Writes happen in one
// order, the row-major order of the index, whatever the number of threads: threads share out what never collides.
#include <atomic>

#include "kernels/cpu/families.h"
#include "kernels/cpu/reduction.h"

namespace telensor::cpu::TT_CPU_VARIANT {
namespace {

bool IsIndex(const tt_tensor& t) { return t.dtype == TT_INT64 || t.dtype == TT_INT32; }

int FailIndexType(tt_call* call) {
  return Fail(call, TT_INVALID_ARGUMENT, "tensors used as indices must be int64 or int32");
}

int FailRange(tt_call* call, int64_t value, int64_t dim, int64_t size) {
  return Fail(call, TT_OUT_OF_RANGE, "index %lld is out of bounds for dimension %lld with size %lld",
              static_cast<long long>(value), static_cast<long long>(dim), static_cast<long long>(size));
}

// n values of an index tensor from `offset` on, `stride` apart.
void ReadIndices(const tt_tensor& index, int64_t offset, int64_t stride, int64_t n, int64_t* to) {
  if (index.dtype == TT_INT64) {
    LoadAs<int64_t, int64_t>(static_cast<const int64_t*>(index.data) + offset, n, stride, to);
  } else {
    LoadAs<int32_t, int64_t>(static_cast<const int32_t*>(index.data) + offset, n, stride, to);
  }
}

// The place of the first of n values that is not below `size`; -1 where all are.
int64_t FindBad(const int64_t* values, int64_t n, int64_t size) {
  for (int64_t i = 0; i < n; ++i) {
    if (static_cast<uint64_t>(values[i]) >= static_cast<uint64_t>(size)) return i;
  }
  return -1;
}

// Memory for n elements: the caller's own where they fit, else a workspace.
template <typename T, int64_t kSmall>
T* Space(tt_call* call, T (&small)[kSmall], int64_t n) {
  return n <= kSmall ? small : Workspace<T>(call, n);
}

// index_select, index, embedding, index_add, index_put and _embedding_backward see one side as [pre..., chosen,
// post...] and the other as [pre..., B..., post...], where B... are the sizes of the indices.
struct Rows {
  Walk<2> pre;  // offsets in the chosen side, in the other side
  Walk<2> post;
  Walk<1> rows;            // the other side's offsets of B...
  const int64_t* offsets;  // where the chosen row of each position of B... starts; -1 for none
};

// out = chosen rows of `from`. The output is dense, so its own offsets are counted.
template <typename U>
void ReadRows(const Rows& rows, U* out, const U* from) {
  const int64_t count = rows.rows.count();
  Walk<2> post = rows.post;
  const int64_t width = post.count();
  if (count == 0 || width == 0 || rows.pre.count() == 0) return;
  const Walk<2>::Inner inner = post.PopInner();
  ParallelFor(rows.pre.count() * count, std::max<int64_t>(1, kGrain / width), [&, post](int64_t begin, int64_t end) {
    Walk<2> pre = rows.pre;
    Walk<2> at = post;
    pre.Seek(begin / count);
    at.Seek(0);
    for (int64_t i = begin; i < end; pre.Next()) {
      const int64_t first = i % count, n = std::min(count - first, end - i);
      const U* base = from + pre.offset(0);
      const int64_t* offsets = rows.offsets + first;
      U* to = out + i * width;
      if (width == 1) {
        for (int64_t k = 0; k < n; ++k) to[k] = base[offsets[k]];
      } else if (width == inner.size && inner.strides[0] == 1) {
        for (int64_t k = 0; k < n; ++k) std::memcpy(to + k * width, base + offsets[k], width * sizeof(U));
      } else {
        for (int64_t k = 0; k < n; ++k) {
          for (int64_t p = 0; p < at.count(); ++p, at.Next(), to += inner.size) {
            CopyRun(to, 1, base + offsets[k] + at.offset(0), inner.strides[0], inner.size);
          }
        }
      }
      i += n;
    }
  });
}

// put(destination, source) for every element of the chosen rows of `to` and its element of `from`, in order.
template <typename D, typename S, typename Put>
void WriteRows(const Rows& rows, D* to, const S* from, const Put& put) {
  const int64_t count = rows.rows.count();
  Walk<2> outer = rows.post;
  const int64_t total = rows.pre.count() * count * outer.count();
  if (total == 0) return;
  const Walk<2>::Inner inner = outer.PopInner();
  // Each thread takes some columns of every row: they never meet, and each sees its rows in order.
  const int64_t grain = std::max<int64_t>(64, inner.size * kGrain / std::max(total, kGrain));
  ParallelFor(inner.size, grain, [&](int64_t begin, int64_t end) {
    Walk<1> row = rows.rows;
    Walk<2> pre = rows.pre, post = outer;
    pre.Seek(0);
    post.Seek(0);
    row.Seek(0);
    const int64_t to_stride = inner.strides[0], from_stride = inner.strides[1];
    for (int64_t i = 0; i < pre.count(); ++i, pre.Next()) {
      for (int64_t k = 0; k < count; ++k, row.Next()) {
        if (rows.offsets[k] < 0) continue;
        D* base = to + pre.offset(0) + rows.offsets[k];
        const S* source = from + pre.offset(1) + row.offset(0);
        for (int64_t p = 0; p < post.count(); ++p, post.Next()) {
          D* y = base + post.offset(0);
          const S* x = source + post.offset(1);
          if (to_stride == 1 && from_stride == 1) {
            for (int64_t j = begin; j < end; ++j) put(y[j], x[j]);
          } else {
            for (int64_t j = begin; j < end; ++j) put(y[j * to_stride], x[j * from_stride]);
          }
        }
      }
    }
  });
}

constexpr int64_t kSmallIndex = 128;

// Adds stride * value to the offsets of all positions of an index tensor expanded to `sizes`, in row-major order.
int AddOffsets(tt_call* call, const tt_tensor& index, const int64_t* sizes, int rank, bool wrap, int dim, int64_t size,
               int64_t stride, int64_t* offsets) {
  Walk<1> walk;
  const int lacks = rank - index.rank;
  for (int d = 0; d < rank; ++d) {
    walk.Add(sizes[d], d < lacks || index.sizes[d - lacks] == 1 ? 0 : index.strides[d - lacks]);
  }
  if (walk.count() == 0) return TT_OK;
  const Walk<1>::Inner inner = walk.PopInner();
  walk.Seek(0);
  int64_t values[kSmallIndex];
  for (int64_t i = 0; i < walk.count(); ++i, walk.Next()) {
    for (int64_t j = 0; j < inner.size; j += kSmallIndex) {
      const int64_t n = std::min(kSmallIndex, inner.size - j);
      ReadIndices(index, walk.offset(0) + j * inner.strides[0], inner.strides[0], n, values);
      for (int64_t k = 0; wrap && k < n; ++k) values[k] += values[k] < 0 && values[k] >= -size ? size : 0;
      const int64_t bad = FindBad(values, n, size);
      if (bad >= 0) return FailRange(call, values[bad], dim, size);
      for (int64_t k = 0; k < n; ++k) offsets[k] += values[k] * stride;
      offsets += n;
    }
  }
  return TT_OK;
}

// Where index tensors point in `self`. The strides of the other side are those of `other`: a tensor that broadcasts
// to the indexed shape, or none where the other side is dense.
class Chosen {
 public:
  Rows rows;

  // The tensors of `index` and `index_put`; absent ones take their whole dimension.
  int ByTensors(tt_call* call, const tt_tensor& self, const tt_tensor* indices, int count, bool wrap,
                const tt_tensor* other) {
    int rank = 0, first = -1, last = -1, present = 0;
    if (count > self.rank) {
      return Fail(call, TT_OUT_OF_RANGE, "too many indices for a tensor of dimension %d", self.rank);
    }
    for (int i = 0; i < count; ++i) {
      if (indices[i].dtype == 0) continue;
      if (!IsIndex(indices[i])) return FailIndexType(call);
      rank = std::max(rank, indices[i].rank);
      first = first < 0 ? i : first;
      last = i;
      ++present;
    }
    int64_t sizes[TT_MAX_RANK];
    std::fill(sizes, sizes + rank, 1);
    for (int i = 0; i < count; ++i) {
      for (int d = 0; indices[i].dtype != 0 && d < indices[i].rank; ++d) {
        const int64_t size = indices[i].sizes[d];
        int64_t& common = sizes[rank - indices[i].rank + d];
        if (size != 1 && common != 1 && common != size) {
          return Fail(call, TT_OUT_OF_RANGE, "shape mismatch: indexing tensors could not be broadcast together");
        }
        if (size != 1) common = size;
      }
    }
    int64_t total = 1;
    for (int d = 0; d < rank; ++d) total *= sizes[d];
    offsets_ = Space(call, small_, total);
    if (offsets_ == nullptr) return TT_OUT_OF_MEMORY;
    std::fill(offsets_, offsets_ + total, 0);
    for (int i = 0; i < count; ++i) {
      if (indices[i].dtype == 0) continue;
      const int code = AddOffsets(call, indices[i], sizes, rank, wrap, i, self.sizes[i], self.strides[i], offsets_);
      if (code != TT_OK) return code;
    }
    rows.offsets = offsets_;

    // Index tensors that stand together are replaced in place; else what they make goes first.
    const bool together = present > 0 && last - first + 1 == present;
    const int before = together ? first : 0;
    const int result_rank = self.rank - present + rank;
    // `other` is aligned at the right; what it lacks, or has once, is repeated.
    const auto stride = [&](int d) -> int64_t {
      const int at = other == nullptr ? -1 : d - (result_rank - other->rank);
      return at < 0 || other->sizes[at] == 1 ? 0 : other->strides[at];
    };
    for (int d = 0; d < rank; ++d) rows.rows.Add(sizes[d], stride(before + d));
    int at = 0;
    for (int d = 0; d < self.rank; ++d) {
      if (d < count && indices[d].dtype != 0) continue;
      const bool pre = at < before;
      (pre ? rows.pre : rows.post).Add(self.sizes[d], self.strides[d], stride(pre ? at : at + rank));
      ++at;
    }
    return TT_OK;
  }

  // One tensor for one dimension, without negative values. A number counts as one dimension, on either side.
  int ByDimension(tt_call* call, const tt_tensor& self, int dim, const tt_tensor& index, const tt_tensor* other) {
    static constexpr int64_t kOne = 1;
    tt_tensor indices[TT_MAX_RANK];
    for (int d = 0; d < dim; ++d) indices[d].dtype = 0;
    const auto lift = [](tt_tensor tensor) {
      if (tensor.rank == 0) tensor.rank = 1, tensor.sizes = &kOne, tensor.strides = &kOne;
      return tensor;
    };
    indices[dim] = lift(index);
    return ByTensors(call, lift(self), indices, dim + 1, false, other);
  }

  // Rows that start at an offset are left out.
  void Skip(int64_t offset) { std::replace(offsets_, offsets_ + rows.rows.count(), offset, int64_t{-1}); }

 private:
  int64_t* offsets_;
  int64_t small_[kSmallIndex];
};

int ReadChosen(const Chosen& chosen, const tt_tensor& out, const tt_tensor& from) {
  DispatchSize(ElementSize(out.dtype), [&](auto tag) {
    using U = typename decltype(tag)::type;
    ReadRows(chosen.rows, static_cast<U*>(out.data), static_cast<const U*>(from.data));
  });
  return TT_OK;
}

int IndexSelect(tt_call* call) {
  const tt_tensor& self = call->inputs[0];
  Chosen chosen;
  const int code = chosen.ByDimension(call, self, WrapDim(call->attrs[0].i, self.rank), call->inputs[1], nullptr);
  return code != TT_OK ? code : ReadChosen(chosen, call->outputs[0], self);
}

// Also embedding, which is told from an index by what a negative value means.
template <bool kWrap>
int Index(tt_call* call) {
  Chosen chosen;
  const int code = chosen.ByTensors(call, call->inputs[0], call->inputs + 1, call->num_inputs - 1, kWrap, nullptr);
  return code != TT_OK ? code : ReadChosen(chosen, call->outputs[0], call->inputs[0]);
}

// The output starts as self, unless it is self.
void StartAs(const tt_tensor& out, const tt_tensor& self) {
  if (out.data == self.data || out.numel == 0) return;
  CopyStrided(ElementSize(out.dtype), out.data, out.strides, self.data, self.strides, out.sizes, out.rank);
}

// What sums of T are kept in while they grow: 16-bit floats would lose every small addend.
template <typename T>
using Sum = ComputeType<T>;

template <typename T>
void AddTo(Sum<T>& sum, T value, Sum<T> alpha) {
  if constexpr (std::is_same_v<T, bool>) {
    sum = sum || (value && alpha);
  } else if constexpr (std::is_integral_v<T>) {
    // Unsigned arithmetic wraps around.
    sum = static_cast<T>(static_cast<uint64_t>(sum) + static_cast<uint64_t>(value) * static_cast<uint64_t>(alpha));
  } else {
    sum += static_cast<Sum<T>>(value) * alpha;
  }
}

// A place to add to that has the output's shape: the output where T can hold sums, else a dense float copy of it
// that Finish rounds into the output.
template <typename T>
struct SumSpace {
  static constexpr bool kDirect = std::is_same_v<T, Sum<T>>;
  const tt_tensor& out;
  Sum<T>* data;
  int64_t strides[TT_MAX_RANK];

  // The output already holds what is added to.
  bool Start(tt_call* call) {
    std::copy(out.strides, out.strides + out.rank, strides);
    data = static_cast<Sum<T>*>(out.data);
    if (kDirect) return true;
    int64_t dense = 1;
    for (int d = out.rank - 1; d >= 0; dense *= out.sizes[d--]) strides[d] = dense;
    data = Workspace<Sum<T>>(call, out.numel);
    if (data == nullptr) return false;
    Each([](Sum<T>& sum, T& element) { sum = static_cast<Sum<T>>(element); });
    return true;
  }
  void Finish() {
    if (!kDirect) Each([](Sum<T>& sum, T& element) { element = static_cast<T>(sum); });
  }
  // The output as something to index, with the place's memory and strides.
  tt_tensor Target() const {
    tt_tensor target = out;
    target.data = data;
    target.strides = strides;
    return target;
  }

 private:
  template <typename Fn>
  void Each(const Fn& fn) {
    Walk<1> walk;
    for (int d = 0; d < out.rank; ++d) walk.Add(out.sizes[d], out.strides[d]);
    T* elements = static_cast<T*>(out.data);
    if (out.numel > 0) walk.Seek(0);
    for (int64_t i = 0; i < out.numel; ++i, walk.Next()) fn(data[i], elements[walk.offset(0)]);
  }
};

template <typename T>
Sum<T> Number(const tt_value& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value.kind == 3 ? value.f != 0 : value.i != 0;
  } else if constexpr (std::is_integral_v<T>) {
    if (value.kind != 3) return static_cast<T>(value.i);
    const double f = value.f;
    return static_cast<T>(f >= -9.2e18 && f <= 9.2e18 ? static_cast<int64_t>(f) : f > 0 ? INT64_MAX : INT64_MIN);
  } else {
    return static_cast<Sum<T>>(value.f);
  }
}

// Adds alpha * source to the rows that prepare(target, chosen) finds in `target`, which stands for the output.
template <typename T, typename Prepare>
int AddRows(tt_call* call, const tt_tensor& source, Sum<T> alpha, const Prepare& prepare) {
  SumSpace<T> sums{call->outputs[0], nullptr, {}};
  if (!sums.Start(call)) return TT_OUT_OF_MEMORY;
  Chosen chosen;
  const int code = prepare(sums.Target(), chosen);
  if (code != TT_OK) return code;
  WriteRows(chosen.rows, sums.data, static_cast<const T*>(source.data),
            [alpha](Sum<T>& y, T x) { AddTo<T>(y, x, alpha); });
  sums.Finish();
  return TT_OK;
}

int FailSourceType(tt_call* call) {
  return Fail(call, TT_INVALID_ARGUMENT, "self and the values written to it must have one dtype");
}

int IndexAdd(tt_call* call) {
  const tt_tensor& self = call->inputs[0];
  const tt_tensor& source = call->inputs[2];
  if (source.dtype != self.dtype) return FailSourceType(call);
  StartAs(call->outputs[0], self);
  return DispatchAll(call, self.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return AddRows<T>(call, source, Number<T>(call->attrs[1]), [&](const tt_tensor& target, Chosen& chosen) {
      return chosen.ByDimension(call, target, WrapDim(call->attrs[0].i, self.rank), call->inputs[1], &source);
    });
  });
}

int IndexPut(tt_call* call) {
  const tt_tensor& self = call->inputs[0];
  const tt_tensor& values = call->inputs[call->num_inputs - 1];
  const tt_tensor& out = call->outputs[0];
  if (values.dtype != self.dtype) return FailSourceType(call);
  StartAs(out, self);
  const auto prepare = [&](const tt_tensor& target, Chosen& chosen) {
    return chosen.ByTensors(call, target, call->inputs + 1, call->num_inputs - 2, true, &values);
  };
  if (call->attrs[0].i != 0) {
    return DispatchAll(call, self.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      return AddRows<T>(call, values, static_cast<Sum<T>>(1), prepare);
    });
  }
  Chosen chosen;
  const int code = prepare(out, chosen);
  if (code != TT_OK) return code;
  DispatchSize(ElementSize(self.dtype), [&](auto tag) {
    using U = typename decltype(tag)::type;
    WriteRows(chosen.rows, static_cast<U*>(out.data), static_cast<const U*>(values.data), [](U& y, U x) { y = x; });
  });
  return TT_OK;
}

int EmbeddingBackward(tt_call* call) {
  const tt_tensor& grad = call->inputs[0];
  const tt_tensor& out = call->outputs[0];
  const tt_value& padding = call->attrs[1];
  Zero(out.data, out.numel * ElementSize(out.dtype));
  return DispatchFloating(call, out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return AddRows<T>(call, grad, 1, [&](const tt_tensor& target, Chosen& chosen) {
      const int code = chosen.ByTensors(call, target, call->inputs + 1, 1, false, &grad);
      if (padding.kind != 0 && code == TT_OK) {
        chosen.Skip((padding.i < 0 ? padding.i + out.sizes[0] : padding.i) * target.strides[0]);
      }
      return code;
    });
  });
}

constexpr int64_t kBlock = 256;

// All positions of an index tensor, with the offsets of index, of the tensor of its shape, and of the indexed tensor
// (but for `dim`, which the index values decide), one block of the fastest axis at a time.
class Elements {
 public:
  Elements(const tt_tensor& index, const tt_tensor& other, const tt_tensor& target, int dim)
      : index_(index), dim_(dim), size_(target.rank > 0 ? target.sizes[dim] : 1),
        stride_(target.rank > 0 ? target.strides[dim] : 1) {
    // A number counts as one dimension, whichever of them it is.
    const int rank = std::max({index.rank, other.rank, target.rank});
    const auto stride = [](const tt_tensor& t, int d) { return t.rank > 0 ? t.strides[d] : 0; };
    for (int d = 0; d < rank; ++d) {
      walk_.Add(index.rank > 0 ? index.sizes[d] : 1, stride(index, d), stride(other, d),
                d == dim ? 0 : stride(target, d));
    }
    if (index.numel > 0) inner_ = walk_.PopInner();
  }
  // visit(other's offset, its stride, target's offset, its stride, offsets along dim, n) for every block. Blocks that
  // are given to different threads differ in a dimension other than `dim`, unless the order of visits is free.
  template <typename Visit>
  int Each(tt_call* call, bool any_order, const Visit& visit) const {
    if (index_.numel == 0) return TT_OK;
    std::atomic<bool> failed{false};
    int64_t bad = 0;
    const auto range = [&](int64_t begin, int64_t end, int64_t first, int64_t last) {
      Walk<3> at = walk_;
      at.Seek(begin);
      int64_t values[kBlock];
      for (int64_t i = begin; i < end; ++i, at.Next()) {
        for (int64_t j = first; j < last; j += kBlock) {
          const int64_t n = std::min(kBlock, last - j);
          ReadIndices(index_, at.offset(0) + j * inner_.strides[0], inner_.strides[0], n, values);
          const int64_t wrong = FindBad(values, n, size_);
          if (wrong >= 0) {
            if (!failed.exchange(true)) bad = values[wrong];
            return;
          }
          for (int64_t k = 0; k < n; ++k) values[k] *= stride_;
          visit(at.offset(1) + j * inner_.strides[1], inner_.strides[1], at.offset(2) + j * inner_.strides[2],
                inner_.strides[2], values, n);
        }
      }
    };
    // The fastest axis moves in the target unless it is `dim` itself.
    if ((inner_.strides[2] == 0 && inner_.size > 1) || (any_order && walk_.count() > 1)) {
      ParallelFor(walk_.count(), std::max<int64_t>(1, kGrain / inner_.size),
                  [&](int64_t begin, int64_t end) { range(begin, end, 0, inner_.size); });
    } else {
      ParallelFor(inner_.size, std::max<int64_t>(64, kGrain / walk_.count()),
                  [&](int64_t begin, int64_t end) { range(0, walk_.count(), begin, end); });
    }
    return failed.load() ? FailRange(call, bad, dim_, size_) : static_cast<int>(TT_OK);
  }

 private:
  const tt_tensor& index_;
  const int dim_;
  const int64_t size_, stride_;
  Walk<3> walk_;
  Walk<3>::Inner inner_ = {1, {1, 1, 1}};
};

int Gather(tt_call* call) {
  const tt_tensor& self = call->inputs[0];
  const tt_tensor& index = call->inputs[1];
  const tt_tensor& out = call->outputs[0];
  if (!IsIndex(index)) return FailIndexType(call);
  const Elements elements(index, out, self, WrapDim(call->attrs[0].i, self.rank));
  int code = TT_OK;
  DispatchSize(ElementSize(self.dtype), [&](auto tag) {
    using U = typename decltype(tag)::type;
    code = elements.Each(call, true, [&](int64_t to, int64_t to_stride, int64_t from, int64_t from_stride,
                                         const int64_t* offsets, int64_t n) {
      U* y = static_cast<U*>(out.data) + to;
      const U* x = static_cast<const U*>(self.data) + from;
      for (int64_t k = 0; k < n; ++k) y[k * to_stride] = x[k * from_stride + offsets[k]];
    });
  });
  return code;
}

// put(destination, source) at every indexed element of `to`, which is laid out as `target` says.
template <typename D, typename S, typename Put>
int ScatterInto(tt_call* call, const tt_tensor& target, const tt_tensor& source, const Put& put) {
  const Elements elements(call->inputs[1], source, target, WrapDim(call->attrs[0].i, target.rank));
  return elements.Each(call, false, [&](int64_t from, int64_t from_stride, int64_t to, int64_t to_stride,
                                        const int64_t* offsets, int64_t n) {
    D* y = static_cast<D*>(target.data) + to;
    const S* x = static_cast<const S*>(source.data) + from;
    for (int64_t k = 0; k < n; ++k) put(y[k * to_stride + offsets[k]], x[k * from_stride]);
  });
}

// What comes before every scatter. Writing over self, no index may turn out to be wrong half way.
int StartScatter(tt_call* call) {
  const tt_tensor& index = call->inputs[1];
  const tt_tensor& out = call->outputs[0];
  if (!IsIndex(index)) return FailIndexType(call);
  if (call->num_inputs > 2 && call->inputs[2].dtype != out.dtype) return FailSourceType(call);
  StartAs(out, call->inputs[0]);
  if (out.data != call->inputs[0].data) return TT_OK;
  return Elements(index, index, out, WrapDim(call->attrs[0].i, out.rank))
      .Each(call, true, [](int64_t, int64_t, int64_t, int64_t, const int64_t*, int64_t) {});
}

template <bool kNumber>
int Scatter(tt_call* call) {
  int code = StartScatter(call);
  if (code != TT_OK) return code;
  const tt_tensor& out = call->outputs[0];
  uint64_t number = 0;
  const int64_t zeros[TT_MAX_RANK] = {};
  tt_tensor source = call->inputs[kNumber ? 1 : 2];
  if (kNumber) {
    // One element, of the index's shape.
    DispatchAll(call, out.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      const T value = static_cast<T>(Number<T>(call->attrs[1]));
      std::memcpy(&number, &value, sizeof(value));
      return static_cast<int>(TT_OK);
    });
    source.data = &number;
    source.strides = zeros;
  }
  DispatchSize(ElementSize(out.dtype), [&](auto tag) {
    using U = typename decltype(tag)::type;
    code = ScatterInto<U, U>(call, out, source, [](U& y, U x) { y = x; });
  });
  return code;
}

template <typename T>
int ScatterAddOf(tt_call* call) {
  SumSpace<T> sums{call->outputs[0], nullptr, {}};
  if (!sums.Start(call)) return TT_OUT_OF_MEMORY;
  const int code = ScatterInto<Sum<T>, T>(call, sums.Target(), call->inputs[2], [](Sum<T>& y, T x) {
    AddTo<T>(y, x, static_cast<Sum<T>>(1));
  });
  if (code == TT_OK) sums.Finish();
  return code;
}

int ScatterAdd(tt_call* call) {
  const int code = StartScatter(call);
  if (code != TT_OK) return code;
  return DispatchAll(call, call->outputs[0].dtype,
                     [&](auto tag) { return ScatterAddOf<typename decltype(tag)::type>(call); });
}

int OneHot(tt_call* call) {
  const tt_tensor& self = call->inputs[0];
  const tt_tensor& out = call->outputs[0];
  if (!IsIndex(self)) return FailIndexType(call);
  const int64_t classes = out.sizes[out.rank - 1];
  int64_t small[kSmallIndex];
  int64_t* values = Space(call, small, self.numel);
  if (values == nullptr) return TT_OUT_OF_MEMORY;
  std::fill(values, values + self.numel, 0);
  if (AddOffsets(call, self, self.sizes, self.rank, false, 0, classes, 1, values) != TT_OK) {
    return Fail(call, TT_INVALID_ARGUMENT, "Class values must be non-negative and smaller than num_classes.");
  }
  int64_t* y = static_cast<int64_t*>(out.data);
  Zero(y, out.numel * sizeof(int64_t));
  for (int64_t i = 0; i < self.numel; ++i) y[i * classes + values[i]] = 1;
  return TT_OK;
}

}  // namespace

void AppendIndexingKernels(KernelList* list) {
  list->push_back({"gather", TT_ALL_DTYPES, Gather});
  list->push_back({"scatter", TT_ALL_DTYPES, Scatter<false>});
  list->push_back({"scatter.value", TT_ALL_DTYPES, Scatter<true>});
  list->push_back({"scatter_add", TT_ALL_DTYPES, ScatterAdd});
  list->push_back({"index_select", TT_ALL_DTYPES, IndexSelect});
  list->push_back({"index_add", TT_ALL_DTYPES, IndexAdd});
  list->push_back({"index", TT_ALL_DTYPES, Index<true>});
  list->push_back({"index_put", TT_ALL_DTYPES, IndexPut});
  list->push_back({"embedding", TT_FLOATING, Index<false>});
  list->push_back({"_embedding_backward", TT_FLOATING, EmbeddingBackward});
  list->push_back({"_one_hot", TT_INTEGER, OneHot});
}

}  // namespace telensor::cpu::TT_CPU_VARIANT
