#include "proto/core/in_place.h"

namespace telensor {
namespace {

int Category(DType t) { return IsFloating(t) ? 2 : IsInteger(t) ? 1 : 0; }

}  // namespace

absl::Status CheckInPlace(const OpArgs& call, const OpMetas& out) {
  const TensorMeta* self = call.num_inputs > 0 ? call.inputs[0] : nullptr;
  if (self == nullptr) return InvalidArgument(call.schema->name, "_: self must be a tensor");
  const TensorMeta& result = out.outputs[0];
  if (result.sizes != self->sizes) {
    return InvalidArgument("output with shape ", self->sizes.ToString(), " doesn't match the broadcast shape ",
                           result.sizes.ToString());
  }
  if (Category(result.dtype) > Category(self->dtype)) {
    return InvalidArgument("result type ", DTypeTitle(result.dtype), " can't be cast to the desired output type ",
                           DTypeTitle(self->dtype));
  }
  for (int i = 0; i < self->rank(); ++i) {
    if (self->strides[i] == 0 && self->sizes[i] > 1) {
      return InvalidArgument(
          "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
          "Please clone() the tensor before performing the operation.");
    }
  }
  return absl::OkStatus();
}

}  // namespace telensor
