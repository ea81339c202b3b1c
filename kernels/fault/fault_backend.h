// FaultBackend: a backend for tests, which passes everything on to another one and fails where it is told to.
//
// The ABI hands a backend no pointer of its own, so its state is the process's: there is one at a time. The caller owns
// it, and destroys it after every device made of it. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/plugin_abi.h"

namespace telensor::fault {

// What can be counted, and made to fail.
enum class Point { kAllocate, kFree, kLaunch, kCopy, kSynchronize, kStream };
constexpr int kNumPoints = 6;

// What the backend looks like from outside.
struct Appearance {
  std::string name = "fault";
  int device_count = 1;  // past the inner backend's own devices, its first one stands in
  std::string no_device_reason = "told to have none";
  bool host_accessible = true;  // false: the runtime must go by copies, as on a GPU
  int broken_device = -1;       // this one's device_info fails
  uint32_t abi_version = TT_ABI_VERSION;
  bool unknown_kernel = false;  // lists one that no row of the op table claims
};

class FaultBackend {
 public:
  explicit FaultBackend(const tt_backend* inner, Appearance appearance = {});
  ~FaultBackend();
  FaultBackend(const FaultBackend&) = delete;
  FaultBackend& operator=(const FaultBackend&) = delete;

  const tt_backend* api() const { return &api_; }

  // The n-th call from now on fails, 1 being the next, and `times` - 1 calls after it; it does nothing then.
  // A failed synchronize has waited all the same: the runtime may free memory.
  void Fail(Point point, int64_t n, int code, std::string message, int64_t times = 1);
  // Nothing fails any more.
  void Heal();

  // Calls so far, failed ones included.
  int64_t calls(Point point) const;
  // Calls that were made to fail.
  int64_t failures(Point point) const;
  int64_t live_allocations() const;
  int64_t live_bytes() const;
  int64_t live_streams() const;
  // Frees of what was not allocated, or with another size.
  int64_t wrong_frees() const;

 private:
  friend struct Entries;  // the C functions, in the .cc
  struct Plan {
    int64_t calls = 0;
    int64_t failures = 0;
    int64_t first = 0;  // the number of the first call that fails; 0: none
    int64_t last = 0;
    int code = TT_OK;
    std::string message;
  };

  // Counts a call; the code it must fail with, and why.
  int Count(Point point, std::string* message);
  int32_t InnerDevice(int32_t device) const { return device < inner_->device_count ? device : 0; }

  const tt_backend* const inner_;
  const Appearance appearance_;
  tt_backend api_ = {};
  std::vector<tt_kernel> kernels_;

  mutable std::mutex mu_;
  Plan plans_[kNumPoints];
  std::map<void*, size_t> allocations_;
  int64_t live_bytes_ = 0;
  int64_t live_streams_ = 0;
  int64_t wrong_frees_ = 0;
};

}  // namespace telensor::fault
