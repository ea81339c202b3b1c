// Shape rules of views: sizes, strides and offset over the input's storage.
#include "absl/strings/str_join.h"
#include "proto/core/meta_rules.h"
#include "proto/core/shape_util.h"

namespace telensor::rules {
namespace {

// Starts an output as its input is.
TensorMeta* Like(const TensorMeta& self, TensorMeta* out) {
  out->sizes = self.sizes;
  out->strides = self.strides;
  out->offset = self.offset;
  return out;
}

absl::Status SetView(const TensorMeta& self, const Dims& sizes, TensorMeta* out) {
  Dims strides;
  if (!ViewStrides(self, sizes, &strides)) {
    return InvalidArgument(
        "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
        "contiguous subspaces). Use .reshape(...) instead.");
  }
  out->sizes = sizes;
  out->strides = strides;
  out->offset = self.offset;
  return absl::OkStatus();
}

// A view where strides allow it, else the shape of a fresh copy.
absl::Status SetReshaped(const TensorMeta& self, const Dims& sizes, OpMetas* out) {
  TensorMeta* result = &out->outputs[0];
  Dims strides;
  if (ViewStrides(self, sizes, &strides)) {
    out->aliases = true;
    result->sizes = sizes;
    result->strides = strides;
    result->offset = self.offset;
  } else {
    SetContiguous(result, sizes);
  }
  return absl::OkStatus();
}

absl::Status SetExpanded(const TensorMeta& self, const std::vector<int64_t>& size, TensorMeta* out) {
  const int rank = static_cast<int>(size.size());
  if (rank < self.rank()) {
    return InvalidArgument("expand(", self.sizes.ToString(),
                           ", size=", size.size() <= kMaxRank ? Dims(size).ToString() : "...",
                           "): the number of sizes provided (", rank,
                           ") must be greater or equal to the number of dimensions in the tensor (", self.rank(), ")");
  }
  if (rank > kMaxRank) return InvalidArgument("too many dimensions: ", rank, ", the most is ", kMaxRank);
  Dims sizes(size), strides(rank, 0);
  for (int i = 0; i < rank; ++i) {
    const int from = i - (rank - self.rank());
    if (from < 0) {
      if (size[i] == -1) {
        return InvalidArgument(
            "The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension ", i);
      }
      if (size[i] < 0) return InvalidArgument("The expanded size of the tensor (", size[i], ") isn't allowed");
      continue;
    }
    if (size[i] == -1 || size[i] == self.sizes[from]) {
      sizes[i] = self.sizes[from];
      strides[i] = self.strides[from];
    } else if (self.sizes[from] != 1 || size[i] < 0) {
      return InvalidArgument("The expanded size of the tensor (", size[i], ") must match the existing size (",
                             self.sizes[from], ") at non-singleton dimension ", i,
                             ".  Target sizes: ", Dims(size).ToString(), ".  Tensor sizes: ", self.sizes.ToString());
    }
  }
  if (CheckedNumel(sizes) < 0) return InvalidArgument("the shape ", sizes.ToString(), " is too large");
  out->sizes = sizes;
  out->strides = strides;
  out->offset = self.offset;
  return absl::OkStatus();
}

// One piece of a dimension; the caller has checked the range.
TensorMeta Piece(const TensorMeta& self, int dim, int64_t start, int64_t length) {
  TensorMeta piece = self;
  piece.sizes[dim] = length;
  piece.offset += start * self.strides[dim];
  return piece;
}

// The slice (dim, start, end, step) of `self`, its arguments from the k-th on.
absl::Status SetSliced(const RuleArgs& args, int k, const TensorMeta& self, TensorMeta* out) {
  if (self.rank() == 0) return InvalidArgument("slice() cannot be applied to a 0-dim tensor.");
  TD_ASSIGN_OR_RETURN(const int d, WrapDim(args.Int(k), self.rank()));
  const int64_t size = self.sizes[d], step = args.Int(k + 3);
  if (step <= 0) return InvalidArgument("slice step must be positive");
  const auto wrap = [size](const Value& v, int64_t otherwise) {
    if (v.none()) return otherwise;
    const int64_t i = v.i() < 0 ? v.i() + size : v.i();
    return std::clamp<int64_t>(i, 0, size);
  };
  const int64_t start = wrap(args.Attr(k + 1), 0);
  const int64_t end = std::max(wrap(args.Attr(k + 2), size), start);
  TensorMeta* result = Like(self, out);
  result->offset += start * self.strides[d];
  const int64_t length = end - start;
  result->sizes[d] = length / step + (length % step != 0);
  // With one element or none the stride is never taken; a huge step must not overflow it.
  if (result->sizes[d] > 1) result->strides[d] *= step;
  return absl::OkStatus();
}

absl::Status NeedsDims(const RuleArgs& args, const TensorMeta& self) {
  if (self.rank() > 0) return absl::OkStatus();
  return InvalidArgument(args.name(), " expects at least a 1-dimensional tensor");
}

// Whether strides and an offset are such that a tensor may have.
absl::Status CheckPlace(const char* op, const Dims& sizes, const std::vector<int64_t>& strides, int64_t offset) {
  constexpr int64_t kFar = int64_t{1} << 58;
  bool good = strides.size() == static_cast<size_t>(sizes.size()) && offset >= 0 && offset <= kFar;
  int64_t reach = 0;
  for (int i = 0; good && i < sizes.size(); ++i) {
    int64_t span;
    good = strides[i] >= 0 && !__builtin_mul_overflow(std::max<int64_t>(sizes[i] - 1, 0), strides[i], &span) &&
           !__builtin_add_overflow(reach, span, &reach) && reach <= kFar;
  }
  return good ? absl::OkStatus() : InvalidArgument(op, "(): sizes, strides and offset make no view");
}

// A tensor is cut into at most this many; a peer could ask for more than the server has memory to name.
constexpr int64_t kMaxPieces = 1 << 16;

}  // namespace

#define TD_RULE(name) absl::Status name(const RuleArgs& args, int output, OpMetas* out)

TD_RULE(ShapeAlias) {
  Like(*args.Tensor(0), &out->outputs[output]);
  return absl::OkStatus();
}

TD_RULE(ShapeView) {
  const TensorMeta& self = *args.Tensor(0);
  TD_ASSIGN_OR_RETURN(const Dims sizes, InferSize(args.Attr(1).ints(), self.numel()));
  return SetView(self, sizes, &out->outputs[output]);
}

TD_RULE(ShapeReshape) {
  const TensorMeta& self = *args.Tensor(0);
  TD_ASSIGN_OR_RETURN(const Dims sizes, InferSize(args.Attr(1).ints(), self.numel()));
  return SetReshaped(self, sizes, out);
}

TD_RULE(ShapePermute) {
  const TensorMeta& self = *args.Tensor(0);
  const std::vector<int64_t>& dims = args.Attr(1).ints();
  if (static_cast<int>(dims.size()) != self.rank()) {
    return InvalidArgument(
        "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the "
        "desired ordering of dimensions i.e. input.dim() = ",
        self.rank(), " is not equal to len(dims) = ", dims.size());
  }
  TensorMeta* result = Like(self, &out->outputs[output]);
  uint32_t seen = 0;
  for (int i = 0; i < self.rank(); ++i) {
    TD_ASSIGN_OR_RETURN(const int d, WrapDim(dims[i], self.rank()));
    if (seen >> d & 1) return InvalidArgument("permute(): duplicate dims are not allowed.");
    seen |= uint32_t{1} << d;
    result->sizes[i] = self.sizes[d];
    result->strides[i] = self.strides[d];
  }
  return absl::OkStatus();
}

TD_RULE(ShapeTranspose) {
  const TensorMeta& self = *args.Tensor(0);
  TD_ASSIGN_OR_RETURN(const int a, WrapDim(args.Int(1), self.rank()));
  TD_ASSIGN_OR_RETURN(const int b, WrapDim(args.Int(2), self.rank()));
  TensorMeta* result = Like(self, &out->outputs[output]);
  if (self.rank() == 0) return absl::OkStatus();
  std::swap(result->sizes[a], result->sizes[b]);
  std::swap(result->strides[a], result->strides[b]);
  return absl::OkStatus();
}

TD_RULE(ShapeT) {
  const TensorMeta& self = *args.Tensor(0);
  if (self.rank() > 2)
    return InvalidArgument("t() expects a tensor with <= 2 dimensions, but self is ", self.rank(), "D");
  TensorMeta* result = Like(self, &out->outputs[output]);
  if (self.rank() == 2) {
    std::swap(result->sizes[0], result->sizes[1]);
    std::swap(result->strides[0], result->strides[1]);
  }
  return absl::OkStatus();
}

TD_RULE(ShapeUnsqueeze) {
  const TensorMeta& self = *args.Tensor(0);
  if (self.rank() == kMaxRank) return InvalidArgument("too many dimensions: the most is ", kMaxRank);
  TD_ASSIGN_OR_RETURN(const int d, WrapDim(args.Int(1), self.rank() + 1));
  TensorMeta* result = Like(self, &out->outputs[output]);
  const int64_t stride = d < self.rank() ? self.sizes[d] * self.strides[d] : 1;
  result->sizes.insert(d, 1);
  result->strides.insert(d, stride);
  return absl::OkStatus();
}

TD_RULE(ShapeSqueeze) {
  const TensorMeta& self = *args.Tensor(0);
  TensorMeta* result = &out->outputs[output];
  result->sizes.clear();
  result->strides.clear();
  result->offset = self.offset;
  for (int i = 0; i < self.rank(); ++i) {
    if (self.sizes[i] == 1) continue;
    result->sizes.push_back(self.sizes[i]);
    result->strides.push_back(self.strides[i]);
  }
  return absl::OkStatus();
}

TD_RULE(ShapeSqueezeDim) {
  const TensorMeta& self = *args.Tensor(0);
  TD_ASSIGN_OR_RETURN(const int d, WrapDim(args.Int(1), self.rank()));
  TensorMeta* result = Like(self, &out->outputs[output]);
  if (self.rank() > 0 && self.sizes[d] == 1) {
    result->sizes.erase(d);
    result->strides.erase(d);
  }
  return absl::OkStatus();
}

TD_RULE(ShapeExpand) { return SetExpanded(*args.Tensor(0), args.Attr(1).ints(), &out->outputs[output]); }

TD_RULE(ShapeSelect) {
  const TensorMeta& self = *args.Tensor(0);
  if (self.rank() == 0) return IndexError("select() cannot be applied to a 0-dim tensor.");
  TD_ASSIGN_OR_RETURN(const int d, WrapDim(args.Int(1), self.rank()));
  const int64_t index = args.Int(2), size = self.sizes[d];
  if (index < -size || index >= size) {
    return IndexError("index ", index, " is out of bounds for dimension ", d, " with size ", size);
  }
  TensorMeta* result = Like(self, &out->outputs[output]);
  result->offset += (index < 0 ? index + size : index) * self.strides[d];
  result->sizes.erase(d);
  result->strides.erase(d);
  return absl::OkStatus();
}

TD_RULE(ShapeSlice) { return SetSliced(args, 1, *args.Tensor(0), &out->outputs[output]); }

// (grad, sizes, dim, start, end, step)
TD_RULE(ShapeSliceBackward) {
  TensorMeta whole, slice;
  TD_ASSIGN_OR_RETURN(const Dims sizes, CheckedSizes(args.Attr(1).ints()));
  SetContiguous(&whole, sizes);
  TD_RETURN_IF_ERROR(SetSliced(args, 2, whole, &slice));
  TD_RETURN_IF_ERROR(CheckSizesAre(args.name(), "grad", args.Tensor(0)->sizes, slice.sizes));
  SetContiguous(&out->outputs[output], sizes);
  return absl::OkStatus();
}

TD_RULE(ShapeNarrow) {
  const TensorMeta& self = *args.Tensor(0);
  if (self.rank() == 0) return InvalidArgument("narrow() cannot be applied to a 0-dim tensor.");
  TD_ASSIGN_OR_RETURN(const int d, WrapDim(args.Int(1), self.rank()));
  const int64_t size = self.sizes[d], length = args.Int(3);
  if (args.Int(2) < -size || args.Int(2) > size) {
    return IndexError("Dimension out of range (expected to be in range of [", -size, ", ", size - 1, "], but got ",
                      args.Int(2), ")");
  }
  const int64_t start = args.Int(2) < 0 ? args.Int(2) + size : args.Int(2);
  if (length < 0 || length > size - start) {
    return InvalidArgument("start (", start, ") + length (", length, ") exceeds dimension size (", size, ").");
  }
  out->outputs[output] = Piece(self, d, start, length);
  return absl::OkStatus();
}

TD_RULE(ShapeAsStrided) {
  const TensorMeta& self = *args.Tensor(0);
  TD_ASSIGN_OR_RETURN(const Dims sizes, CheckedSizes(args.Attr(1).ints()));
  const std::vector<int64_t>& strides = args.Attr(2).ints();
  if (strides.size() != static_cast<size_t>(sizes.size()))
    return InvalidArgument("mismatch in length of strides and shape");
  // Within what the input itself reaches: the rule doesn't know the storage.
  int64_t most = args.Int(3);
  int64_t reach = self.offset;
  for (int i = 0; i < self.rank(); ++i) reach += (self.sizes[i] - 1) * self.strides[i];
  for (int i = 0; i < sizes.size(); ++i) {
    int64_t span;
    if (strides[i] < 0 || __builtin_mul_overflow(sizes[i] - 1, strides[i], &span) ||
        __builtin_add_overflow(most, span, &most)) {
      return InvalidArgument("as_strided: the strides reach out of bounds");
    }
  }
  if (args.Int(3) < self.offset || (CheckedNumel(sizes) > 0 && (self.numel() == 0 || most > reach))) {
    return InvalidArgument("as_strided: the view reaches out of bounds of its base");
  }
  TensorMeta& result = out->outputs[output];
  result.sizes = sizes;
  result.strides = Dims(strides);
  // What is empty may say to be anywhere, but is nowhere.
  result.offset = CheckedNumel(sizes) > 0 ? args.Int(3) : self.offset;
  return absl::OkStatus();
}

// (grad, sizes, strides, offset, view_sizes, view_strides, view_offset)
TD_RULE(ShapeAsStridedBackward) {
  TD_ASSIGN_OR_RETURN(const Dims sizes, CheckedSizes(args.Attr(1).ints()));
  TD_ASSIGN_OR_RETURN(const Dims view_sizes, CheckedSizes(args.Attr(4).ints()));
  TD_RETURN_IF_ERROR(CheckPlace(args.name(), sizes, args.Attr(2).ints(), args.Int(3)));
  TD_RETURN_IF_ERROR(CheckPlace(args.name(), view_sizes, args.Attr(5).ints(), args.Int(6)));
  TD_RETURN_IF_ERROR(CheckSizesAre(args.name(), "grad", args.Tensor(0)->sizes, view_sizes));
  SetContiguous(&out->outputs[output], sizes);
  return absl::OkStatus();
}

TD_RULE(ShapeSplit) {
  const TensorMeta& self = *args.Tensor(0);
  TD_RETURN_IF_ERROR(NeedsDims(args, self));
  TD_ASSIGN_OR_RETURN(const int d, WrapDim(args.Int(2), self.rank()));
  const int64_t step = args.Int(1), size = self.sizes[d];
  if (step < 0) return InvalidArgument("split expects split_size be non-negative, but got split_size=", step);
  if (step == 0 && size != 0) {
    return InvalidArgument("split_size can only be 0 if dimension size is 0, but got dimension size of ", size);
  }
  const int64_t pieces = step == 0 ? 1 : std::max<int64_t>(size / step + (size % step != 0), 1);
  if (pieces > kMaxPieces) return InvalidArgument("split: ", pieces, " pieces are too many");
  out->outputs.clear();
  for (int64_t i = 0; i < pieces; ++i) {
    out->outputs.push_back(Piece(self, d, i * step, std::min(step, size - i * step)));
  }
  return absl::OkStatus();
}

TD_RULE(ShapeSplitSizes) {
  const TensorMeta& self = *args.Tensor(0);
  TD_RETURN_IF_ERROR(NeedsDims(args, self));
  TD_ASSIGN_OR_RETURN(const int d, WrapDim(args.Int(2), self.rank()));
  const std::vector<int64_t>& sizes = args.Attr(1).ints();
  if (sizes.size() > kMaxPieces) return InvalidArgument("split: ", sizes.size(), " pieces are too many");
  const auto list = [&sizes] {
    const auto shown = absl::MakeConstSpan(sizes).subspan(0, 64);
    return absl::StrCat("[", absl::StrJoin(shown, ", "), shown.size() < sizes.size() ? ", ...]" : "]");
  };
  const auto misfit = [&] {
    return InvalidArgument("split_with_sizes expects split_sizes to sum exactly to ", self.sizes[d],
                           " (input tensor's size at dimension ", d, "), but got split_sizes=", list());
  };
  int64_t at = 0;
  out->outputs.clear();
  for (int64_t size : sizes) {
    if (size < 0) {
      return InvalidArgument(
          "split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes=", list());
    }
    if (size > self.sizes[d] - at) return misfit();
    out->outputs.push_back(Piece(self, d, at, size));
    at += size;
  }
  if (at != self.sizes[d]) return misfit();
  return absl::OkStatus();
}

TD_RULE(ShapeChunk) {
  const TensorMeta& self = *args.Tensor(0);
  TD_RETURN_IF_ERROR(NeedsDims(args, self));
  TD_ASSIGN_OR_RETURN(const int d, WrapDim(args.Int(2), self.rank()));
  const int64_t chunks = args.Int(1), size = self.sizes[d];
  if (chunks <= 0) return InvalidArgument("chunk expects `chunks` to be greater than 0, got: ", chunks);
  const int64_t step = size / chunks + (size % chunks != 0);
  const int64_t pieces = step == 0 ? std::min(chunks, kMaxPieces) : size / step + (size % step != 0);
  if (pieces > kMaxPieces) return InvalidArgument("chunk: ", pieces, " pieces are too many");
  out->outputs.clear();
  for (int64_t i = 0; i < pieces; ++i) {
    out->outputs.push_back(Piece(self, d, i * step, std::min(step, size - i * step)));
  }
  return absl::OkStatus();
}

TD_RULE(ShapeUnbind) {
  const TensorMeta& self = *args.Tensor(0);
  if (self.rank() == 0) return IndexError("Dimension specified as ", args.Int(1), " but tensor has no dimensions");
  TD_ASSIGN_OR_RETURN(const int d, WrapDim(args.Int(1), self.rank()));
  if (self.sizes[d] > kMaxPieces) return InvalidArgument("unbind: ", self.sizes[d], " pieces are too many");
  out->outputs.clear();
  for (int64_t i = 0; i < self.sizes[d]; ++i) {
    TensorMeta piece = Piece(self, d, i, 1);
    piece.sizes.erase(d);
    piece.strides.erase(d);
    out->outputs.push_back(piece);
  }
  return absl::OkStatus();
}

TD_RULE(ShapeFlatten) {
  TD_ASSIGN_OR_RETURN(const Dims sizes, FlattenSizes(args.Tensor(0)->sizes, args.Int(1), args.Int(2)));
  return SetReshaped(*args.Tensor(0), sizes, out);
}

TD_RULE(ShapeUnflatten) {
  TD_ASSIGN_OR_RETURN(const Dims sizes, UnflattenSizes(args.Tensor(0)->sizes, args.Int(1), args.Attr(2).ints()));
  return SetReshaped(*args.Tensor(0), sizes, out);
}

TD_RULE(ShapeViewLike) {
  out->aliases = true;
  TD_ASSIGN_OR_RETURN(const Dims sizes, InferSize(args.Tensor(1)->sizes.ToVector(), args.Tensor(0)->numel()));
  return SetView(*args.Tensor(0), sizes, &out->outputs[output]);
}

TD_RULE(ShapeReshapeLike) {
  TD_ASSIGN_OR_RETURN(const Dims sizes, InferSize(args.Tensor(1)->sizes.ToVector(), args.Tensor(0)->numel()));
  return SetReshaped(*args.Tensor(0), sizes, out);
}

TD_RULE(ShapeExpandLike) {
  out->aliases = true;
  return SetExpanded(*args.Tensor(0), args.Tensor(1)->sizes.ToVector(), &out->outputs[output]);
}

TD_RULE(ShapeRepeat) {
  const TensorMeta& self = *args.Tensor(0);
  const std::vector<int64_t>& repeats = args.Attr(1).ints();
  const int rank = static_cast<int>(repeats.size());
  if (rank < self.rank()) {
    return InvalidArgument(
        "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor");
  }
  if (rank > kMaxRank / 2) return InvalidArgument("repeat: too many dimensions");
  Dims sizes;
  for (int i = 0; i < rank; ++i) {
    const int from = i - (rank - self.rank());
    int64_t size;
    if (__builtin_mul_overflow(from < 0 ? 1 : self.sizes[from], repeats[i], &size)) {
      return InvalidArgument("repeat: the result is too large");
    }
    sizes.push_back(size);
  }
  TD_ASSIGN_OR_RETURN(const Dims checked, CheckedSizes(sizes.ToVector()));
  SetContiguous(&out->outputs[output], checked);
  return absl::OkStatus();
}

#undef TD_RULE

}  // namespace telensor::rules
