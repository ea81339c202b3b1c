#include "autograd/op_node.h"

#include "autograd/recorder.h"
#include "proto/core/op_ids.h"

namespace telensor::rt {

OpNode::OpNode(uint64_t sequence, const OpSchema& schema, absl::Span<const Value* const> attrs, size_t num_inputs)
    : Node(sequence), schema_(schema), num_inputs_(num_inputs) {
  for (const Value* v : attrs) {
    // Defaults live in the table for good; others are the caller's.
    if (!OpTable::Get().IsLiteral(v)) {
      own_attrs_.push_back(std::make_unique<Value>(*v));
      v = own_attrs_.back().get();
    }
    attrs_.push_back(v);
  }
}

int OpNode::InputIndex(int slot) const {
  return schema_.InputIndex(slot, static_cast<int>(num_inputs_));
}

bool OpNode::Wanted(const GradFormula& grad) const {
  for (int slot = 0; slot < schema_.num_inputs; ++slot) {
    if ((grad.inputs >> slot & 1) == 0) continue;
    const int begin = InputIndex(slot);
    const int end = slot == schema_.list_slot ? begin + list_size() : begin + 1;
    for (int i = begin; i < end; ++i) {
      if (edges()[i].node) return true;
    }
  }
  return false;
}

void OpNode::SaveInputs(absl::Span<const Operand> inputs) {
  uint32_t saved = 0, metas = 0;
  for (int g = 0; g < schema_.num_grads; ++g) {
    if (!Wanted(schema_.grads[g])) continue;
    saved |= schema_.grads[g].saved_inputs;
    metas |= schema_.grads[g].meta_inputs;
  }
  if ((saved | metas) == 0) return;
  inputs_.resize(inputs.size());
  for (int slot = 0; slot < schema_.num_inputs; ++slot) {
    const int begin = InputIndex(slot);
    const int end = slot == schema_.list_slot ? begin + list_size() : begin + 1;
    for (int i = begin; i < end; ++i) {
      inputs_[i].scalar = inputs[i].scalar;
      if (inputs[i].tensor == nullptr) continue;
      if (saved >> slot & 1) {
        inputs_[i].tensor = SavedTensor(inputs[i].tensor, false);
      } else if (metas >> slot & 1) {
        inputs_[i].meta = std::make_unique<TensorMeta>(inputs[i].tensor->meta());
      }
    }
  }
}

void OpNode::SaveOutputs(absl::Span<const Tensor> outputs) {
  uint32_t saved = 0;
  for (int g = 0; g < schema_.num_grads; ++g) {
    if (Wanted(schema_.grads[g])) saved |= schema_.grads[g].saved_outputs;
  }
  if (saved == 0) return;
  outputs_.resize(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (saved >> i & 1) outputs_[i] = SavedTensor(outputs[i].get(), true);
  }
}

void OpNode::ReleaseSaved() {
  // A node that saved nothing can run again, as in PyTorch.
  for (const SavedInput& in : inputs_) released_ |= in.tensor.given();
  for (const SavedTensor& out : outputs_) released_ |= out.given();
  for (SavedInput& in : inputs_) in.tensor = SavedTensor();
  outputs_.clear();
}

std::string OpNode::Name() const { return schema_.BackwardName(); }

// What the gradient formulas' names stand for.
class OpNode::Scope final : public FormulaScope {
 public:
  Scope(OpNode* node, Recorder* recorder, GradList* grads) : node_(*node), recorder_(*recorder), grads_(*grads) {}

  absl::StatusOr<FormulaValue> Input(int slot) override {
    const int begin = node_.InputIndex(slot);
    if (slot != node_.schema_.list_slot) return One(begin);
    std::vector<Tensor> tensors;
    std::vector<const TensorMeta*> metas;
    for (int i = begin; i < begin + node_.list_size(); ++i) {
      TD_ASSIGN_OR_RETURN(FormulaValue v, One(i));
      metas.push_back(v.meta());
      tensors.push_back(std::move(v.tensor));
    }
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (!tensors[i] && metas[i] != nullptr) return FormulaValue::Metas(std::move(metas));
    }
    return FormulaValue(std::move(tensors));
  }

