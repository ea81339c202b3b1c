#include "allocator/buffer.h"

#include <type_traits>

#include "allocator/caching_allocator.h"
#include "allocator/fake_device_memory.h"
#include "gtest/gtest.h"

namespace telensor {
namespace {

TEST(BufferTest, IsMoveOnly) {
  EXPECT_FALSE(std::is_copy_constructible_v<Buffer>);
  EXPECT_TRUE(std::is_nothrow_move_constructible_v<Buffer>);
}

TEST(BufferTest, DefaultMadeHoldsNothing) {
  Buffer buffer;
  EXPECT_EQ(buffer.data(), nullptr);
  EXPECT_EQ(buffer.size(), 0u);
  EXPECT_EQ(buffer.capacity(), 0u);
  EXPECT_EQ(buffer.stream(), nullptr);
  buffer.Reset();
}

TEST(BufferTest, MovesHandOverTheBlockAndReleaseTheOld) {
  FakeDeviceMemory memory(1 << 30);
  CachingAllocator allocator(&memory, nullptr, {});
  MemoryBudget budget(1 << 20);
  const StreamId stream = &memory;
  Buffer a = *allocator.Allocate(100, stream, &budget);
  EXPECT_EQ(a.size(), 100u);
  EXPECT_EQ(a.capacity(), 512u);
  EXPECT_EQ(a.stream(), stream);
  void* data = a.data();
  Buffer b = std::move(a);
  EXPECT_EQ(a.data(), nullptr);
  EXPECT_EQ(a.capacity(), 0u);
  EXPECT_EQ(b.data(), data);
  Buffer c = *allocator.Allocate(1000, stream, &budget);
  EXPECT_EQ(budget.used(), 512u + 1024);
  c = std::move(b);
  EXPECT_EQ(c.data(), data);
  EXPECT_EQ(budget.used(), 512u);
  c.Reset();
  c.Reset();
  EXPECT_EQ(budget.used(), 0u);
  EXPECT_EQ(allocator.Stats().allocation.all.current, 0);
}

}  // namespace
}  // namespace telensor
