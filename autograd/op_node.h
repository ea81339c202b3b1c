// OpNode: the backward step of one op, by the gradient formulas of its row.
// AccumulateGrad: the end of a path, which adds to a leaf's gradient.
// CopySlices: the backward step of a base tensor that was written through a view.
#pragma once

#include "autograd/autograd_meta.h"
#include "autograd/formula_evaluator.h"
#include "proto/core/op_schema.h"

namespace telensor::rt {

class OpNode final : public Node {
 public:
  OpNode(uint64_t sequence, const OpSchema& schema, absl::Span<const Value* const> attrs, size_t num_inputs);

  // Keeps what the formulas of the wanted gradients read. Outputs are saved once they exist.
  void SaveInputs(absl::Span<const Operand> inputs);
  void SaveOutputs(absl::Span<const Tensor> outputs);

  absl::StatusOr<GradList> Apply(Recorder* recorder, GradList grads) override;
  void ReleaseSaved() override;
  std::string Name() const override;
  const OpSchema& schema() const { return schema_; }

 private:
  class Scope;
  struct SavedInput {
    SavedTensor tensor;
    Scalar scalar;
    std::unique_ptr<TensorMeta> meta;
  };
  int InputIndex(int slot) const;
  int list_size() const { return static_cast<int>(num_inputs_) - (schema_.num_inputs - 1); }
  bool Wanted(const GradFormula& grad) const;

  const OpSchema& schema_;
  size_t num_inputs_;
  absl::InlinedVector<const Value*, 4> attrs_;
  std::vector<std::unique_ptr<Value>> own_attrs_;
  std::vector<SavedInput> inputs_;
  std::vector<SavedTensor> outputs_;
  bool released_ = false;
};

class AccumulateGrad final : public Node {
 public:
  explicit AccumulateGrad(TensorImpl* leaf);
  ~AccumulateGrad() override;
  absl::StatusOr<GradList> Apply(Recorder* recorder, GradList grads) override;
  std::string Name() const override { return "AccumulateGrad"; }
  bool accumulates() const override { return true; }
  void Sever() override { AutogradMeta::Of(leaf_.get()).grad = nullptr; }
  TensorImpl* leaf() const { return leaf_.get(); }

 private:
  Tensor leaf_;
};

class CopySlices final : public Node {
 public:
  // `step` is the node of the op that wrote the view; its first input is the view.
  CopySlices(uint64_t sequence, Ref<Node> step, const TensorMeta& base, const TensorMeta& view);
  absl::StatusOr<GradList> Apply(Recorder* recorder, GradList grads) override;
  void ReleaseSaved() override { step_->ReleaseSaved(); }
  std::string Name() const override { return "CopySlices"; }

 private:
  Ref<Node> step_;
  TensorMeta base_;
  TensorMeta view_;
};

}  // namespace telensor::rt
