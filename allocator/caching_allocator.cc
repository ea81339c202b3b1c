// The policy, after PyTorch's CUDACachingAllocator.
//
// Asking a device for memory is slow and, for CUDA, waits for all its work. So memory is asked for in large pieces,
// segments, and kept. A segment is cut into blocks; a freed block merges with free neighbours in its segment. Blocks
// of different segments never merge: the cost of this design is memory that is free in pieces of the wrong size.
//
// Sizes. A request is rounded up to 512 bytes (the grain, or the alignment where that is more). Up to 1 MiB it comes
// from the small pool, whose segments have 2 MiB; over that from the large pool, with segments of 20 MiB up to
// 10 MiB, and from there on of its own size rounded to 2 MiB. So small blocks cannot pin large segments. A remainder
// is split off if it has a grain (small) or more than 1 MiB (large); blocks of max_split_size and more are never
// split, and go only to requests of that class which come within max_non_split_rounding of their size.
//
// Streams. A block belongs to the stream it was first allocated for, and is only reused there: work of that stream
// which still uses it comes before whatever the next owner queues, so a free needs no wait. Where another stream
// uses it (RecordStream), a free records an event there, and the block is free when all its events are done, which
// later allocations look for.
//
// Order. (1) Take back blocks whose events are done. (2) The best fit: the smallest block on the stream that is large
// enough. (3) Above the garbage-collection threshold free whole segments, longest unused first. (4) Ask the device,
// unless the limit would be passed. (5) With max_split_size, free just enough oversize segments, ask again. (6) Wait
// for all events and look in the cache again; PyTorch does not look, and can fail with the memory in hand. (7) Free
// all segments that are wholly free, ask again. (8) ResourceExhausted, in PyTorch's words.
//
// Fast lists. Most traffic frees a small size and takes it again. In the small pool freed blocks of up to 64 KiB go on
// a list for exactly their size, unmerged, and (2) looks there first. They are merged before (3), so the device is
// asked only where the pure policy's cache would not do either, and before statistics and snapshots are read. What
// this changes: between merges, the exact size is preferred to the lowest address, and a block that is not merged
// and split again does not show in the inactive_split totals and peaks.
//
// Locks. mu_ is a spin lock, held for steps in memory only. A miss takes growing_mu_ first and lets go of mu_ around
// device calls and waits. So frees and hits never wait for the device, and a callback on a stream may free buffers
// (allocating there can deadlock with a thread that waits for that stream).
#include "allocator/caching_allocator.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "allocator/format_bytes.h"
#include "proto/core/status.h"

