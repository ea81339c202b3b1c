// Shape rules of the gradients of layers. The rule of the layer says what size its gradient has.
#include "proto/core/meta_rules.h"
#include "proto/core/nn_shapes.h"
#include "proto/core/shape_util.h"

namespace telensor::rules {
namespace {

absl::Status CheckOperand(const RuleArgs& args, int k, const char* what, const Dims& want) {
  const TensorMeta* t = args.Tensor(k);
  return t == nullptr ? absl::OkStatus() : CheckSizesAre(args.name(), what, t->sizes, want);
}

// A plane's sizes stand last, after channels and perhaps a batch.
absl::Status CheckPlanes(const RuleArgs& args, const Dims& sizes) {
  if (sizes.size() == 3 || sizes.size() == 4) return absl::OkStatus();
  return InvalidArgument(args.name(), "(): expected an input_size of 3 or 4 dimensions, but got ", sizes.ToString());
}

}  // namespace

#define TD_RULE(name) absl::Status name(const RuleArgs& args, int output, OpMetas* out)

// (grad, weight, input_size, stride, padding, dilation, groups)
TD_RULE(ShapeConv2dInputBackward) {
  TD_ASSIGN_OR_RETURN(const Dims sizes, CheckedSizes(args.Attr(2).ints()));
  const Convolution conv{
      args.name(),         sizes,      args.Tensor(1)->sizes, nullptr, args.Attr(3).ints(), args.Attr(4).ints(),
      args.Attr(5).ints(), args.Int(6)};
  TD_ASSIGN_OR_RETURN(const Dims want, ConvolvedSizes(conv, 2));
  TD_RETURN_IF_ERROR(CheckOperand(args, 0, "grad", want));
  SetContiguous(&out->outputs[output], sizes);
  return absl::OkStatus();
}

// (grad, input, weight_size, stride, padding, dilation, groups)
TD_RULE(ShapeConv2dWeightBackward) {
  TD_ASSIGN_OR_RETURN(const Dims sizes, CheckedSizes(args.Attr(2).ints()));
  const Convolution conv{args.name(),         args.Tensor(1)->sizes, sizes,      nullptr, args.Attr(3).ints(),
                         args.Attr(4).ints(), args.Attr(5).ints(),   args.Int(6)};
  TD_ASSIGN_OR_RETURN(const Dims want, ConvolvedSizes(conv, 2));
  TD_RETURN_IF_ERROR(CheckOperand(args, 0, "grad", want));
  SetContiguous(&out->outputs[output], sizes);
  return absl::OkStatus();
}

// (grad, indices, input_size)
TD_RULE(ShapeMaxPool2dBackward) {
  TD_ASSIGN_OR_RETURN(const Dims sizes, CheckedSizes(args.Attr(2).ints()));
  TD_RETURN_IF_ERROR(CheckPlanes(args, sizes));
  const Dims& grad = args.Tensor(0)->sizes;
  TD_RETURN_IF_ERROR(CheckOperand(args, 1, "indices", grad));
  // Windows are told by their indices: any number of them may be in a plane.
  Dims want = sizes;
  for (int d = want.size() - 2; d < want.size() && grad.size() == want.size(); ++d) want[d] = grad[d];
  TD_RETURN_IF_ERROR(CheckOperand(args, 0, "grad", want));
  SetContiguous(&out->outputs[output], sizes);
  return absl::OkStatus();
}

// (grad, input_size, kernel_size, stride, padding, dilation, ceil_mode, divisor)
TD_RULE(ShapeAvgPool2dBackward) {
  TD_ASSIGN_OR_RETURN(const Dims sizes, CheckedSizes(args.Attr(1).ints()));
  TD_RETURN_IF_ERROR(CheckDivisor(args.Attr(7)));
  TD_ASSIGN_OR_RETURN(const Dims want, PooledSizes(args.name(), sizes, Pooling::Of(args, 2)));
  TD_RETURN_IF_ERROR(CheckOperand(args, 0, "grad", want));
  SetContiguous(&out->outputs[output], sizes);
  return absl::OkStatus();
}

// (grad, input_size)
TD_RULE(ShapeAdaptivePool2dBackward) {
  TD_ASSIGN_OR_RETURN(const Dims sizes, CheckedSizes(args.Attr(1).ints()));
  TD_RETURN_IF_ERROR(CheckPlanes(args, sizes));
  const Dims& grad = args.Tensor(0)->sizes;
  if (grad.size() != sizes.size()) return CheckOperand(args, 0, "grad", sizes);
  TD_ASSIGN_OR_RETURN(const Dims want, AdaptivePooledSizes(sizes, {grad[grad.size() - 2], grad[grad.size() - 1]}));
  TD_RETURN_IF_ERROR(CheckOperand(args, 0, "grad", want));
  SetContiguous(&out->outputs[output], sizes);
  return absl::OkStatus();
}

// (grad, input, weight, save_mean, save_invstd)
TD_RULE(ShapeBatchNormBackward) {
  const TensorMeta& input = *args.Tensor(1);
  if (input.rank() == 0) return IndexError("Dimension specified as 1 but tensor has no dimensions");
  TD_RETURN_IF_ERROR(WrapDim(1, input.rank()).status());
  const Dims channels{input.sizes[1]};
  TD_RETURN_IF_ERROR(CheckOperand(args, 0, "grad", input.sizes));
  TD_RETURN_IF_ERROR(CheckOperand(args, 2, "weight", channels));
  TD_RETURN_IF_ERROR(CheckOperand(args, 3, "save_mean", channels));
  TD_RETURN_IF_ERROR(CheckOperand(args, 4, "save_invstd", channels));
  SetContiguous(&out->outputs[output], output == 0 ? input.sizes : channels);
  return absl::OkStatus();
}

// (grad, input, normalized_shape, weight, mean, rstd)
TD_RULE(ShapeLayerNormBackward) {
  const Dims& input = args.Tensor(1)->sizes;
  const auto& shape = args.Attr(2).ints();
  TD_RETURN_IF_ERROR(CheckNormalized(input, shape));
  TD_RETURN_IF_ERROR(CheckOperand(args, 0, "grad", input));
  TD_RETURN_IF_ERROR(CheckNormalizedParameter("weight", args.Tensor(3), shape));
  const Dims rows(input.data(), input.size() - static_cast<int>(shape.size()));
  TD_RETURN_IF_ERROR(CheckOperand(args, 4, "mean", rows));
  TD_RETURN_IF_ERROR(CheckOperand(args, 5, "rstd", rows));
  SetContiguous(&out->outputs[output], output == 0 ? input : Dims(shape));
  return absl::OkStatus();
}

// (grad, result, dim)
TD_RULE(ShapeSoftmaxBackward) {
  const TensorMeta& result = *args.Tensor(1);
  TD_RETURN_IF_ERROR(WrapDim(args.Int(2), result.rank()).status());
  TD_RETURN_IF_ERROR(CheckOperand(args, 0, "grad", result.sizes));
  SetContiguous(&out->outputs[output], result.sizes);
  return absl::OkStatus();
}

// (grad, input_size, target, weight, reduction, total_weight)
TD_RULE(ShapeNllLossBackward) {
  TD_ASSIGN_OR_RETURN(const Dims sizes, CheckedSizes(args.Attr(1).ints()));
  if (sizes.size() != 2) return InvalidArgument(args.name(), "(): input_size must be (rows, classes)");
  const std::string& reduction = args.Attr(4).text();
  TD_RETURN_IF_ERROR(CheckNllTargets(sizes, *args.Tensor(2), args.Tensor(3), reduction));
  TD_RETURN_IF_ERROR(CheckOperand(args, 0, "grad", reduction == "none" ? Dims{sizes[0]} : Dims()));
  TD_RETURN_IF_ERROR(CheckOperand(args, 5, "total_weight", Dims()));
  SetContiguous(&out->outputs[output], sizes);
  return absl::OkStatus();
}

#undef TD_RULE

}  // namespace telensor::rules
