// What an in-place call must satisfy. Client and server check it by the same function.
#pragma once

#include "proto/core/op_args.h"

namespace telensor {

// The result must fit the first input's sizes and dtype, and no element of it may be written twice.
absl::Status CheckInPlace(const OpArgs& call, const OpMetas& out);

}  // namespace telensor