namespace telensor {
namespace {

constexpr size_t kGrain = 512;
constexpr size_t kSmallSegment = 2 << 20;
constexpr size_t kLargeSegment = 20 << 20;
constexpr size_t kMinOwnSegment = 10 << 20;
constexpr size_t kOwnSegmentGrain = 2 << 20;
constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();
// Past this the arithmetic on sizes could wrap; no device has as much.
constexpr size_t kMaxBytes = size_t{1} << 60;

CachingAllocator::Options Checked(CachingAllocator::Options options) {
  // At 20 MiB or less the shared large segments would themselves be oversize, and never serve a small request again.
  options.max_split_size = std::max(options.max_split_size, kLargeSegment + 1);
  // Comes from configuration that was checked, not from a peer.
  if (options.alignment == 0 || (options.alignment & (options.alignment - 1)) != 0) std::abort();
  return options;
}

BlockPool::Rules RulesFor(bool small, size_t grain, const CachingAllocator::Options& options) {
  return {small, grain, options.max_split_size, options.max_non_split_rounding};
}

}  // namespace

CachingAllocator::CachingAllocator(DeviceMemory* device, StreamEvents* events, const Options& options)
    : device_(device),
      events_(events),
      options_(Checked(options)),
      grain_(std::max(kGrain, options.alignment)),
      small_pool_(RulesFor(true, grain_, options_)),
      large_pool_(RulesFor(false, grain_, options_)),
      limit_(options.memory_limit) {
  // An unknown total leaves only memory_limit.
  if (options_.memory_fraction < 1) SetMemoryFraction(options_.memory_fraction).IgnoreError();
}

CachingAllocator::~CachingAllocator() {
  EmptyCache();
  SpinLockHolder lock(&mu_);
  if (allocation_.current() != 0) {
    std::fprintf(stderr, "allocator of %s destroyed with %lld buffers alive\n", options_.device_name.c_str(),
                 static_cast<long long>(allocation_.current()));
    std::abort();
  }
  // What is left is pinned by blocks whose event could not be recorded.
  for (const auto& [data, first] : segments_) {
    size_t size = 0;
    for (Block* block = first; block != nullptr;) {
      Block* next = block->next;
      size += block->size;
      delete block;
      block = next;
    }
    device_->Free(data, size);
  }
}

size_t CachingAllocator::SegmentSize(size_t rounded_size) {
  if (rounded_size <= kSmallSize) return kSmallSegment;
  if (rounded_size < kMinOwnSegment) return kLargeSegment;
  return (rounded_size + kOwnSegmentGrain - 1) / kOwnSegmentGrain * kOwnSegmentGrain;
}

absl::StatusOr<Buffer> CachingAllocator::Allocate(size_t bytes, StreamId stream, MemoryBudget* budget) {
  if (bytes == 0) return Buffer();
  if (bytes > kMaxBytes) {
    MutexLock growing(&growing_mu_);
    SpinLockHolder lock(&mu_);
    return OutOfMemory(bytes);
  }
  const size_t size = RoundSize(bytes);
  if (budget != nullptr) TD_RETURN_IF_ERROR(budget->Charge(size));
  Block* block = nullptr;
  {
    SpinLockHolder lock(&mu_);
    if (num_pending_ != 0) PollEvents();
    block = TakeCached(size, stream);
    if (block != nullptr) Claim(block, bytes, budget);
  }
  if (block == nullptr) {
    absl::StatusOr<Block*> grown = AllocateSlow(size, bytes, stream, budget);
    if (!grown.ok()) {
      if (budget != nullptr) budget->Refund(size);
      return std::move(grown).status();
    }
    block = *grown;
  }
  return Buffer(this, block, block->data, bytes);
}

Block* CachingAllocator::TakeCached(size_t size, StreamId stream) {
  BlockPool& pool = PoolFor(size);
  Block* block = pool.TakeFast(size, stream);
  if (block == nullptr) {
    block = pool.TakeBestFit(size, stream);
    CountSplits();
  }
  return block;
}

void CachingAllocator::Claim(Block* block, size_t bytes, MemoryBudget* budget) {
  block->requested_size = bytes;
  block->budget = budget;
  const int pool = IndexOf(*block->pool);
  const auto size = static_cast<int64_t>(block->size);
  allocation_.Add(pool, 1);
  allocated_bytes_.Add(pool, size);
  active_.Add(pool, 1);
  active_bytes_.Add(pool, size);
  requested_bytes_.Add(pool, static_cast<int64_t>(bytes));
  if (oversize(block->size)) oversize_allocations_.Add(1, 1);
}

void CachingAllocator::Free(Block* block) {
  MemoryBudget* const budget = block->budget;
  const size_t charged = RoundSize(block->requested_size);
  {
    SpinLockHolder lock(&mu_);
    block->budget = nullptr;
    const int pool = IndexOf(*block->pool);
    allocation_.Sub(pool, 1);
    allocated_bytes_.Sub(pool, static_cast<int64_t>(block->size));
    if (oversize(block->size)) oversize_allocations_.Sub(1, 1);
    if (block->stream_uses.empty()) {
      Return(block);
    } else {
      RecordEvents(block);
    }
  }
  if (budget != nullptr) budget->Refund(charged);
}

void CachingAllocator::Return(Block* block) {
  BlockPool& pool = *block->pool;
  const int index = IndexOf(pool);
  active_.Sub(index, 1);
  active_bytes_.Sub(index, static_cast<int64_t>(block->size));
  requested_bytes_.Sub(index, static_cast<int64_t>(block->requested_size));
  block->requested_size = 0;
  if (pool.PutFast(block)) return;
  pool.Put(block);
  CountSplits();
}

absl::StatusOr<Block*> CachingAllocator::AllocateSlow(size_t size, size_t bytes, StreamId stream,
                                                      MemoryBudget* budget) {
  MutexLock growing(&growing_mu_);
  SpinLockHolder lock(&mu_);
  auto claim = [&](Block* block) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    block->pool->Trim(block, size);
    CountSplits();
    Claim(block, bytes, budget);
    return block;
  };
  // Merged, the fast lists may hold a block that fits; and another thread may have asked the device meanwhile.
  DrainFast();
  if (Block* block = TakeCached(size, stream)) return claim(block);

