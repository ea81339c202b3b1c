// TensorState: what the client knows of one tensor. GradNode: the client's mirror of the graph, only who depends on
// whom: enough to know which leaves a backward pass reaches, `is_leaf` and the name of `grad_fn`, without asking.
//
// Counted by references; the counts are atomic, the rest belongs to the threads that use the tensor.
#pragma once

#include <atomic>

#include "absl/container/inlined_vector.h"
#include "proto/core/op_schema.h"

namespace telensor::client {

class GradNode;
class Session;

template <typename T>
class Counted {
 public:
  Counted() = default;
  explicit Counted(T* object) : object_(object) {
    if (object_ != nullptr) object_->AddRef();
  }
  Counted(const Counted& other) : Counted(other.object_) {}
  Counted(Counted&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Counted& operator=(Counted other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Counted() {
    if (object_ != nullptr) object_->DropRef();
  }
  static Counted Adopt(T* object) {
    Counted c;
    c.object_ = object;
    return c;
  }
  T* get() const { return object_; }
  T* release() { return std::exchange(object_, nullptr); }
  T* operator->() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  T* object_ = nullptr;
};

class TensorState;
using TensorRef = Counted<TensorState>;
using NodeRef = Counted<GradNode>;

struct GradEdge {
  NodeRef node;          // of a result
  TensorRef leaf;        // or of a leaf
  uint32_t output = 0;
  bool given() const { return node || leaf; }
};

class TensorState {
 public:
  // Born with one reference.
  TensorState(Session* session, uint64_t handle) : session_(session), handle_(handle) {}

  void AddRef() { refs_.fetch_add(1, std::memory_order_relaxed); }
  void DropRef() {
    if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  Session* session() const { return session_; }
  uint64_t handle() const { return handle_; }
  void set_handle(uint64_t handle) { handle_ = handle; }

  uint32_t version() const { return base ? base->version_ : version_; }
  void BumpVersion() { ++(base ? base->version_ : version_); }
  bool RequiresGrad() const;
  // Where this tensor's gradient goes; makes a view's edge anew where its base was written since.
  GradEdge Edge();

  TensorMeta meta;
  bool requires_grad = false;  // of a leaf
  bool retains_grad = false;
  uint32_t output = 0;         // which output of grad_fn
  uint32_t view_version = 0;
  NodeRef grad_fn;
  TensorRef grad;
  TensorRef base;              // of a view

 private:
  ~TensorState();

  std::atomic<uint32_t> refs_{1};
  uint32_t version_ = 0;
  Session* session_;
  uint64_t handle_;
};

class GradNode {
 public:
  explicit GradNode(const OpSchema* op) : op_(op) {}
  void AddRef() { refs_.fetch_add(1, std::memory_order_relaxed); }
  void DropRef() {
    if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) Destroy(this);
  }

  // "MulBackward0"
  std::string Name() const;
  absl::InlinedVector<GradEdge, 2> edges;
  bool saves = false;     // the server's node keeps tensors that the first backward frees
  bool freed = false;
  const char* title = nullptr;  // instead of the op's name
  uint64_t walk = 0;      // the last walk that saw this node

 private:
  ~GradNode() = default;
  // A chain of any length, without recursion.
  static void Destroy(GradNode* node);

  std::atomic<uint32_t> refs_{1};
  const OpSchema* op_;
};

}  // namespace telensor::client
