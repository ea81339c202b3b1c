#include "autograd/recorder.h"

#include "autograd/formula_evaluator.h"
#include "autograd/op_node.h"
#include "proto/core/in_place.h"
#include "proto/core/op_ids.h"

namespace telensor::rt {
namespace {

bool CarriesGradient(const TensorImpl* tensor) {
  return tensor != nullptr && IsFloating(tensor->meta().dtype) && RequiresGrad(tensor);
}

}  // namespace

// What a composite's formula sees: the call itself.
class Recorder::Scope final : public FormulaScope {
 public:
  Scope(const OpSchema& schema, absl::Span<const Operand> inputs, absl::Span<const Value* const> attrs)
      : schema_(schema), inputs_(inputs), attrs_(attrs) {}

  absl::StatusOr<FormulaValue> Input(int slot) override {
    const int list = static_cast<int>(inputs_.size()) - (schema_.num_inputs - 1);
    if (slot == schema_.list_slot) {
      std::vector<Tensor> tensors;
      for (int i = slot; i < slot + list; ++i) tensors.emplace_back(inputs_[i].tensor);
      return FormulaValue(std::move(tensors));
    }
    const Operand& in = inputs_[schema_.InputIndex(slot, static_cast<int>(inputs_.size()))];
    return in.tensor != nullptr ? FormulaValue(Tensor(in.tensor)) : FormulaValue(Value::Number(in.scalar));
  }
  absl::StatusOr<FormulaValue> Output(int) override { return absl::InternalError("a forward formula has no outputs"); }
  absl::StatusOr<FormulaValue> Grad(int) override { return absl::InternalError("a forward formula has no gradients"); }
  const Value& Attr(int slot) override { return *attrs_[slot]; }

