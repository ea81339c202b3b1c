#include "server/op_call.h"

#include "proto/core/op_args.h"

namespace telensor::server {
namespace {

absl::StatusOr<Value> ReadValue(const v1::Attribute& a) {
  // Kinds are bytes here: a larger number must not turn into one of them.
  if (a.kind() > 255) return InvalidArgument("an attribute of unknown kind ", a.kind());
  switch (static_cast<Value::Kind>(a.kind())) {
    case Value::Kind::kNone: return Value();
    case Value::Kind::kBool: return Value::Bool(a.i() != 0);
    case Value::Kind::kInt: return Value::Int(a.i());
    case Value::Kind::kFloat: return Value::Float(a.f());
    case Value::Kind::kInts: return Value::Ints(std::vector<int64_t>(a.ints().begin(), a.ints().end()));
    case Value::Kind::kFloats: return Value::Floats(std::vector<double>(a.floats().begin(), a.floats().end()));
    case Value::Kind::kString: return Value::String(a.text());
    case Value::Kind::kDType: {
      TD_ASSIGN_OR_RETURN(const DType dtype, OpCall::ReadDType(a.i()));
      return Value::Type(dtype);
    }
    case Value::Kind::kDevice:
      if (a.i() < 0 || a.i() > 255) return InvalidArgument("no device has the number ", a.i());
      return Value::Device(a.i());
  }
  return InvalidArgument("an attribute of unknown kind ", a.kind());
}

}  // namespace

absl::StatusOr<DType> OpCall::ReadDType(int64_t number) {
  if (number < 0 || number >= kNumDTypes || !IsValid(static_cast<DType>(number))) {
    return InvalidArgument("no dtype has the number ", number);
  }
  return static_cast<DType>(number);
}

absl::StatusOr<Scalar> OpCall::ReadScalar(const v1::Attribute& attribute) {
  TD_ASSIGN_OR_RETURN(const Value v, ReadValue(attribute));
  if (!v.is_number()) return InvalidArgument("a number was expected");
  return v.scalar();
}

absl::Status OpCall::ReadAttributes(const OpSchema& schema, const v1::Command& command) {
  attrs_.clear();
  own_.clear();
  if (command.attributes_size() > schema.num_attrs) {
    return InvalidArgument(schema.name, ": takes ", static_cast<int>(schema.num_attrs), " attributes, not ",
                           command.attributes_size());
  }
  own_.reserve(command.attributes_size());  // pointers to its elements are kept below
  for (int i = 0; i < schema.num_attrs; ++i) {
    if (i < command.attributes_size()) {
      TD_ASSIGN_OR_RETURN(Value v, ReadValue(command.attributes(i)));
      own_.push_back(std::move(v));
      attrs_.push_back(&own_.back());
    } else {
      const int literal = schema.attr_params[i]->default_literal;
      if (literal < 0) return InvalidArgument(schema.name, ": attribute '", schema.attr_params[i]->name, "' is missing");
      attrs_.push_back(&OpTable::Get().literal(literal));
    }
  }
  // The table's own defaults need no check.
  return command.attributes_size() > 0 ? CheckAttributes(schema, attrs_.data()) : absl::OkStatus();
}

}  // namespace telensor::server
