#include "allocator/memory_budget.h"

#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace telensor {
namespace {

TEST(MemoryBudgetTest, ChargesRefundsAndKeepsThePeak) {
  MemoryBudget budget(1000);
  EXPECT_TRUE(budget.Charge(600).ok());
  EXPECT_TRUE(budget.Charge(400).ok());
  EXPECT_EQ(budget.used(), 1000u);
  budget.Refund(600);
  EXPECT_EQ(budget.used(), 400u);
  EXPECT_EQ(budget.peak(), 1000u);
  EXPECT_EQ(budget.limit(), 1000u);
}

TEST(MemoryBudgetTest, ExhaustedNamesAllNumbersAndChargesNothing) {
  MemoryBudget budget(4 << 20, "session memory");
  ASSERT_TRUE(budget.Charge(3 << 20).ok());
  const absl::Status status = budget.Charge(2 << 20);
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_EQ(status.message(),
            "session memory exhausted: tried to allocate 2.00 MiB with 3.00 MiB used of a limit of 4.00 MiB");
  EXPECT_EQ(budget.used(), size_t{3} << 20);
  EXPECT_FALSE(budget.Charge(MemoryBudget::kUnlimited).ok());
}

TEST(MemoryBudgetTest, RefundOfMoreThanChargedCrashes) {
  MemoryBudget budget(10);
  EXPECT_DEATH(budget.Refund(1), "");
}

TEST(MemoryBudgetTest, ThreadsNeverPassTheLimit) {
  MemoryBudget budget(1000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&budget] {
      for (int i = 0; i < 20000; ++i) {
        if (!budget.Charge(300).ok()) continue;
        EXPECT_LE(budget.used(), 1000u);
        budget.Refund(300);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(budget.used(), 0u);
  EXPECT_LE(budget.peak(), 900u);
}

}  // namespace
}  // namespace telensor