  CollectGarbage();
  absl::StatusOr<Block*> grown = Grow(size, stream);
  if (grown.ok()) return claim(*grown);
  if (!absl::IsResourceExhausted(grown.status())) return grown;

  const size_t segment_size = SegmentSize(size);
  const std::vector<Block*> oversize_blocks = large_pool_.TakeOversize(segment_size, stream);
  if (!oversize_blocks.empty()) {
    ReleaseSegments(oversize_blocks);
    ++counts_.num_alloc_retries;
    grown = Grow(size, stream);
    if (grown.ok()) return claim(*grown);
  }

  WaitForEvents();
  DrainFast();
  if (Block* block = TakeCached(size, stream)) return claim(block);
  ReleaseCached();
  ++counts_.num_alloc_retries;
  grown = Grow(size, stream);
  if (grown.ok()) return claim(*grown);
  if (!absl::IsResourceExhausted(grown.status())) return grown;

  // While mu_ was free for the device calls others may have freed what is wanted.
  PollEvents();
  DrainFast();
  if (Block* block = TakeCached(size, stream)) return claim(block);
  return OutOfMemory(segment_size);
}

absl::StatusOr<Block*> CachingAllocator::Grow(size_t size, StreamId stream) {
  const size_t segment_size = SegmentSize(size);
  // Only this function raises reserved_bytes_, under growing_mu_: so the check still holds after the call.
  const auto reserved = static_cast<uint64_t>(reserved_bytes_.current());
  if (reserved > limit_ || segment_size > limit_ - reserved) {
    return absl::ResourceExhaustedError("memory limit of the allocator reached");
  }
  mu_.Unlock();
  absl::StatusOr<void*> data = device_->Allocate(segment_size);
  const bool misaligned = data.ok() && reinterpret_cast<uintptr_t>(*data) % options_.alignment != 0;
  if (misaligned) device_->Free(*data, segment_size);
  mu_.Lock();
  if (!data.ok()) return std::move(data).status();
  if (misaligned) {
    return absl::InternalError(absl::StrCat(options_.device_name, " memory is not aligned to ", options_.alignment));
  }

  BlockPool& pool = PoolFor(size);
  Block* block = pool.AddSegment(*data, segment_size, stream);
  segments_.emplace(*data, block);
  segment_.Add(IndexOf(pool), 1);
  reserved_bytes_.Add(IndexOf(pool), static_cast<int64_t>(segment_size));
  if (oversize(segment_size)) oversize_segments_.Add(1, 1);
  ++counts_.num_device_alloc;
  return block;
}

void CachingAllocator::ReleaseSegments(const std::vector<Block*>& blocks) {
  if (blocks.empty()) return;
  std::vector<std::pair<void*, size_t>> memory;
  memory.reserve(blocks.size());
  for (Block* block : blocks) {
    memory.emplace_back(block->data, block->size);
    segments_.erase(block->data);
    const int pool = IndexOf(*block->pool);
    segment_.Sub(pool, 1);
    reserved_bytes_.Sub(pool, static_cast<int64_t>(block->size));
    if (oversize(block->size)) oversize_segments_.Sub(1, 1);
    ++counts_.num_device_free;
    block->pool->RemoveSegment(block);
  }
  mu_.Unlock();
  for (const auto& [data, size] : memory) device_->Free(data, size);
  mu_.Lock();
}

