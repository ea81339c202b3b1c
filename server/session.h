// Session: one client's state and its queue of commands.
//
// Owned by the SessionManager and by the calls that use it. The stream's reading thread submits batches and its
// writing thread takes events; commands run on whichever thread has the scheduler's turn.
#pragma once

#include <deque>
#include <functional>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "server/executor.h"
#include "server/scheduler.h"

namespace telensor::server {

struct SessionLimits {
  size_t max_queued_bytes = 8 << 20;  // of batches; past it the stream is not read
  size_t max_event_bytes = 16 << 20;  // of events not sent; past it nothing more is run
  absl::Duration attach_patience = absl::Seconds(10);
};

class Session final : public Schedulable, public std::enable_shared_from_this<Session> {
 public:
  Session(std::string id, std::shared_ptr<Executor> executor, Scheduler* scheduler, SessionLimits limits);

  const std::string& id() const { return id_; }

  // One stream carries a session. False where another one does, or did.
  bool Attach();
  // Whether no stream came within a time: its client ended between opening and attaching.
  bool Abandoned(absl::Time now);
  // Called by the stream's reading thread. Swaps the batch's contents in and gives back an empty one with its memory.
  // Waits while the queue is full, but not for a client that is `gone`. Sends what it ran at once through `send`.
  absl::Status Submit(v1::CommandBatch* batch, const std::function<bool(const v1::EventBatch&)>& send,
                      const std::function<bool()>& gone = nullptr);
  // Called by the stream's writing thread: waits for events; false once the session is closed.
  // Until EventsSent is called, nobody else writes to the stream.
  bool NextEvents(v1::EventBatch* events);
  void EventsSent();
  // Ends the session: queued work is dropped, its tensors are freed.
  void Close();

  bool RunSlice(std::chrono::steady_clock::time_point deadline) override;

  // Fills an upload's memory; waits until the ordered stream has named it. One call for each handle.
  absl::Status WriteUpload(Handle handle, const std::function<bool(std::string*)>& next_chunk, uint64_t* bytes);
  absl::StatusOr<std::string> TakeDownload(uint64_t read_seq);

  struct Stats {
    size_t tensors = 0;
    size_t allocated_bytes = 0;
    size_t peak_bytes = 0;
    uint64_t ops = 0;
    uint64_t executed_seq = 0;
  };
  Stats GetStats();

 private:
  struct Queued {
    v1::CommandBatch batch;
    int next = 0;
    size_t bytes = 0;
  };

  // Waits for the tensor of an upload.
  absl::StatusOr<rt::Tensor> AwaitPending(Handle handle, std::shared_ptr<Executor>* executor);
  absl::Status FillTensor(rt::TensorImpl* tensor, const std::function<bool(std::string*)>& next_chunk, uint64_t* bytes);
  // Runs queued commands; the caller has the turn.
  bool RunQueued(bool small_only, std::chrono::steady_clock::time_point deadline, v1::EventBatch* events);
  void Publish(v1::EventBatch* events);

  const std::string id_;
  const absl::Time opened_ = absl::Now();
  std::shared_ptr<Executor> executor_;  // used only with the turn; an upload may hold it longer
  Scheduler* scheduler_;
  const SessionLimits limits_;

  absl::Mutex mu_;
  std::deque<std::unique_ptr<Queued>> queue_ ABSL_GUARDED_BY(mu_);
  std::vector<std::unique_ptr<Queued>> free_ ABSL_GUARDED_BY(mu_);
  size_t queued_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  v1::EventBatch outbox_ ABSL_GUARDED_BY(mu_);
  size_t outbox_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  bool outbox_ready_ ABSL_GUARDED_BY(mu_) = false;
  bool sending_ ABSL_GUARDED_BY(mu_) = false;  // one thread writes to the stream at a time
  bool parked_ ABSL_GUARDED_BY(mu_) = false;   // waits for an upload or for events to leave
  bool attached_ ABSL_GUARDED_BY(mu_) = false;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  absl::flat_hash_set<Handle> uploading_ ABSL_GUARDED_BY(mu_);
  uint64_t next_seq_ ABSL_GUARDED_BY(mu_) = 1;
  uint64_t executed_seq_ ABSL_GUARDED_BY(mu_) = 0;
  Stats stats_ ABSL_GUARDED_BY(mu_);
};

}  // namespace telensor::server
