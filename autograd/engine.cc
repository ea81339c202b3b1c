#include "autograd/engine.h"

#include <atomic>
#include <queue>

#include "autograd/op_node.h"
#include "proto/core/op_ids.h"

namespace telensor::rt {
namespace {

struct LaterFirst {
  bool operator()(const Node* a, const Node* b) const { return a->sequence() < b->sequence(); }
};

}  // namespace

uint64_t Engine::NextWalk() {
  static std::atomic<uint64_t> walks{0};
  return ++walks;
}

absl::Status Engine::Backward(absl::Span<const Tensor> roots, absl::Span<const Tensor> gradients,
                              BackwardOptions options) {
  return Run(roots, gradients, {}, true, options).status();
}

absl::StatusOr<std::vector<Tensor>> Engine::BackwardRetaining(absl::Span<const Tensor> roots,
                                                              absl::Span<const Tensor> gradients,
                                                              absl::Span<const Tensor> retained, BackwardOptions options) {
  std::vector<Edge> edges;
  for (const Tensor& tensor : retained) {
    TD_ASSIGN_OR_RETURN(Edge edge, recorder_.GradientEdge(tensor.get()));
    edges.push_back(std::move(edge));
  }
  return Run(roots, gradients, edges, true, options);
}

absl::StatusOr<std::vector<Tensor>> Engine::Grad(absl::Span<const Tensor> roots, absl::Span<const Tensor> gradients,
                                                 absl::Span<const Tensor> inputs, BackwardOptions options) {
  std::vector<Edge> edges;
  for (const Tensor& in : inputs) {
    if (!RequiresGrad(in.get())) return AutogradError("One of the differentiated Tensors does not require grad");
    TD_ASSIGN_OR_RETURN(Edge edge, recorder_.GradientEdge(in.get()));
    edges.push_back(std::move(edge));
  }
  return Run(roots, gradients, edges, false, options);
}

absl::Status Engine::AddTo(Node* node, uint32_t output, Tensor grad) {
  GradList& grads = node->visit_.grads;
  if (grads.size() < node->num_outputs()) grads.resize(node->num_outputs());
  Tensor& slot = grads[output];
  if (!slot) {
    slot = std::move(grad);
    return absl::OkStatus();
  }
  const Operand operands[] = {{slot.get(), {}}, {grad.get(), {}}};
  // A sum that only this walk holds takes the next term in place.
  const bool own = !recorder_.recording() && slot->unique() && slot->storage()->unique() && !slot->base();
  if (own) return recorder_.Call1(ops::add, operands, {Value::Int(1)}, true).status();
  TD_ASSIGN_OR_RETURN(slot, recorder_.Call1(ops::add, operands, {Value::Int(1)}));
  return absl::OkStatus();
}

void Engine::Forget(const std::vector<Node*>& seen) {
  for (Node* node : seen) {
    node->visit_.grads.clear();
    node->visit_.queued = false;
  }
}

absl::Status Engine::Land(std::vector<Landing> landings) {
  // First those that get a new tensor, which can be taken back; a sum in place needs no memory.
  std::stable_partition(landings.begin(), landings.end(), [this](const Landing& l) {
    return recorder_.recording() || !AutogradMeta::Of(l.node->leaf()).grad;
  });
  std::vector<std::pair<AutogradMeta*, Tensor>> before;
  for (Landing& landing : landings) {
    AutogradMeta& meta = AutogradMeta::Of(landing.node->leaf());
    before.emplace_back(&meta, meta.grad);
    const absl::Status status = landing.node->Apply(&recorder_, std::move(landing.grads)).status();
    if (status.ok()) continue;
    for (auto& [leaf, grad] : before) leaf->grad = std::move(grad);
    return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Tensor>> Engine::Run(absl::Span<const Tensor> roots, absl::Span<const Tensor> gradients,
                                                const std::vector<Edge>& captured, bool leaves, BackwardOptions options) {
  RecordingGuard guard(&recorder_, options.create_graph);
  const uint64_t walk = NextWalk();
  std::vector<Edge> starts;
  for (const Tensor& root : roots) {
    if (!RequiresGrad(root.get())) {
      if (options.allow_unused) {
        starts.emplace_back();
        continue;
      }
      return AutogradError("element ", starts.size(), " of tensors does not require grad and does not have a grad_fn");
    }
    TD_ASSIGN_OR_RETURN(Edge edge, recorder_.GradientEdge(root.get()));
    starts.push_back(std::move(edge));
  }

  // Every node below the roots, with how many edges lead to it. `seen` borrows: the starts keep the graph alive.
  std::vector<Node*> seen;
  const auto visit = [&](Node* node) {
    if (node->visit_.walk != walk) {
      node->visit_.walk = walk;
      node->visit_.dependencies = 0;
      node->visit_.needed = leaves;
      node->visit_.queued = false;
      node->visit_.grads.clear();
      seen.push_back(node);
    }
  };
  for (const Edge& start : starts) {
    if (start.node) visit(start.node.get());
  }
  for (size_t i = 0; i < seen.size(); ++i) {
    for (const Edge& edge : seen[i]->edges_) {
      if (!edge.node) continue;
      visit(edge.node.get());
      ++edge.node->visit_.dependencies;
    }
  }
  std::vector<Capture> captures;
  for (size_t i = 0; i < captured.size(); ++i) {
    Node* node = captured[i].node.get();
    if (node != nullptr && node->visit_.walk == walk) captures.push_back({node, captured[i].output, i});
  }
  if (!leaves) {
    // Only nodes that lead to an input asked for do work. A node is visited before those behind it, so by
    // rising sequence numbers each one is decided after all it leads to.
    std::vector<Node*> order(seen);
    std::sort(order.begin(), order.end(), [](Node* a, Node* b) {
      return a->accumulates() != b->accumulates() ? a->accumulates() : a->sequence() < b->sequence();
    });
    for (const Capture& c : captures) c.node->visit_.needed = true;
    for (Node* node : order) {
      for (const Edge& edge : node->edges_) {
        if (edge.node && edge.node->visit_.needed) node->visit_.needed = true;
      }
    }
  }

  const auto run = [&]() -> absl::StatusOr<std::vector<Tensor>> {
    std::vector<Tensor> results(captured.size());
    std::vector<Landing> landings;
    std::priority_queue<Node*, std::vector<Node*>, LaterFirst> ready;
    const auto enqueue = [&](Node* node) {
      if (node->visit_.dependencies == 0 && !node->visit_.queued) {
        node->visit_.queued = true;
        ready.push(node);
      }
    };
    for (size_t i = 0; i < starts.size(); ++i) {
      if (!starts[i].node) continue;
      Tensor grad = i < gradients.size() ? gradients[i] : nullptr;
      const TensorMeta& meta = roots[i]->meta();
      if (!grad) {
        if (meta.numel() != 1) return AutogradError("grad can be implicitly created only for scalar outputs");
        TD_ASSIGN_OR_RETURN(grad, recorder_.Call1(ops::full, {}, {Value::Ints(meta.sizes), Value::Int(1),
                                                                  Value::Type(meta.dtype), Value::Device(meta.device)}));
      } else if (grad->meta().sizes != meta.sizes) {
        return AutogradError("Mismatch in shape: grad_output[", i, "] has a shape of ", grad->meta().sizes.ToString(),
                             " and output[", i, "] has a shape of ", meta.sizes.ToString(), ".");
      }
      TD_ASSIGN_OR_RETURN(grad, recorder_.FitGradient(std::move(grad), starts[i].node->output_meta(starts[i].output)));
      TD_RETURN_IF_ERROR(AddTo(starts[i].node.get(), starts[i].output, std::move(grad)));
    }
    for (const Edge& start : starts) {
      if (start.node) enqueue(start.node.get());
    }

    while (!ready.empty()) {
      Node* node = ready.top();
      ready.pop();
      GradList grads = std::move(node->visit_.grads);
      node->visit_.grads.clear();
      grads.resize(node->num_outputs());
      for (const Capture& c : captures) {
        if (c.node == node) results[c.index] = grads[c.output];
      }
      bool work = node->visit_.needed;
      if (!leaves && work) {
        // An input asked for need not be passed through unless something behind it is asked for too.
        work = false;
        for (const Edge& edge : node->edges_) work |= edge.node && edge.node->visit_.needed;
      }
      if (work && node->accumulates()) {
        landings.push_back({static_cast<AccumulateGrad*>(node), std::move(grads)});
        continue;
      }
      GradList next;
      if (work) {
        TD_ASSIGN_OR_RETURN(next, node->Apply(&recorder_, std::move(grads)));
        if (!options.retain_graph && !options.create_graph) node->ReleaseSaved();
      }
      for (size_t i = 0; i < node->edges_.size(); ++i) {
        const Edge& edge = node->edges_[i];
        if (!edge.node) continue;
        if (i < next.size() && next[i] && edge.node->visit_.needed) {
          TD_ASSIGN_OR_RETURN(Tensor fit,
                              recorder_.FitGradient(std::move(next[i]), edge.node->output_meta(edge.output)));
          TD_RETURN_IF_ERROR(AddTo(edge.node.get(), edge.output, std::move(fit)));
        }
        --edge.node->visit_.dependencies;
        enqueue(edge.node.get());
      }
    }
    TD_RETURN_IF_ERROR(Land(std::move(landings)));
    return results;
  };
  absl::StatusOr<std::vector<Tensor>> results = run();
  if (!results.ok()) Forget(seen);
  return results;
}

}  // namespace telensor::rt
