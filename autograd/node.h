// Node: one step of the graph that leads from results back to leaves. Edge: where a gradient goes next.
//
// A tensor holds its node, a node the nodes before it; so a graph lives as long as a result of it. All of a session's
// nodes belong to the session's turn on the device: nothing here is synchronised.
#pragma once

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "kernels/tensor.h"

namespace telensor::rt {

class Node;
class Recorder;

struct Edge {
  Ref<Node> node;  // null: no gradient wanted
  uint32_t output = 0;
};

// Gradients by output or by input; null where there is none.
using GradList = absl::InlinedVector<Tensor, 2>;

// A place in the ring of a session's nodes.
struct NodeLink {
  NodeLink() = default;
  NodeLink(const NodeLink&) = delete;
  NodeLink& operator=(const NodeLink&) = delete;
  void InsertBefore(NodeLink* other) {
    prev = other->prev;
    next = other;
    prev->next = this;
    other->prev = this;
  }
  void Unlink() {
    prev->next = next;
    next->prev = prev;
    prev = next = this;
  }
  NodeLink* prev = this;
  NodeLink* next = this;
};

class Node : public RefCounted, public NodeLink {
 public:
  explicit Node(uint64_t sequence) : sequence_(sequence) {}
  virtual ~Node() { Unlink(); }
  // Destroys a chain of any length without recursion.
  static void Destroy(Node* node);

  // Gradients of the outputs to gradients of the inputs, one for every edge. Runs once, or again where nothing was
  // released.
  virtual absl::StatusOr<GradList> Apply(Recorder* recorder, GradList grads) = 0;
  // Drops what Apply needs, once it has run for good.
  virtual void ReleaseSaved() {}
  // Gives up everything it holds, at the end of the session.
  virtual void Sever() {
    ReleaseSaved();
    edges_.clear();
  }
  // "MulBackward0"
  virtual std::string Name() const = 0;
  virtual bool accumulates() const { return false; }

  const absl::InlinedVector<Edge, 2>& edges() const { return edges_; }
  void AddEdge(Edge edge) { edges_.push_back(std::move(edge)); }
  absl::InlinedVector<Edge, 2>& mutable_edges() { return edges_; }
  // What a gradient of output k must look like.
  const TensorMeta& output_meta(uint32_t k) const { return output_metas_[k]; }
  void AddOutput(const TensorMeta& meta) { output_metas_.push_back(meta); }
  size_t num_outputs() const { return output_metas_.size(); }
  // Later nodes run first.
  uint64_t sequence() const { return sequence_; }

 private:
  friend class Engine;
  // What one walk of the engine keeps with the node.
  struct Visit {
    uint64_t walk = 0;
    int32_t dependencies = 0;
    bool needed = false;
    bool queued = false;
    GradList grads;
  };

  uint64_t sequence_;
  absl::InlinedVector<Edge, 2> edges_;
  absl::InlinedVector<TensorMeta, 1> output_metas_;
  Visit visit_;
};

}  // namespace telensor::rt
