// AutogradMeta: a tensor's place in the graph. SavedTensor: a tensor kept for the backward pass.
//
// AutogradMeta is owned by its tensor. Only the session's turn on the device touches either.
#pragma once

#include "autograd/node.h"

namespace telensor::rt {

class AutogradMeta final : public AutogradData {
 public:
  // Made at first need.
  static AutogradMeta& Of(TensorImpl* tensor);
  static AutogradMeta* Find(const TensorImpl* tensor) { return static_cast<AutogradMeta*>(tensor->autograd()); }

  bool requires_grad = false;  // of a leaf
  Ref<Node> grad_fn;           // of a result
  uint32_t output = 0;         // which output of grad_fn
  uint32_t view_version = 0;   // the storage's version when a view's grad_fn was made
  Node* accumulator = nullptr; // of a leaf, while a graph holds it; owned by that graph
  Tensor grad;
};

// Whether gradients flow into a tensor.
bool RequiresGrad(const TensorImpl* tensor);

class SavedTensor {
 public:
  SavedTensor() = default;
  // An output is saved without its node: the node owns this, and would own itself.
  SavedTensor(TensorImpl* tensor, bool is_output);

  bool given() const { return static_cast<bool>(tensor_); }
  const TensorMeta& meta() const { return tensor_->meta(); }
  // The tensor, with `owner` as its node where it is an output. An error where it was written since.
  absl::StatusOr<Tensor> Unpack(Node* owner, uint32_t output) const;

 private:
  Tensor tensor_;
  uint32_t version_ = 0;
  bool is_output_ = false;
};

}  // namespace telensor::rt
