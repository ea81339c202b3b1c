// Shape rules of layers.
#include <algorithm>

#include "absl/strings/str_join.h"
#include "proto/core/meta_rules.h"
#include "proto/core/shape_util.h"

namespace telensor::rules {
namespace {

constexpr int64_t kMaxWindow = int64_t{1} << 31;

// (input, weight, bias, stride, padding, dilation, groups) over `spatial` dimensions.
absl::Status Convolved(const RuleArgs& args, int spatial, TensorMeta* out) {
  const TensorMeta &input = *args.Tensor(0), &weight = *args.Tensor(1);
  const TensorMeta* bias = args.Tensor(2);
  const auto& stride = args.Attr(3).ints();
  const auto& padding = args.Attr(4).ints();
  const auto& dilation = args.Attr(5).ints();
  const int64_t groups = args.Int(6);
  const int rank = spatial + 2;
  if (weight.rank() != rank || input.rank() != rank) {
    return InvalidArgument("Expected ", rank, "D (batched) input to ", args.name(), " and a ", rank,
                           "D weight, but got input of size: ", input.sizes.ToString(),
                           " and weight of size: ", weight.sizes.ToString());
  }
  for (int i = 0; i < spatial; ++i) {
    if (padding[i] < 0) return InvalidArgument("negative padding is not supported");
    if (stride[i] <= 0) return InvalidArgument("non-positive stride is not supported");
    if (dilation[i] <= 0) return InvalidArgument("non-positive dilation is not supported");
  }
  if (groups <= 0) return InvalidArgument("non-positive groups is not supported");
  if (weight.sizes[0] < groups) {
    return InvalidArgument("Given groups=", groups, ", expected weight to be at least ", groups,
                           " at dimension 0, but got weight of size ", weight.sizes.ToString(), " instead");
  }
  if (weight.sizes[0] % groups != 0) {
    return InvalidArgument("Given groups=", groups, ", expected weight to be divisible by ", groups,
                           " at dimension 0, but got weight of size [", weight.sizes.ToString(), "] instead");
  }
  if (groups > kMaxWindow || weight.sizes[1] > kMaxWindow) return InvalidArgument(args.name(), ": a size is too large");
  if (input.sizes[1] != weight.sizes[1] * groups) {
    return InvalidArgument("Given groups=", groups, ", weight of size ", weight.sizes.ToString(), ", expected input",
                           input.sizes.ToString(), " to have ", weight.sizes[1] * groups, " channels, but got ",
                           input.sizes[1], " channels instead");
  }
  if (bias != nullptr && (bias->rank() != 1 || bias->sizes[0] != weight.sizes[0])) {
    return InvalidArgument("Given weight of size ", weight.sizes.ToString(),
                           ", expected bias to be 1-dimensional with ", weight.sizes[0],
                           " elements, but got bias of size ", bias->sizes.ToString(), " instead");
  }
  Dims sizes{input.sizes[0], weight.sizes[0]};
  bool fits = true;
  for (int i = 0; i < spatial; ++i) {
    const int64_t kernel = weight.sizes[2 + i], size = input.sizes[2 + i];
    if (std::max({stride[i], padding[i], dilation[i], kernel, size}) > kMaxWindow) {
      return InvalidArgument(args.name(), ": a size is too large");
    }
    if (kernel == 0) return InvalidArgument(args.name(), ": the kernel is empty");
    const int64_t n = ConvolvedSize(size, kernel, stride[i], padding[i], dilation[i]);
    fits = fits && n > 0;
    sizes.push_back(n);
  }
  if (!fits) {
    std::string padded, spans;
    for (int i = 0; i < spatial; ++i) {
      absl::StrAppend(&padded, i > 0 ? " x " : "", input.sizes[2 + i] + 2 * padding[i]);
      absl::StrAppend(&spans, i > 0 ? " x " : "", dilation[i] * (weight.sizes[2 + i] - 1) + 1);
    }
    return InvalidArgument("Calculated padded input size per channel: (", padded, "). Kernel size: (", spans,
                           "). Kernel size can't be greater than actual input size");
  }
  if (CheckedNumel(sizes) < 0) return InvalidArgument(args.name(), ": the result is too large");
  SetContiguous(out, sizes);
  return absl::OkStatus();
}

// As PyTorch counts a window's places along one dimension.
int64_t PooledSize(int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation, bool ceil_mode) {
  const int64_t room = size + 2 * padding - dilation * (kernel - 1) - 1 + (ceil_mode ? stride - 1 : 0);
  if (room < 0) return 0;
  const int64_t n = room / stride + 1;
  // The last window starts inside the input or its left padding.
  return ceil_mode && (n - 1) * stride >= size + padding ? n - 1 : n;
}

absl::Status CheckChannels(const RuleArgs& args, int k, const char* what, int64_t channels) {
  const TensorMeta* t = args.Tensor(k);
  if (t == nullptr || (t->rank() == 1 && t->sizes[0] == channels)) return absl::OkStatus();
  return InvalidArgument(what, " should contain ", channels, " elements not ", t->numel());
}

absl::Status CheckReduction(const std::string& reduction) {
  if (reduction == "mean" || reduction == "sum" || reduction == "none") return absl::OkStatus();
  return InvalidArgument(reduction, " is not a valid value for reduction");
}

absl::Status CheckNll(const RuleArgs& args) {
  const TensorMeta &input = *args.Tensor(0), &target = *args.Tensor(1);
  const TensorMeta* weight = args.Tensor(2);
  if (input.rank() == 0) return InvalidArgument("Expected 1 or more dimensions (got 0)");
  const int64_t classes = input.rank() == 1 ? input.sizes[0] : input.sizes[1];
  Dims want = input.sizes;
  want.erase(input.rank() == 1 ? 0 : 1);
  if (target.sizes != want) {
    if (input.rank() < 3 && target.rank() > 1) {
      return InvalidArgument("0D or 1D target tensor expected, multi-target not supported");
    }
    if (input.rank() == 1) {
      return InvalidArgument("size mismatch (got input: ", input.sizes.ToString(),
                             ", target: ", target.sizes.ToString(), ")");
    }
    if (input.rank() == 2 && target.rank() == 1) {
      return InvalidArgument("Expected input batch_size (", input.sizes[0], ") to match target batch_size (",
                             target.sizes[0], ").");
    }
    return InvalidArgument("Expected target size ", want.ToString(), ", got ", target.sizes.ToString());
  }
  if (weight != nullptr && (weight->rank() != 1 || weight->sizes[0] != classes)) {
    return InvalidArgument("weight tensor should be defined either for all ", classes,
                           " classes or no classes but got weight "
                           "tensor of shape: ",
                           weight->sizes.ToString());
  }
  return CheckReduction(args.Attr(3).text());
}

}  // namespace

#define TD_RULE(name) absl::Status name(const RuleArgs& args, int output, OpMetas* out)

TD_RULE(ShapeConv2d) { return Convolved(args, 2, &out->outputs[output]); }
TD_RULE(ShapeConv1d) { return Convolved(args, 1, &out->outputs[output]); }

TD_RULE(ShapePool2d) {
  // (self, kernel_size, stride, padding, dilation, ceil_mode, divisor); a literal dilation of 1 comes as a number.
  const TensorMeta& self = *args.Tensor(0);
  const auto& kernel = args.Attr(1).ints();
  const auto& stride = args.Attr(2).none() ? kernel : args.Attr(2).ints();
  const auto& padding = args.Attr(3).ints();
  const std::vector<int64_t> dilation = args.Attr(4).is_number() ? std::vector<int64_t>{1, 1} : args.Attr(4).ints();
  const bool ceil_mode = args.Bool(5);
  const int rank = self.rank();
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
    if (std::max({kernel[i], stride[i], dilation[i], self.sizes[rank - 2 + i]}) > kMaxWindow) {
      return InvalidArgument(args.name(), ": a size is too large");
    }
  }
  if (args.size() > 6 && !args.Attr(6).none() && args.Int(6) == 0) return InvalidArgument("divisor must be not zero");
  for (int i = rank - 3; i < rank; ++i) {
    if (self.sizes[i] == 0) {
      return InvalidArgument("Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, but got:",
                             self.sizes.ToString());
    }
  }
  Dims sizes = self.sizes;
  for (int i = 0; i < 2; ++i) {
    const int d = rank - 2 + i;
    sizes[d] = PooledSize(self.sizes[d], kernel[i], stride[i], padding[i], dilation[i], ceil_mode);
  }
  if (sizes[rank - 2] < 1 || sizes[rank - 1] < 1) {
    const auto planes = [rank](const Dims& s) { return absl::StrCat(s[rank - 3], "x", s[rank - 2], "x", s[rank - 1]); };
    return InvalidArgument("Given input size: (", planes(self.sizes), "). Calculated output size: (", planes(sizes),
                           "). Output size is too small");
  }
  if (CheckedNumel(sizes) < 0) return InvalidArgument(args.name(), ": the result is too large");
  SetContiguous(&out->outputs[output], sizes);
  return absl::OkStatus();
}

