// SpinLock: a mutex for critical sections of nanoseconds that never block.
#pragma once

#include <atomic>
#include <thread>

#include "absl/base/thread_annotations.h"

namespace telensor {

// SpinLock costs one atomic exchange to take and a plain store to release: an uncontended absl::Mutex costs several
// times that (37 against 5 ns, measured), more than all the rest of an allocation. Whoever holds it may not call a
// device or wait for anything.
//
// A member of what it guards. Thread-safe.
class ABSL_LOCKABLE SpinLock {
 public:
  SpinLock() = default;
  SpinLock(const SpinLock&) = delete;
  SpinLock& operator=(const SpinLock&) = delete;

  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() {
    if (__builtin_expect(held_.exchange(true, std::memory_order_acquire), 0)) LockSlow();
  }
  void Unlock() ABSL_UNLOCK_FUNCTION() { held_.store(false, std::memory_order_release); }

 private:
  __attribute__((noinline)) void LockSlow() {
    constexpr int kSpins = 100;
    for (int spins = 0;; ++spins) {
      // Reads until the lock looks free: an exchange would take the cache line from the holder each time.
      if (!held_.load(std::memory_order_relaxed) && !held_.exchange(true, std::memory_order_acquire)) return;
      // The holder may have been descheduled, so give it the core.
      if (spins >= kSpins) std::this_thread::yield();
    }
  }

  std::atomic<bool> held_{false};
};

// Holds a SpinLock for a scope.
class ABSL_SCOPED_LOCKABLE SpinLockHolder {
 public:
  explicit SpinLockHolder(SpinLock* lock) ABSL_EXCLUSIVE_LOCK_FUNCTION(lock) : lock_(lock) { lock_->Lock(); }
  ~SpinLockHolder() ABSL_UNLOCK_FUNCTION() { lock_->Unlock(); }
  SpinLockHolder(const SpinLockHolder&) = delete;
  SpinLockHolder& operator=(const SpinLockHolder&) = delete;

 private:
  SpinLock* const lock_;
};

}  // namespace telensor
