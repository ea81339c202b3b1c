#include "server/scheduler.h"

#include <algorithm>

namespace telensor::server {

Scheduler::Scheduler(std::chrono::microseconds slice) : slice_(slice), thread_([this] { Loop(); }) {}

Scheduler::~Scheduler() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  thread_.join();
}

void Scheduler::Enqueue(const std::shared_ptr<Schedulable>& session) {
  absl::MutexLock lock(&mu_);
  if (std::find(ready_.begin(), ready_.end(), session) == ready_.end()) ready_.push_back(session);
}

Scheduler::Turn Scheduler::TryTurn() {
  Turn turn;
  if (waiting_.load(std::memory_order_relaxed) == 0) turn.lock_ = std::unique_lock<std::mutex>(turn_, std::try_to_lock);
  return turn;
}

Scheduler::Turn Scheduler::WaitTurn() {
  Turn turn;
  ++waiting_;
  turn.lock_ = std::unique_lock<std::mutex>(turn_);
  --waiting_;
  return turn;
}

void Scheduler::Loop() {
  while (true) {
    std::shared_ptr<Schedulable> session;
    {
      absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(
          +[](Scheduler* self) ABSL_EXCLUSIVE_LOCKS_REQUIRED(self->mu_) { return self->stopping_ || !self->ready_.empty(); }, this));
      if (stopping_) return;
      session = std::move(ready_.front());
      ready_.pop_front();
    }
    bool more;
    {
      Turn turn = WaitTurn();
      more = session->RunSlice(std::chrono::steady_clock::now() + slice_);
    }
    if (more) Enqueue(session);
  }
}

}  // namespace telensor::server
