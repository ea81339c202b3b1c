// Shape rules of rows that join, reorder or index. Index values are data: kernels check them.
#include "proto/core/meta_rules.h"
#include "proto/core/shape_util.h"

namespace telensor::rules {
namespace {

bool IsEmptyVector(const TensorMeta& t) { return t.rank() == 1 && t.sizes[0] == 0; }

int RankOrOne(const TensorMeta& t) { return std::max(t.rank(), 1); }

// The first dimension other than `dim` in which `index` is larger than `other`; -1 where there is none. Of equal rank,
// where 0-dim counts as one.
int Overreach(const TensorMeta& index, const TensorMeta& other, int dim) {
  const auto size = [](const TensorMeta& t, int i) { return t.rank() > 0 ? t.sizes[i] : 1; };
  for (int i = 0; i < RankOrOne(index); ++i) {
    if (i != dim && size(index, i) > size(other, i)) return i;
  }
  return -1;
}

// The sizes that the index tensors have together, and which dimensions of self they take.
struct IndexPlan {
  Dims index_sizes;
  uint32_t taken = 0;
  bool adjacent = true;
  int first = -1;
};

absl::StatusOr<IndexPlan> PlanIndex(const RuleArgs& args, const TensorMeta& self,
                                    absl::Span<const TensorMeta* const> indices) {
  if (static_cast<int>(indices.size()) > self.rank()) {
    return IndexError("too many indices for tensor of dimension ", self.rank());
  }
  IndexPlan plan;
  int last = -1;
  bool any = false;
  for (int i = 0; i < static_cast<int>(indices.size()); ++i) {
    const TensorMeta* index = indices[i];
    if (index == nullptr) continue;
    absl::StatusOr<Dims> together = BroadcastSizes(plan.index_sizes, index->sizes);
    if (!together.ok()) {
      return IndexError("shape mismatch: indexing tensors could not be broadcast together with shapes ",
                        plan.index_sizes.ToString(), ", ", index->sizes.ToString());
    }
    plan.index_sizes = *together;
    plan.taken |= uint32_t{1} << i;
    if (!any) {
      plan.first = i;
    } else if (last != i - 1) {
      plan.adjacent = false;
    }
    any = true;
    last = i;
  }
  if (!any) return IndexError(args.name(), ": at least one index tensor is needed");
  return plan;
}

absl::StatusOr<Dims> IndexedSizes(const TensorMeta& self, const IndexPlan& plan) {
  const int taken = __builtin_popcount(plan.taken);
  if (self.rank() - taken + plan.index_sizes.size() > kMaxRank) return InvalidArgument("too many dimensions");
  Dims sizes;
  // Index dimensions that stand apart from each other come first.
  if (!plan.adjacent) sizes = plan.index_sizes;
  for (int i = 0; i < self.rank(); ++i) {
    if (plan.adjacent && i == plan.first) {
      for (int64_t s : plan.index_sizes) sizes.push_back(s);
    }
    if ((plan.taken >> i & 1) == 0) sizes.push_back(self.sizes[i]);
  }
  if (CheckedNumel(sizes) < 0) return InvalidArgument("the shape ", sizes.ToString(), " is too large");
  return sizes;
}

absl::Status CheckPadding(const Value& index, int64_t rows) {
  if (index.none() || (index.i() >= -rows && index.i() < rows)) return absl::OkStatus();
  return InvalidArgument("Padding_idx must be within num_embeddings");
}

}  // namespace

#define TD_RULE(name) absl::Status name(const RuleArgs& args, int output, OpMetas* out)

TD_RULE(ShapeCat) {
  const auto tensors = args.List(0);
  if (tensors.empty()) return InvalidArgument("torch.cat(): expected a non-empty list of Tensors");
  const TensorMeta* first = nullptr;
  for (const TensorMeta* t : tensors) {
    if (t == nullptr) return InvalidArgument("torch.cat(): a tensor is missing");
    if (first == nullptr && !IsEmptyVector(*t)) first = t;
  }
  if (first == nullptr) first = tensors[0];
  if (first->rank() == 0) return InvalidArgument("zero-dimensional tensor (at position 0) cannot be concatenated");
  TD_ASSIGN_OR_RETURN(const int d, WrapDim(args.Int(1), first->rank()));
  Dims sizes = first->sizes;
  int64_t total = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorMeta& t = *tensors[i];
    if (IsEmptyVector(t) && first->rank() != 1) continue;
    if (t.rank() != first->rank()) {
      if (t.rank() == 0) return InvalidArgument("zero-dimensional tensor (at position ", i, ") cannot be concatenated");
      return InvalidArgument("Tensors must have same number of dimensions: got ", first->rank(), " and ", t.rank());
    }
    for (int k = 0; k < t.rank(); ++k) {
      if (k != d && t.sizes[k] != first->sizes[k]) {
        return InvalidArgument("Sizes of tensors must match except in dimension ", d, ". Expected size ",
                               first->sizes[k], " but got size ", t.sizes[k], " for tensor number ", i,
                               " in the list.");
      }
    }
    if (__builtin_add_overflow(total, t.sizes[d], &total)) return InvalidArgument("cat: the result is too large");
  }
  sizes[d] = total;
  if (CheckedNumel(sizes) < 0) return InvalidArgument("cat: the result is too large");
  SetContiguous(&out->outputs[output], sizes);
  return absl::OkStatus();
}

