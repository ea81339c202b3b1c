// CachingAllocator: device memory kept in segments and handed out in blocks, as PyTorch's CUDA allocator does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allocator/block_pool.h"
#include "allocator/buffer.h"
#include "allocator/device_memory.h"
#include "allocator/memory_budget.h"
#include "allocator/memory_snapshot.h"
#include "allocator/memory_stats.h"
#include "allocator/mutex.h"
#include "allocator/spin_lock.h"

namespace telensor {

// CachingAllocator serves all allocations on one device. caching_allocator.cc opens with its policy.
//
// Owned by the device's backend. Outlives its Buffers: going before them is a bug, and crashes. Thread-safe. Device
// calls and waits happen outside the lock that an allocation from the cache, and every free, takes.
class CachingAllocator {
 public:
  struct Options {
    // As the error names the device: "CPU", "GPU 0".
    std::string device_name = "CPU";
    // Opens the error: "CUDA out of memory.". Empty for "<device_name> out of memory.".
    std::string error_prefix;
    // Every block's address is a multiple of it, if the device's are. A power of two.
    size_t alignment = 64;
    // Blocks this large are never split. Raised to just over 20 MiB where it is less.
    size_t max_split_size = std::numeric_limits<size_t>::max();
    // How much larger than the request an oversize block may be.
    size_t max_non_split_rounding = 20 << 20;
    // The share of the memory limit above which old cached segments are freed before more memory is asked for.
    // 0 for never; without effect where there is no limit.
    double garbage_collection_threshold = 0;
    // Caps on the memory held: a share of the device's total, and bytes. The lower one counts.
    double memory_fraction = 1;
    uint64_t memory_limit = std::numeric_limits<uint64_t>::max();
  };

  // Neither is owned. `events` is null for a device that finishes every operation before it returns.
  CachingAllocator(DeviceMemory* device, StreamEvents* events, const Options& options);
  ~CachingAllocator();
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  // Memory for use on `stream`; for 0 bytes an empty Buffer. Charges RoundSize(bytes) to the budget, if there is one,
  // until the Buffer goes. ResourceExhausted from the budget or the device; a failure leaves nothing charged.
  absl::StatusOr<Buffer> Allocate(size_t bytes, StreamId stream, MemoryBudget* budget = nullptr);

  // Says that `stream` uses the memory too: when the Buffer goes, the block is not reused until the work queued there
  // by then is done.
  void RecordStream(const Buffer& buffer, StreamId stream);

  // Waits for outstanding events and gives all cached memory back to the device that is not pinned by live blocks.
  void EmptyCache();

  // As torch.cuda.set_per_process_memory_fraction. Memory held already is not given back.
  absl::Status SetMemoryFraction(double fraction);

  // Both merge what the fast lists hold first, so that they show the policy's state.
  MemorySnapshot Snapshot();
  MemoryStats Stats();
  void ResetPeak();

  // The size class of a request, and the size of the segment that would be asked of the device for it.
  size_t RoundSize(size_t bytes) const { return (bytes + grain_ - 1) & ~(grain_ - 1); }
  static size_t SegmentSize(size_t rounded_size);

 private:
  friend class Buffer;
  static constexpr size_t kSmallSize = 1 << 20;

  BlockPool& PoolFor(size_t size) { return size <= kSmallSize ? small_pool_ : large_pool_; }
  static int IndexOf(const BlockPool& pool) { return pool.small() ? 0 : 1; }

  // For Buffer.
  void Free(Block* block);

  absl::StatusOr<Block*> AllocateSlow(size_t size, size_t bytes, StreamId stream, MemoryBudget* budget);
  // A block from the cache, or null.
  Block* TakeCached(size_t size, StreamId stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Counts a taken block as the user's.
  void Claim(Block* block, size_t bytes, MemoryBudget* budget) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Counts a block as free, and puts it back.
  void Return(Block* block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // These let go of mu_ for device calls and waits; growing_mu_ keeps the order of steps.
  absl::StatusOr<Block*> Grow(size_t size, StreamId stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(growing_mu_, mu_);
  void ReleaseSegments(const std::vector<Block*>& blocks) ABSL_EXCLUSIVE_LOCKS_REQUIRED(growing_mu_, mu_);
  void ReleaseCached() ABSL_EXCLUSIVE_LOCKS_REQUIRED(growing_mu_, mu_);
  void CollectGarbage() ABSL_EXCLUSIVE_LOCKS_REQUIRED(growing_mu_, mu_);
  void WaitForEvents() ABSL_EXCLUSIVE_LOCKS_REQUIRED(growing_mu_, mu_);
  absl::Status OutOfMemory(size_t tried) ABSL_EXCLUSIVE_LOCKS_REQUIRED(growing_mu_, mu_);

  // Records one event for each foreign stream of a freed block.
  void RecordEvents(Block* block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns the blocks whose events are done.
  void PollEvents() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FinishEvent(Block* block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  void DrainFast() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CountSplits() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool oversize(size_t size) const { return size >= options_.max_split_size; }

  DeviceMemory* const device_;
  StreamEvents* const events_;
  const Options options_;
  const size_t grain_;

  // Held by whoever asks the device for memory or gives it back, one at a time: so nobody runs out of memory while
  // another one is still giving some back. Never needed for a free.
  Mutex growing_mu_ ABSL_ACQUIRED_BEFORE(mu_);
  SpinLock mu_;

  BlockPool small_pool_ ABSL_GUARDED_BY(mu_);
  BlockPool large_pool_ ABSL_GUARDED_BY(mu_);
  // The first block of each segment, by address.
  std::map<void*, Block*> segments_ ABSL_GUARDED_BY(mu_);
  uint64_t limit_ ABSL_GUARDED_BY(mu_);

  using EventQueue = std::deque<std::pair<StreamEvents::Event, Block*>>;
  // By the stream the event was recorded on: events of one stream finish in order.
  std::map<StreamId, EventQueue> pending_ ABSL_GUARDED_BY(mu_);
  size_t num_pending_ ABSL_GUARDED_BY(mu_) = 0;

  PoolCounter allocation_ ABSL_GUARDED_BY(mu_);
  PoolCounter allocated_bytes_ ABSL_GUARDED_BY(mu_);
  PoolCounter active_ ABSL_GUARDED_BY(mu_);
  PoolCounter active_bytes_ ABSL_GUARDED_BY(mu_);
  PoolCounter requested_bytes_ ABSL_GUARDED_BY(mu_);
  PoolCounter segment_ ABSL_GUARDED_BY(mu_);
  PoolCounter reserved_bytes_ ABSL_GUARDED_BY(mu_);
  PoolCounter inactive_split_ ABSL_GUARDED_BY(mu_);
  PoolCounter inactive_split_bytes_ ABSL_GUARDED_BY(mu_);
  // Oversize blocks are all in the large pool.
  PoolCounter oversize_allocations_ ABSL_GUARDED_BY(mu_);
  PoolCounter oversize_segments_ ABSL_GUARDED_BY(mu_);
  // The plain counts; the rest of it stays empty until Stats().
  MemoryStats counts_ ABSL_GUARDED_BY(mu_);
};

}  // namespace telensor
