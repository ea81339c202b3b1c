#include <cmath>

#include "autograd/formula_evaluator.h"
#include "proto/core/shape_util.h"

namespace telensor::rt {
namespace {

// The arguments of one helper call, with the errors of a wrong table row.
class Args {
 public:
  explicit Args(absl::Span<const FormulaValue> args) : args_(args) {}

  const TensorMeta* Meta(size_t i) const { return i < args_.size() ? args_[i].meta() : nullptr; }
  bool IsTensor(size_t i) const { return Meta(i) != nullptr; }
  const Value& Plain(size_t i) const {
    static const Value none;
    return i < args_.size() && args_[i].kind == FormulaValue::kValue ? args_[i].value : none;
  }
  int64_t Int(size_t i) const { return Plain(i).i(); }
  const std::vector<int64_t>& Ints(size_t i) const { return Plain(i).ints(); }
  // One number stands for a list of one.
  std::vector<int64_t> IntList(size_t i) const {
    return Plain(i).is_number() ? std::vector<int64_t>{Plain(i).i()} : Plain(i).ints();
  }
  std::vector<const TensorMeta*> Metas(size_t i) const {
    std::vector<const TensorMeta*> out;
    if (args_[i].kind == FormulaValue::kTensors) {
      for (const Tensor& t : args_[i].tensors) out.push_back(t ? &t->meta() : nullptr);
    } else {
      out = args_[i].metas;
    }
    return out;
  }

