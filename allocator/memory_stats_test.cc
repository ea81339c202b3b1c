#include "allocator/memory_stats.h"

#include <map>

#include "gtest/gtest.h"

namespace telensor {
namespace {

TEST(PoolCounterTest, PeakOfAllIsNotTheSumOfPeaks) {
  PoolCounter counter;
  counter.Add(0, 10);
  counter.Sub(0, 10);
  counter.Add(1, 7);
  StatByPool read = counter.Read();
  EXPECT_EQ(read.small_pool.peak, 10);
  EXPECT_EQ(read.large_pool.peak, 7);
  EXPECT_EQ(read.all.peak, 10);
  EXPECT_EQ(read.all.current, 7);
  EXPECT_EQ(read.all.allocated, 17);
  EXPECT_EQ(read.all.freed(), 10);

  counter.ResetPeak();
  EXPECT_EQ(counter.Read().all.peak, 7);
  EXPECT_EQ(counter.Read().small_pool.peak, 0);
  counter.Set(1, 3);
  counter.Set(0, 2);
  EXPECT_EQ(counter.Read().all.current, 5);
  EXPECT_EQ(counter.Read().all.allocated, 19);
}

TEST(MemoryStatsTest, FlattenUsesPyTorchsNames) {
  MemoryStats stats;
  stats.allocated_bytes.all = {1, 2, 3};
  stats.inactive_split.small_pool.current = 4;
  stats.num_ooms = 5;
  std::map<std::string, int64_t> flat;
  for (const auto& [name, value] : Flatten(stats)) EXPECT_TRUE(flat.emplace(name, value).second) << name;
  EXPECT_EQ(flat.size(), 9u * 3 * 4 + 2 * 4 + 6);
  EXPECT_EQ(flat.at("allocated_bytes.all.current"), 1);
  EXPECT_EQ(flat.at("allocated_bytes.all.peak"), 2);
  EXPECT_EQ(flat.at("allocated_bytes.all.allocated"), 3);
  EXPECT_EQ(flat.at("allocated_bytes.all.freed"), 2);
  EXPECT_EQ(flat.at("inactive_split.small_pool.current"), 4);
  EXPECT_EQ(flat.at("num_ooms"), 5);
  for (const char* name : {"reserved_bytes.large_pool.peak", "active.all.current", "active_bytes.all.current",
                           "segment.all.freed", "allocation.all.peak", "requested_bytes.all.allocated",
                           "inactive_split_bytes.all.current", "oversize_allocations.current", "num_alloc_retries",
                           "num_device_alloc", "num_device_free", "num_sync_all_streams", "max_split_size"}) {
    EXPECT_EQ(flat.count(name), 1u) << name;
  }
}

}  // namespace
}  // namespace telensor
