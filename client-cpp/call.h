// How generated functions issue an op. Throw telensor::Error.
#pragma once

#include "client-cpp/tensor.h"
#include "proto/core/op_schema.h"

namespace telensor::client {

Tensor CallOne(OpId op, const Operand* inputs, size_t num_inputs, const Value* attrs, size_t num_attrs);
std::vector<Tensor> Call(OpId op, const Operand* inputs, size_t num_inputs, const Value* attrs, size_t num_attrs);
// Writes the first operand, and returns it.
Tensor CallInPlace(OpId op, const Operand* inputs, size_t num_inputs, const Value* attrs, size_t num_attrs);

}  // namespace telensor::client
