// Session: one client's state and its queue of commands.
//
// Owned by the SessionManager and by the calls that use it. The stream's reading thread submits batches and its
// writing thread takes events; commands run on whichever thread has the scheduler's turn.
#pragma once

#include <deque>
#include <functional>
#include <string>

#include "absl/synchronization/mutex.h"
#include "server/executor.h"
#include "server/scheduler.h"

namespace telensor::server {

struct SessionLimits {
  size_t max_queued_bytes = 8 << 20;  // of batches; past it the stream is not read
  size_t max_event_bytes = 16 << 20;  // of events not sent; past it nothing more is run
};

class Session final : public Schedulable, public std::enable_shared_from_this<Session> {
 public:
  Session(std::string id, std::unique_ptr<Executor> executor, Scheduler* scheduler, SessionLimits limits);

  const std::string& id() const { return id_; }

  // One stream at a time carries a session. False where another does.
  bool Attach();
  // Called by the stream's reading thread. Swaps the batch's contents in and gives back an empty one with its memory.
  // Waits while the queue is full. Sends what it ran at once through `send`.
  absl::Status Submit(v1::CommandBatch* batch, const std::function<bool(const v1::EventBatch&)>& send);
  // Called by the stream's writing thread: waits for events; false once the session is closed.
  // Until EventsSent is called, nobody else writes to the stream.
  bool NextEvents(v1::EventBatch* events);
  void EventsSent();
  // Ends the session: queued work is dropped, its tensors are freed.
  void Close();

  bool RunSlice(std::chrono::steady_clock::time_point deadline) override;

  // Fills an upload's memory; waits until the ordered stream has named it.
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

  // Runs queued commands; the caller has the turn.
  bool RunQueued(bool small_only, std::chrono::steady_clock::time_point deadline, v1::EventBatch* events);
  void Publish(v1::EventBatch* events);

  const std::string id_;
  std::unique_ptr<Executor> executor_;  // used only with the turn
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
  uint64_t next_seq_ ABSL_GUARDED_BY(mu_) = 1;
  uint64_t executed_seq_ ABSL_GUARDED_BY(mu_) = 0;
  Stats stats_ ABSL_GUARDED_BY(mu_);
};

}  // namespace telensor::server
