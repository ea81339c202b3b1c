// Shape rules of matrix products.
#include "proto/core/meta_rules.h"
#include "proto/core/shape_util.h"

namespace telensor::rules {
namespace {

absl::Status Set(TensorMeta* out, absl::StatusOr<Dims> sizes) {
  TD_RETURN_IF_ERROR(sizes.status());
  if (CheckedNumel(*sizes) < 0) return InvalidArgument("the product's shape ", sizes->ToString(), " is too large");
  SetContiguous(out, *sizes);
  return absl::OkStatus();
}

absl::Status CheckProduct(const TensorMeta& a, const TensorMeta& b) {
  if (a.sizes[1] != b.sizes[0]) {
    return InvalidArgument("mat1 and mat2 shapes cannot be multiplied (", a.sizes[0], "x", a.sizes[1], " and ",
                           b.sizes[0], "x", b.sizes[1], ")");
  }
  return absl::OkStatus();
}

absl::Status CheckBatches(const TensorMeta& a, const TensorMeta& b) {
  if (a.rank() != 3) return InvalidArgument("batch1 must be a 3D tensor");
  if (b.rank() != 3) return InvalidArgument("batch2 must be a 3D tensor");
  if (a.sizes[0] != b.sizes[0] || a.sizes[2] != b.sizes[1]) {
    return InvalidArgument("Expected size for first two dimensions of batch2 tensor to be: [", a.sizes[0], ", ",
                           a.sizes[2], "] but got: [", b.sizes[0], ", ", b.sizes[1], "].");
  }
  return absl::OkStatus();
}

}  // namespace

#define TD_RULE(name) absl::Status name(const RuleArgs& args, int output, OpMetas* out)

TD_RULE(ShapeMm) {
  const TensorMeta &a = *args.Tensor(0), &b = *args.Tensor(1);
  if (a.rank() != 2) return InvalidArgument("self must be a matrix");
  if (b.rank() != 2) return InvalidArgument("mat2 must be a matrix");
  TD_RETURN_IF_ERROR(CheckProduct(a, b));
  return Set(&out->outputs[output], Dims{a.sizes[0], b.sizes[1]});
}

TD_RULE(ShapeBmm) {
  const TensorMeta &a = *args.Tensor(0), &b = *args.Tensor(1);
  TD_RETURN_IF_ERROR(CheckBatches(a, b));
  return Set(&out->outputs[output], Dims{a.sizes[0], a.sizes[1], b.sizes[2]});
}

TD_RULE(ShapeAddmm) {
  const TensorMeta &self = *args.Tensor(0), &a = *args.Tensor(1), &b = *args.Tensor(2);
  if (a.rank() != 2) return InvalidArgument("mat1 must be a matrix, got ", a.rank(), "-D tensor");
  if (b.rank() != 2) return InvalidArgument("mat2 must be a matrix, got ", b.rank(), "-D tensor");
  TD_RETURN_IF_ERROR(CheckProduct(a, b));
  const Dims sizes{a.sizes[0], b.sizes[1]};
  TD_RETURN_IF_ERROR(CheckExpands(self.sizes, sizes));
  return Set(&out->outputs[output], sizes);
}

TD_RULE(ShapeDot) {
  const TensorMeta &a = *args.Tensor(0), &b = *args.Tensor(1);
  if (a.rank() != 1 || b.rank() != 1) {
    return InvalidArgument("1D tensors expected, but got ", a.rank(), "D and ", b.rank(), "D tensors");
  }
  return Set(&out->outputs[output], MatmulSizes(a.sizes, b.sizes));
}

TD_RULE(ShapeMv) {
  const TensorMeta &a = *args.Tensor(0), &b = *args.Tensor(1);
  if (a.rank() != 2 || b.rank() != 1) {
    return InvalidArgument("vector + matrix @ vector expected, got 1, ", a.rank(), ", ", b.rank());
  }
  return Set(&out->outputs[output], MatmulSizes(a.sizes, b.sizes));
}

TD_RULE(ShapeOuter) {
  const TensorMeta &a = *args.Tensor(0), &b = *args.Tensor(1);
  if (a.rank() != 1) return InvalidArgument("outer: Expected 1-D argument self, but got ", a.rank(), "-D");
  if (b.rank() != 1) return InvalidArgument("outer: Expected 1-D argument vec2, but got ", b.rank(), "-D");
  return Set(&out->outputs[output], Dims{a.sizes[0], b.sizes[0]});
}

TD_RULE(ShapeBaddbmm) {
  const TensorMeta &self = *args.Tensor(0), &a = *args.Tensor(1), &b = *args.Tensor(2);
  TD_RETURN_IF_ERROR(CheckBatches(a, b));
  const Dims sizes{a.sizes[0], a.sizes[1], b.sizes[2]};
  TD_RETURN_IF_ERROR(CheckExpands(self.sizes, sizes));
  return Set(&out->outputs[output], sizes);
}

TD_RULE(ShapeMatmul) { return Set(&out->outputs[output], MatmulSizes(args.Tensor(0)->sizes, args.Tensor(1)->sizes)); }

TD_RULE(ShapeLinear) {
  const TensorMeta &input = *args.Tensor(0), &weight = *args.Tensor(1);
  const TensorMeta* bias = args.Tensor(2);
  if (weight.rank() != 2) return InvalidArgument("linear(): weight must be a matrix, got ", weight.rank(), "-D tensor");
  if (input.rank() == 0)
    return InvalidArgument("both arguments to matmul need to be at least 1D, but they are 0D and 2D");
  if (input.sizes.back() != weight.sizes[1]) {
    int64_t rows = 1;
    for (int i = 0; i + 1 < input.rank(); ++i) rows *= input.sizes[i];
    return InvalidArgument("mat1 and mat2 shapes cannot be multiplied (", rows, "x", input.sizes.back(), " and ",
                           weight.sizes[1], "x", weight.sizes[0], ")");
  }
  Dims sizes = input.sizes;
  sizes.back() = weight.sizes[0];
  if (bias != nullptr && (bias->rank() != 1 || bias->sizes[0] != weight.sizes[0])) {
    TD_RETURN_IF_ERROR(CheckExpands(bias->sizes, sizes));
    return InvalidArgument("linear(): bias of size ", bias->sizes.ToString(), " does not fit ", weight.sizes[0],
                           " outputs");
  }
  return Set(&out->outputs[output], sizes);
}

#undef TD_RULE

}  // namespace telensor::rules
