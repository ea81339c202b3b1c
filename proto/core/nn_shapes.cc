#include "proto/core/nn_shapes.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "proto/core/shape_util.h"

namespace telensor {
namespace {

constexpr int64_t kMaxWindow = int64_t{1} << 31;

// As PyTorch counts a window's places along one dimension.
int64_t PooledSize(int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation, bool ceil_mode) {
  const int64_t room = size + 2 * padding - dilation * (kernel - 1) - 1 + (ceil_mode ? stride - 1 : 0);
  if (room < 0) return 0;
  const int64_t n = room / stride + 1;
  // The last window starts inside the input or its left padding.
  return ceil_mode && (n - 1) * stride >= size + padding ? n - 1 : n;
}

}  // namespace

Convolution Convolution::Of(const RuleArgs& args) {
  return {args.name(),         args.Tensor(0)->sizes, args.Tensor(1)->sizes, args.Tensor(2),
          args.Attr(3).ints(), args.Attr(4).ints(),   args.Attr(5).ints(),   args.Int(6)};
}

absl::StatusOr<Dims> ConvolvedSizes(const Convolution& conv, int spatial) {
  const Dims &input = conv.input, &weight = conv.weight;
  const TensorMeta* bias = conv.bias;
  const auto &stride = conv.stride, &padding = conv.padding, &dilation = conv.dilation;
  const int64_t groups = conv.groups;
  const int rank = spatial + 2;
  if (weight.size() != rank || input.size() != rank) {
    return InvalidArgument("Expected ", rank, "D (batched) input to ", conv.name, " and a ", rank,
                           "D weight, but got input of size: ", input.ToString(),
                           " and weight of size: ", weight.ToString());
  }
  for (int i = 0; i < spatial; ++i) {
    if (padding[i] < 0) return InvalidArgument("negative padding is not supported");
    if (stride[i] <= 0) return InvalidArgument("non-positive stride is not supported");
    if (dilation[i] <= 0) return InvalidArgument("non-positive dilation is not supported");
  }
  if (groups <= 0) return InvalidArgument("non-positive groups is not supported");
  if (weight[0] < groups) {
    return InvalidArgument("Given groups=", groups, ", expected weight to be at least ", groups,
                           " at dimension 0, but got weight of size ", weight.ToString(), " instead");
  }
  if (weight[0] % groups != 0) {
    return InvalidArgument("Given groups=", groups, ", expected weight to be divisible by ", groups,
                           " at dimension 0, but got weight of size [", weight.ToString(), "] instead");
  }
  if (groups > kMaxWindow || weight[1] > kMaxWindow) return InvalidArgument(conv.name, ": a size is too large");
  if (input[1] != weight[1] * groups) {
    return InvalidArgument("Given groups=", groups, ", weight of size ", weight.ToString(), ", expected input",
                           input.ToString(), " to have ", weight[1] * groups, " channels, but got ", input[1],
                           " channels instead");
  }
  if (bias != nullptr && (bias->rank() != 1 || bias->sizes[0] != weight[0])) {
    return InvalidArgument("Given weight of size ", weight.ToString(), ", expected bias to be 1-dimensional with ",
                           weight[0], " elements, but got bias of size ", bias->sizes.ToString(), " instead");
  }
  Dims sizes{input[0], weight[0]};
  bool fits = true;
  for (int i = 0; i < spatial; ++i) {
    const int64_t kernel = weight[2 + i], size = input[2 + i];
    if (std::max({stride[i], padding[i], dilation[i], kernel, size}) > kMaxWindow) {
      return InvalidArgument(conv.name, ": a size is too large");
    }
    if (kernel == 0) return InvalidArgument(conv.name, ": the kernel is empty");
    const int64_t n = ConvolvedSize(size, kernel, stride[i], padding[i], dilation[i]);
    fits = fits && n > 0;
    sizes.push_back(n);
  }
  if (!fits) {
    std::string padded, spans;
    for (int i = 0; i < spatial; ++i) {
      absl::StrAppend(&padded, i > 0 ? " x " : "", input[2 + i] + 2 * padding[i]);
      absl::StrAppend(&spans, i > 0 ? " x " : "", dilation[i] * (weight[2 + i] - 1) + 1);
    }
    return InvalidArgument("Calculated padded input size per channel: (", padded, "). Kernel size: (", spans,
                           "). Kernel size can't be greater than actual input size");
  }
  if (CheckedNumel(sizes) < 0) return InvalidArgument(conv.name, ": the result is too large");
  return sizes;
}

Pooling Pooling::Of(const RuleArgs& args, int k) {
  const auto& kernel = args.Attr(k).ints();
  Pooling out{kernel,
              args.Attr(k + 1).none() ? kernel : args.Attr(k + 1).ints(),
              args.Attr(k + 2).ints(),
              {1, 1},
              args.Bool(k + 4)};
  if (!args.Attr(k + 3).is_number()) std::copy_n(args.Attr(k + 3).ints().begin(), 2, out.dilation);
  return out;
}

absl::StatusOr<Dims> PooledSizes(const char* name, const Dims& input, const Pooling& pool) {
  const auto &kernel = pool.kernel, &stride = pool.stride, &padding = pool.padding;
  const auto& dilation = pool.dilation;
  const int rank = input.size();
  if (rank != 3 && rank != 4) return InvalidArgument("non-empty 3D or 4D (batch mode) tensor expected for input");
  for (int i = 0; i < 2; ++i) {
    if (kernel[i] <= 0) {
      return InvalidArgument("kernel size should be greater than zero, but got kH: ", kernel[0], " kW: ", kernel[1]);
    }
    if (stride[i] == 0) return InvalidArgument("stride should not be zero");
    if (stride[i] < 0) {
      return InvalidArgument("stride should be greater than zero, but got dH: ", stride[0], " dW: ", stride[1]);
    }
    if (dilation[i] <= 0) {
      return InvalidArgument("dilation should be greater than zero, but got dilationH: ", dilation[0],
                             " dilationW: ", dilation[1]);
    }
    if (padding[i] < 0) return InvalidArgument("pad must be non-negative, but got pad: ", padding[i]);
    if (padding[i] > kernel[i] / 2) {
      return InvalidArgument("pad should be at most half of kernel size, but got pad=", padding[i],
                             " and kernel_size=", kernel[i]);
    }
    if (std::max({kernel[i], stride[i], dilation[i], input[rank - 2 + i]}) > kMaxWindow) {
      return InvalidArgument(name, ": a size is too large");
    }
  }
  for (int i = rank - 3; i < rank; ++i) {
    if (input[i] == 0) {
      return InvalidArgument("Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, but got:",
                             input.ToString());
    }
  }
  Dims sizes = input;
  for (int i = 0; i < 2; ++i) {
    const int d = rank - 2 + i;
    sizes[d] = PooledSize(input[d], kernel[i], stride[i], padding[i], dilation[i], pool.ceil_mode);
  }
  if (sizes[rank - 2] < 1 || sizes[rank - 1] < 1) {
    const auto planes = [rank](const Dims& s) { return absl::StrCat(s[rank - 3], "x", s[rank - 2], "x", s[rank - 1]); };
    return InvalidArgument("Given input size: (", planes(input), "). Calculated output size: (", planes(sizes),
                           "). Output size is too small");
  }
  if (CheckedNumel(sizes) < 0) return InvalidArgument(name, ": the result is too large");
  return sizes;
}

absl::Status CheckDivisor(const Value& divisor) {
  return !divisor.none() && divisor.i() == 0 ? InvalidArgument("divisor must be not zero") : absl::OkStatus();
}

absl::StatusOr<Dims> AdaptivePooledSizes(const Dims& input, const std::vector<int64_t>& size) {
  const int rank = input.size();
  if (rank != 3 && rank != 4) {
    return InvalidArgument("adaptive_avg_pool2d(): Expected 3D or 4D tensor, but got ", input.ToString());
  }
  if (size[0] < 0 || size[1] < 0) {
    return InvalidArgument(
        "adaptive_avg_pool2d: elements of output_size must be greater than or equal to 0 but received {", size[0], ", ",
        size[1], "}");
  }
  for (int i = rank - 2; i < rank; ++i) {
    if (input[i] == 0) {
      return InvalidArgument(
          "adaptive_avg_pool2d(): Expected input to have non-zero size for non-batch dimensions, but input "
          "has sizes ",
          input.ToString(), " with dimension ", i, " being empty");
    }
  }
  std::vector<int64_t> sizes = input.ToVector();
  std::copy_n(size.begin(), 2, sizes.end() - 2);
  return CheckedSizes(sizes);
}

absl::Status CheckNormalized(const Dims& input, const std::vector<int64_t>& shape) {
  const int n = static_cast<int>(shape.size());
  bool fits = n > 0 && n <= input.size();
  for (int i = 0; fits && i < n; ++i) fits = input[input.size() - n + i] == shape[i];
  if (n == 0) {
    return InvalidArgument(
        "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but "
        "got normalized_shape = []");
  }
  if (!fits) {
    const std::string list = absl::StrJoin(absl::MakeConstSpan(shape).subspan(0, kMaxRank), ", ");
    return InvalidArgument("Given normalized_shape=[", list, "], expected input with shape [*, ", list,
                           "], but got input of size", input.ToString());
  }
  return absl::OkStatus();
}

absl::Status CheckNormalizedParameter(const char* what, const TensorMeta* t, const std::vector<int64_t>& shape) {
  if (t == nullptr || t->sizes == Dims(shape)) return absl::OkStatus();
  return InvalidArgument("Expected ", what, " to be of same shape as normalized_shape, but got ", what, " of shape ",
                         t->sizes.ToString(), " and normalized_shape = ", Dims(shape).ToString());
}

absl::Status CheckReduction(const std::string& reduction) {
  if (reduction == "mean" || reduction == "sum" || reduction == "none") return absl::OkStatus();
  return InvalidArgument(reduction, " is not a valid value for reduction");
}

absl::Status CheckNllTargets(const Dims& input, const TensorMeta& target, const TensorMeta* weight,
                             const std::string& reduction) {
  if (input.size() == 0) return InvalidArgument("Expected 1 or more dimensions (got 0)");
  const int64_t classes = input.size() == 1 ? input[0] : input[1];
  Dims want = input;
  want.erase(input.size() == 1 ? 0 : 1);
  if (target.sizes != want) {
    if (input.size() < 3 && target.rank() > 1) {
      return InvalidArgument("0D or 1D target tensor expected, multi-target not supported");
    }
    if (input.size() == 1) {
      return InvalidArgument("size mismatch (got input: ", input.ToString(), ", target: ", target.sizes.ToString(),
                             ")");
    }
    if (input.size() == 2 && target.rank() == 1) {
      return InvalidArgument("Expected input batch_size (", input[0], ") to match target batch_size (", target.sizes[0],
                             ").");
    }
    return InvalidArgument("Expected target size ", want.ToString(), ", got ", target.sizes.ToString());
  }
  if (weight != nullptr && (weight->rank() != 1 || weight->sizes[0] != classes)) {
    return InvalidArgument("weight tensor should be defined either for all ", classes,
                           " classes or no classes but got weight "
                           "tensor of shape: ",
                           weight->sizes.ToString());
  }
  return CheckReduction(reduction);
}

}  // namespace telensor
