// Engine: the backward pass. Counts dependencies from the roots, runs ready nodes by falling sequence number, sums
// what meets, and leaves gradients in leaves or gives back those asked for. No recursion on the depth of a graph.
//
// One for each session; called on the thread that has the session's turn on the device.
#pragma once

#include "autograd/recorder.h"

namespace telensor::rt {

class AccumulateGrad;

struct BackwardOptions {
  bool retain_graph = false;
  bool create_graph = false;
  bool allow_unused = false;  // for Grad: a root without a history is no error, it leads nowhere
};

class Engine {
 public:
  explicit Engine(Recorder* recorder) : recorder_(*recorder) {}

  // Adds to the gradients of all leaves below the roots, at its end: to all or, after an error, to none, but where the
  // device fails in the sums themselves. A null gradient stands for one of a one-element root.
  absl::Status Backward(absl::Span<const Tensor> roots, absl::Span<const Tensor> gradients, BackwardOptions options);
  // The same, and gives the gradients that passed through `retained`, which are results; null where none did.
  absl::StatusOr<std::vector<Tensor>> BackwardRetaining(absl::Span<const Tensor> roots, absl::Span<const Tensor> gradients,
                                                        absl::Span<const Tensor> retained, BackwardOptions options);
  // The gradients for `inputs`, null where none flows; leaves are not touched.
  absl::StatusOr<std::vector<Tensor>> Grad(absl::Span<const Tensor> roots, absl::Span<const Tensor> gradients,
                                           absl::Span<const Tensor> inputs, BackwardOptions options);

 private:
  struct Capture {
    Node* node;
    uint32_t output;
    size_t index;
  };

  // What a leaf gets, once the gradients of all leaves are known: a pass that fails changes none of them.
  struct Landing {
    AccumulateGrad* node;
    GradList grads;
  };
  absl::Status Land(std::vector<Landing> landings);

  absl::StatusOr<std::vector<Tensor>> Run(absl::Span<const Tensor> roots, absl::Span<const Tensor> gradients,
                                          const std::vector<Edge>& captured, bool leaves, BackwardOptions options);
  absl::Status AddTo(Node* node, uint32_t output, Tensor grad);
  // Clears what a walk left in nodes it did not reach, after an error too.
  void Forget(const std::vector<Node*>& seen);

  Recorder& recorder_;
  static uint64_t NextWalk();
};

}  // namespace telensor::rt
