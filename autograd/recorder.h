// Recorder: the layer every op of a session goes through. Runs composites by their formulas, kernels by the dispatcher,
// and records a node where a gradient will be wanted.
//
// One for each session; called on the thread that has the session's turn on the device.
#pragma once

#include "autograd/autograd_meta.h"
#include "kernels/dispatcher.h"

namespace telensor::rt {

class Recorder {
 public:
  explicit Recorder(ExecutionContext* context) : dispatcher_(context) {}
  // Takes apart what is left of the session's graphs: a gradient made with create_graph and its leaf hold each other.
  ~Recorder();
  Recorder(const Recorder&) = delete;

  absl::StatusOr<TensorList> Call(const OpSchema& schema, absl::Span<const Operand> inputs,
                                  absl::Span<const Value* const> attrs, bool in_place = false);
  // One-result ops by name, for the engine's own needs.
  absl::StatusOr<Tensor> Call1(OpId op, absl::Span<const Operand> inputs, std::initializer_list<Value> attrs,
                               bool in_place = false);

  Dispatcher& dispatcher() { return dispatcher_; }
  bool recording() const { return recording_; }
  void set_recording(bool on) { recording_ = on; }

  // Where the gradient of a tensor goes: its node, or the accumulator of a leaf.
  absl::StatusOr<Edge> GradientEdge(TensorImpl* tensor);
  // Makes a gradient fit what it is the gradient of: summed over broadcast dimensions, converted.
  absl::StatusOr<Tensor> FitGradient(Tensor grad, const TensorMeta& want);
  // A gradient in the layout that clients expect of it: itself, or a copy.
  absl::StatusOr<Tensor> LaidOut(Tensor grad, const Dims& strides);
  uint64_t NextSequence() { return ++sequence_; }

 private:
  class Scope;
  absl::StatusOr<TensorList> CallFormula(const OpSchema& schema, absl::Span<const Operand> inputs,
                                         absl::Span<const Value* const> attrs, bool in_place);
  absl::StatusOr<TensorList> Forward(const OpSchema& schema, absl::Span<const Operand> inputs,
                                     absl::Span<const Value* const> attrs, bool in_place);
  absl::Status CheckInPlaceAllowed(const OpSchema& schema, TensorImpl* self);
  absl::Status RebaseHistory(TensorImpl* self, Ref<Node> node);

  template <typename T, typename... Args>
  Ref<T> NewNode(Args&&... args) {
    Ref<T> node(new T(std::forward<Args>(args)...));
    node->InsertBefore(&nodes_);
    return node;
  }

  Dispatcher dispatcher_;
  NodeLink nodes_;  // all of them that live
  bool recording_ = false;
  uint64_t sequence_ = 0;
};

// Turns recording on or off for a scope.
class RecordingGuard {
 public:
  RecordingGuard(Recorder* recorder, bool on) : recorder_(recorder), before_(recorder->recording()) {
    recorder_->set_recording(on);
  }
  ~RecordingGuard() { recorder_->set_recording(before_); }
  RecordingGuard(const RecordingGuard&) = delete;

 private:
  Recorder* recorder_;
  bool before_;
};

}  // namespace telensor::rt
