// MemoryBudget: a cap on the memory that one client, session or tenant holds.
#pragma once

#include <atomic>
#include <cstddef>
#include <limits>
#include <string>

#include "absl/status/status.h"

namespace telensor {

// MemoryBudget counts bytes against a limit. Allocators of several devices may charge the same one.
//
// Owned by whoever is limited (a session); must outlive every Buffer charged to it. Thread-safe, lock-free.
class MemoryBudget {
 public:
  static constexpr size_t kUnlimited = std::numeric_limits<size_t>::max();

  // The name stands in the error: "session memory".
  explicit MemoryBudget(size_t limit_bytes, std::string name = "memory budget");
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  // ResourceExhausted, with nothing charged, where `bytes` more would pass the limit.
  absl::Status Charge(size_t bytes);
  // Takes back what was charged; refunding more than that is a bug in the caller, and crashes.
  void Refund(size_t bytes);

  const std::string& name() const { return name_; }
  size_t limit() const { return limit_; }
  size_t used() const { return used_.load(std::memory_order_relaxed); }
  size_t peak() const { return peak_.load(std::memory_order_relaxed); }

 private:
  absl::Status Exhausted(size_t used, size_t requested) const;

  const size_t limit_;
  const std::string name_;
  std::atomic<size_t> used_{0};
  std::atomic<size_t> peak_{0};
};

}  // namespace telensor