TD_RULE(ShapeStack) {
  const auto tensors = args.List(0);
  if (tensors.empty()) return InvalidArgument("stack expects a non-empty TensorList");
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i] == nullptr) return InvalidArgument("stack: a tensor is missing");
    if (tensors[i]->sizes != tensors[0]->sizes) {
      return InvalidArgument("stack expects each tensor to be equal size, but got ", tensors[0]->sizes.ToString(),
                             " at entry 0 and ", tensors[i]->sizes.ToString(), " at entry ", i);
    }
  }
  if (tensors[0]->rank() == kMaxRank) return InvalidArgument("too many dimensions");
  TD_ASSIGN_OR_RETURN(const int d, WrapDim(args.Int(1), tensors[0]->rank() + 1));
  Dims sizes = tensors[0]->sizes;
  sizes.insert(d, static_cast<int64_t>(tensors.size()));
  if (CheckedNumel(sizes) < 0) return InvalidArgument("stack: the result is too large");
  SetContiguous(&out->outputs[output], sizes);
  return absl::OkStatus();
}

TD_RULE(ShapeFlip) {
  const TensorMeta& self = *args.Tensor(0);
  uint32_t seen = 0;
  for (int64_t dim : args.Attr(1).ints()) {
    TD_ASSIGN_OR_RETURN(const int d, WrapDim(dim, self.rank()));
    if (seen >> d & 1) return InvalidArgument("dim ", d, " appears multiple times in the list of dims");
    seen |= uint32_t{1} << d;
  }
  SetContiguous(&out->outputs[output], self.sizes);
  return absl::OkStatus();
}

TD_RULE(ShapeTriangle) {
  const int rank = args.Tensor(0)->rank();
  if (rank == 0) return IndexError("Dimension specified as -2 but tensor has no dimensions");
  TD_RETURN_IF_ERROR(WrapDim(-2, rank).status());
  SetContiguous(&out->outputs[output], args.Tensor(0)->sizes);
  return absl::OkStatus();
}

TD_RULE(ShapeGather) {
  const TensorMeta &self = *args.Tensor(0), &index = *args.Tensor(2);
  TD_ASSIGN_OR_RETURN(const int d, WrapDim(args.Int(1), self.rank()));
  if (RankOrOne(index) != RankOrOne(self)) {
    return InvalidArgument("Index tensor must have the same number of dimensions as input tensor");
  }
  if (const int i = Overreach(index, self, d); i >= 0) {
    return InvalidArgument("Size does not match at dimension ", i, " expected index ", index.sizes.ToString(),
                           " to be smaller than self ", self.sizes.ToString(), " apart from dimension ", d);
  }
  SetContiguous(&out->outputs[output], index.sizes);
  return absl::OkStatus();
}

