#include "server/scheduler.h"

#include <gtest/gtest.h>

#include <vector>

namespace telensor::server {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kSlice = std::chrono::microseconds(500);

// Work in slices: notes each one under the common lock.
class Work final : public Schedulable {
 public:
  Work(int id, int slices, std::vector<int>* order, absl::Mutex* mu) : id_(id), left_(slices), order_(*order), mu_(*mu) {}
  bool RunSlice(Clock::time_point deadline) override {
    absl::MutexLock lock(&mu_);
    EXPECT_GE(deadline, Clock::now() - std::chrono::seconds(60));
    order_.push_back(id_);
    return --left_ > 0;
  }

 private:
  const int id_;
  int left_;
  std::vector<int>& order_;
  absl::Mutex& mu_;
};

class SchedulerTest : public ::testing::Test {
 protected:
  std::shared_ptr<Work> NewWork(int id, int slices) { return std::make_shared<Work>(id, slices, &order_, &mu_); }
  std::vector<int> WaitFor(size_t slices) {
    absl::MutexLock lock(&mu_);
    const auto done = [&] { return order_.size() >= slices; };
    EXPECT_TRUE(mu_.AwaitWithTimeout(absl::Condition(&done), absl::Seconds(30)));
    return order_;
  }

  absl::Mutex mu_;
  std::vector<int> order_;
};

TEST_F(SchedulerTest, RunsWorkUntilThereIsNoMore) {
  Scheduler scheduler(kSlice);
  scheduler.Enqueue(NewWork(1, 3));
  EXPECT_EQ(WaitFor(3), (std::vector<int>{1, 1, 1}));
}

TEST_F(SchedulerTest, SessionsTakeTurns) {
  Scheduler scheduler(kSlice);
  {
    // While this thread has the turn, all of them queue up.
    Scheduler::Turn turn = scheduler.WaitTurn();
    for (int id : {1, 2, 3}) scheduler.Enqueue(NewWork(id, 3));
  }
  EXPECT_EQ(WaitFor(9), (std::vector<int>{1, 2, 3, 1, 2, 3, 1, 2, 3}));
}

TEST_F(SchedulerTest, ASessionIsQueuedOnce) {
  Scheduler scheduler(kSlice);
  const auto first = NewWork(1, 1), other = NewWork(2, 1);
  {
    Scheduler::Turn turn = scheduler.WaitTurn();
    scheduler.Enqueue(first);  // taken by the compute thread, or waiting
    for (int i = 0; i < 50; ++i) scheduler.Enqueue(other);
    scheduler.Enqueue(NewWork(3, 1));
  }
  EXPECT_EQ(WaitFor(3), (std::vector<int>{1, 2, 3}));
}

TEST_F(SchedulerTest, AFreeTurnCanBeTakenAndATakenOneCannot) {
  Scheduler scheduler(kSlice);
  Scheduler::Turn turn = scheduler.TryTurn();
  ASSERT_TRUE(turn);
  std::thread([&] { EXPECT_FALSE(scheduler.TryTurn()); }).join();
  turn = Scheduler::Turn();
  std::thread([&] { EXPECT_TRUE(scheduler.TryTurn()); }).join();
}

TEST_F(SchedulerTest, WhoWaitsGoesBeforeWhoTries) {
  Scheduler scheduler(kSlice);
  Scheduler::Turn turn = scheduler.WaitTurn();
  scheduler.Enqueue(NewWork(1, 1));
  absl::Mutex mu;
  bool got = false;
  std::thread waiter([&] {
    Scheduler::Turn mine = scheduler.WaitTurn();
    absl::MutexLock lock(&mu);
    got = true;
  });
  turn = Scheduler::Turn();
  {
    absl::MutexLock lock(&mu);
    EXPECT_TRUE(mu.AwaitWithTimeout(absl::Condition(&got), absl::Seconds(30)));
  }
  waiter.join();
  EXPECT_EQ(WaitFor(1), (std::vector<int>{1}));
}

TEST_F(SchedulerTest, OnlyOneHasTheTurn) {
  int inside = 0;  // guarded by the turn alone: ThreadSanitizer sees a second one
  class Counting final : public Schedulable {
   public:
    Counting(int* inside, std::atomic<int>* left) : inside_(*inside), left_(*left) {}
    bool RunSlice(Clock::time_point) override {
      EXPECT_EQ(++inside_, 1);
      --inside_;
      return --left_ > 0;
    }

   private:
    int& inside_;
    std::atomic<int>& left_;
  };
  std::atomic<int> left{2000};
  {
    Scheduler scheduler(kSlice);
    scheduler.Enqueue(std::make_shared<Counting>(&inside, &left));
    std::vector<std::thread> threads;
    for (int k = 0; k < 3; ++k) {
      threads.emplace_back([&, k] {
        for (int i = 0; i < 2000; ++i) {
          Scheduler::Turn turn = k == 0 ? scheduler.WaitTurn() : scheduler.TryTurn();
          if (!turn) continue;
          EXPECT_EQ(++inside, 1);
          --inside;
        }
      });
    }
    for (std::thread& t : threads) t.join();
  }
  EXPECT_EQ(inside, 0);
}

TEST_F(SchedulerTest, EndsWithWorkWaiting) {
  std::weak_ptr<Work> left;
  {
    Scheduler scheduler(kSlice);
    const auto work = NewWork(1, 1 << 30);
    left = work;
    scheduler.Enqueue(work);
    WaitFor(1);
  }
  EXPECT_TRUE(left.expired());
}

}  // namespace
}  // namespace telensor::server
