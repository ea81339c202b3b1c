// FakeStreamEvents: a StreamEvents for tests, whose streams finish when told.
#pragma once

#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "allocator/device_memory.h"
#include "allocator/mutex.h"

namespace telensor {

// Aborts on the use of a destroyed event, and where events are left over. Thread-safe.
class FakeStreamEvents : public StreamEvents {
 public:
  ~FakeStreamEvents() override {
    if (!events_.empty()) std::abort();
  }

  absl::StatusOr<Event> Record(StreamId stream) override {
    MutexLock lock(&mu_);
    if (fail_record_) return absl::InternalError("device lost");
    const Event event = reinterpret_cast<Event>(++last_event_);
    events_[event] = {stream, false};
    return event;
  }
  bool Done(Event event) override {
    MutexLock lock(&mu_);
    return events_.at(event).second;
  }
  void Wait(Event event) override {
    if (on_wait_) on_wait_();
    MutexLock lock(&mu_);
    ++waits_;
    events_.at(event).second = true;
  }
  void Destroy(Event event) override {
    MutexLock lock(&mu_);
    if (events_.erase(event) != 1) std::abort();
  }

  // The stream finishes all that is queued so far.
  void Finish(StreamId stream) {
    MutexLock lock(&mu_);
    for (auto& [event, state] : events_) {
      if (state.first == stream) state.second = true;
    }
  }
  void FailRecord(bool fail) {
    MutexLock lock(&mu_);
    fail_record_ = fail;
  }
  // Called, without locks, whenever somebody waits. Set it before there are threads.
  void OnWait(std::function<void()> f) { on_wait_ = std::move(f); }
  int waits() const {
    MutexLock lock(&mu_);
    return waits_;
  }
  size_t num_events() const {
    MutexLock lock(&mu_);
    return events_.size();
  }

 private:
  mutable Mutex mu_;
  std::map<Event, std::pair<StreamId, bool>> events_;
  uintptr_t last_event_ = 0;
  bool fail_record_ = false;
  int waits_ = 0;
  std::function<void()> on_wait_;
};

}  // namespace telensor
