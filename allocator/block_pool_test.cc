#include "allocator/block_pool.h"

#include "gtest/gtest.h"

namespace telensor {
namespace {

constexpr size_t kMiB = 1 << 20;

void* At(uintptr_t address) { return reinterpret_cast<void*>(address); }

TEST(BlockPoolTest, SplitsAndMergesBackIntoOneSegment) {
  BlockPool pool({true});
  Block* a = pool.AddSegment(At(0x100000), 2 * kMiB, nullptr);
  pool.Trim(a, 512);
  EXPECT_EQ(a->size, 512u);
  EXPECT_EQ(pool.num_split(), 1);
  EXPECT_EQ(pool.split_bytes(), static_cast<int64_t>(2 * kMiB - 512));
  Block* b = pool.TakeBestFit(1024, nullptr);
  Block* c = pool.TakeBestFit(1536, nullptr);
  ASSERT_NE(c, nullptr);
  EXPECT_EQ(b->data, At(0x100000 + 512));
  EXPECT_EQ(c->data, At(0x100000 + 1536));
  EXPECT_EQ(c->prev, b);

  pool.Put(a);
  EXPECT_EQ(pool.num_free(), 2u);
  pool.Put(c);  // merges with the tail
  EXPECT_EQ(pool.num_free(), 2u);
  pool.Put(b);  // joins both sides
  EXPECT_EQ(pool.num_free(), 1u);
  EXPECT_EQ(pool.num_split(), 0);
  EXPECT_EQ(pool.split_bytes(), 0);
  const std::vector<Block*> whole = pool.TakeUnsplit();
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_EQ(whole[0], a);
  EXPECT_EQ(a->size, 2 * kMiB);
  pool.RemoveSegment(a);
}

TEST(BlockPoolTest, BestFitIsTheSmallestAndThenTheLowest) {
  BlockPool pool({false});
  for (size_t size : {40, 20, 30, 30}) {
    static uintptr_t address = 0x10000000;
    pool.Put(pool.AddSegment(At(address), size * kMiB, nullptr));
    address += 64 * kMiB;
  }
  EXPECT_EQ(pool.TakeBestFit(50 * kMiB, nullptr), nullptr);
  EXPECT_EQ(pool.TakeBestFit(2 * kMiB, At(1)), nullptr);
  Block* b = pool.TakeBestFit(30 * kMiB - 512, nullptr);
  EXPECT_EQ(b->data, At(0x10000000 + 2 * 64 * kMiB));
  EXPECT_EQ(b->size, 30 * kMiB);  // under 1 MiB is no remainder here
  pool.Put(b);
  for (Block* whole : pool.TakeUnsplit()) pool.RemoveSegment(whole);
  EXPECT_EQ(pool.num_free(), 0u);
}

TEST(BlockPoolTest, FastListsAreLastInFirstOutByExactSizeAndStream) {
  BlockPool pool({true});
  Block* a = pool.AddSegment(At(0x100000), 2 * kMiB, nullptr);
  pool.Trim(a, 512);
  Block* b = pool.TakeBestFit(512, nullptr);
  Block* c = pool.TakeBestFit(1024, nullptr);
  EXPECT_TRUE(pool.PutFast(a));
  EXPECT_TRUE(pool.PutFast(b));
  EXPECT_TRUE(pool.PutFast(c));
  EXPECT_EQ(pool.TakeFast(512, At(1)), nullptr);
  EXPECT_EQ(pool.TakeFast(1536, nullptr), nullptr);
  EXPECT_EQ(pool.TakeFast(512, nullptr), b);
  EXPECT_EQ(pool.TakeFast(512, nullptr), a);
  EXPECT_EQ(pool.TakeFast(512, nullptr), nullptr);
  EXPECT_EQ(pool.TakeFast(1024, nullptr), c);
  for (Block* block : {a, b, c}) EXPECT_TRUE(pool.PutFast(block));
  pool.DrainFast();
  EXPECT_EQ(pool.num_fast(), 0u);
  EXPECT_EQ(pool.num_free(), 1u);
  EXPECT_EQ(pool.TakeFast(512, nullptr), nullptr);
  for (Block* whole : pool.TakeUnsplit()) pool.RemoveSegment(whole);
}

TEST(BlockPoolTest, NoFastListOver64KiBOrInALargePool) {
  BlockPool small({true}), large({false});
  Block* a = small.AddSegment(At(0x100000), 2 * kMiB, nullptr);
  EXPECT_FALSE(small.PutFast(a));
  Block* b = large.AddSegment(At(0x1000000), 20 * kMiB, nullptr);
  EXPECT_FALSE(large.PutFast(b));
  small.RemoveSegment(a);
  large.RemoveSegment(b);
}

TEST(BlockPoolTest, OversizeBlocksGoOnlyToRequestsNearTheirSize) {
  BlockPool::Rules rules{false};
  rules.max_split_size = 32 * kMiB;
  BlockPool pool(rules);
  pool.Put(pool.AddSegment(At(0x10000000), 100 * kMiB, nullptr));
  EXPECT_EQ(pool.TakeBestFit(16 * kMiB, nullptr), nullptr);
  EXPECT_EQ(pool.TakeBestFit(80 * kMiB, nullptr), nullptr);
  Block* b = pool.TakeBestFit(81 * kMiB, nullptr);
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->size, 100 * kMiB);
  pool.RemoveSegment(b);
}

TEST(BlockPoolTest, TakesJustEnoughOversizeBlocks) {
  BlockPool::Rules rules{false};
  rules.max_split_size = 32 * kMiB;
  BlockPool pool(rules);
  uintptr_t address = 0x10000000;
  for (size_t size : {20, 40, 60, 90}) {
    pool.Put(pool.AddSegment(At(address), size * kMiB, nullptr));
    address += 128 * kMiB;
  }
  EXPECT_TRUE(pool.TakeOversize(200 * kMiB, nullptr).empty());  // all but the 20 are 190
  EXPECT_TRUE(pool.TakeOversize(40 * kMiB, At(1)).empty());
  std::vector<Block*> taken = pool.TakeOversize(50 * kMiB, nullptr);
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0]->size, 60 * kMiB);
  pool.RemoveSegment(taken[0]);
  taken = pool.TakeOversize(120 * kMiB, nullptr);
  ASSERT_EQ(taken.size(), 2u);
  for (Block* block : taken) pool.RemoveSegment(block);
  EXPECT_EQ(pool.num_free(), 1u);
  for (Block* whole : pool.TakeUnsplit()) pool.RemoveSegment(whole);
}

TEST(BlockPoolTest, TakesTheOldestWholeSegments) {
  BlockPool pool({false});
  uintptr_t address = 0x10000000;
  std::vector<Block*> blocks;
  for (int i = 0; i < 3; ++i) {
    blocks.push_back(pool.AddSegment(At(address), 20 * kMiB, nullptr));
    address += 64 * kMiB;
  }
  for (int i : {1, 2, 0}) {
    pool.Put(blocks[i]);
    EXPECT_EQ(pool.TakeBestFit(100 * kMiB, nullptr), nullptr);  // time passes
  }
  const std::vector<Block*> old = pool.TakeOldest(21 * kMiB);
  ASSERT_EQ(old.size(), 2u);
  EXPECT_EQ(old[0], blocks[1]);
  EXPECT_EQ(old[1], blocks[2]);
  for (Block* block : old) pool.RemoveSegment(block);
  for (Block* whole : pool.TakeUnsplit()) pool.RemoveSegment(whole);
}

}  // namespace
}  // namespace telensor
