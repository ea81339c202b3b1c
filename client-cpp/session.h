// Session: a client's side of one server session: metadata rules, names of results, the mirror of the graph.
//
// Thread-safe but for the state of a single tensor. One for the process, made at first use and never destroyed;
// it ends with the process.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "client-cpp/connection.h"
#include "client-cpp/embedded_server.h"
#include "client-cpp/tensor.h"
#include "client-cpp/tensor_state.h"
#include "proto/core/op_args.h"

namespace telensor::client {

using TensorRefs = absl::InlinedVector<TensorRef, 1>;

class Session {
 public:
  // Opens a session with a server; with none named (argument, TELENSOR_ADDR), with a private one.
  static absl::StatusOr<Session*> Open(const std::string& address);
  // The process's session, opened at first use.
  static absl::StatusOr<Session*> Default();
  // Where to look for telensord first when a private server is started; and how this client calls itself.
  static void SetHints(const std::string& server_folder, const std::string& client_name);
  static Session* Existing();

  // Issues one op. `attrs` by attribute slot; missing trailing ones are the row's defaults. In place, the first operand
  // is written and is the result.
  absl::Status Call(const OpSchema& schema, absl::Span<const Operand> inputs, absl::Span<const Value> attrs,
                    bool in_place, TensorRefs* results);

  absl::Status Backward(TensorState* root, TensorState* gradient, bool retain_graph, bool create_graph);
  absl::Status Grad(absl::Span<TensorState* const> roots, absl::Span<TensorState* const> gradients,
                    absl::Span<TensorState* const> inputs, bool retain_graph, bool create_graph, bool allow_unused,
                    std::vector<TensorRef>* results);
  absl::Status SetRequiresGrad(TensorState* tensor, bool on);
  absl::Status SetGrad(TensorState* tensor, TensorState* gradient);
  // From now on, backward leaves a gradient in this result too.
  absl::Status RetainGrad(TensorState* tensor);
  void StopRetaining(TensorState* tensor);

  absl::StatusOr<TensorRef> FromHost(const void* data, const TensorMeta& meta);
  absl::StatusOr<std::string> ToHost(TensorState* tensor);
  absl::Status Synchronize();
  absl::Status Seed(uint64_t seed);
  absl::Status SetDefaultDType(DType dtype);
  DType default_dtype() const { return default_dtype_; }
  void Release(uint64_t handle);

  int default_device() const { return static_cast<int>(connection_->session().default_device()); }
  const v1::OpenSessionResponse& description() const { return connection_->session(); }
  absl::StatusOr<v1::GetStatusResponse> GetStatus();
  // None in a forked child.
  BatcherStats stats();
  const std::string& address() const { return address_; }

 private:
  Session() = default;
  absl::Status CheckUsable() const;
  static absl::Status CheckListed(size_t n);
  absl::Status AwaitRoom() { return __builtin_expect(batcher_->full(), 0) ? batcher_->AwaitRoom() : absl::OkStatus(); }
  static void AfterForkInChild();
  absl::Status MapOps();
  void Record(const OpSchema& schema, absl::Span<const Operand> inputs, bool in_place, TensorRefs* results);
  absl::Status CheckInPlaceAllowed(const TensorState* self) const;
  void FillCommand(v1::Command* command, const OpSchema& schema, absl::Span<const Operand> inputs,
                   absl::Span<const Value* const> attrs, bool in_place);
  // Waits for what was just sent, where every op shall.
  absl::Status AfterCommand();
  absl::Status OfTransfer(const absl::Status& status);
  struct Walk;
  // The node that stands for the server's record of a backward pass.
  static NodeRef HistoryOf(const Walk& walk, absl::Span<TensorState* const> gradients);
  absl::Status WalkGraph(absl::Span<TensorState* const> roots, bool free_saved, Walk* walk);

  // The results that keep gradients and that a walk reached. The caller holds retain_mu_.
  std::vector<TensorState*> Retained(const Walk& walk);
  // A gradient to be, named on a command; what it replaces goes to `replaced`.
  void NameGradient(OpBatcher::Appender* append, TensorState* tensor, const NodeRef& history, std::vector<TensorRef>* replaced);

  std::string address_;
  std::unique_ptr<EmbeddedServer> server_;
  std::unique_ptr<Connection> connection_;
  std::unique_ptr<OpBatcher> batcher_;
  std::vector<int> op_map_;  // our op ids to the server's; -1: it has no such row. Empty: the tables agree
  DType default_dtype_ = DType::kFloat32;
  std::mutex retain_mu_;
  std::vector<TensorState*> retaining_;  // guarded by retain_mu_; each leaves before it goes
  bool sync_ = false;  // TELENSOR_SYNC=1: every op waits, so that errors show where they are made
};

// Recording of gradients, of the calling thread.
bool GradEnabled();
void SetGradEnabled(bool on);

// An error as the API throws it.
Error ToError(const absl::Status& status);

}  // namespace telensor::client
