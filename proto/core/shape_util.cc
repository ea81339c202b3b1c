#include "proto/core/shape_util.h"

#include <string>

namespace telensor {

absl::StatusOr<int> WrapDim(int64_t dim, int rank) {
  const int64_t n = rank > 0 ? rank : 1;
  if (dim < -n || dim >= n) {
    return IndexError("Dimension out of range (expected to be in range of [", -n, ", ", n - 1, "], but got ", dim, ")");
  }
  return static_cast<int>(dim < 0 ? dim + n : dim);
}

absl::StatusOr<uint32_t> ReducedDims(absl::Span<const int64_t> dims, int rank) {
  if (dims.empty()) return (uint32_t{1} << rank) - 1;
  uint32_t mask = 0;
  for (int64_t dim : dims) {
    TD_ASSIGN_OR_RETURN(const int d, WrapDim(dim, rank));
    if (mask >> d & 1) return InvalidArgument("dim ", d, " appears multiple times in the list of dims");
    mask |= uint32_t{1} << d;
  }
  return rank == 0 ? 0u : mask;
}

absl::StatusOr<Dims> BroadcastSizes(const Dims& a, const Dims& b) {
  const int rank = std::max(a.size(), b.size());
  Dims out(rank, 1);
  for (int i = 0; i < rank; ++i) {
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) {
      return InvalidArgument("The size of tensor a (", x, ") must match the size of tensor b (", y,
                             ") at non-singleton dimension ", rank - 1 - i);
    }
    out[rank - 1 - i] = x == 1 ? y : x;
  }
  if (CheckedNumel(out) < 0) return InvalidArgument("the broadcast shape ", out.ToString(), " is too large");
  return out;
}

