// OpCall: a command's attributes and numbers as the runtime takes them, checked against the op's row.
// Lives for one command; kept and cleared between commands to keep its memory.
#pragma once

#include "absl/container/inlined_vector.h"
#include "proto/core/op_schema.h"
#include "proto/core/status.h"
#include "telensor/v1/telensor.pb.h"

namespace telensor::server {

class OpCall {
 public:
  // Reads the attributes of `command`; trailing defaults are filled in.
  absl::Status ReadAttributes(const OpSchema& schema, const v1::Command& command);
  const absl::InlinedVector<const Value*, 6>& attrs() const { return attrs_; }

  static absl::StatusOr<Scalar> ReadScalar(const v1::Attribute& attribute);
  // A dtype by its number on the wire.
  static absl::StatusOr<DType> ReadDType(int64_t number);

 private:
  absl::InlinedVector<const Value*, 6> attrs_;
  std::vector<Value> own_;
};

}  // namespace telensor::server
