// MemoryStats: an allocator's counters, under the names of torch.cuda.memory_stats().
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace telensor {

// A quantity that rises and falls. A plain value.
struct Stat {
  int64_t current = 0;
  int64_t peak = 0;       // of `current`, since the start or the last ResetPeak
  int64_t allocated = 0;  // the sum of all rises
  int64_t freed() const { return allocated - current; }
};

struct StatByPool {
  Stat all;
  Stat small_pool;
  Stat large_pool;
};

// One reading of an allocator's counters. A plain value.
struct MemoryStats {
  StatByPool allocation;            // buffers in the user's hands
  StatByPool segment;               // device allocations held
  StatByPool active;                // buffers in the user's hands or waiting for a foreign stream
  StatByPool inactive_split;        // free blocks that share a segment with others, so cannot go back to the device
  StatByPool allocated_bytes;       // sizes of the blocks that `allocation` counts
  StatByPool reserved_bytes;        // of `segment`
  StatByPool active_bytes;          // of `active`
  StatByPool inactive_split_bytes;  // of `inactive_split`
  StatByPool requested_bytes;       // what the user asked for, before rounding; of `active`
  Stat oversize_allocations;        // of max_split_size or more
  Stat oversize_segments;
  int64_t num_alloc_retries = 0;     // device allocations repeated after the cache was given back
  int64_t num_ooms = 0;              // errors returned for want of memory
  int64_t num_sync_all_streams = 0;  // waits for all outstanding events
  int64_t num_device_alloc = 0;
  int64_t num_device_free = 0;
  int64_t max_split_size = -1;  // -1 for no limit
};

// ("allocated_bytes.all.current", n), ... for every counter.
std::vector<std::pair<std::string, int64_t>> Flatten(const MemoryStats& stats);

// The running form of a StatByPool: cheap to update, since everything that follows from the rest is left to Read().
// Part of an allocator, guarded by its lock.
class PoolCounter {
 public:
  void Add(int pool, int64_t n) {
    current_[pool] += n;
    allocated_[pool] += n;
    peak_[pool] = std::max(peak_[pool], current_[pool]);
    peak_all_ = std::max(peak_all_, current_[0] + current_[1]);
  }
  void Sub(int pool, int64_t n) { current_[pool] -= n; }
  // Moves the current value, up or down.
  void Set(int pool, int64_t value) {
    const int64_t change = value - current_[pool];
    if (change >= 0) {
      Add(pool, change);
    } else {
      Sub(pool, -change);
    }
  }
  int64_t current() const { return current_[0] + current_[1]; }
  void ResetPeak() {
    std::copy_n(current_, 2, peak_);
    peak_all_ = current();
  }
  // Pool 0 is the small one.
  StatByPool Read() const;

 private:
  int64_t current_[2] = {0, 0};
  int64_t allocated_[2] = {0, 0};
  int64_t peak_[2] = {0, 0};
  int64_t peak_all_ = 0;
};

}  // namespace telensor