 private:
  const OpSchema& schema_;
  absl::Span<const Operand> inputs_;
  absl::Span<const Value* const> attrs_;
};

Recorder::~Recorder() {
  std::vector<Ref<Node>> left;
  for (NodeLink* link = nodes_.next; link != &nodes_; link = link->next) left.emplace_back(static_cast<Node*>(link));
  for (const Ref<Node>& node : left) {
    node->Unlink();
    node->Sever();
  }
}

absl::StatusOr<Tensor> Recorder::Call1(OpId op, absl::Span<const Operand> inputs, std::initializer_list<Value> attrs,
                                       bool in_place) {
  const OpSchema& schema = OpTable::Get().at(op);
  TD_ASSIGN_OR_RETURN(TensorList out, Call(schema, inputs, OpTable::Get().WithDefaults(schema, attrs), in_place));
  return std::move(out[0]);
}

absl::StatusOr<TensorList> Recorder::CallFormula(const OpSchema& schema, absl::Span<const Operand> inputs,
                                                 absl::Span<const Value* const> attrs, bool in_place) {
  if (in_place && !schema.inplace_only) {
    // Out of place, then one recorded copy: the steps of a formula may need what self was.
    TD_ASSIGN_OR_RETURN(TensorList out, CallFormula(schema, inputs, attrs, false));
    if (out[0].get() == inputs[0].tensor) return out;
    const Operand operands[] = {inputs[0], {out[0].get(), {}}};
    TD_ASSIGN_OR_RETURN(Tensor self, Call1(ops::copy_, operands, {}, true));
    return TensorList{std::move(self)};
  }
  Scope scope(schema, inputs, attrs);
  FormulaEvaluator evaluator(this, &scope);
  TD_ASSIGN_OR_RETURN(std::vector<Tensor> results, evaluator.Evaluate(schema.formula));
  return TensorList(std::make_move_iterator(results.begin()), std::make_move_iterator(results.end()));
}

absl::StatusOr<TensorList> Recorder::Forward(const OpSchema& schema, absl::Span<const Operand> inputs,
                                             absl::Span<const Value* const> attrs, bool in_place) {
  if (schema.formula.given() && (schema.kernel == nullptr || !inputs[0].tensor ||
                                 !inputs[0].tensor->device().backend().HasKernel(schema.id))) {
    return CallFormula(schema, inputs, attrs, in_place);
  }
  return dispatcher_.Call(schema, inputs, attrs, in_place);
}

absl::Status Recorder::CheckInPlaceAllowed(const OpSchema& schema, TensorImpl* self) {
  if (self == nullptr) return InvalidArgument(schema.name, "_: self must be a tensor");
  if (!recording_) return absl::OkStatus();
  const auto is_leaf = [](const TensorImpl* t) {
    const AutogradMeta* meta = AutogradMeta::Find(t);
    return meta != nullptr && meta->requires_grad && !meta->grad_fn;
  };
  if (is_leaf(self)) {
    return AutogradError("a leaf Variable that requires grad is being used in an in-place operation.");
  }
  if (self->base() && is_leaf(self->base().get())) {
    return AutogradError("a view of a leaf Variable that requires grad is being used in an in-place operation.");
  }
  return absl::OkStatus();
}

absl::StatusOr<TensorList> Recorder::Call(const OpSchema& schema, absl::Span<const Operand> inputs,
                                          absl::Span<const Value* const> attrs, bool in_place) {
  in_place |= schema.inplace_only;
  if (in_place) TD_RETURN_IF_ERROR(CheckInPlaceAllowed(schema, inputs[0].tensor));
  if (schema.composite() && schema.kernel == nullptr) return CallFormula(schema, inputs, attrs, in_place);

  bool record = false;
  if (recording_ && schema.differentiable) {
    for (const Operand& in : inputs) record |= CarriesGradient(in.tensor);
  }
  if (record && schema.fused) return CallFormula(schema, inputs, attrs, in_place);

  Ref<OpNode> node;
  Tensor original;  // of an in-place call whose backward needs what self was
  if (record) {
    const uint32_t slots = schema.differentiable_inputs;
    // Edges first: asking for one may make a node, which must count as the earlier.
    absl::InlinedVector<Edge, 2> edges(inputs.size());
    bool any = false;
    for (int i = 0; i < static_cast<int>(inputs.size()); ++i) {
      const int slot = schema.InputSlot(i, static_cast<int>(inputs.size()));
      if ((slots >> slot & 1) == 0 || !CarriesGradient(inputs[i].tensor)) continue;
      TD_ASSIGN_OR_RETURN(edges[i], GradientEdge(inputs[i].tensor));
      any = true;
    }
    record = any;
    if (record) {
      node = NewNode<OpNode>(NextSequence(), schema, attrs, inputs.size());
      node->mutable_edges() = std::move(edges);
    }
  }
  if (record) {
    absl::InlinedVector<Operand, 4> saved(inputs.begin(), inputs.end());
    if (in_place) {
      bool needs_self = false;
      for (int g = 0; g < schema.num_grads; ++g) needs_self |= (schema.grads[g].saved_inputs & 1) != 0;
      if (needs_self) {
        TD_ASSIGN_OR_RETURN(original, dispatcher_.Converted(inputs[0].tensor, inputs[0].tensor->meta().dtype,
                                                            inputs[0].tensor->meta().device));
        saved[0].tensor = original.get();
      }
    }
    node->SaveInputs(saved);
  }

  absl::StatusOr<TensorList> forward;
  {
    RecordingGuard guard(this, recording_ && schema.kind == OpKind::kView);
    forward = Forward(schema, inputs, attrs, in_place);
  }
  if (!forward.ok()) return forward;
  for (int slot = 0; slot < schema.num_inputs; ++slot) {
    if ((schema.mutates >> slot & 1) == 0) continue;
    const int end = slot == schema.list_slot ? static_cast<int>(inputs.size()) : slot + 1;
    for (int i = slot; i < end; ++i) {
      if (inputs[i].tensor != nullptr) inputs[i].tensor->storage()->BumpVersion();
    }
  }
  if (schema.kind == OpKind::kView && recording_ && schema.differentiable) {
    // A view remembers its birth, to notice when its base is written with gradients later.
    for (Tensor& out : *forward) AutogradMeta::Of(out.get());
  }
  if (!node) return forward;
  for (const Tensor& out : *forward) node->AddOutput(out->meta());
  if (in_place) {
    node->SaveOutputs(*forward);
    TD_RETURN_IF_ERROR(RebaseHistory(inputs[0].tensor, Ref<Node>(node.get())));
    return forward;
  }
  for (size_t i = 0; i < forward->size(); ++i) {
    TensorImpl* out = (*forward)[i].get();
    if (!IsFloating(out->meta().dtype)) continue;
    AutogradMeta& meta = AutogradMeta::Of(out);
    meta.grad_fn = Ref<Node>(node.get());
    meta.output = static_cast<uint32_t>(i);
  }
  node->SaveOutputs(*forward);
  return forward;
}

absl::Status Recorder::RebaseHistory(TensorImpl* self, Ref<Node> node) {
  AutogradMeta& meta = AutogradMeta::Of(self);
  if (!self->base()) {
    meta.grad_fn = std::move(node);
    meta.output = 0;
    meta.requires_grad = false;
    return absl::OkStatus();
  }
  TensorImpl* base = self->base().get();
  Edge base_edge;
  if (CarriesGradient(base)) {
    TD_ASSIGN_OR_RETURN(base_edge, GradientEdge(base));
  }
  auto slices = NewNode<CopySlices>(NextSequence(), node, base->meta(), self->meta());
  absl::InlinedVector<Edge, 2> edges = std::move(node->mutable_edges());
  node->mutable_edges().clear();
  edges[0] = std::move(base_edge);
  for (Edge& edge : edges) slices->AddEdge(std::move(edge));
  AutogradMeta& base_meta = AutogradMeta::Of(base);
  base_meta.grad_fn = Ref<Node>(slices.get());
  base_meta.output = 0;
  base_meta.requires_grad = false;
  // The view's own node is made anew from the base when somebody asks for it.
  meta.grad_fn = nullptr;
  meta.view_version = self->storage()->version() - 1;
  return absl::OkStatus();
}

absl::StatusOr<Edge> Recorder::GradientEdge(TensorImpl* tensor) {
  AutogradMeta& meta = AutogradMeta::Of(tensor);
  if (tensor->base() && meta.view_version != tensor->storage()->version()) {
    AutogradMeta* base = AutogradMeta::Find(tensor->base().get());
    if (base != nullptr && base->grad_fn) {
      const OpSchema& schema = OpTable::Get().at(ops::_as_strided);
      const TensorMeta& m = tensor->meta();
      const Value values[] = {Value::Ints(m.sizes), Value::Ints(m.strides), Value::Int(m.offset)};
      const Value* const attrs[] = {&values[0], &values[1], &values[2]};
      auto node = NewNode<OpNode>(NextSequence(), schema, attrs, 1);
      TD_ASSIGN_OR_RETURN(Edge edge, GradientEdge(tensor->base().get()));
      node->AddEdge(std::move(edge));
      const Operand inputs[] = {{tensor->base().get(), {}}};
      node->SaveInputs(inputs);
      node->AddOutput(m);
      meta.grad_fn = Ref<Node>(node.get());
      meta.output = 0;
    }
    meta.view_version = tensor->storage()->version();
  }
  if (meta.grad_fn) return Edge{meta.grad_fn, meta.output};
  if (!meta.requires_grad) return Edge{};
  if (meta.accumulator != nullptr) return Edge{Ref<Node>(meta.accumulator), 0};
  return Edge{Ref<Node>(NewNode<AccumulateGrad>(tensor).get()), 0};
}

absl::StatusOr<Tensor> Recorder::LaidOut(Tensor grad, const Dims& strides) {
  if (grad->meta().strides == strides && grad->meta().offset == 0) return grad;
  TensorMeta layout = grad->meta();
  layout.offset = 0;
  layout.strides = strides;
  TD_ASSIGN_OR_RETURN(Tensor out, dispatcher_.Empty(layout));
  const Operand copy[] = {{out.get(), {}}, {grad.get(), {}}};
  return Call1(ops::copy_, copy, {}, true);
}

absl::StatusOr<Tensor> Recorder::FitGradient(Tensor grad, const TensorMeta& want) {
  if (grad->meta().sizes != want.sizes) {
    const Dims& have = grad->meta().sizes;
    const int extra = have.size() - want.sizes.size();
    std::vector<int64_t> dims;
    for (int i = 0; i < have.size(); ++i) {
      if (i < extra || (want.sizes[i - extra] == 1 && have[i] != 1)) dims.push_back(i);
    }
    if (!dims.empty()) {
      TD_ASSIGN_OR_RETURN(grad, Call1(ops::sum, {{Operand{grad.get(), {}}}}, {Value::Ints(dims), Value::Bool(true), Value()}));
    }
    if (grad->meta().sizes != want.sizes) {
      TD_ASSIGN_OR_RETURN(grad, Call1(ops::reshape, {{Operand{grad.get(), {}}}}, {Value::Ints(want.sizes)}));
    }
  }
  if (grad->meta().dtype != want.dtype || grad->meta().device != want.device) {
    TD_ASSIGN_OR_RETURN(grad, Call1(ops::_to_copy, {{Operand{grad.get(), {}}}},
                                    {Value::Type(want.dtype), Value::Device(want.device)}));
  }
  return grad;
}

}  // namespace telensor::rt
