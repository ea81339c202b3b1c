// ElementwiseShape: the common iteration shape of an elementwise call, with as few dimensions as strides allow.
// A value on the stack of one call.
#pragma once

#include "absl/types/span.h"
#include "kernels/plugin_abi.h"
#include "proto/core/tensor_meta.h"

namespace telensor::rt {

// `tensors` have data, dtype and on_host set; `metas` are their shapes (null for a number). All are broadcast to the
// sizes of metas[0], adjacent dimensions merged, and the order of dimensions follows the first tensor's strides.
class ElementwiseShape {
 public:
  static constexpr int kMaxOperands = 8;
  void Apply(absl::Span<const TensorMeta* const> metas, tt_tensor* const* tensors);

 private:
  int64_t sizes_[kMaxRank];
  int64_t strides_[kMaxOperands][kMaxRank];
};

}  // namespace telensor::rt