TD_RULE(ShapeScatter) {
  const TensorMeta &self = *args.Tensor(0), &index = *args.Tensor(2);
  const TensorMeta* src = args.Tensor(3);
  TD_ASSIGN_OR_RETURN(const int d, WrapDim(args.Int(1), self.rank()));
  if (RankOrOne(index) != RankOrOne(self)) {
    return InvalidArgument("Index tensor must have the same number of dimensions as self tensor");
  }
  if (src != nullptr && RankOrOne(index) != RankOrOne(*src)) {
    return InvalidArgument("Index tensor must have the same number of dimensions as src tensor");
  }
  if (Overreach(index, self, d) >= 0 || (src != nullptr && Overreach(index, *src, -1) >= 0)) {
    return InvalidArgument(
        "Expected index ", index.sizes.ToString(), " to be smaller than self ", self.sizes.ToString(),
        " apart from dimension ", d,
        src != nullptr ? absl::StrCat(" and to be smaller size than src ", src->sizes.ToString()) : "");
  }
  SetContiguous(&out->outputs[output], self.sizes);
  return absl::OkStatus();
}

TD_RULE(ShapeIndexSelect) {
  const TensorMeta &self = *args.Tensor(0), &index = *args.Tensor(2);
  TD_ASSIGN_OR_RETURN(const int d, WrapDim(args.Int(1), self.rank()));
  if (index.rank() > 1) return IndexError("index_select(): Index is supposed to be a vector");
  Dims sizes = self.sizes;
  if (self.rank() > 0) {
    sizes[d] = index.rank() == 0 ? 1 : index.sizes[0];
  } else if (index.numel() != 1) {
    return IndexError("index_select(): Index to scalar can have only 1 value, got ", index.numel(), " value(s)");
  }
  if (CheckedNumel(sizes) < 0) return InvalidArgument("index_select: the result is too large");
  SetContiguous(&out->outputs[output], sizes);
  return absl::OkStatus();
}

TD_RULE(ShapeIndexAdd) {
  const TensorMeta &self = *args.Tensor(0), &index = *args.Tensor(2), &source = *args.Tensor(3);
  TD_ASSIGN_OR_RETURN(const int d, WrapDim(args.Int(1), self.rank()));
  if (index.rank() > 1) {
    return IndexError("index_add_(): Index is supposed to be a vector, but got dim: ", index.rank(),
                      " with type: ", DTypeTitle(index.dtype),
                      " and size: ", index.sizes.ToString());
  }
  const int64_t count = index.rank() == 0 ? 1 : index.sizes[0];
  if (d < source.rank() && source.sizes[d] != count) {
    return InvalidArgument("index_add_(): Number of indices (", count, ") should be equal to source.size(dim): (",
                           source.sizes[d], "), for dim: ", d);
  }
  if (source.rank() != self.rank() && !(source.rank() == 0 && self.rank() == 1 && count == 1)) {
    return InvalidArgument("index_add_(): source of rank ", source.rank(), " does not fit self of rank ", self.rank());
  }
  for (int i = 0; i < source.rank(); ++i) {
    const int64_t want = i == d ? count : self.sizes[i];
    if (source.sizes[i] != want) {
      return InvalidArgument(
          "source tensor shape must match self tensor shape, excluding the specified dimension. Got "
          "self.shape = ",
          self.sizes.ToString(), " source.shape = ", source.sizes.ToString());
    }
  }
  if (self.rank() == 0 && count != source.numel()) {
    return InvalidArgument("index_add_(): Number of indices (", count, ") should be equal to the source's size");
  }
  SetContiguous(&out->outputs[output], self.sizes);
  return absl::OkStatus();
}

TD_RULE(ShapeIndex) {
  const TensorMeta& self = *args.Tensor(0);
  TD_ASSIGN_OR_RETURN(const IndexPlan plan, PlanIndex(args, self, args.List(1)));
  TD_ASSIGN_OR_RETURN(const Dims sizes, IndexedSizes(self, plan));
  SetContiguous(&out->outputs[output], sizes);
  return absl::OkStatus();
}

TD_RULE(ShapeIndexPut) {
  const TensorMeta &self = *args.Tensor(0), &values = *args.Tensor(2);
  TD_ASSIGN_OR_RETURN(const IndexPlan plan, PlanIndex(args, self, args.List(1)));
  TD_ASSIGN_OR_RETURN(const Dims sizes, IndexedSizes(self, plan));
  absl::StatusOr<Dims> together = BroadcastSizes(values.sizes, sizes);
  if (!together.ok() || *together != sizes) {
    return InvalidArgument("shape mismatch: value tensor of shape ", values.sizes.ToString(),
                           " cannot be broadcast to indexing result of shape ", sizes.ToString());
  }
  SetContiguous(&out->outputs[output], self.sizes);
  return absl::OkStatus();
}

