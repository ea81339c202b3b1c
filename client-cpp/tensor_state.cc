#include "client-cpp/tensor_state.h"

#include <vector>

#include "client-cpp/session.h"
#include "proto/core/op_ids.h"

namespace telensor::client {

TensorState::~TensorState() {
  if (retains_grad) session_->StopRetaining(this);
  if (handle_ != 0) session_->Release(handle_);
}

bool TensorState::RequiresGrad() const {
  if (requires_grad || grad_fn) return true;
  return base && base->grad_fn && view_version != base->version_;
}

GradEdge TensorState::Edge() {
  if (base && view_version != base->version_) {
    if (base->grad_fn) {
      grad_fn = NodeRef::Adopt(new GradNode(&OpTable::Get().at(ops::_as_strided)));
      grad_fn->edges.push_back(base->Edge());
      output = 0;
    }
    view_version = base->version_;
  }
  GradEdge edge;
  if (grad_fn) {
    edge.node = grad_fn;
    edge.output = output;
  } else if (requires_grad) {
    edge.leaf = TensorRef(this);
  }
  return edge;
}

void GradNode::Destroy(GradNode* node) {
  thread_local std::vector<GradNode*> pending;
  thread_local bool draining = false;
  pending.push_back(node);
  if (draining) return;
  draining = true;
  while (!pending.empty()) {
    GradNode* next = pending.back();
    pending.pop_back();
    delete next;
  }
  draining = false;
}

std::string GradNode::Name() const {
  if (title != nullptr) return title;
  return op_->BackwardName();
}

}  // namespace telensor::client
