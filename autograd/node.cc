#include "autograd/node.h"

#include <vector>

namespace telensor::rt {

void Node::Destroy(Node* node) {
  // Deleting a node drops the nodes behind it; they queue here instead of nesting on the stack.
  thread_local std::vector<Node*> pending;
  thread_local bool draining = false;
  pending.push_back(node);
  if (draining) return;
  draining = true;
  while (!pending.empty()) {
    Node* next = pending.back();
    pending.pop_back();
    delete next;
  }
  draining = false;
}

}  // namespace telensor::rt