TD_RULE(ShapeAdaptivePool2d) {
  const TensorMeta& self = *args.Tensor(0);
  const auto& size = args.Attr(1).ints();
  const int rank = self.rank();
  if (rank != 3 && rank != 4) {
    return InvalidArgument("adaptive_avg_pool2d(): Expected 3D or 4D tensor, but got ", self.sizes.ToString());
  }
  if (size[0] < 0 || size[1] < 0) {
    return InvalidArgument(
        "adaptive_avg_pool2d: elements of output_size must be greater than or equal to 0 but received {", size[0], ", ",
        size[1], "}");
  }
  for (int i = rank - 2; i < rank; ++i) {
    if (self.sizes[i] == 0) {
      return InvalidArgument(
          "adaptive_avg_pool2d(): Expected input to have non-zero size for non-batch dimensions, but input "
          "has sizes ",
          self.sizes.ToString(), " with dimension ", i, " being empty");
    }
  }
  std::vector<int64_t> sizes = self.sizes.ToVector();
  std::copy_n(size.begin(), 2, sizes.end() - 2);
  TD_ASSIGN_OR_RETURN(const Dims checked, CheckedSizes(sizes));
  SetContiguous(&out->outputs[output], checked);
  return absl::OkStatus();
}

TD_RULE(ShapeBatchNorm) {
  const TensorMeta& input = *args.Tensor(0);
  if (input.rank() == 0) return IndexError("Dimension specified as 1 but tensor has no dimensions");
  TD_RETURN_IF_ERROR(WrapDim(1, input.rank()).status());
  const int64_t channels = input.sizes[1];
  TD_RETURN_IF_ERROR(CheckChannels(args, 1, "running_mean", channels));
  TD_RETURN_IF_ERROR(CheckChannels(args, 2, "running_var", channels));
  TD_RETURN_IF_ERROR(CheckChannels(args, 3, "weight", channels));
  TD_RETURN_IF_ERROR(CheckChannels(args, 4, "bias", channels));
  if (!args.Bool(5) && (args.Tensor(1) == nullptr || args.Tensor(2) == nullptr)) {
    return InvalidArgument(args.Tensor(1) == nullptr ? "running_mean" : "running_var",
                           " must be defined in evaluation mode");
  }
  if (args.Bool(5) && channels > 0 && input.numel() / channels == 1) {
    return InvalidArgument("Expected more than 1 value per channel when training, got input size torch.Size(",
                           input.sizes.ToString(), ")");
  }
  SetContiguous(&out->outputs[output], input.sizes);
  return absl::OkStatus();
}

