#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "allocator/caching_allocator.h"
#include "allocator/fake_device_memory.h"
#include "allocator/fake_stream_events.h"
#include "gtest/gtest.h"

namespace telensor {
namespace {

constexpr size_t kMiB = 1 << 20;

StreamId Stream(int i) { return reinterpret_cast<StreamId>(static_cast<uintptr_t>(i)); }

size_t RandomSize(std::mt19937* random) {
  switch ((*random)() % 10) {
    case 0:
      return 10 * kMiB + (*random)() % (30 * kMiB);
    case 1:
    case 2:
      return kMiB + (*random)() % (9 * kMiB);
    case 3:
      return (*random)() % kMiB;
    default:
      return ((*random)() % 8) * 512;
  }
}

// Everything that must hold between operations.
void Check(CachingAllocator* allocator, const FakeDeviceMemory& memory, const MemoryBudget& budget,
           const std::vector<Buffer>& live) {
  const MemorySnapshot snapshot = allocator->Snapshot();
  const MemoryStats stats = allocator->Stats();
  std::map<void*, const BlockSnapshot*> allocated;
  int64_t total = 0, active = 0, num_active = 0, requested = 0, split = 0, split_bytes = 0;
  const char* end = nullptr;
  for (const SegmentSnapshot& segment : snapshot) {
    ASSERT_GE(static_cast<char*>(segment.address), end);
    end = static_cast<char*>(segment.address);
    bool last_inactive = false;
    for (const BlockSnapshot& block : segment.blocks) {
      ASSERT_EQ(block.address, end);  // no gap, no overlap
      end += block.size;
      const bool inactive = block.state == BlockState::kInactive;
      ASSERT_FALSE(inactive && last_inactive) << "neighbours not merged";
      last_inactive = inactive;
      if (inactive && segment.blocks.size() > 1) {
        ++split;
        split_bytes += block.size;
      }
      if (!inactive) {
        ++num_active;
        active += block.size;
      }
      requested += block.requested_size;
      if (block.state == BlockState::kActiveAllocated) allocated[block.address] = &block;
    }
    ASSERT_EQ(end, static_cast<char*>(segment.address) + segment.total_size);
    total += segment.total_size;
  }
  size_t num_live = 0, charged = 0;
  int64_t live_bytes = 0;
  for (const Buffer& buffer : live) {
    if (buffer.data() == nullptr) continue;
    ++num_live;
    live_bytes += buffer.capacity();
    charged += allocator->RoundSize(buffer.size());
    ASSERT_EQ(allocated.count(buffer.data()), 1u);
    ASSERT_EQ(allocated[buffer.data()]->size, buffer.capacity());
    ASSERT_EQ(allocated[buffer.data()]->requested_size, buffer.size());
    ASSERT_GE(buffer.capacity(), buffer.size());
  }
  ASSERT_EQ(num_live, allocated.size());
  ASSERT_EQ(budget.used(), charged);
  ASSERT_EQ(stats.allocation.all.current, static_cast<int64_t>(num_live));
  ASSERT_EQ(stats.allocated_bytes.all.current, live_bytes);
  ASSERT_EQ(stats.active.all.current, num_active);
  ASSERT_EQ(stats.active_bytes.all.current, active);
  ASSERT_EQ(stats.requested_bytes.all.current, requested);
  ASSERT_EQ(stats.reserved_bytes.all.current, total);
  ASSERT_EQ(static_cast<uint64_t>(total), memory.used());
  ASSERT_EQ(stats.segment.all.current, static_cast<int64_t>(snapshot.size()));
  ASSERT_EQ(stats.inactive_split.all.current, split);
  ASSERT_EQ(stats.inactive_split_bytes.all.current, split_bytes);
  ASSERT_EQ(stats.num_device_alloc - stats.num_device_free, stats.segment.all.current);
}

void RunRandomSteps(const CachingAllocator::Options& options, unsigned seed, int steps) {
  FakeDeviceMemory memory(600 * kMiB);
  FakeStreamEvents events;
  CachingAllocator allocator(&memory, &events, options);
  MemoryBudget budget(500 * kMiB);
  std::mt19937 random(seed);
  std::vector<Buffer> live;
  int failures = 0;
  for (int step = 0; step < steps; ++step) {
    const unsigned action = random() % 100;
    // Waves: memory fills up and empties again.
    const bool filling = step / 2000 % 2 == 0;
    if (live.empty() || action < (filling ? 55u : 42u)) {
      absl::StatusOr<Buffer> buffer = allocator.Allocate(RandomSize(&random), Stream(random() % 3), &budget);
      if (buffer.ok()) {
        live.push_back(*std::move(buffer));
      } else {
        ASSERT_TRUE(absl::IsResourceExhausted(buffer.status())) << buffer.status();
        ++failures;
      }
    } else if (action < 96) {
      std::swap(live[random() % live.size()], live.back());
      if (random() % 4 == 0) allocator.RecordStream(live.back(), Stream(random() % 3));
      live.pop_back();
    } else if (action < 99) {
      events.Finish(Stream(random() % 3));
    } else if (random() % 20 == 0) {
      allocator.EmptyCache();
    }
    if (step % 97 == 0) {
      Check(&allocator, memory, budget, live);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
  EXPECT_GT(failures, 0);  // the run did reach its limits
  live.clear();
  allocator.EmptyCache();
  EXPECT_EQ(memory.used(), 0u);
  EXPECT_EQ(budget.used(), 0u);
  EXPECT_EQ(events.num_events(), 0u);
  const MemoryStats stats = allocator.Stats();
  for (const StatByPool& stat : {stats.allocation, stats.allocated_bytes, stats.active, stats.active_bytes,
                                 stats.requested_bytes, stats.reserved_bytes, stats.segment, stats.inactive_split}) {
    EXPECT_EQ(stat.all.current, 0);
    EXPECT_EQ(stat.all.allocated, stat.all.freed());
  }
}

TEST(CachingAllocatorStressTest, RandomStepsKeepTheInvariants) { RunRandomSteps({}, 1, 100000); }

TEST(CachingAllocatorStressTest, RandomStepsWithEveryOption) {
  CachingAllocator::Options options;
  options.max_split_size = 24 * kMiB;
  options.max_non_split_rounding = 4 * kMiB;
  options.garbage_collection_threshold = 0.6;
  options.memory_limit = 450 * kMiB;
  options.alignment = 1024;
  RunRandomSteps(options, 2, 100000);
}

// Each thread marks what it holds, and finds the marks untouched.
TEST(CachingAllocatorStressTest, ThreadsNeverShareABlock) {
  FakeDeviceMemory memory(60 * kMiB, /*backed=*/true);
  FakeStreamEvents events;
  CachingAllocator allocator(&memory, &events, {});
  MemoryBudget budget(1 << 30);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      std::vector<Buffer> live;
      for (int step = 0; step < 5000; ++step) {
        if (live.size() < 20 && random() % 2 == 0) {
          const size_t bytes = random() % 40 == 0 ? random() % (12 * kMiB) : 16 + random() % 8192;
          // Two threads to a stream.
          absl::StatusOr<Buffer> buffer = allocator.Allocate(bytes, Stream(t % 2), &budget);
          if (!buffer.ok() || buffer->data() == nullptr) continue;
          std::memset(buffer->data(), t + 1, std::min<size_t>(bytes, 1024));
          live.push_back(*std::move(buffer));
        } else if (!live.empty()) {
          std::swap(live[random() % live.size()], live.back());
          const Buffer& buffer = live.back();
          const char* data = static_cast<const char*>(buffer.data());
          const size_t n = std::min<size_t>(buffer.size(), 1024);
          ASSERT_EQ(std::count(data, data + n, t + 1), static_cast<ptrdiff_t>(n));
          if (random() % 16 == 0) allocator.RecordStream(buffer, Stream(2));
          live.pop_back();
        }
        if (step % 100 == 0) events.Finish(Stream(2));
        if (step % 500 == 0) allocator.EmptyCache();
        if (step % 250 == 0) {
          EXPECT_GE(allocator.Stats().reserved_bytes.all.current, 0);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  allocator.EmptyCache();
  EXPECT_EQ(memory.used(), 0u);
  EXPECT_EQ(budget.used(), 0u);
}

// What one thread gives back is never lost to another one that is just running out: all of it fits at any time.
TEST(CachingAllocatorStressTest, NoSpuriousOutOfMemoryBetweenThreads) {
  FakeDeviceMemory memory(4 * 64 * kMiB);
  CachingAllocator allocator(&memory, nullptr, {});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int step = 0; step < 3000; ++step) {
        // Sizes differ, so that the cache seldom fits and the device is nearly always full.
        const size_t bytes = (32 + 2 * (random() % 17)) * kMiB;
        absl::StatusOr<Buffer> buffer = allocator.Allocate(bytes, Stream(t));
        ASSERT_TRUE(buffer.ok()) << buffer.status();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace telensor
