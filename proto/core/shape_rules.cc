// Shape rules of creation, pointwise and reduction rows.
#include <cmath>

#include "proto/core/meta_rules.h"
#include "proto/core/nn_shapes.h"
#include "proto/core/shape_util.h"

namespace telensor::rules {
namespace {

// Dense row-major down to the strides of size-1 dimensions.
bool IsCanonical(const TensorMeta& t) {
  int64_t step = 1;
  for (int i = t.rank() - 1; i >= 0; --i) {
    if (t.strides[i] != step) return false;
    step *= std::max<int64_t>(t.sizes[i], 1);
  }
  return true;
}

// The order of dimensions, fastest first, in which PyTorch's TensorIterator walks these operands.
void IterationOrder(const RuleArgs& args, const Dims& sizes, int* order) {
  const int rank = sizes.size();
  for (int i = 0; i < rank; ++i) order[i] = rank - 1 - i;
  // 1 where a is slower than b, -1 where it is faster, 0 where no operand can tell.
  const auto compare = [&](int a, int b) {
    for (int k = 0; k < args.size(); ++k) {
      const TensorMeta* t = args.Tensor(k);
      if (t == nullptr) continue;
      const auto stride = [&](int dim) -> int64_t {
        const int i = dim - (rank - t->rank());
        return i < 0 || t->sizes[i] != sizes[dim] ? 0 : t->strides[i];
      };
      const int64_t x = stride(a), y = stride(b);
      if (x == 0 || y == 0) continue;
      if (x != y) return x < y ? -1 : 1;
      if (sizes[a] > sizes[b]) return 1;
    }
    return 0;
  };
  for (int i = 1; i < rank; ++i) {
    int at = i;
    for (int j = i - 1; j >= 0; --j) {
      const int c = compare(order[j], order[at]);
      if (c < 0) break;
      if (c > 0) {
        std::swap(order[j], order[at]);
        at = j;
      }
    }
  }
}

// The layout of operands not all dense row-major: theirs where they agree, as PyTorch's TensorIterator gives it.
void SetSortedStrides(const RuleArgs& args, const Dims& sizes, TensorMeta* out) {
  bool same_sizes = true, same_strides = true, contiguous = true;
  const TensorMeta* first = nullptr;
  for (int k = 0; k < args.size(); ++k) {
    const TensorMeta* t = args.Tensor(k);
    if (t == nullptr) {
      // A number is a 0-dim tensor to PyTorch, which then sorts even contiguous operands.
      same_sizes = same_sizes && !(args.IsInput(k) && args.Number(k).given());
      continue;
    }
    if (first == nullptr) first = t;
    contiguous = contiguous && t->contiguous();
    same_sizes = same_sizes && t->sizes == sizes;
    same_strides = same_strides && t->strides == first->strides;
  }
  if (same_sizes && contiguous) return;
  if (same_sizes && same_strides && IsNonOverlappingAndDense(sizes, first->strides)) {
    out->strides = first->strides;
    return;
  }
  int order[kMaxRank];
  IterationOrder(args, sizes, order);
  int64_t step = 1;
  for (int i = 0; i < sizes.size(); ++i) {
    out->strides[order[i]] = step;
    step *= std::max<int64_t>(sizes[order[i]], 1);
  }
}

void SetPointwise(const RuleArgs& args, const Dims& sizes, TensorMeta* out) {
  const TensorMeta* like = nullptr;
  bool canonical = true;
  for (int k = 0; k < args.size(); ++k) {
    const TensorMeta* t = args.Tensor(k);
    if (t == nullptr) continue;
    canonical = canonical && IsCanonical(*t);
    if (t->sizes == sizes) like = t;
  }
  out->offset = 0;
  if (canonical && like != nullptr) {
    out->sizes = like->sizes;
    out->strides = like->strides;
    return;
  }
  SetContiguous(out, sizes);
  if (!canonical) SetSortedStrides(args, sizes, out);
}

void SetLike(const TensorMeta& self, TensorMeta* out) {
  out->sizes = self.sizes;
  out->strides = self.strides;
  out->offset = self.offset;
}

absl::Status CheckApproximate(const std::string& way) {
  if (way == "none" || way == "tanh") return absl::OkStatus();
  return InvalidArgument("approximate argument must be either none or tanh.");
}

absl::Status Reduced(const RuleArgs& args, bool need_elements, TensorMeta* out) {
  const TensorMeta& self = *args.Tensor(0);
  // One dimension may be given as a plain number.
  const Value& dim = args.Attr(1);
  const int64_t number = dim.i();
  const absl::Span<const int64_t> dims = dim.is_number() ? absl::MakeConstSpan(&number, 1) : dim.ints();
  TD_ASSIGN_OR_RETURN(const uint32_t mask, ReducedDims(dims, self.rank()));
  Dims sizes;
  for (int i = 0; i < self.rank(); ++i) {
    if ((mask >> i & 1) == 0) {
      sizes.push_back(self.sizes[i]);
      continue;
    }
    if (need_elements && self.sizes[i] == 0) {
      if (dims.empty()) {
        return InvalidArgument(args.name(),
                               "(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
                               "reduction dim with the 'dim' argument.");
      }
      return IndexError(args.name(), "(): Expected reduction dim ", i, " to have non-zero size.");
    }
    if (args.Bool(2)) sizes.push_back(1);
  }
  SetContiguous(out, sizes);
  return absl::OkStatus();
}

}  // namespace

#define TD_RULE(name) absl::Status name(const RuleArgs& args, int output, OpMetas* out)

TD_RULE(ShapeSize) {
  TD_ASSIGN_OR_RETURN(const Dims sizes, CheckedSizes(args.Attr(0).ints()));
  SetContiguous(&out->outputs[output], sizes);
  return absl::OkStatus();
}

TD_RULE(ShapeSizeOf) {
  SetContiguous(&out->outputs[output], args.Tensor(0)->sizes);
  return absl::OkStatus();
}

TD_RULE(ShapeCount) {
  if (args.Int(0) < 0 && absl::string_view(args.name()) == "linspace") {
    return InvalidArgument("number of steps must be non-negative");
  }
  TD_ASSIGN_OR_RETURN(const Dims sizes, CheckedSizes({args.Int(0)}));
  SetContiguous(&out->outputs[output], sizes);
  return absl::OkStatus();
}

// (start, end, step, dtype)
TD_RULE(ShapeArange) {
  const double start = args.Attr(0).f(), end = args.Attr(1).f(), step = args.Attr(2).f();
  if (!std::isfinite(start) || !std::isfinite(end)) return InvalidArgument("unsupported range: ", start, " -> ", end);
  bool integral = !args.Attr(3).none() && !IsFloating(args.Attr(3).dtype());
  if (args.Attr(3).none()) {
    integral = true;
    for (int k = 0; k < 3; ++k) integral &= args.Attr(k).kind() == Value::Kind::kInt;
  }
  // Of an integer dtype, bounds and step lose their fractions; but int64 alone counts by what is left.
  int64_t whole[3] = {};
  for (int k = 0; k < 3 && integral; ++k) {
    const Value& v = args.Attr(k);
    if (v.kind() == Value::Kind::kFloat && !(std::abs(v.f()) < 0x1p63)) {
      return InvalidArgument("value cannot be converted to type int64_t without overflow");
    }
    whole[k] = v.kind() == Value::Kind::kFloat ? static_cast<int64_t>(v.f()) : args.Int(k);
  }
  if (!(integral ? whole[2] != 0 : step != 0)) return InvalidArgument("step must be nonzero");
  if (integral ? (step > 0 && whole[1] < whole[0]) || (step < 0 && whole[1] > whole[0])
               : (step > 0 && end < start) || (step < 0 && end > start)) {
    return InvalidArgument("upper bound and larger bound inconsistent with step sign");
  }
  double count;
  if (integral && (args.Attr(3).none() || args.Attr(3).dtype() == DType::kInt64)) {
    // Exact where doubles are not.
    const __int128 span = static_cast<__int128>(whole[1]) - whole[0];
    const __int128 by = whole[2];
    count = static_cast<double>((span + (by > 0 ? by - 1 : by + 1)) / by);
  } else {
    count = std::ceil((end - start) / step);
  }
  if (!(count >= 0 && count < 1e15)) return InvalidArgument("invalid size, possible overflow?");
  SetContiguous(&out->outputs[output], Dims{static_cast<int64_t>(count)});
  return absl::OkStatus();
}

TD_RULE(ShapeEye) {
  const int64_t n = args.Int(0), m = args.Attr(1).none() ? n : args.Int(1);
  if (n < 0) return InvalidArgument("n must be greater or equal to 0, got ", n);
  if (m < 0) return InvalidArgument("m must be greater or equal to 0, got ", m);
  TD_ASSIGN_OR_RETURN(const Dims sizes, CheckedSizes({n, m}));
  SetContiguous(&out->outputs[output], sizes);
  return absl::OkStatus();
}

TD_RULE(ShapeCopyInto) {
  const TensorMeta& self = *args.Tensor(0);
  const TensorMeta* src = args.Tensor(1);
  TD_ASSIGN_OR_RETURN(const Dims sizes, BroadcastSizes(self.sizes, src->sizes));
  if (sizes != self.sizes) {
    return InvalidArgument("output with shape ", self.sizes.ToString(), " doesn't match the broadcast shape ",
                           sizes.ToString());
  }
  SetLike(self, &out->outputs[output]);
  return absl::OkStatus();
}

TD_RULE(ShapeFillInto) {
  const TensorMeta* value = args.Tensor(1);
  if (value != nullptr && value->rank() != 0) {
    return InvalidArgument("fill_ only supports 0-dimension value tensor but got tensor with ", value->rank(),
                           " dimensions.");
  }
  SetLike(*args.Tensor(0), &out->outputs[output]);
  return absl::OkStatus();
}

TD_RULE(ShapePointwise) {
  SetPointwise(args, args.Tensor(0)->sizes, &out->outputs[output]);
  return absl::OkStatus();
}

TD_RULE(ShapeGelu) {
  TD_RETURN_IF_ERROR(CheckApproximate(args.Attr(1).text()));
  return ShapePointwise(args, output, out);
}

TD_RULE(ShapeGeluBackward) {
  TD_RETURN_IF_ERROR(CheckApproximate(args.Attr(2).text()));
  return ShapeBroadcast(args, output, out);
}

TD_RULE(ShapeBroadcast) {
  TensorMeta* result = &out->outputs[output];
  const TensorMeta* first = nullptr;
  Dims sizes;  // of all tensors so far, where they differ
  bool same = true;
  for (int k = 0; k < args.size(); ++k) {
    const TensorMeta* t = args.Tensor(k);
    if (t == nullptr) continue;
    if (first == nullptr) {
      first = t;
    } else if (t->sizes != (same ? first->sizes : sizes)) {
      TD_ASSIGN_OR_RETURN(sizes, BroadcastSizes(same ? first->sizes : sizes, t->sizes));
      same = false;
    }
  }
  SetPointwise(args, same && first != nullptr ? first->sizes : sizes, result);
  return absl::OkStatus();
}

// (grad, ...): the gradient of what the others broadcast to.
TD_RULE(ShapeBroadcastGrad) {
  TD_RETURN_IF_ERROR(ShapeBroadcast(args, output, out));
  return CheckSizesAre(args.name(), "grad", args.Tensor(0)->sizes, out->outputs[output].sizes);
}

TD_RULE(ShapeContiguous) {
  const TensorMeta& self = *args.Tensor(0);
  out->identity = self.contiguous();
  if (out->identity) {
    SetLike(self, &out->outputs[output]);
  } else {
    SetContiguous(&out->outputs[output], self.sizes);
  }
  return absl::OkStatus();
}

TD_RULE(ShapeTo) {
  const TensorMeta& self = *args.Tensor(0);
  const bool dtype = args.Attr(1).none() || args.Attr(1).dtype() == self.dtype;
  const bool device = args.Attr(2).none() || args.Int(2) == self.device;
  out->identity = dtype && device && !args.Bool(3);
  if (out->identity) {
    SetLike(self, &out->outputs[output]);
  } else {
    SetPointwise(args, self.sizes, &out->outputs[output]);
  }
  return absl::OkStatus();
}

TD_RULE(ShapeReduce) { return Reduced(args, false, &out->outputs[output]); }
TD_RULE(ShapeReduceNonempty) { return Reduced(args, true, &out->outputs[output]); }
TD_RULE(ShapeReduceOne) { return Reduced(args, true, &out->outputs[output]); }

TD_RULE(ShapeArgReduce) {
  const TensorMeta& self = *args.Tensor(0);
  if (args.Attr(1).none()) {
    if (self.numel() == 0) {
      return IndexError(args.name(), "(): Expected reduction dim to be specified for input.numel() == 0.");
    }
    SetContiguous(&out->outputs[output], args.Bool(2) ? Dims(self.rank(), 1) : Dims());
    return absl::OkStatus();
  }
  return Reduced(args, true, &out->outputs[output]);
}

TD_RULE(ShapeScan) {
  TD_RETURN_IF_ERROR(WrapDim(args.Int(1), args.Tensor(0)->rank()).status());
  SetContiguous(&out->outputs[output], args.Tensor(0)->sizes);
  return absl::OkStatus();
}

TD_RULE(ShapeUnreduce) {
  // (grad, sizes, dim, keepdim): a reduction's result seen with its input's sizes.
  const TensorMeta& grad = *args.Tensor(0);
  TD_ASSIGN_OR_RETURN(const Dims sizes, CheckedSizes(args.Attr(1).ints()));
  TD_ASSIGN_OR_RETURN(const uint32_t mask, ReducedDims(args.Attr(2).ints(), sizes.size()));
  TensorMeta& result = out->outputs[output];
  result.sizes = sizes;
  result.strides = Dims(sizes.size(), 0);
  result.offset = grad.offset;
  int next = 0;
  for (int i = 0; i < sizes.size(); ++i) {
    if (mask >> i & 1) {
      if (!args.Bool(3)) continue;
      if (next >= grad.rank() || grad.sizes[next++] != 1) return InvalidArgument("_unreduce: the sizes do not fit");
      continue;
    }
    if (next >= grad.rank() || grad.sizes[next] != sizes[i]) return InvalidArgument("_unreduce: the sizes do not fit");
    result.strides[i] = grad.strides[next++];
  }
  if (next != grad.rank()) return InvalidArgument("_unreduce: the sizes do not fit");
  return absl::OkStatus();
}

// (self, dim, keepdim, grad, result): the gradient of a reduction of self; the last are of the reduction's size.
TD_RULE(ShapeUnreduced) {
  static constexpr const char* kNames[] = {"grad", "result"};
  TensorMeta reduced;
  TD_RETURN_IF_ERROR(Reduced(args, false, &reduced));
  for (int k = 3; k < args.size(); ++k) {
    TD_RETURN_IF_ERROR(CheckSizesAre(args.name(), kNames[k - 3], args.Tensor(k)->sizes, reduced.sizes));
  }
  SetContiguous(&out->outputs[output], args.Tensor(0)->sizes);
  return absl::OkStatus();
}

// (grad, sizes, dim, indices, keepdim): the gradient of one element picked along a dimension.
TD_RULE(ShapePickBackward) {
  TD_ASSIGN_OR_RETURN(const Dims sizes, CheckedSizes(args.Attr(1).ints()));
  TD_ASSIGN_OR_RETURN(const int d, WrapDim(args.Int(2), sizes.size()));
  Dims picked = sizes;
  if (!picked.empty()) picked[d] = 1;
  if (!picked.empty() && !args.Bool(4)) picked.erase(d);
  TD_RETURN_IF_ERROR(CheckSizesAre(args.name(), "grad", args.Tensor(0)->sizes, picked));
  TD_RETURN_IF_ERROR(CheckSizesAre(args.name(), "indices", args.Tensor(3)->sizes, picked));
  SetContiguous(&out->outputs[output], sizes);
  return absl::OkStatus();
}

TD_RULE(ShapeScalar) {
  SetContiguous(&out->outputs[output], Dims());
  return absl::OkStatus();
}

// (self, target, weights ..., reduction)
TD_RULE(ShapeLoss) {
  const std::string& reduction = args.Attr(args.size() - 1).text();
  TD_RETURN_IF_ERROR(CheckReduction(reduction));
  TD_ASSIGN_OR_RETURN(const Dims sizes, BroadcastSizes(args.Tensor(0)->sizes, args.Tensor(1)->sizes));
  for (int k = 2; k < args.size() - 1; ++k) {
    if (args.Tensor(k) == nullptr) continue;
    TD_ASSIGN_OR_RETURN(const Dims weighted, BroadcastSizes(sizes, args.Tensor(k)->sizes));
    if (weighted != sizes) {
      return InvalidArgument("output with shape ", sizes.ToString(), " doesn't match the broadcast shape ",
                             weighted.ToString());
    }
  }
  if (reduction == "none") return ShapeBroadcast(args, output, out);
  SetContiguous(&out->outputs[output], Dims());
  return absl::OkStatus();
}

TD_RULE(ShapeReduceLoss) {
  TD_RETURN_IF_ERROR(CheckReduction(args.Attr(1).text()));
  out->identity = args.Attr(1).text() == "none";
  if (out->identity) {
    SetLike(*args.Tensor(0), &out->outputs[output]);
  } else {
    SetContiguous(&out->outputs[output], Dims());
  }
  return absl::OkStatus();
}

// (input, p, training)
TD_RULE(ShapeDropout) {
  const TensorMeta& input = *args.Tensor(0);
  out->identity = !args.Bool(2) || args.Attr(1).f() == 0;
  if (out->identity) {
    SetLike(input, &out->outputs[output]);
  } else {
    SetContiguous(&out->outputs[output], input.sizes);
  }
  return absl::OkStatus();
}

// (self, min, max)
TD_RULE(ShapeClampTensor) {
  if (args.Tensor(1) == nullptr && args.Tensor(2) == nullptr) {
    return InvalidArgument("torch.clamp: At least one of 'min' or 'max' must not be None");
  }
  return ShapeBroadcast(args, output, out);
}

TD_RULE(ShapeFusedStep) {
  const auto tensors = args.List(0);
  const int64_t groups = args.Int(1);
  if (groups < 2 || groups > 5 || tensors.size() % groups != 0) {
    return InvalidArgument(args.name(), ": ", tensors.size(), " tensors can't be cut into ", groups, " groups");
  }
  const size_t n = tensors.size() / groups;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorMeta *t = tensors[i], *param = tensors[i % n];
    if (t == nullptr || param == nullptr) return InvalidArgument(args.name(), ": a tensor is missing");
    if (t->sizes != param->sizes) {
      return InvalidArgument(args.name(), ": tensor ", i, " has size ", t->sizes.ToString(), ", its parameter ",
                             param->sizes.ToString());
    }
    if (t->dtype != param->dtype || !IsFloating(t->dtype)) {
      return InvalidArgument(args.name(), ": tensor ", i, " has another dtype than its parameter");
    }
    if (t->device != tensors[0]->device) return InvalidArgument(args.name(), ": tensors on several devices");
    for (int d = 0; d < t->rank() && i / n != 1; ++d) {
      if (t->strides[d] == 0 && t->sizes[d] > 1)
        return InvalidArgument(args.name(), ": tensor ", i, " is an expanded view");
    }
  }
  return absl::OkStatus();
}

#undef TD_RULE

}  // namespace telensor::rules
