#include "allocator/caching_allocator.h"

#include <map>
#include <memory>
#include <optional>

#include "allocator/fake_device_memory.h"
#include "allocator/fake_stream_events.h"
#include "gtest/gtest.h"

namespace telensor {
namespace {

constexpr size_t kKiB = 1 << 10, kMiB = 1 << 20, kGiB = 1 << 30;
const StreamId kMain = nullptr;
const StreamId kSide = reinterpret_cast<StreamId>(1);
const StreamId kThird = reinterpret_cast<StreamId>(2);

using Options = CachingAllocator::Options;

class CachingAllocatorTest : public ::testing::Test {
 protected:
  void Make(uint64_t capacity, const Options& options = {}) {
    memory_.emplace(capacity);
    events_.emplace();
    allocator_.emplace(&*memory_, &*events_, options);
  }
  Buffer Get(size_t bytes, StreamId stream = kMain) {
    absl::StatusOr<Buffer> buffer = allocator_->Allocate(bytes, stream);
    EXPECT_TRUE(buffer.ok()) << buffer.status();
    return buffer.ok() ? *std::move(buffer) : Buffer();
  }
  absl::Status Try(size_t bytes, StreamId stream = kMain) { return allocator_->Allocate(bytes, stream).status(); }

  std::optional<FakeDeviceMemory> memory_;
  std::optional<FakeStreamEvents> events_;
  std::optional<CachingAllocator> allocator_;
};

TEST_F(CachingAllocatorTest, ZeroBytesIsAnEmptyBuffer) {
  Make(kGiB);
  EXPECT_EQ(Get(0).data(), nullptr);
  EXPECT_EQ(memory_->calls(), 0);
  EXPECT_EQ(allocator_->Stats().allocation.all.allocated, 0);
}

TEST_F(CachingAllocatorTest, RoundsTo512AndPicksPyTorchsSegments) {
  Make(kGiB);
  struct Case {
    size_t bytes, rounded, segment;
  };
  for (const Case& c : {Case{1, 512, 2 * kMiB}, Case{512, 512, 2 * kMiB}, Case{513, 1024, 2 * kMiB},
                        Case{kMiB, kMiB, 2 * kMiB}, Case{kMiB + 1, kMiB + 512, 20 * kMiB},
                        Case{10 * kMiB - 512, 10 * kMiB - 512, 20 * kMiB}, Case{10 * kMiB, 10 * kMiB, 10 * kMiB},
                        Case{10 * kMiB + 1, 10 * kMiB + 512, 12 * kMiB}, Case{33 * kMiB, 33 * kMiB, 34 * kMiB}}) {
    allocator_->EmptyCache();
    ASSERT_EQ(memory_->used(), 0u);
    Buffer buffer = Get(c.bytes);
    EXPECT_EQ(buffer.size(), c.bytes);
    EXPECT_EQ(allocator_->RoundSize(c.bytes), c.rounded);
    EXPECT_EQ(memory_->used(), c.segment) << c.bytes;
    // A large remainder of at most 1 MiB stays with the block.
    const bool whole = c.segment - c.rounded <= kMiB && c.segment > 2 * kMiB;
    EXPECT_EQ(buffer.capacity(), whole ? c.segment : c.rounded) << c.bytes;
  }
}

TEST_F(CachingAllocatorTest, AlignmentRaisesTheGrain) {
  Options options;
  options.alignment = 4096;
  Make(kGiB, options);
  Buffer a = Get(1), b = Get(1);
  EXPECT_EQ(a.capacity(), 4096u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b.data()) % 4096, 0u);
  void* data = b.data();
  b.Reset();
  EXPECT_EQ(Get(4096).data(), data);
  memory_->Misalign(512);
  EXPECT_TRUE(absl::IsInternal(Try(50 * kMiB)));
  EXPECT_EQ(memory_->used(), 2 * kMiB);
}

TEST_F(CachingAllocatorTest, SplitsASegmentAndMergesItBack) {
  Make(kGiB);
  Buffer a = Get(4 * kMiB), b = Get(4 * kMiB), c = Get(4 * kMiB);
  EXPECT_EQ(memory_->calls(), 1);
  EXPECT_EQ(static_cast<char*>(b.data()) - static_cast<char*>(a.data()), static_cast<ptrdiff_t>(4 * kMiB));
  MemorySnapshot snapshot = allocator_->Snapshot();
  ASSERT_EQ(snapshot.size(), 1u);
  EXPECT_FALSE(snapshot[0].is_small);
  EXPECT_EQ(snapshot[0].total_size, 20 * kMiB);
  EXPECT_EQ(snapshot[0].allocated_size, 12 * kMiB);
  ASSERT_EQ(snapshot[0].blocks.size(), 4u);
  EXPECT_EQ(snapshot[0].blocks[3].size, 8 * kMiB);
  EXPECT_EQ(snapshot[0].blocks[3].state, BlockState::kInactive);
  EXPECT_EQ(BlockStateName(snapshot[0].blocks[0].state), "active_allocated");

  a.Reset();
  c.Reset();
  b.Reset();
  snapshot = allocator_->Snapshot();
  ASSERT_EQ(snapshot[0].blocks.size(), 1u);
  EXPECT_EQ(snapshot[0].active_size, 0u);
  EXPECT_EQ(allocator_->Stats().inactive_split.all.current, 0);
}

TEST_F(CachingAllocatorTest, FastListsAreMergedBeforeTheDeviceIsAsked) {
  Make(kGiB);
  std::vector<Buffer> buffers;
  for (int i = 0; i < 4096; ++i) buffers.push_back(Get(512));  // exactly one segment
  EXPECT_EQ(memory_->calls(), 1);
  buffers.clear();
  Buffer a = Get(kMiB), b = Get(kMiB);
  EXPECT_EQ(memory_->calls(), 1);
}

TEST_F(CachingAllocatorTest, AStreamReusesItsOwnBlocksOnly) {
  Make(kGiB);
  for (size_t bytes : {size_t{512}, 100 * kKiB, 5 * kMiB, 64 * kMiB}) {
    Buffer a = Get(bytes);
    void* data = a.data();
    a.Reset();
    Buffer other = Get(bytes, kSide);
    EXPECT_NE(other.data(), data) << bytes;
    Buffer again = Get(bytes);
    EXPECT_EQ(again.data(), data) << bytes;
  }
}

TEST_F(CachingAllocatorTest, RecordedStreamsDelayReuse) {
  Make(kGiB);
  for (size_t bytes : {size_t{512}, 5 * kMiB}) {
    Buffer a = Get(bytes);
    void* data = a.data();
    allocator_->RecordStream(a, kSide);
    allocator_->RecordStream(a, kSide);
    allocator_->RecordStream(a, kThird);
    allocator_->RecordStream(a, kMain);  // its own: no event
    EXPECT_EQ(events_->num_events(), 0u);
    a.Reset();
    EXPECT_EQ(events_->num_events(), 2u);
    const MemoryStats stats = allocator_->Stats();
    EXPECT_EQ(stats.allocation.all.current, 0);
    EXPECT_EQ(stats.active.all.current, 1);
    EXPECT_EQ(stats.requested_bytes.all.current, static_cast<int64_t>(bytes));
    EXPECT_NE(Get(bytes).data(), data);
    events_->Finish(kSide);
    EXPECT_NE(Get(bytes).data(), data);
    EXPECT_EQ(events_->num_events(), 1u);
    bool pending = false;
    for (const SegmentSnapshot& segment : allocator_->Snapshot()) {
      for (const BlockSnapshot& block : segment.blocks) {
        if (block.address == data) pending = BlockStateName(block.state) == "active_pending_free";
      }
    }
    EXPECT_TRUE(pending);
    events_->Finish(kThird);
    Buffer hold = Get(bytes), hold2 = Get(bytes);  // polls; one of them is the returned block
    EXPECT_TRUE(hold.data() == data || hold2.data() == data);
    EXPECT_EQ(events_->num_events(), 0u);
  }
}

TEST_F(CachingAllocatorTest, WithoutEventsRecordStreamDoesNothing) {
  Make(kGiB);
  CachingAllocator sync(&*memory_, nullptr, {});
  Buffer a = *sync.Allocate(512, kMain);
  void* data = a.data();
  sync.RecordStream(a, kSide);
  sync.RecordStream(Buffer(), kSide);
  a.Reset();
  EXPECT_EQ(sync.Allocate(512, kMain)->data(), data);
}

TEST_F(CachingAllocatorTest, ABlockWhoseEventCannotBeRecordedIsNotReused) {
  Make(kGiB);
  Buffer a = Get(512);
  void* data = a.data();
  allocator_->RecordStream(a, kSide);
  events_->FailRecord(true);
  a.Reset();
  allocator_->EmptyCache();
  EXPECT_NE(Get(512).data(), data);
  allocator_.reset();
  EXPECT_EQ(memory_->used(), 0u);
}

TEST_F(CachingAllocatorTest, RetryFreesCachedUnsplitSegments) {
  Make(100 * kMiB);
  Buffer pinned = Get(4 * kMiB);  // pins 20
  { Buffer cached = Get(60 * kMiB); }
  { Buffer small = Get(512); }
  EXPECT_EQ(memory_->used(), 82 * kMiB);
  Buffer large = Get(80 * kMiB);
  EXPECT_EQ(memory_->used(), 100 * kMiB);
  const MemoryStats stats = allocator_->Stats();
  EXPECT_EQ(stats.num_alloc_retries, 1);
  EXPECT_EQ(stats.num_ooms, 0);
  EXPECT_EQ(stats.num_device_free, 2);
  EXPECT_EQ(stats.segment.all.current, 2);
}

TEST_F(CachingAllocatorTest, RetryWaitsForEventsAndLooksInTheCacheAgain) {
  Make(20 * kMiB);
  Buffer keep = Get(2 * kMiB);
  Buffer a = Get(9 * kMiB), b = Get(9 * kMiB);
  void* data = a.data();
  allocator_->RecordStream(a, kSide);
  a.Reset();
  // A stream callback that frees while the allocator waits must not deadlock.
  bool freed = false;
  events_->OnWait([&] {
    b.Reset();
    freed = true;
  });
  // The segment is pinned by `keep`: only the block that is waited for can serve this.
  Buffer again = Get(9 * kMiB);
  EXPECT_EQ(again.data(), data);
  EXPECT_TRUE(freed);
  EXPECT_EQ(events_->waits(), 1);
  EXPECT_EQ(allocator_->Stats().num_sync_all_streams, 1);
  EXPECT_EQ(memory_->calls(), 2);
}

TEST_F(CachingAllocatorTest, OutOfMemoryMessageHasTheNumbers) {
  Options options;
  options.device_name = "GPU 0";
  options.error_prefix = "CUDA out of memory.";
  Make(3 * kGiB, options);
  Buffer a = Get(kGiB), b = Get(4 * kMiB);
  const absl::Status status = Try(2 * kGiB);
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_EQ(status.message(),
            "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 3.00 GiB of which 1.98 GiB "
            "is free. Of the allocated memory 1.00 GiB is allocated by telensor, and 16.00 MiB is reserved by "
            "telensor but unallocated.");
  EXPECT_EQ(allocator_->Stats().num_ooms, 1);
  EXPECT_TRUE(absl::IsResourceExhausted(Try(~size_t{0})));
}

TEST_F(CachingAllocatorTest, TheCpuSaysCpuAndItsLimit) {
  Options options;
  options.memory_limit = 30 * kMiB;
  Make(kGiB, options);
  EXPECT_EQ(Try(40 * kMiB).message(),
            "CPU out of memory. Tried to allocate 40.00 MiB. CPU has a total capacity of 1024.00 MiB of which "
            "1024.00 MiB is free. 30.00 MiB allowed; Of the allocated memory 0 bytes is allocated by telensor, and 0 "
            "bytes is reserved by telensor but unallocated.");
  EXPECT_EQ(memory_->calls(), 0);
  EXPECT_TRUE(Try(30 * kMiB).ok());
}

TEST_F(CachingAllocatorTest, MemoryFractionLimitsAndCanChange) {
  Options options;
  options.memory_fraction = 0.5;
  Make(100 * kMiB, options);
  EXPECT_TRUE(Try(50 * kMiB).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(Try(52 * kMiB)));
  EXPECT_TRUE(allocator_->SetMemoryFraction(1).ok());
  EXPECT_TRUE(Try(100 * kMiB).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(allocator_->SetMemoryFraction(1.5)));
}

TEST_F(CachingAllocatorTest, OtherDeviceErrorsPassThrough) {
  Make(kGiB);
  { Buffer cached = Get(64 * kMiB); }
  memory_->FailCall(1, absl::InternalError("device lost"));
  EXPECT_TRUE(absl::IsInternal(Try(512)));
  EXPECT_EQ(allocator_->Stats().num_device_free, 0);
  EXPECT_TRUE(Try(512).ok());
  memory_->FailCall(1, absl::ResourceExhaustedError("full for once"));
  EXPECT_TRUE(Try(200 * kMiB).ok());
  EXPECT_EQ(allocator_->Stats().num_alloc_retries, 1);
}

TEST_F(CachingAllocatorTest, BudgetIsChargedTheRoundedSize) {
  Make(kGiB);
  MemoryBudget budget(20 * kMiB, "session memory");
  Buffer a = *allocator_->Allocate(1, kMain, &budget);
  EXPECT_EQ(budget.used(), 512u);
  Buffer b = *allocator_->Allocate(10 * kMiB + 1, kMain, &budget);
  EXPECT_EQ(budget.used(), 10 * kMiB + 1024);
  EXPECT_EQ(allocator_->Snapshot()[0].blocks[0].owner, "session memory");
  allocator_->RecordStream(b, kSide);
  b.Reset();  // refunded at once, though the block is still pending
  EXPECT_EQ(budget.used(), 512u);
  a.Reset();
  EXPECT_EQ(budget.used(), 0u);
}

TEST_F(CachingAllocatorTest, AFailedAllocationChangesNothing) {
  Make(100 * kMiB);
  MemoryBudget budget(kGiB, "session memory");
  Buffer a = *allocator_->Allocate(60 * kMiB, kMain, &budget);
  EXPECT_TRUE(absl::IsResourceExhausted(allocator_->Allocate(60 * kMiB, kMain, &budget).status()));
  EXPECT_EQ(budget.used(), 60 * kMiB);

  const auto before = Flatten(allocator_->Stats());
  const int calls = memory_->calls();
  const absl::Status status = allocator_->Allocate(2 * kGiB, kMain, &budget).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_EQ(status.message().substr(0, 14), "session memory");
  EXPECT_EQ(budget.used(), 60 * kMiB);
  EXPECT_EQ(Flatten(allocator_->Stats()), before);
  EXPECT_EQ(memory_->calls(), calls);
}

TEST_F(CachingAllocatorTest, AFixedShapeLoopAsksTheDeviceOnlyOnce) {
  Make(kGiB);
  int calls = 0;
  int64_t reserved = 0;
  for (int step = 0; step < 50; ++step) {
    std::vector<Buffer> live;
    for (size_t bytes : {100, 5000, 70000, 900000, 3000000, 3000000, 12000000, 100, 64}) {
      live.push_back(Get(bytes));
      if (bytes == 5000) live.erase(live.begin());
    }
    if (step == 0) {
      calls = memory_->calls();
      reserved = allocator_->Stats().reserved_bytes.all.current;
    }
  }
  EXPECT_EQ(memory_->calls(), calls);
  EXPECT_EQ(allocator_->Stats().reserved_bytes.all.current, reserved);
}

TEST_F(CachingAllocatorTest, OrderOfSizesDecidesWhatIsReserved) {
  // The example of PyTorch's notes: 8 x 16 MiB then 4 x 32 MiB takes 256 MiB, the reverse 128.
  for (const bool small_first : {true, false}) {
    Make(kGiB);
    for (int pass = 0; pass < 2; ++pass) {
      std::vector<Buffer> live;
      const bool small = (pass == 0) == small_first;
      for (int i = 0; i < (small ? 8 : 4); ++i) live.push_back(Get((small ? 16 : 32) * kMiB));
    }
    EXPECT_EQ(memory_->used(), (small_first ? 256 : 128) * kMiB);
    allocator_.reset();
  }
}

TEST_F(CachingAllocatorTest, StatisticsByPoolAndPeakReset) {
  Make(kGiB);
  Buffer a = Get(100), b = Get(5 * kMiB);
  { Buffer c = Get(1000); }
  MemoryStats s = allocator_->Stats();
  EXPECT_EQ(s.allocation.all.current, 2);
  EXPECT_EQ(s.allocation.all.peak, 3);
  EXPECT_EQ(s.allocation.all.allocated, 3);
  EXPECT_EQ(s.allocation.all.freed(), 1);
  EXPECT_EQ(s.allocated_bytes.small_pool.current, 512);
  EXPECT_EQ(s.allocated_bytes.small_pool.peak, 512 + 1024);
  EXPECT_EQ(s.allocated_bytes.large_pool.current, static_cast<int64_t>(5 * kMiB));
  EXPECT_EQ(s.requested_bytes.small_pool.current, 100);
  EXPECT_EQ(s.active_bytes.all.current, s.allocated_bytes.all.current);
  EXPECT_EQ(s.reserved_bytes.all.current, static_cast<int64_t>(22 * kMiB));
  EXPECT_EQ(s.segment.large_pool.current, 1);
  EXPECT_EQ(s.inactive_split.all.current, 2);
  EXPECT_EQ(s.inactive_split_bytes.small_pool.current, static_cast<int64_t>(2 * kMiB - 512));
  EXPECT_EQ(s.inactive_split_bytes.large_pool.current, static_cast<int64_t>(15 * kMiB));
  EXPECT_EQ(s.num_device_alloc, 2);

  allocator_->ResetPeak();
  s = allocator_->Stats();
  EXPECT_EQ(s.allocation.all.peak, 2);
  EXPECT_EQ(s.allocated_bytes.small_pool.peak, 512);
  EXPECT_EQ(s.allocation.all.allocated, 3);

  a.Reset();
  b.Reset();
  allocator_->EmptyCache();
  s = allocator_->Stats();
  EXPECT_EQ(s.reserved_bytes.all.current, 0);
  EXPECT_EQ(s.reserved_bytes.all.freed(), static_cast<int64_t>(22 * kMiB));
  EXPECT_EQ(s.inactive_split.all.current, 0);
  EXPECT_EQ(s.num_device_free, 2);
}

TEST_F(CachingAllocatorTest, MaxSplitSizeFreesJustEnoughOversizeSegments) {
  Options options;
  options.max_split_size = 32 * kMiB;
  Make(200 * kMiB, options);
  {
    Buffer a = Get(40 * kMiB), b = Get(60 * kMiB), c = Get(100 * kMiB);
    EXPECT_EQ(allocator_->Stats().oversize_allocations.current, 3);
  }
  Buffer d = Get(58 * kMiB);  // near enough to 60
  EXPECT_EQ(d.capacity(), 60 * kMiB);
  Buffer e = Get(34 * kMiB);
  EXPECT_EQ(e.capacity(), 40 * kMiB);
  Buffer f = Get(30 * kMiB);  // not from the 100, which has to go
  const MemoryStats s = allocator_->Stats();
  EXPECT_EQ(s.oversize_segments.current, 2);
  EXPECT_EQ(s.num_device_free, 1);
  EXPECT_EQ(s.num_sync_all_streams, 0);
  EXPECT_EQ(s.max_split_size, static_cast<int64_t>(32 * kMiB));
}

TEST_F(CachingAllocatorTest, GarbageCollectionFreesOldSegmentsAboveTheThreshold) {
  Options options;
  options.memory_limit = 200 * kMiB;
  options.garbage_collection_threshold = 0.5;
  Make(kGiB, options);
  { Buffer old = Get(60 * kMiB); }
  { Buffer recent = Get(62 * kMiB); }
  Buffer a = Get(70 * kMiB);  // 122 are over 100: the older one goes first, and is enough
  EXPECT_EQ(memory_->used(), 132 * kMiB);
  EXPECT_EQ(allocator_->Stats().num_alloc_retries, 0);
}

TEST_F(CachingAllocatorTest, DestroyedBeforeItsBuffersCrashes) {
  Make(kGiB);
  EXPECT_DEATH(
      {
        Buffer a = Get(512);
        allocator_.reset();
      },
      "1 buffers alive");
}

}  // namespace
}  // namespace telensor