void CachingAllocator::ReleaseCached() {
  DrainFast();
  ReleaseSegments(large_pool_.TakeUnsplit());
  ReleaseSegments(small_pool_.TakeUnsplit());
}

void CachingAllocator::CollectGarbage() {
  if (options_.garbage_collection_threshold <= 0 || limit_ == kNoLimit) return;
  const double threshold = options_.garbage_collection_threshold * static_cast<double>(limit_);
  const double excess = static_cast<double>(reserved_bytes_.current()) - threshold;
  if (excess > 0) ReleaseSegments(large_pool_.TakeOldest(static_cast<size_t>(excess)));
}

void CachingAllocator::RecordStream(const Buffer& buffer, StreamId stream) {
  Block* block = buffer.block_;
  if (block == nullptr || events_ == nullptr || stream == block->stream) return;
  SpinLockHolder lock(&mu_);
  std::vector<StreamId>& uses = block->stream_uses;
  if (std::find(uses.begin(), uses.end(), stream) == uses.end()) uses.push_back(stream);
}

void CachingAllocator::RecordEvents(Block* block) {
  block->state = Block::State::kPending;
  for (StreamId stream : block->stream_uses) {
    ++block->event_count;
    absl::StatusOr<StreamEvents::Event> event = events_->Record(stream);
    // Without an event nobody knows when the stream is done with the block, so its count never comes down to 0 and
    // it is not reused: the device is most likely lost anyway.
    if (!event.ok()) continue;
    pending_[stream].emplace_back(*event, block);
    ++num_pending_;
  }
  block->stream_uses.clear();
}

void CachingAllocator::PollEvents() {
  for (auto it = pending_.begin(); it != pending_.end();) {
    EventQueue& queue = it->second;
    while (!queue.empty() && events_->Done(queue.front().first)) {
      events_->Destroy(queue.front().first);
      Block* block = queue.front().second;
      queue.pop_front();
      --num_pending_;
      FinishEvent(block);
    }
    it = queue.empty() ? pending_.erase(it) : std::next(it);
  }
}

void CachingAllocator::FinishEvent(Block* block) {
  if (--block->event_count == 0) Return(block);
}

void CachingAllocator::WaitForEvents() {
  if (num_pending_ == 0) return;
  ++counts_.num_sync_all_streams;
  std::map<StreamId, EventQueue> pending = std::move(pending_);
  pending_.clear();
  num_pending_ = 0;
  // The events are this function's now, and their blocks cannot move before FinishEvent.
  mu_.Unlock();
  for (auto& [stream, queue] : pending) {
    for (auto& [event, block] : queue) {
      events_->Wait(event);
      events_->Destroy(event);
    }
  }
  mu_.Lock();
  for (auto& [stream, queue] : pending) {
    for (auto& [event, block] : queue) FinishEvent(block);
  }
}

void CachingAllocator::EmptyCache() {
  MutexLock growing(&growing_mu_);
  SpinLockHolder lock(&mu_);
  WaitForEvents();
  ReleaseCached();
}

absl::Status CachingAllocator::SetMemoryFraction(double fraction) {
  if (!(fraction >= 0 && fraction <= 1)) {
    return InvalidArgument("set_per_process_memory_fraction: fraction is ", fraction, ", want 0 to 1");
  }
  uint64_t free = 0, total = 0;
  if (!device_->Info(&free, &total)) {
    return absl::FailedPreconditionError(absl::StrCat(options_.device_name, ": total memory is unknown"));
  }
  SpinLockHolder lock(&mu_);
  limit_ = options_.memory_limit;
  if (fraction < 1) limit_ = std::min(limit_, static_cast<uint64_t>(fraction * static_cast<double>(total)));
  return absl::OkStatus();
}

