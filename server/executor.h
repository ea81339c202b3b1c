// Executor: a session's commands, carried out in order. Knows no transport: commands in, events out.
//
// Owned by its session. Run is called by one thread at a time, the one that has the turn on the device.
#pragma once

#include <map>
#include <string>

#include "autograd/engine.h"
#include "server/failure_log.h"
#include "server/tensor_table.h"
#include "telensor/v1/telensor.pb.h"

namespace telensor::server {

struct ExecutorLimits {
  size_t max_handles = 1000000;
  size_t max_inline_bytes = 64 * 1024;      // of a read's result on the ordered stream
  size_t max_pending_downloads = 64;
  size_t max_pending_download_bytes = size_t{4} << 30;
};

class Executor {
 public:
  // A memory limit of 0 leaves the session to the device's own.
  Executor(std::vector<rt::Device*> devices, size_t memory_limit, ExecutorLimits limits);
  ~Executor();

  enum class Outcome {
    kDone,
    kWaiting,  // an operand is still being uploaded; call again with the same command later
    kTooLarge, // only with small_only: nothing was done
  };
  // Carries out one command. What the client must hear is appended to `events`.
  Outcome Run(const v1::Command& command, uint64_t seq, bool small_only, v1::EventBatch* events);
  // Drops all tensors, and the graphs they hold. Nothing is run afterwards.
  void Close();

  // The bytes a read was too large to send; gone with the call.
  absl::StatusOr<std::string> TakeDownload(uint64_t read_seq);
  // The tensor that an upload fills; null until its command was carried out. An error where none will come: the
  // command failed, was no upload, or its tensor is released.
  absl::StatusOr<rt::Tensor> FindPending(Handle handle);
  // Ends an upload: its tensor is good, or it failed.
  void FinishUpload(Handle handle, const absl::Status& status);

  rt::ExecutionContext& context() { return context_; }
  const TensorTable& tensors() const { return table_; }
  const MemoryBudget& budget() const { return budget_; }
  uint64_t ops_run() const { return ops_run_; }

 private:
  // An operand that cannot be used: absent, failed or pending.
  struct Resolved {
    Outcome outcome = Outcome::kDone;
    rt::Ref<Failure> failure;
    bool failed() const { return static_cast<bool>(failure); }
  };

  Resolved Resolve(uint64_t handle, uint64_t seq, rt::Operand* out);
  Outcome RunOp(const v1::Command& command, uint64_t seq, bool small_only, v1::EventBatch* events);
  Outcome RunWithTensors(const v1::Command& command, uint64_t seq, v1::EventBatch* events);
  static absl::Status SetRequiresGrad(const std::vector<rt::Tensor>& tensors, bool on);
  absl::Status RunBackward(const v1::Command& command, const std::vector<rt::Tensor>& inputs);
  absl::StatusOr<rt::Tensor> ZeroGradient(const rt::TensorImpl& tensor, const Dims& strides);
  // Adds what passed through a result to its gradient.
  absl::Status Retain(rt::TensorImpl* tensor, rt::Tensor passed, bool with_history);
  absl::Status RunGrad(const v1::Command& command, const std::vector<rt::Tensor>& inputs);
  absl::Status RunWrite(const v1::Command& command);
  absl::Status RunUpload(const v1::Command& command);
  Outcome RunRead(const v1::Command& command, uint64_t seq, v1::EventBatch* events);
  absl::StatusOr<std::string> ReadBytes(rt::TensorImpl* tensor);
  absl::StatusOr<rt::Tensor> NewTensor(const v1::Command& command);
  void Fail(const v1::Command& command, uint64_t seq, rt::Ref<Failure> failure, v1::EventBatch* events);
  void AddDynamicFailure(const v1::Command& command, uint64_t seq, Failure* failure, v1::EventBatch* events);
  // The tensors that a failed command was to write, and has not.
  void MarkUnwritten(const v1::Command& command, const rt::Ref<Failure>& failure);

  ExecutorLimits limits_;
  MemoryBudget budget_;
  rt::ExecutionContext context_;
  rt::Recorder recorder_;
  rt::Engine engine_;
  TensorTable table_;  // after all its tensors need
  FailureLog failures_;
  std::map<uint64_t, std::string> downloads_;
  size_t download_bytes_ = 0;
  uint64_t ops_run_ = 0;
};

}  // namespace telensor::server