 private:
  absl::Span<const FormulaValue> args_;
};

Value Bool(bool b) { return Value::Bool(b); }

absl::StatusOr<Value> Repeat(Helper helper, const Dims& sizes, const std::vector<int64_t>& repeats) {
  // [1, s0, 1, s1], then [r0, s0, r1, s1], then [r0 * s0, r1 * s1].
  const int extra = static_cast<int>(repeats.size()) - sizes.size();
  if (extra < 0) {
    return InvalidArgument("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor");
  }
  if (repeats.size() > kMaxRank / 2) return InvalidArgument("repeat: too many dimensions");
  std::vector<int64_t> out;
  for (size_t i = 0; i < repeats.size(); ++i) {
    const int64_t size = static_cast<int>(i) < extra ? 1 : sizes[static_cast<int>(i) - extra];
    if (helper == Helper::kRepeatSizes) {
      int64_t product;
      if (__builtin_mul_overflow(size, repeats[i], &product)) return InvalidArgument("repeat: the result is too large");
      out.push_back(product);
    } else {
      out.push_back(helper == Helper::kRepeatExpanded ? repeats[i] : 1);
      out.push_back(size);
    }
  }
  return Value::Ints(std::move(out));
}

absl::StatusOr<Value> SizesAlong(const std::vector<const TensorMeta*>& tensors, int64_t dim) {
  int rank = 1;
  for (const TensorMeta* t : tensors) rank = std::max(rank, t->rank());
  TD_ASSIGN_OR_RETURN(const int d, WrapDim(dim, rank));
  std::vector<int64_t> sizes;
  // cat passes over empty one-dimensional tensors.
  for (const TensorMeta* t : tensors) sizes.push_back(t->rank() == rank ? t->sizes[d] : 0);
  return Value::Ints(std::move(sizes));
}

std::vector<int64_t> Range(int64_t begin, int64_t end) {
  std::vector<int64_t> out;
  for (int64_t i = begin; i < end; ++i) out.push_back(i);
  return out;
}

}  // namespace

absl::StatusOr<Value> EvalMetadataHelper(Helper helper, absl::Span<const FormulaValue> values) {
  const Args args(values);
  switch (helper) {
    case Helper::kIsTensor: return Bool(args.IsTensor(0));
    case Helper::kLen: return Value::Int(static_cast<int64_t>(args.Ints(0).size()));
    case Helper::kLn: return Value::Float(std::log(args.Plain(0).f()));
    case Helper::kProduct: {
      TD_ASSIGN_OR_RETURN(const Dims sizes, CheckedSizes(args.Ints(0)));
      return Value::Int(CheckedNumel(sizes));
    }
    case Helper::kInversePermutation: {
      const std::vector<int64_t>& dims = args.Ints(0);
      const int64_t rank = static_cast<int64_t>(dims.size());
      std::vector<int64_t> inverse(dims.size(), 0);
      for (int64_t i = 0; i < rank; ++i) {
        const int64_t d = dims[i] < 0 ? dims[i] + rank : dims[i];
        if (d >= 0 && d < rank) inverse[d] = i;
      }
      return Value::Ints(std::move(inverse));
    }
    case Helper::kWrapDim: {
      TD_ASSIGN_OR_RETURN(const int d, WrapDim(args.Int(0), static_cast<int>(std::clamp<int64_t>(args.Int(1), 0, kMaxRank))));
      return Value::Int(d);
    }
    case Helper::kWrapIndex: return Value::Int(args.Int(0) < 0 ? args.Int(0) + args.Int(1) : args.Int(0));
    case Helper::kSizesAlong: return SizesAlong(args.Metas(0), args.Int(1));
    default: break;
  }
  // The others ask about a tensor.
  const TensorMeta* m = args.Meta(0);
  if (m == nullptr) return absl::InternalError("op table formula: a helper was given no tensor");
  const TensorMeta* other = args.Meta(1);
  switch (helper) {
    case Helper::kSizes: return Value::Ints(m->sizes);
    case Helper::kSize: {
      TD_ASSIGN_OR_RETURN(const int d, WrapDim(args.Int(1), m->rank()));
      return Value::Int(m->rank() == 0 ? 1 : m->sizes[d]);
    }
    case Helper::kDim: return Value::Int(m->rank());
    case Helper::kNumel: return Value::Int(m->numel());
    case Helper::kDtype: return Value::Type(m->dtype);
    case Helper::kDevice: return Value::Device(m->device);
    case Helper::kStrides: return Value::Ints(m->strides);
    case Helper::kOffset: return Value::Int(m->offset);
    case Helper::kIsFloating: return Bool(IsFloating(m->dtype));
    case Helper::kIsContiguous: return Bool(m->contiguous());
    case Helper::kIsAlready: {
      const bool dtype = args.Plain(1).none() || args.Plain(1).dtype() == m->dtype;
      return Bool(dtype && (args.Plain(2).none() || args.Int(2) == m->device));
    }
    case Helper::kInferSize: {
      TD_ASSIGN_OR_RETURN(const Dims sizes, InferSize(args.IntList(1), m->numel()));
      return Value::Ints(sizes);
    }
    case Helper::kViewable: {
      TD_ASSIGN_OR_RETURN(const Dims sizes, CheckedSizes(args.Ints(1)));
      Dims strides;
      return Bool(ViewStrides(*m, sizes, &strides));
    }
    case Helper::kFlattenSizes: {
      TD_ASSIGN_OR_RETURN(const Dims sizes, FlattenSizes(m->sizes, args.Int(1), args.Int(2)));
      return Value::Ints(sizes);
    }
    case Helper::kUnflattenSizes: {
      TD_ASSIGN_OR_RETURN(const Dims sizes, UnflattenSizes(m->sizes, args.Int(1), args.Ints(2)));
      return Value::Ints(sizes);
    }
    case Helper::kReducedCount: {
      TD_ASSIGN_OR_RETURN(const uint32_t reduced, ReducedDims(args.IntList(1), m->rank()));
      int64_t count = 1;
      for (int i = 0; i < m->rank(); ++i) {
        if (reduced >> i & 1) count *= m->sizes[i];
      }
      return Value::Int(count);
    }
    case Helper::kFoldRows: {
      int64_t rows = 1;
      for (int i = 0; i + 1 < m->rank(); ++i) rows *= m->sizes[i];
      return Value::Int(rows);
    }
    case Helper::kMatmulSizes:
    case Helper::kMatmulBatch:
    case Helper::kBroadcastSizes: {
      if (other == nullptr) return absl::InternalError("op table formula: two tensors were expected");
      absl::StatusOr<Dims> sizes = helper == Helper::kMatmulSizes   ? MatmulSizes(m->sizes, other->sizes)
                                   : helper == Helper::kMatmulBatch ? MatmulBatch(m->sizes, other->sizes)
                                                                    : BroadcastSizes(m->sizes, other->sizes);
      TD_RETURN_IF_ERROR(sizes.status());
      return Value::Ints(*sizes);
    }
    case Helper::kRepeatInterleaved:
    case Helper::kRepeatExpanded:
    case Helper::kRepeatSizes: return Repeat(helper, m->sizes, args.IntList(1));
    case Helper::kChannelDims: {
      std::vector<int64_t> dims = Range(0, m->rank());
      if (m->rank() > 1) dims.erase(dims.begin() + 1);
      return Value::Ints(std::move(dims));
    }
    case Helper::kChannelShape: {
      const int channel = m->rank() > 1 ? 1 : 0;
      std::vector<int64_t> shape(m->rank(), 1);
      if (m->rank() > 0) shape[channel] = m->sizes[channel];
      return Value::Ints(std::move(shape));
    }
    case Helper::kLastDims: return Value::Ints(Range(m->rank() - static_cast<int64_t>(args.Ints(1).size()), m->rank()));
    case Helper::kLeadingDims: return Value::Ints(Range(0, m->rank() - static_cast<int64_t>(args.Ints(1).size())));
    case Helper::kChannelLast: {
      std::vector<int64_t> order = Range(0, m->rank());
      if (m->rank() > 1) {
        order.erase(order.begin() + 1);
        order.push_back(1);
      }
      return Value::Ints(std::move(order));
    }
    case Helper::kNllRows: {
      int64_t rows = 1;
      for (int i = 0; i < m->rank(); ++i) {
        if (i != 1) rows *= m->sizes[i];
      }
      return Value::Int(m->rank() < 2 ? 1 : rows);
    }
    default: return absl::InternalError("op table formula: an unknown helper");
  }
}

}  // namespace telensor::rt