TD_RULE(ShapeMaskedSelect) {
  if (args.Tensor(1)->dtype != DType::kBool && args.Tensor(1)->dtype != DType::kUInt8) {
    return InvalidArgument("masked_select: expected BoolTensor or ByteTensor for mask");
  }
  TD_RETURN_IF_ERROR(BroadcastSizes(args.Tensor(0)->sizes, args.Tensor(1)->sizes).status());
  out->dynamic = true;
  SetContiguous(&out->outputs[output], Dims{0});
  return absl::OkStatus();
}

TD_RULE(ShapeNonzero) {
  out->dynamic = true;
  SetContiguous(&out->outputs[output], Dims{0, args.Tensor(0)->rank()});
  return absl::OkStatus();
}

TD_RULE(ShapeNonzeroCounted) {
  const int64_t count = args.Int(1);
  if (count < 0 || count > args.Tensor(0)->numel()) return InvalidArgument("_nonzero: a count of ", count);
  SetContiguous(&out->outputs[output], Dims{count, args.Tensor(0)->rank()});
  return absl::OkStatus();
}

TD_RULE(ShapeEmbedding) {
  const TensorMeta &weight = *args.Tensor(0), &indices = *args.Tensor(1);
  if (weight.rank() != 2) return InvalidArgument("'weight' must be 2-D");
  if (indices.rank() == kMaxRank) return InvalidArgument("too many dimensions");
  TD_RETURN_IF_ERROR(CheckPadding(args.Attr(2), weight.sizes[0]));
  Dims sizes = indices.sizes;
  sizes.push_back(weight.sizes[1]);
  if (CheckedNumel(sizes) < 0) return InvalidArgument("embedding: the result is too large");
  SetContiguous(&out->outputs[output], sizes);
  return absl::OkStatus();
}

TD_RULE(ShapeEmbeddingBackward) {
  const TensorMeta &grad = *args.Tensor(0), &indices = *args.Tensor(1);
  if (grad.rank() != indices.rank() + 1 || Dims(grad.sizes.data(), indices.rank()) != indices.sizes) {
    return InvalidArgument("_embedding_backward: the gradient's size ", grad.sizes.ToString(),
                           " does not fit indices of size ", indices.sizes.ToString());
  }
  TD_ASSIGN_OR_RETURN(const Dims sizes, CheckedSizes({args.Int(2), grad.sizes.back()}));
  TD_RETURN_IF_ERROR(CheckPadding(args.Attr(3), args.Int(2)));
  SetContiguous(&out->outputs[output], sizes);
  return absl::OkStatus();
}

TD_RULE(ShapeOneHot) {
  const TensorMeta& self = *args.Tensor(0);
  if (self.rank() == kMaxRank) return InvalidArgument("too many dimensions");
  if (self.dtype != DType::kInt64) return InvalidArgument("one_hot is only applicable to index tensor.");
  const int64_t classes = args.Int(1);
  if (classes < -1) return InvalidArgument("Class values must be smaller than num_classes.");
  // Of no index at all nothing can be inferred.
  if (classes < 0 && self.numel() == 0)
    return InvalidArgument("Can not infer total number of classes from empty tensor.");
  if (classes == 0) {
    return InvalidArgument(self.numel() > 0 ? "Class values must be smaller than num_classes."
                                            : "Can not infer total number of classes from empty tensor.");
  }
  out->dynamic = classes < 0;
  std::vector<int64_t> sizes = self.sizes.ToVector();
  sizes.push_back(std::max<int64_t>(classes, 0));
  TD_ASSIGN_OR_RETURN(const Dims checked, CheckedSizes(sizes));
  SetContiguous(&out->outputs[output], checked);
  return absl::OkStatus();
}

TD_RULE(ShapeTopk) {
  const TensorMeta& self = *args.Tensor(0);
  TD_ASSIGN_OR_RETURN(const int d, WrapDim(args.Int(2), self.rank()));
  const int64_t k = args.Int(1), size = self.rank() > 0 ? self.sizes[d] : 1;
  if (k < 0 || k > size) return InvalidArgument("selected index k out of range");
  Dims sizes = self.sizes;
  if (self.rank() > 0) sizes[d] = k;
  SetContiguous(&out->outputs[output], sizes);
  return absl::OkStatus();
}

#undef TD_RULE

}  // namespace telensor::rules