TD_RULE(ShapeChannels) {
  const TensorMeta& input = *args.Tensor(0);
  if (input.rank() == 0) return IndexError("Dimension specified as 1 but tensor has no dimensions");
  SetContiguous(&out->outputs[output], Dims{input.sizes[input.rank() > 1 ? 1 : 0]});
  return absl::OkStatus();
}

TD_RULE(ShapeLayerNorm) {
  const TensorMeta& input = *args.Tensor(0);
  const auto& shape = args.Attr(1).ints();
  const int n = static_cast<int>(shape.size());
  bool fits = n > 0 && n <= input.rank();
  for (int i = 0; fits && i < n; ++i) fits = input.sizes[input.rank() - n + i] == shape[i];
  if (n == 0) {
    return InvalidArgument(
        "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but "
        "got normalized_shape = []");
  }
  if (!fits) {
    const std::string list = absl::StrJoin(absl::MakeConstSpan(shape).subspan(0, kMaxRank), ", ");
    return InvalidArgument("Given normalized_shape=[", list, "], expected input with shape [*, ", list,
                           "], but got input of size", input.sizes.ToString());
  }
  for (int k : {2, 3}) {
    const TensorMeta* t = args.Tensor(k);
    if (t != nullptr && t->sizes != Dims(shape)) {
      return InvalidArgument("Expected ", k == 2 ? "weight" : "bias",
                             " to be of same shape as normalized_shape, but got ", k == 2 ? "weight" : "bias",
                             " of shape ", t->sizes.ToString(), " and normalized_shape = ", Dims(shape).ToString());
    }
  }
  SetContiguous(&out->outputs[output], input.sizes);
  return absl::OkStatus();
}