absl::Status CachingAllocator::OutOfMemory(size_t tried) {
  ++counts_.num_ooms;
  const auto allocated = static_cast<uint64_t>(allocated_bytes_.current());
  const auto reserved = static_cast<uint64_t>(reserved_bytes_.current());
  const uint64_t limit = limit_;
  uint64_t free = 0, total = 0;
  mu_.Unlock();
  const bool known = device_->Info(&free, &total);
  mu_.Lock();

  std::string text = options_.error_prefix.empty() ? absl::StrCat(options_.device_name, " out of memory.")
                                                   : options_.error_prefix;
  absl::StrAppend(&text, " Tried to allocate ", FormatBytes(tried), ". ");
  if (known) {
    absl::StrAppend(&text, options_.device_name, " has a total capacity of ", FormatBytes(total), " of which ",
                    FormatBytes(free), " is free. ");
  }
  if (limit != kNoLimit) absl::StrAppend(&text, FormatBytes(limit), " allowed; ");
  absl::StrAppend(&text, "Of the allocated memory ", FormatBytes(allocated), " is allocated by telensor, and ",
                  FormatBytes(reserved - allocated), " is reserved by telensor but unallocated.");
  return absl::ResourceExhaustedError(text);
}

void CachingAllocator::DrainFast() {
  small_pool_.DrainFast();
  CountSplits();
}

void CachingAllocator::CountSplits() {
  for (const BlockPool* pool : {&small_pool_, &large_pool_}) {
    inactive_split_.Set(IndexOf(*pool), pool->num_split());
    inactive_split_bytes_.Set(IndexOf(*pool), pool->split_bytes());
  }
}

MemorySnapshot CachingAllocator::Snapshot() {
  SpinLockHolder lock(&mu_);
  DrainFast();
  MemorySnapshot snapshot;
  snapshot.reserve(segments_.size());
  for (const auto& [data, first] : segments_) {
    SegmentSnapshot segment;
    segment.address = data;
    segment.stream = first->stream;
    segment.is_small = first->pool->small();
    for (const Block* block = first; block != nullptr; block = block->next) {
      BlockSnapshot copy;
      copy.address = block->data;
      copy.size = block->size;
      copy.requested_size = block->requested_size;
      if (block->budget != nullptr) copy.owner = block->budget->name();
      if (block->state == Block::State::kTaken) copy.state = BlockState::kActiveAllocated;
      if (block->state == Block::State::kPending) copy.state = BlockState::kActivePendingFree;
      segment.total_size += copy.size;
      if (copy.state != BlockState::kInactive) segment.active_size += copy.size;
      if (copy.state == BlockState::kActiveAllocated) segment.allocated_size += copy.size;
      segment.requested_size += copy.requested_size;
      segment.blocks.push_back(std::move(copy));
    }
    snapshot.push_back(std::move(segment));
  }
  return snapshot;
}

MemoryStats CachingAllocator::Stats() {
  SpinLockHolder lock(&mu_);
  DrainFast();
  MemoryStats stats = counts_;
  stats.allocation = allocation_.Read();
  stats.segment = segment_.Read();
  stats.active = active_.Read();
  stats.inactive_split = inactive_split_.Read();
  stats.allocated_bytes = allocated_bytes_.Read();
  stats.reserved_bytes = reserved_bytes_.Read();
  stats.active_bytes = active_bytes_.Read();
  stats.inactive_split_bytes = inactive_split_bytes_.Read();
  stats.requested_bytes = requested_bytes_.Read();
  stats.oversize_allocations = oversize_allocations_.Read().all;
  stats.oversize_segments = oversize_segments_.Read().all;
  if (options_.max_split_size != std::numeric_limits<size_t>::max()) {
    stats.max_split_size = static_cast<int64_t>(options_.max_split_size);
  }
  return stats;
}

void CachingAllocator::ResetPeak() {
  SpinLockHolder lock(&mu_);
  for (PoolCounter* counter :
       {&allocation_, &allocated_bytes_, &active_, &active_bytes_, &requested_bytes_, &segment_, &reserved_bytes_,
        &inactive_split_, &inactive_split_bytes_, &oversize_allocations_, &oversize_segments_}) {
    counter->ResetPeak();
  }
}

}  // namespace telensor
