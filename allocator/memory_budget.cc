#include "allocator/memory_budget.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "allocator/format_bytes.h"

namespace telensor {

MemoryBudget::MemoryBudget(size_t limit_bytes, std::string name) : limit_(limit_bytes), name_(std::move(name)) {}

absl::Status MemoryBudget::Charge(size_t bytes) {
  // Compare and swap, not add and undo: a big request that fails must not make a small one beside it fail.
  size_t used = used_.load(std::memory_order_relaxed);
  do {
    if (bytes > limit_ - used) return Exhausted(used, bytes);
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));

  size_t peak = peak_.load(std::memory_order_relaxed);
  while (used + bytes > peak && !peak_.compare_exchange_weak(peak, used + bytes, std::memory_order_relaxed)) {
  }
  return absl::OkStatus();
}

void MemoryBudget::Refund(size_t bytes) {
  // Holds because the allocator refunds each Buffer once, with the size it charged.
  if (used_.fetch_sub(bytes, std::memory_order_relaxed) < bytes) std::abort();
}

absl::Status MemoryBudget::Exhausted(size_t used, size_t requested) const {
  return absl::ResourceExhaustedError(absl::StrCat(name_, " exhausted: tried to allocate ", FormatBytes(requested),
                                                   " with ", FormatBytes(used), " used of a limit of ",
                                                   FormatBytes(limit_)));
}

}  // namespace telensor