TD_RULE(ShapeRows) {
  const TensorMeta& input = *args.Tensor(0);
  const int n = std::min<int>(static_cast<int>(std::min<size_t>(args.Attr(1).ints().size(), kMaxRank)), input.rank());
  SetContiguous(&out->outputs[output], Dims(input.sizes.data(), input.rank() - n));
  return absl::OkStatus();
}

TD_RULE(ShapeNllLoss) {
  TD_RETURN_IF_ERROR(CheckNll(args));
  SetContiguous(&out->outputs[output], args.Attr(3).text() == "none" ? args.Tensor(1)->sizes : Dims());
  return absl::OkStatus();
}

TD_RULE(ShapeNllRows) {
  if (args.Tensor(0)->rank() != 2) return InvalidArgument("_nll_loss: input must be (rows, classes)");
  TD_RETURN_IF_ERROR(CheckNll(args));
  SetContiguous(&out->outputs[output], args.Attr(3).text() == "none" ? Dims{args.Tensor(0)->sizes[0]} : Dims());
  return absl::OkStatus();
}

TD_RULE(ShapeCrossEntropy) {
  const TensorMeta &input = *args.Tensor(0), &target = *args.Tensor(1);
  if (target.sizes != input.sizes || input.rank() == 0) {
    TD_RETURN_IF_ERROR(CheckNll(args));
    SetContiguous(&out->outputs[output], args.Attr(3).text() == "none" ? target.sizes : Dims());
    return absl::OkStatus();
  }
  // Probabilities; the dtype rule sees to it that they are.
  TD_RETURN_IF_ERROR(CheckReduction(args.Attr(3).text()));
  const int c = input.rank() == 1 ? 0 : 1;
  if (const TensorMeta* weight = args.Tensor(2); weight != nullptr && weight->sizes != Dims{input.sizes[c]}) {
    return InvalidArgument("cross_entropy: weight tensor should be defined either for all ", input.sizes[c],
                           " classes or no classes but got weight tensor of shape: ", weight->sizes.ToString());
  }
  Dims rows = input.sizes;
  rows.erase(c);
  SetContiguous(&out->outputs[output], args.Attr(3).text() == "none" ? rows : Dims());
  return absl::OkStatus();
}

#undef TD_RULE

}  // namespace telensor::rules