  absl::StatusOr<FormulaValue> Output(int index) override {
    if (index < static_cast<int>(node_.outputs_.size()) && node_.outputs_[index].given()) {
      TD_ASSIGN_OR_RETURN(Tensor t, node_.outputs_[index].Unpack(&node_, index));
      return FormulaValue(std::move(t));
    }
    return FormulaValue::Meta(&node_.output_meta(index));
  }

  absl::StatusOr<FormulaValue> Grad(int index) override {
    if (index >= 0) {
      TD_RETURN_IF_ERROR(Materialize(index));
      return FormulaValue(grads_[index]);
    }
    std::vector<Tensor> all;
    for (size_t i = 0; i < grads_.size(); ++i) {
      TD_RETURN_IF_ERROR(Materialize(i));
      all.push_back(grads_[i]);
    }
    return FormulaValue(std::move(all));
  }

  const Value& Attr(int slot) override { return *node_.attrs_[slot]; }

 private:
  absl::StatusOr<FormulaValue> One(int i) {
    if (i >= static_cast<int>(node_.inputs_.size())) return FormulaValue();
    const SavedInput& in = node_.inputs_[i];
    if (in.tensor.given()) {
      TD_ASSIGN_OR_RETURN(Tensor t, in.tensor.Unpack(&node_, 0));
      return FormulaValue(std::move(t));
    }
    if (in.meta != nullptr) return FormulaValue::Meta(in.meta.get());
    return FormulaValue(Value::Number(in.scalar));
  }
  // An output nothing came back through has a gradient of zero.
  absl::Status Materialize(size_t i) {
    if (grads_[i]) return absl::OkStatus();
    const TensorMeta& m = node_.output_meta(i);
    TD_ASSIGN_OR_RETURN(grads_[i], recorder_.Call1(ops::full, {}, {Value::Ints(m.sizes), Value::Int(0), Value::Type(m.dtype),
                                                                   Value::Device(m.device)}));
    return absl::OkStatus();
  }

  OpNode& node_;
  Recorder& recorder_;
  GradList& grads_;
};

absl::StatusOr<GradList> OpNode::Apply(Recorder* recorder, GradList grads) {
  if (released_) {
    return AutogradError(
        "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
        "been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
        "Specify retain_graph=True if you need to backward through the graph a second time or if you need to access "
        "saved tensors after calling backward.");
  }
  GradList results(edges().size());
  bool any = false;
  for (const Tensor& g : grads) any |= static_cast<bool>(g);
  if (!any) return results;
  grads.resize(num_outputs());
  Scope scope(this, recorder, &grads);
  for (int g = 0; g < schema_.num_grads; ++g) {
    const GradFormula& grad = schema_.grads[g];
    if (!Wanted(grad)) continue;
    FormulaEvaluator evaluator(recorder, &scope);
    TD_ASSIGN_OR_RETURN(std::vector<Tensor> values, evaluator.Evaluate(grad.formula));
    size_t next = 0;
    for (int slot = 0; slot < schema_.num_inputs; ++slot) {
      if ((grad.inputs >> slot & 1) == 0) continue;
      const int begin = InputIndex(slot);
      const int end = slot == schema_.list_slot ? begin + list_size() : begin + 1;
      for (int i = begin; i < end && next < values.size(); ++i) results[i] = std::move(values[next++]);
    }
  }
  return results;
}

AccumulateGrad::AccumulateGrad(TensorImpl* leaf) : Node(UINT64_MAX), leaf_(leaf) {
  AddOutput(leaf->meta());
  AutogradMeta::Of(leaf).accumulator = this;
}

AccumulateGrad::~AccumulateGrad() {
  if (AutogradMeta* meta = AutogradMeta::Find(leaf_.get())) meta->accumulator = nullptr;
}

