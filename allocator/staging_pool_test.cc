#include "allocator/staging_pool.h"

#include <cstring>
#include <random>
#include <thread>

#include "allocator/fake_device_memory.h"
#include "gtest/gtest.h"

namespace telensor {
namespace {

constexpr size_t kKiB = 1 << 10, kMiB = 1 << 20;

TEST(StagingPoolTest, RoundsToPowersOfTwoFrom64KiB) {
  FakeDeviceMemory memory(64 * kMiB);
  StagingPool pool(&memory, 64 * kMiB);
  EXPECT_EQ(pool.Allocate(0)->data(), nullptr);
  EXPECT_EQ(pool.Allocate(1)->capacity(), 64 * kKiB);
  EXPECT_EQ(pool.Allocate(64 * kKiB)->capacity(), 64 * kKiB);
  EXPECT_EQ(pool.Allocate(64 * kKiB + 1)->capacity(), 128 * kKiB);
  EXPECT_EQ(pool.Allocate(3 * kMiB)->size(), 3 * kMiB);
}

TEST(StagingPoolTest, ReusesAndTrims) {
  FakeDeviceMemory memory(64 * kMiB);
  StagingPool pool(&memory, 64 * kMiB);
  StagingBuffer a = *pool.Allocate(kMiB);
  void* data = a.data();
  EXPECT_EQ(pool.used_bytes(), kMiB);
  a.Reset();
  EXPECT_EQ(a.data(), nullptr);
  EXPECT_EQ(pool.used_bytes(), 0u);
  EXPECT_EQ(pool.cached_bytes(), kMiB);
  a = *pool.Allocate(kMiB - 5);
  EXPECT_EQ(a.data(), data);
  EXPECT_EQ(memory.calls(), 1);
  a = StagingBuffer();
  pool.Trim();
  EXPECT_EQ(memory.used(), 0u);
}

TEST(StagingPoolTest, PastTheLimitIsExhaustedAndChangesNothing) {
  FakeDeviceMemory memory(64 * kMiB);
  StagingPool pool(&memory, 3 * kMiB);
  StagingBuffer a = *pool.Allocate(2 * kMiB);
  const absl::Status status = pool.Allocate(2 * kMiB).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_EQ(status.message(),
            "staging memory exhausted: tried to allocate 2.00 MiB with 2.00 MiB used of a limit of 3.00 MiB");
  EXPECT_TRUE(absl::IsResourceExhausted(pool.Allocate(~size_t{0}).status()));
  EXPECT_EQ(pool.used_bytes(), 2 * kMiB);
  EXPECT_TRUE(pool.Allocate(kMiB).ok());
}

TEST(StagingPoolTest, CachedBuffersMakeWayForOtherSizes) {
  FakeDeviceMemory memory(64 * kMiB);
  StagingPool pool(&memory, 3 * kMiB);
  { StagingBuffer a = *pool.Allocate(2 * kMiB), b = *pool.Allocate(64 * kKiB); }
  EXPECT_TRUE(pool.Allocate(kMiB).ok());
  EXPECT_EQ(memory.used(), kMiB + 64 * kKiB);  // the large one made way
}

TEST(StagingPoolTest, AFullHostIsTriedAgainWithoutTheCache) {
  FakeDeviceMemory memory(2 * kMiB);
  StagingPool pool(&memory, 64 * kMiB);
  { StagingBuffer a = *pool.Allocate(2 * kMiB); }
  StagingBuffer b = *pool.Allocate(kMiB);
  EXPECT_TRUE(absl::IsResourceExhausted(pool.Allocate(2 * kMiB).status()));
  memory.FailCall(1, absl::InternalError("broken"));
  EXPECT_TRUE(absl::IsInternal(pool.Allocate(kMiB).status()));
  EXPECT_EQ(pool.used_bytes(), kMiB);
}

TEST(StagingPoolTest, ThreadsStayWithinTheLimit) {
  FakeDeviceMemory memory(8 * kMiB, /*backed=*/true);
  StagingPool pool(&memory, 4 * kMiB);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&pool, &memory, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 500; ++i) {
        absl::StatusOr<StagingBuffer> buffer = pool.Allocate(random() % (2 * kMiB));
        if (!buffer.ok() || buffer->data() == nullptr) continue;
        std::memset(buffer->data(), t, 4096);
        EXPECT_LE(pool.used_bytes(), 4 * kMiB);
        EXPECT_EQ(static_cast<char*>(buffer->data())[4095], t);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pool.used_bytes(), 0u);
  pool.Trim();
  EXPECT_EQ(memory.used(), 0u);
}

}  // namespace
}  // namespace telensor
