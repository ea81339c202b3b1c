// Tells ThreadSanitizer what absl::Mutex does. Debian's Abseil is not instrumented, so without this every field that an
// absl::Mutex guards looks unguarded. Linked into programs under TSan only (tests/run.sh --tsan): the definitions here
// come before the library's, which they call.
//
// Only what this program's own code locks is told: gRPC, which is not instrumented either, uses absl::Mutex as well, and
// its mutexes come and go without a word.
//
// Between the "pre" and "post" calls ThreadSanitizer looks away, which also covers conditions of Await: Abseil lets
// whoever unlocks evaluate them.
#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

extern "C" char __executable_start, etext;  // where the program's own code lies, by the linker

namespace {

// Instrumented functions make no tail calls, so the return address is the caller's.
bool IsOurs(const void* return_address) { return return_address >= &__executable_start && return_address < &etext; }
#define TELENSOR_OURS() IsOurs(__builtin_return_address(0))

template <typename Fn>
Fn Next(const char* name) {
  return reinterpret_cast<Fn>(dlsym(RTLD_NEXT, name));
}

// Waits of a lock that is held: given up, and taken again. One of the library's waits may be made of another one.
class Regained {
 public:
  Regained(void* mutex, bool ours) : mutex_(t_waits++ == 0 && ours ? mutex : nullptr) {
    if (mutex_ == nullptr) return;
    __tsan_mutex_pre_unlock(mutex_, 0);
    __tsan_mutex_post_unlock(mutex_, 0);
    __tsan_mutex_pre_lock(mutex_, 0);
  }
  ~Regained() {
    --t_waits;
    if (mutex_ != nullptr) __tsan_mutex_post_lock(mutex_, 0, 0);
  }

 private:
  static thread_local int t_waits;
  void* mutex_;
};
thread_local int Regained::t_waits = 0;

}  // namespace

namespace absl {
ABSL_NAMESPACE_BEGIN

void Mutex::Lock() {
  static const auto next = Next<void (*)(Mutex*)>("_ZN4absl7debian35Mutex4LockEv");
  if (!TELENSOR_OURS()) return next(this);
  __tsan_mutex_pre_lock(this, 0);
  next(this);
  __tsan_mutex_post_lock(this, 0, 0);
}

void Mutex::Unlock() {
  static const auto next = Next<void (*)(Mutex*)>("_ZN4absl7debian35Mutex6UnlockEv");
  if (!TELENSOR_OURS()) return next(this);
  __tsan_mutex_pre_unlock(this, 0);
  next(this);
  __tsan_mutex_post_unlock(this, 0);
}

bool Mutex::TryLock() {
  static const auto next = Next<bool (*)(Mutex*)>("_ZN4absl7debian35Mutex7TryLockEv");
  if (!TELENSOR_OURS()) return next(this);
  __tsan_mutex_pre_lock(this, __tsan_mutex_try_lock);
  const bool got = next(this);
  __tsan_mutex_post_lock(this, got ? __tsan_mutex_try_lock : __tsan_mutex_try_lock | __tsan_mutex_try_lock_failed, 0);
  return got;
}

void Mutex::ReaderLock() {
  static const auto next = Next<void (*)(Mutex*)>("_ZN4absl7debian35Mutex10ReaderLockEv");
  if (!TELENSOR_OURS()) return next(this);
  __tsan_mutex_pre_lock(this, __tsan_mutex_read_lock);
  next(this);
  __tsan_mutex_post_lock(this, __tsan_mutex_read_lock, 0);
}

void Mutex::ReaderUnlock() {
  static const auto next = Next<void (*)(Mutex*)>("_ZN4absl7debian35Mutex12ReaderUnlockEv");
  if (!TELENSOR_OURS()) return next(this);
  __tsan_mutex_pre_unlock(this, __tsan_mutex_read_lock);
  next(this);
  __tsan_mutex_post_unlock(this, __tsan_mutex_read_lock);
}

void Mutex::LockWhen(const Condition& cond) {
  static const auto next =
      Next<void (*)(Mutex*, const Condition&)>("_ZN4absl7debian35Mutex8LockWhenERKNS0_9ConditionE");
  if (!TELENSOR_OURS()) return next(this, cond);
  __tsan_mutex_pre_lock(this, 0);
  next(this, cond);
  __tsan_mutex_post_lock(this, 0, 0);
}

void Mutex::Await(const Condition& cond) {
  static const auto next = Next<void (*)(Mutex*, const Condition&)>("_ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE");
  Regained lock(this, TELENSOR_OURS());
  next(this, cond);
}

bool Mutex::AwaitWithTimeout(const Condition& cond, absl::Duration timeout) {
  static const auto next = Next<bool (*)(Mutex*, const Condition&, absl::Duration)>(
      "_ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE");
  Regained lock(this, TELENSOR_OURS());
  return next(this, cond, timeout);
}

bool Mutex::AwaitWithDeadline(const Condition& cond, absl::Time deadline) {
  static const auto next = Next<bool (*)(Mutex*, const Condition&, absl::Time)>(
      "_ZN4absl7debian35Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE");
  Regained lock(this, TELENSOR_OURS());
  return next(this, cond, deadline);
}

void CondVar::Wait(Mutex* mutex) {
  static const auto next = Next<void (*)(CondVar*, Mutex*)>("_ZN4absl7debian37CondVar4WaitEPNS0_5MutexE");
  Regained lock(mutex, TELENSOR_OURS());
  next(this, mutex);
}

ABSL_NAMESPACE_END
}  // namespace absl
