// Sizes that layers give, from sizes and settings that a peer may have chosen at will: rules of layers apply them, and
// rules of their gradients, which have to know what size a gradient has. Errors are PyTorch's.
#pragma once

#include <string>

#include "proto/core/op_args.h"

namespace telensor {

// The operands of a convolution: a pair of sizes and what lies between them.
struct Convolution {
  // (input, weight, bias, stride, padding, dilation, groups)
  static Convolution Of(const RuleArgs& args);

  const char* name;
  Dims input, weight;
  const TensorMeta* bias = nullptr;
  const std::vector<int64_t>&stride, &padding, &dilation;  // one for each spatial dimension
  int64_t groups;
};
absl::StatusOr<Dims> ConvolvedSizes(const Convolution& conv, int spatial);

// A window's settings along two dimensions.
struct Pooling {
  // (kernel_size, stride, padding, dilation, ceil_mode) from argument k on. A stride of None is the kernel's size, a
  // literal dilation of 1 comes as a number.
  static Pooling Of(const RuleArgs& args, int k);

  const std::vector<int64_t>&kernel, &stride, &padding;
  int64_t dilation[2];
  bool ceil_mode;
};
absl::StatusOr<Dims> PooledSizes(const char* name, const Dims& input, const Pooling& pool);
absl::StatusOr<Dims> AdaptivePooledSizes(const Dims& input, const std::vector<int64_t>& size);
absl::Status CheckDivisor(const Value& divisor);

// layer_norm: whether the last sizes of `input` are `shape`, and whether an optional parameter has them.
absl::Status CheckNormalized(const Dims& input, const std::vector<int64_t>& shape);
absl::Status CheckNormalizedParameter(const char* what, const TensorMeta* t, const std::vector<int64_t>& shape);

absl::Status CheckReduction(const std::string& reduction);
// nll_loss: `weight` may be null.
absl::Status CheckNllTargets(const Dims& input, const TensorMeta& target, const TensorMeta* weight,
                             const std::string& reduction);

}  // namespace telensor
