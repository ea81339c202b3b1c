// Scheduler: whose turn it is on the device. One compute thread takes sessions with work in rounds, each for a slice
// of time; a session's own thread may take a free turn for small work, which saves two thread switches.
//
// One for the server. Thread-safe. Sessions must be removed before they are destroyed.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace telensor::server {

// What the scheduler runs: a session's queue.
class Schedulable {
 public:
  virtual ~Schedulable() = default;
  // Works until the deadline, the end of the queue, or something it must wait for. Returns whether more can be done
  // at once. Called by the one thread that has the turn.
  virtual bool RunSlice(std::chrono::steady_clock::time_point deadline) = 0;
};

class Scheduler {
 public:
  explicit Scheduler(std::chrono::microseconds slice);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;

  // Says that a session has work for the compute thread.
  void Enqueue(const std::shared_ptr<Schedulable>& session);

  // The turn for the calling thread, where nobody has it and nobody waits for it.
  class Turn {
   public:
    explicit operator bool() const { return lock_.owns_lock(); }

   private:
    friend class Scheduler;
    std::unique_lock<std::mutex> lock_;
  };
  Turn TryTurn();
  // Waits for the turn: for what must not run beside the session's work (closing it, ending an upload).
  Turn WaitTurn();

 private:
  void Loop();

  const std::chrono::microseconds slice_;
  std::mutex turn_;
  std::atomic<int> waiting_{0};
  absl::Mutex mu_;
  std::deque<std::shared_ptr<Schedulable>> ready_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace telensor::server
