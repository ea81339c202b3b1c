// OpArgs: one call of an op, as the rules see it; InferMeta: what its outputs will be.
//
// The client runs it before it sends an op, the server before it runs one: the same code, so they agree.
#pragma once

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "proto/core/op_schema.h"
#include "proto/core/status.h"

namespace telensor {

struct OpArgs {
  const OpSchema* schema = nullptr;
  const TensorMeta* const* inputs = nullptr;  // lists expanded in place; null where absent or a number
  const Scalar* scalars = nullptr;            // by input; may be null where no number is given
  int num_inputs = 0;
  const Value* const* attrs = nullptr;        // by attribute slot, defaults filled in
  DType default_float = DType::kFloat32;

  int list_size() const { return num_inputs - (schema->num_inputs - 1); }
  // Where an input parameter's (first) tensor stands among `inputs`.
  int InputIndex(int slot) const {
    return schema->InputIndex(slot, num_inputs);
  }
};

struct OpMetas {
  absl::InlinedVector<TensorMeta, 1> outputs;
  DType compute = DType::kNone;  // the dtype that the inputs in `cast` are converted to; kNone: as they are
  uint32_t cast = 0;             // input slots
  bool dynamic = false;          // sizes depend on data; `outputs` holds their rank at most
  bool identity = false;         // the result is the first input itself
  bool aliases = false;          // the result shares the first input's storage
};

// The arguments a rule names in its row.
class RuleArgs {
 public:
  RuleArgs(const OpArgs& call, const Rule& rule) : call_(call), rule_(rule) {}

  const OpArgs& call() const { return call_; }
  const char* name() const { return call_.schema->base_name; }
  int size() const { return rule_.num_args; }
  // The k-th argument as a tensor; null where it is absent or a number.
  const TensorMeta* Tensor(int k) const {
    return rule_.args[k].kind == RuleArg::kInput ? call_.inputs[call_.InputIndex(rule_.args[k].index)] : nullptr;
  }
  bool IsInput(int k) const { return rule_.args[k].kind == RuleArg::kInput; }
  int Slot(int k) const { return rule_.args[k].index; }
  Scalar Number(int k) const;
  // The k-th argument as a list of tensors.
  absl::Span<const TensorMeta* const> List(int k) const {
    return {call_.inputs + rule_.args[k].index, static_cast<size_t>(call_.list_size())};
  }
  const Value& Attr(int k) const {
    return rule_.args[k].kind == RuleArg::kAttr ? *call_.attrs[rule_.args[k].index]
                                                : OpTable::Get().literal(rule_.args[k].index);
  }
  int64_t Int(int k) const { return Attr(k).i(); }
  bool Bool(int k) const { return Attr(k).b(); }

 private:
  const OpArgs& call_;
  const Rule& rule_;
};

absl::Status InferMeta(const OpArgs& call, OpMetas* out);

// Checks the attributes' kinds against the schema, for calls that come from a peer; InferMeta checks the rest.
absl::Status CheckAttributes(const OpSchema& schema, const Value* const* attrs);

}  // namespace telensor
