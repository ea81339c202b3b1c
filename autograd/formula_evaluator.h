// FormulaEvaluator: runs a formula of the op table, its op calls by a Recorder. Lives for one evaluation.
#pragma once

#include "autograd/formula_value.h"
#include "absl/types/span.h"
#include "autograd/node.h"
#include "proto/core/op_schema.h"

namespace telensor::rt {

// What the names in a formula stand for.
class FormulaScope {
 public:
  virtual ~FormulaScope() = default;
  virtual absl::StatusOr<FormulaValue> Input(int slot) = 0;
  virtual absl::StatusOr<FormulaValue> Output(int index) = 0;
  // index -1: all, as a list.
  virtual absl::StatusOr<FormulaValue> Grad(int index) = 0;
  virtual const Value& Attr(int slot) = 0;
};

class FormulaEvaluator {
 public:
  FormulaEvaluator(Recorder* recorder, FormulaScope* scope) : recorder_(*recorder), scope_(*scope) {}
  // Tensor results in order: one, a tuple's, or a list's.
  absl::StatusOr<std::vector<Tensor>> Evaluate(const Formula& formula);

 private:
  absl::StatusOr<FormulaValue> Eval(int index);
  absl::StatusOr<FormulaValue> EvalCall(const Expr& expr);
  absl::StatusOr<TensorList> CallOp(const Expr& expr);
  absl::StatusOr<FormulaValue> EvalHelper(const Expr& expr);
  absl::StatusOr<FormulaValue> EvalArithmetic(const Expr& expr);
  absl::StatusOr<FormulaValue> EvalComparison(const Expr& expr);
  absl::StatusOr<bool> Truth(int index);

  const OpTable& table_ = OpTable::Get();
  Recorder& recorder_;
  FormulaScope& scope_;
  std::vector<FormulaValue> lets_;
};

// A helper's answer from metadata and plain values (all but value_of).
absl::StatusOr<Value> EvalMetadataHelper(Helper helper, absl::Span<const FormulaValue> args);

}  // namespace telensor::rt
