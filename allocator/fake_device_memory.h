// FakeDeviceMemory: a DeviceMemory for tests, which counts, runs out and fails on demand.
#pragma once

#include <cstdlib>
#include <map>

#include "allocator/device_memory.h"
#include "allocator/mutex.h"

namespace telensor {

// Hands out addresses with nothing behind them, or with `backed` real memory. Aborts on a Free that does not match.
// Thread-safe.
class FakeDeviceMemory : public DeviceMemory {
 public:
  explicit FakeDeviceMemory(uint64_t capacity, bool backed = false) : capacity_(capacity), backed_(backed) {}
  ~FakeDeviceMemory() override {
    if (!held_.empty()) std::abort();
  }

  absl::StatusOr<void*> Allocate(size_t bytes) override {
    MutexLock lock(&mu_);
    ++calls_;
    if (calls_ == fail_call_) return fail_status_;
    if (bytes > capacity_ - used_) return absl::ResourceExhaustedError("fake device is full");
    used_ += bytes;
    void* data;
    if (backed_) {
      data = std::aligned_alloc(4096, bytes);
    } else {
      // Never the same address twice, and a gap after each piece.
      data = reinterpret_cast<void*>(next_);
      next_ += bytes + (1 << 20);
    }
    held_[data] = bytes;
    return data;
  }

  void Free(void* data, size_t bytes) override {
    MutexLock lock(&mu_);
    auto it = held_.find(data);
    if (it == held_.end() || it->second != bytes) std::abort();
    held_.erase(it);
    used_ -= bytes;
    ++frees_;
    if (backed_) std::free(data);
  }

  bool Info(uint64_t* free, uint64_t* total) override {
    MutexLock lock(&mu_);
    *free = capacity_ - used_;
    *total = capacity_;
    return true;
  }

  // The n-th call of Allocate from now on returns this status.
  void FailCall(int n, absl::Status status) {
    MutexLock lock(&mu_);
    fail_call_ = calls_ + n;
    fail_status_ = std::move(status);
  }
  // Moves where the next piece lies.
  void Misalign(size_t by) {
    MutexLock lock(&mu_);
    next_ += by;
  }
  int calls() const {
    MutexLock lock(&mu_);
    return calls_;
  }
  int frees() const {
    MutexLock lock(&mu_);
    return frees_;
  }
  uint64_t used() const {
    MutexLock lock(&mu_);
    return used_;
  }

 private:
  const uint64_t capacity_;
  const bool backed_;
  mutable Mutex mu_;
  uintptr_t next_ = uintptr_t{1} << 32;
  std::map<void*, size_t> held_;
  uint64_t used_ = 0;
  int calls_ = 0;
  int frees_ = 0;
  int fail_call_ = -1;
  absl::Status fail_status_;
};

}  // namespace telensor
