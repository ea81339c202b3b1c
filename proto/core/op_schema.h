// OpSchema: one row of the op table, as the generator wrote it. OpTable: all rows, in a fixed order.
//
// Constant data; any thread may read it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "proto/core/expr.h"
#include "proto/core/tensor_meta.h"
#include "proto/core/value.h"

namespace telensor {

using OpId = uint16_t;

enum class ParamType : uint8_t {
  kTensor,
  kTensorOrScalar,
  kTensorList,
  kInt,
  kFloat,
  kBool,
  kScalar,
  kInts,
  kDType,
  kDevice,
  kString,
};
inline bool IsTensorType(ParamType t) { return t <= ParamType::kTensorList; }

struct Param {
  const char* name;
  ParamType type;
  int8_t slot;         // among the inputs or among the attributes
  int8_t length;       // int[2]: 2, one number is repeated; 0: any
  bool optional;       // None is allowed; for a list: in its elements
  bool keyword_only;
  bool variadic;       // int...: may be given as separate arguments
  int16_t default_literal;  // -1: must be given
};

enum class OpKind : uint8_t { kKernel, kView, kRandom };

struct OpArgs;
class RuleArgs;
struct OpMetas;
using MetaRule = absl::Status (*)(const RuleArgs& args, int output, OpMetas* out);

struct RuleArg {
  enum Kind : int8_t { kInput, kAttr, kLiteral } kind;
  int16_t index;
};
struct Rule {
  MetaRule fn = nullptr;
  const RuleArg* args = nullptr;
  int8_t num_args = 0;
};

// The gradients of one formula: usually of one input, sometimes of several at once.
struct GradFormula {
  Formula formula;
  uint32_t inputs;         // bit i: gives the gradient of input slot i
  uint32_t saved_inputs;   // input slots whose data it reads
  uint32_t meta_inputs;    // input slots of which it reads only sizes, dtype or device
  uint32_t saved_outputs;
  uint32_t meta_outputs;
};

struct OpSchema {
  OpId id;
  const char* name;       // "max.dim"
  const char* base_name;  // "max"
  const char* signature;
  const char* doc;
  const char* api;        // where Python shows it: words of "torch", "method", "F"
  const char* aliases;    // further Python names, separated by spaces
  const char* dtypes;     // "all", "number", "float", "int_bool": what samples are tested with
  const char* samples;    // separated by newlines
  const char* kernel;     // the kernel's name; null where the row has none
  OpKind kind;
  bool elementwise;
  bool has_inplace;       // `add_` exists beside `add`
  bool inplace_only;      // `copy_`: writes its first input
  bool fused;             // kernel where nothing is recorded, formula where something is
  bool returns_list;
  bool differentiable;
  int8_t num_inputs;      // parameters; a list counts as one
  int8_t list_slot;       // which input parameter is a list; -1 none
  int8_t num_attrs;
  int8_t num_outputs;     // -1 where it returns a list
  uint32_t mutates;       // input slots written besides the first of an in-place call
  uint32_t differentiable_inputs;  // input slots that a gradient can flow into
  const Param* params;
  int8_t num_params;
  const Param* const* attr_params;  // by attribute slot
  const Param* const* input_params;  // by input slot
  const char* const* output_names;  // null where unnamed
  const Rule* shape_rules;          // one for all outputs or one for each
  const Rule* dtype_rules;
  int8_t num_shape_rules;
  int8_t num_dtype_rules;
  Formula formula;
  const GradFormula* grads;
  int8_t num_grads;

  // Where an input parameter's (first) tensor stands among `num_tensors`, the list expanded in place; and the other way
  // round, which parameter the i-th tensor belongs to.
  int InputIndex(int slot, int num_tensors) const {
    return list_slot >= 0 && slot > list_slot ? slot + num_tensors - num_inputs : slot;
  }
  int InputSlot(int i, int num_tensors) const {
    if (list_slot < 0 || i < list_slot) return i;
    const int list_size = num_tensors - (num_inputs - 1);
    return i < list_slot + list_size ? list_slot : i - list_size + 1;
  }
  // The name of its node in the graph: "MaxBackward0" for max.dim, "LogSoftmaxBackward0" for log_softmax.
  std::string BackwardName() const;

  // Runs a formula instead of a kernel, whose steps record their own gradients.
  bool composite() const { return formula.given() && num_grads == 0 && !fused; }
};

class OpTable {
 public:
  static const OpTable& Get();

  int size() const { return static_cast<int>(schemas_.size()); }
  const OpSchema& at(OpId id) const { return schemas_[id]; }
  // Null where no row has this name.
  const OpSchema* Find(std::string_view name) const;
  // Changes with any row's signature: equal tables agree on every op id.
  uint64_t fingerprint() const { return fingerprint_; }

  const Value& literal(int i) const { return literals_[i]; }
  // Every attribute of a call: those given, then the row's defaults.
  absl::InlinedVector<const Value*, 6> WithDefaults(const OpSchema& schema, absl::Span<const Value> given) const;
  // Whether a value is one of the table's own, which live as long as the process.
  bool IsLiteral(const Value* v) const { return v >= literals_.data() && v < literals_.data() + literals_.size(); }
  const Expr& expr(int i) const { return exprs_[i]; }
  int arg(const Expr& e, int k) const { return expr_args_[e.first + k]; }

 private:
  friend class OpTableBuilder;  // in the generated op_table.cc
  OpTable() = default;

  std::vector<OpSchema> schemas_;
  std::vector<Value> literals_;
  const Expr* exprs_ = nullptr;
  const int16_t* expr_args_ = nullptr;
  uint64_t fingerprint_ = 0;
};

}  // namespace telensor