absl::StatusOr<GradList> AccumulateGrad::Apply(Recorder* recorder, GradList grads) {
  if (!grads[0]) return GradList();
  AutogradMeta& meta = AutogradMeta::Of(leaf_.get());
  Tensor grad = std::move(grads[0]);
  const Dims strides = GradientStrides(leaf_->meta());
  if (!meta.grad) {
    TD_ASSIGN_OR_RETURN(Tensor laid_out, recorder->LaidOut(grad, strides));
    if (laid_out.get() == grad.get()) {
      // A buffer that nobody else can see becomes the gradient itself.
      laid_out = nullptr;
      if (!recorder->recording() && grad->unique() && grad->storage()->unique() && !grad->base()) {
        laid_out = std::move(grad);
      } else {
        TD_ASSIGN_OR_RETURN(laid_out, recorder->Call1(ops::clone, {{Operand{grad.get(), {}}}}, {}));
      }
    }
    meta.grad = std::move(laid_out);
    return GradList();
  }
  const Operand operands[] = {{meta.grad.get(), {}}, {grad.get(), {}}};
  if (recorder->recording()) {
    TD_ASSIGN_OR_RETURN(Tensor sum, recorder->Call1(ops::add, operands, {Value::Int(1)}));
    TD_ASSIGN_OR_RETURN(meta.grad, recorder->LaidOut(std::move(sum), strides));
  } else {
    TD_RETURN_IF_ERROR(recorder->Call1(ops::add, operands, {Value::Int(1)}, true).status());
  }
  return GradList();
}

CopySlices::CopySlices(uint64_t sequence, Ref<Node> step, const TensorMeta& base, const TensorMeta& view)
    : Node(sequence), step_(std::move(step)), base_(base), view_(view) {
  AddOutput(base);
}

absl::StatusOr<GradList> CopySlices::Apply(Recorder* recorder, GradList grads) {
  GradList results(edges().size());
  if (!grads[0]) return results;
  // The base's gradient, laid out as the base was, so that the view's strides reach the right places.
  TensorMeta layout = base_;
  layout.offset = 0;
  if (!IsNonOverlappingAndDense(layout.sizes, layout.strides)) layout.strides = ContiguousStrides(layout.sizes);
  TD_ASSIGN_OR_RETURN(Tensor blank, recorder->dispatcher().Empty(layout));
  const Operand copy[] = {{blank.get(), {}}, {grads[0].get(), {}}};
  TD_ASSIGN_OR_RETURN(Tensor whole, recorder->Call1(ops::copy_, copy, {}, true));
  const auto slice = [&]() {
    return recorder->Call1(ops::_as_strided, {{Operand{whole.get(), {}}}},
                           {Value::Ints(view_.sizes), Value::Ints(view_.strides), Value::Int(view_.offset - base_.offset)});
  };
  TD_ASSIGN_OR_RETURN(Tensor part, slice());
  TD_ASSIGN_OR_RETURN(Tensor step_grad, recorder->Call1(ops::clone, {{Operand{part.get(), {}}}}, {}));
  // The step's edges were moved here; it sees its own again for the time of its work.
  step_->mutable_edges() = edges();
  absl::StatusOr<GradList> step_results = step_->Apply(recorder, GradList{std::move(step_grad)});
  step_->mutable_edges().clear();
  TD_RETURN_IF_ERROR(step_results.status());
  TD_ASSIGN_OR_RETURN(Tensor target, slice());
  if ((*step_results)[0]) {
    TD_ASSIGN_OR_RETURN(Tensor fit, recorder->FitGradient((*step_results)[0], view_));
    const Operand put[] = {{target.get(), {}}, {fit.get(), {}}};
    TD_RETURN_IF_ERROR(recorder->Call1(ops::copy_, put, {}, true).status());
  } else {
    const Operand zero[] = {{target.get(), {}}, {nullptr, Scalar(0)}};
    TD_RETURN_IF_ERROR(recorder->Call1(ops::fill_, zero, {}, true).status());
  }
  results[0] = std::move(whole);
  for (size_t i = 1; i < results.size() && i < step_results->size(); ++i) results[i] = std::move((*step_results)[i]);
  return results;
}

}  // namespace telensor::rt