absl::Status CheckExpands(const Dims& from, const Dims& to) {
  if (from.size() > to.size()) {
    return InvalidArgument("expand(", from.ToString(), ", size=", to.ToString(), "): the number of sizes provided (",
                           to.size(), ") must be greater or equal to the number of dimensions in the tensor (",
                           from.size(), ")");
  }
  for (int i = to.size() - 1; i >= to.size() - from.size(); --i) {
    const int64_t size = from[i - (to.size() - from.size())];
    if (size != to[i] && size != 1) {
      return InvalidArgument("The expanded size of the tensor (", to[i], ") must match the existing size (", size,
                             ") at non-singleton dimension ", i, ".  Target sizes: ", to.ToString(),
                             ".  Tensor sizes: ", from.ToString());
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Dims> CheckedSizes(const std::vector<int64_t>& sizes) {
  if (sizes.size() > kMaxRank) {
    return InvalidArgument("too many dimensions: ", sizes.size(), ", the most is ", kMaxRank);
  }
  for (int64_t s : sizes) {
    if (s < 0) {
      return InvalidArgument("Trying to create tensor with negative dimension ", s, ": ", Dims(sizes).ToString());
    }
  }
  const Dims out(sizes);
  if (CheckedNumel(out) < 0) return InvalidArgument("the shape ", out.ToString(), " is too large");
  return out;
}

absl::StatusOr<Dims> InferSize(const std::vector<int64_t>& shape, int64_t numel) {
  if (shape.size() > kMaxRank) {
    return InvalidArgument("too many dimensions: ", shape.size(), ", the most is ", kMaxRank);
  }
  Dims out(shape);
  int unknown = -1;
  Dims known;
  for (int i = 0; i < out.size(); ++i) {
    if (out[i] == -1) {
      if (unknown >= 0) return InvalidArgument("only one dimension can be inferred");
      unknown = i;
    } else if (out[i] < 0) {
      return InvalidArgument("invalid shape dimension ", out[i]);
    } else {
      known.push_back(out[i]);
    }
  }
  const int64_t product = CheckedNumel(known);
  if (unknown >= 0 && product > 0 && numel % product == 0) {
    out[unknown] = numel / product;
    return out;
  }
  if (unknown >= 0 && product == 0 && numel == 0) {
    return InvalidArgument("cannot reshape tensor of 0 elements into shape ", Dims(shape).ToString(),
                           " because the unspecified dimension size -1 can be any value and is ambiguous");
  }
  if (unknown < 0 && product == numel) return out;
  return InvalidArgument("shape '", Dims(shape).ToString(), "' is invalid for input of size ", numel);
}

bool ViewStrides(const TensorMeta& from, const Dims& sizes, Dims* strides) {
  const int64_t numel = CheckedNumel(sizes);
  if (numel < 0 || numel != from.numel()) return false;
  if (from.sizes == sizes) {
    *strides = from.strides;
    return true;
  }
  if (numel == 0 || from.rank() == 0) {
    *strides = ContiguousStrides(sizes);
    return true;
  }
  strides->clear();
  strides->resize(sizes.size());
  // From the back: runs of old dimensions that are dense among themselves take whole new dimensions.
  int view = sizes.size() - 1;
  int64_t base = from.strides.back();
  int64_t run = 1, taken = 1;
  for (int i = from.rank() - 1; i >= 0; --i) {
    run *= from.sizes[i];
    const bool ends = i == 0 || (from.sizes[i - 1] != 1 && from.strides[i - 1] != run * base);
    if (!ends) continue;
    while (view >= 0 && (taken < run || sizes[view] == 1)) {
      (*strides)[view] = taken * base;
      taken *= sizes[view];
      --view;
    }
    if (taken != run) return false;
    if (i > 0) {
      base = from.strides[i - 1];
      run = taken = 1;
    }
  }
  return view == -1;
}

absl::StatusOr<Dims> FlattenSizes(const Dims& sizes, int64_t start_dim, int64_t end_dim) {
  TD_ASSIGN_OR_RETURN(const int start, WrapDim(start_dim, sizes.size()));
  TD_ASSIGN_OR_RETURN(const int end, WrapDim(end_dim, sizes.size()));
  if (start > end) return InvalidArgument("flatten() has invalid args: start_dim cannot come after end_dim");
  if (sizes.empty()) return Dims{1};
  Dims out;
  for (int i = 0; i < start; ++i) out.push_back(sizes[i]);
  int64_t product = 1;
  for (int i = start; i <= end; ++i) product *= sizes[i];
  out.push_back(product);
  for (int i = end + 1; i < sizes.size(); ++i) out.push_back(sizes[i]);
  return out;
}

absl::StatusOr<Dims> UnflattenSizes(const Dims& sizes, int64_t dim, const std::vector<int64_t>& parts) {
  TD_ASSIGN_OR_RETURN(const int d, WrapDim(dim, sizes.size()));
  if (sizes.empty()) return InvalidArgument("unflatten: takes a tensor of at least one dimension");
  if (parts.empty()) return InvalidArgument("unflatten: sizes must be non-empty");
  absl::StatusOr<Dims> inferred = InferSize(parts, sizes[d]);
  if (!inferred.ok()) {
    if (parts.size() > kMaxRank) return inferred.status();
    return InvalidArgument("unflatten: Provided sizes ", Dims(parts).ToString(),
                           " don't multiply up to the size of dim ", d, " (", sizes[d], ") in the input tensor");
  }
  const Dims& inner = *inferred;
  if (sizes.size() - 1 + inner.size() > kMaxRank) return InvalidArgument("too many dimensions");
  Dims out;
  for (int i = 0; i < d; ++i) out.push_back(sizes[i]);
  for (int64_t s : inner) out.push_back(s);
  for (int i = d + 1; i < sizes.size(); ++i) out.push_back(sizes[i]);
  if (CheckedNumel(out) < 0) return InvalidArgument("the shape ", out.ToString(), " is too large");
  return out;
}

absl::StatusOr<Dims> MatmulBatch(const Dims& a, const Dims& b) {
  const Dims x(a.data(), std::max(a.size() - 2, 0));
  const Dims y(b.data(), std::max(b.size() - 2, 0));
  return BroadcastSizes(x, y);
}

absl::StatusOr<Dims> MatmulSizes(const Dims& a, const Dims& b) {
  if (a.empty() || b.empty()) {
    return InvalidArgument("both arguments to matmul need to be at least 1D, but they are ", a.size(), "D and ",
                           b.size(), "D");
  }
  // A batched product checks its batches first.
  TD_ASSIGN_OR_RETURN(Dims out, MatmulBatch(a, b));
  const int64_t inner_a = a.back();
  const int64_t inner_b = b.size() == 1 ? b[0] : b[b.size() - 2];
  if (inner_a != inner_b) {
    if (a.size() == 1 && b.size() == 1) {
      return InvalidArgument("inconsistent tensor size, expected tensor ", a.ToString(), " and src ", b.ToString(),
                             " to have the same number of elements, but got ", inner_a, " and ", inner_b,
                             " elements respectively");
    }
    int64_t rows = 1;
    for (int i = 0; i + 1 < a.size(); ++i) rows *= a[i];
    if (a.size() > 2 && b.size() > 2) {
      const int64_t n = CheckedNumel(out);
      return InvalidArgument("Expected size for first two dimensions of batch2 tensor to be: [", n, ", ", inner_a,
                             "] but got: [", n, ", ", inner_b, "].");
    }
    const int64_t columns = b.size() == 1 ? 1 : b.back();
    if (b.size() == 1) {
      return InvalidArgument("size mismatch, got ", rows, ", ", rows, "x", inner_a, ",", inner_b);
    }
    return InvalidArgument("mat1 and mat2 shapes cannot be multiplied (", rows, "x", inner_a, " and ", inner_b, "x",
                           columns, ")");
  }
  if (out.size() + 2 > kMaxRank) return InvalidArgument("too many dimensions");
  if (a.size() > 1) out.push_back(a[a.size() - 2]);
  if (b.size() > 1) out.push_back(b.back());
  if (CheckedNumel(out) < 0) return InvalidArgument("the product's shape ", out.ToString(), " is too large");
  return out;
}

absl::Status CheckSizesAre(const char* op, const char* what, const Dims& sizes, const Dims& want) {
  if (sizes == want) return absl::OkStatus();
  return InvalidArgument(op, "(): ", what, " has size ", sizes.ToString(), ", expected ", want.ToString());
}

int64_t ConvolvedSize(int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation) {
  // Callers have bounded every argument by 2^31, so this fits.
  const int64_t span = dilation * (kernel - 1) + 1;
  const int64_t room = size + 2 * padding - span;
  return room < 0 ? -1 : room / stride + 1;
}

void SetContiguous(TensorMeta* meta, const Dims& sizes) {
  meta->sizes = sizes;
  meta->strides = ContiguousStrides(sizes);
  meta->offset = 0;
}

}  // namespace telensor
