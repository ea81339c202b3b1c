// Shape rules of layers.
#include <algorithm>

#include "proto/core/meta_rules.h"
#include "proto/core/nn_shapes.h"
#include "proto/core/shape_util.h"

namespace telensor::rules {
namespace {

absl::Status Set(absl::StatusOr<Dims> sizes, TensorMeta* out) {
  TD_RETURN_IF_ERROR(sizes.status());
  SetContiguous(out, *sizes);
  return absl::OkStatus();
}

absl::Status CheckChannels(const RuleArgs& args, int k, const char* what, int64_t channels) {
  const TensorMeta* t = args.Tensor(k);
  if (t == nullptr || (t->rank() == 1 && t->sizes[0] == channels)) return absl::OkStatus();
  return InvalidArgument(what, " should contain ", channels, " elements not ", t->numel());
}

absl::Status CheckNll(const RuleArgs& args) {
  return CheckNllTargets(args.Tensor(0)->sizes, *args.Tensor(1), args.Tensor(2), args.Attr(3).text());
}

}  // namespace

#define TD_RULE(name) absl::Status name(const RuleArgs& args, int output, OpMetas* out)

TD_RULE(ShapeConv2d) { return Set(ConvolvedSizes(Convolution::Of(args), 2), &out->outputs[output]); }
TD_RULE(ShapeConv1d) { return Set(ConvolvedSizes(Convolution::Of(args), 1), &out->outputs[output]); }

TD_RULE(ShapePool2d) {
  // (self, kernel_size, stride, padding, dilation, ceil_mode, divisor)
  if (args.size() > 6) TD_RETURN_IF_ERROR(CheckDivisor(args.Attr(6)));
  return Set(PooledSizes(args.name(), args.Tensor(0)->sizes, Pooling::Of(args, 1)), &out->outputs[output]);
}

TD_RULE(ShapeAdaptivePool2d) {
  return Set(AdaptivePooledSizes(args.Tensor(0)->sizes, args.Attr(1).ints()), &out->outputs[output]);
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
  TD_RETURN_IF_ERROR(CheckNormalized(input.sizes, shape));
  for (int k : {2, 3}) TD_RETURN_IF_ERROR(CheckNormalizedParameter(k == 2 ? "weight" : "bias", args.Tensor(k), shape));
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
