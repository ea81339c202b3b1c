// The batcher on a stream whose other end is this test.
#include "client-cpp/op_batcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <deque>

namespace telensor::client {
namespace {

using ::testing::HasSubstr;
constexpr auto kPatience = std::chrono::seconds(30);

// What a fake server sees and says; the batcher owns the stream, the test this.
class FakeServer {
 public:
  // Waits for the n-th batch, counting from 0.
  v1::CommandBatch Batch(size_t n) {
    std::unique_lock<std::mutex> lock(mu_);
    EXPECT_TRUE(changed_.wait_for(lock, kPatience, [&] { return batches_.size() > n; })) << "no batch number " << n;
    return batches_.size() > n ? batches_[n] : v1::CommandBatch();
  }
  size_t batches() {
    std::lock_guard<std::mutex> lock(mu_);
    return batches_.size();
  }
  void Say(const v1::EventBatch& events) {
    std::lock_guard<std::mutex> lock(mu_);
    events_.push_back(events);
    changed_.notify_all();
  }
  void Acknowledge(uint64_t seq) {
    v1::EventBatch events;
    events.set_executed_seq(seq);
    Say(events);
  }
  // From now on each batch is acknowledged when it comes.
  void AcknowledgeAll() {
    std::lock_guard<std::mutex> lock(mu_);
    automatic_ = true;
    for (const v1::CommandBatch& b : batches_) AnswerLocked(b);
    changed_.notify_all();
  }
  void End(absl::Status status) {
    std::lock_guard<std::mutex> lock(mu_);
    ended_ = true;
    status_ = std::move(status);
    changed_.notify_all();
  }
  // Write blocks until it is let go.
  void Block(bool on) {
    std::lock_guard<std::mutex> lock(mu_);
    blocked_ = on;
    changed_.notify_all();
  }

  bool Write(const v1::CommandBatch& batch) {
    std::unique_lock<std::mutex> lock(mu_);
    changed_.wait(lock, [&] { return !blocked_ || ended_; });
    if (ended_) return false;
    batches_.push_back(batch);
    if (automatic_) AnswerLocked(batch);
    changed_.notify_all();
    return true;
  }
  bool Read(v1::EventBatch* events) {
    std::unique_lock<std::mutex> lock(mu_);
    changed_.wait(lock, [&] { return !events_.empty() || ended_; });
    if (events_.empty()) return false;
    *events = events_.front();
    events_.pop_front();
    return true;
  }
  absl::Status status() {
    std::lock_guard<std::mutex> lock(mu_);
    return status_;
  }

 private:
  void AnswerLocked(const v1::CommandBatch& batch) {
    v1::EventBatch events;
    events.set_executed_seq(batch.first_seq() + batch.commands_size() - 1);
    for (int i = 0; i < batch.commands_size(); ++i) {
      if (batch.commands(i).kind() != v1::Command::KIND_READ) continue;
      v1::ReadResult* read = events.add_reads();
      read->set_seq(batch.first_seq() + i);
      read->set_data(std::to_string(batch.commands(i).inputs(0)));
    }
    events_.push_back(events);
  }

  std::mutex mu_;
  std::condition_variable changed_;
  std::vector<v1::CommandBatch> batches_;
  std::deque<v1::EventBatch> events_;
  bool automatic_ = false, ended_ = false, blocked_ = false;
  absl::Status status_;
};

class FakeStream final : public CommandStream {
 public:
  explicit FakeStream(FakeServer* server) : server_(*server) {}
  bool Write(const v1::CommandBatch& batch) override { return server_.Write(batch); }
  bool Read(v1::EventBatch* events) override { return server_.Read(events); }
  void Cancel() override { server_.End(absl::CancelledError("cancelled")); }
  absl::Status Finish() override { return server_.status(); }

 private:
  FakeServer& server_;
};

class OpBatcherTest : public ::testing::Test {
 protected:
  uint64_t Append(v1::Command::Kind kind = v1::Command::KIND_FENCE, uint64_t input = 0, size_t bytes = 0) {
    OpBatcher::Appender append(batcher_.get());
    append.command()->set_kind(kind);
    if (input != 0) append.command()->add_inputs(input);
    if (bytes > 0) {
      append.command()->set_data(std::string(bytes, 'x'));
      append.AddBytes(bytes);
    }
    return append.seq();
  }
  FakeServer server_;
  std::unique_ptr<OpBatcher> batcher_ = std::make_unique<OpBatcher>(std::make_unique<FakeStream>(&server_));
};

TEST_F(OpBatcherTest, SendsAtOnceWhereNothingIsUnacknowledged) {
  EXPECT_EQ(Append(), 1u);
  const v1::CommandBatch batch = server_.Batch(0);
  EXPECT_EQ(batch.first_seq(), 1u);
  EXPECT_EQ(batch.commands_size(), 1);
}

TEST_F(OpBatcherTest, CollectsUntilTheAcknowledgement) {
  Append();
  server_.Batch(0);
  for (int i = 0; i < 10; ++i) Append();
  EXPECT_EQ(server_.batches(), 1u);
  server_.Acknowledge(1);
  const v1::CommandBatch batch = server_.Batch(1);
  EXPECT_EQ(batch.first_seq(), 2u);
  EXPECT_EQ(batch.commands_size(), 10);
  // An acknowledgement of a part is not the clock's tick.
  Append();
  server_.Acknowledge(5);
  server_.Acknowledge(11);
  EXPECT_EQ(server_.Batch(2).first_seq(), 12u);
}

TEST_F(OpBatcherTest, AFullBatchDoesNotWait) {
  Append();
  server_.Batch(0);
  for (int i = 0; i < 512; ++i) Append();
  const v1::CommandBatch batch = server_.Batch(1);
  EXPECT_EQ(batch.first_seq(), 2u);
  EXPECT_GE(batch.commands_size(), 512);
}

TEST_F(OpBatcherTest, AWriterThatFoundNothingLeftIsWokenAgain) {
  server_.AcknowledgeAll();
  size_t n = 0;
  for (int i = 0; i < 300; ++i) {
    Append();
    batcher_->Flush();  // may send before the writer that was woken for it
    const uint64_t seq = Append();
    while (true) {
      const v1::CommandBatch batch = server_.Batch(n++);
      ASSERT_GT(batch.commands_size(), 0);
      if (batch.first_seq() + batch.commands_size() > seq) break;
    }
  }
}

TEST_F(OpBatcherTest, FlushSendsBeforeTheAcknowledgement) {
  Append();
  server_.Batch(0);
  Append();
  batcher_->Flush();
  EXPECT_EQ(server_.Batch(1).first_seq(), 2u);
  batcher_->Flush();
  EXPECT_EQ(server_.batches(), 2u) << "nothing to send";
}

TEST_F(OpBatcherTest, CommandsOfABatchStartEmpty) {
  server_.AcknowledgeAll();
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 3; ++i) {
      OpBatcher::Appender append(batcher_.get());
      EXPECT_EQ(append.command()->ByteSizeLong(), 0u) << "a command before it shows";
      append.command()->set_kind(v1::Command::KIND_OP);
      append.command()->add_inputs(7);
      append.command()->add_outputs(append.NewHandle());
      append.command()->set_data("data");
    }
    ASSERT_TRUE(batcher_->WaitExecuted(3 * (round + 1)).ok());
  }
}

TEST_F(OpBatcherTest, ReleasesRideOnTheLastCommandInOrder) {
  Append();
  server_.Batch(0);
  Append();
  batcher_->Release(5);
  batcher_->Release(6);
  batcher_->Flush();
  const v1::CommandBatch batch = server_.Batch(1);
  ASSERT_EQ(batch.commands_size(), 1);
  EXPECT_THAT(batch.commands(0).release(), ::testing::ElementsAre(5, 6));
  batcher_->Release(7);  // with nothing to ride on it is a command
  batcher_->Flush();
  EXPECT_EQ(server_.Batch(2).commands(0).kind(), v1::Command::KIND_RELEASE);
  EXPECT_THAT(server_.Batch(2).commands(0).release(), ::testing::ElementsAre(7));
}

TEST_F(OpBatcherTest, WaitsGetTheirOwnAnswers) {
  server_.AcknowledgeAll();
  const uint64_t a = Append(v1::Command::KIND_READ, 41), b = Append(v1::Command::KIND_READ, 42);
  EXPECT_EQ(batcher_->WaitRead(b)->data(), "42");
  EXPECT_EQ(batcher_->WaitRead(a)->data(), "41");
  EXPECT_EQ(batcher_->stats().waits, 2u);
  EXPECT_EQ(batcher_->stats().commands, 2u);
}

TEST_F(OpBatcherTest, AnAnswersErrorIsTheWaitersOwn) {
  const uint64_t read = Append(v1::Command::KIND_READ, 1), dynamic = Append();
  v1::EventBatch events;
  events.set_executed_seq(dynamic);
  v1::ReadResult* r = events.add_reads();
  r->set_seq(read);
  r->mutable_error()->set_code(static_cast<int>(absl::StatusCode::kOutOfRange));
  r->mutable_error()->set_message("index 7");
  v1::DynamicResult* d = events.add_dynamics();
  d->set_seq(dynamic);
  d->add_sizes(3);
  server_.Say(events);
  EXPECT_EQ(batcher_->WaitRead(read).status(), absl::OutOfRangeError("index 7"));
  EXPECT_EQ(batcher_->WaitDynamic(dynamic)->sizes(0), 3);
  EXPECT_TRUE(batcher_->TakeError().ok());
}

TEST_F(OpBatcherTest, TheFirstErrorWithoutAResultIsTakenOnce) {
  const uint64_t seq = Append();
  v1::EventBatch events;
  events.set_executed_seq(seq);
  for (const char* words : {"first", "second"}) {
    v1::CommandError* error = events.add_errors();
    error->mutable_error()->set_code(static_cast<int>(absl::StatusCode::kInvalidArgument));
    error->mutable_error()->set_message(words);
  }
  server_.Say(events);
  ASSERT_TRUE(batcher_->WaitExecuted(seq).ok());
  EXPECT_EQ(batcher_->TakeError(), absl::InvalidArgumentError("first"));
  EXPECT_TRUE(batcher_->TakeError().ok());
}

TEST_F(OpBatcherTest, UnsentCommandsAreBounded) {
  server_.Block(true);
  std::atomic<int> appended{0};
  std::thread caller([&] {
    for (int i = 0; i < 40000; ++i) {
      Append();
      ++appended;
    }
  });
  // One batch may be on its way and one be filling.
  while (appended < 16384) std::this_thread::yield();
  EXPECT_LE(batcher_->stats().commands, 2 * 16384u + 2);
  server_.AcknowledgeAll();
  server_.Block(false);
  caller.join();
  ASSERT_TRUE(batcher_->WaitExecuted(40000).ok());
  uint64_t next = 1;
  for (size_t n = 0; n < server_.batches(); ++n) {
    const v1::CommandBatch batch = server_.Batch(n);
    EXPECT_EQ(batch.first_seq(), next);
    EXPECT_LE(batch.commands_size(), 16384);
    next += batch.commands_size();
  }
  EXPECT_EQ(next, 40001u);
}

TEST_F(OpBatcherTest, UnsentBytesAreBounded) {
  server_.Block(true);
  std::thread caller([&] {
    for (int i = 0; i < 100; ++i) Append(v1::Command::KIND_WRITE, 0, 100 << 10);
  });
  server_.AcknowledgeAll();
  server_.Block(false);
  caller.join();
  ASSERT_TRUE(batcher_->WaitExecuted(100).ok());
  for (size_t n = 0; n < server_.batches(); ++n) {
    EXPECT_LE(server_.Batch(n).ByteSizeLong(), (1 << 20) + (101 << 10)) << "gRPC refuses 4 MiB";
  }
}

// All releases that were sent, in order; checks the size and the number of every batch.
std::vector<uint64_t> Released(FakeServer* server) {
  std::vector<uint64_t> out;
  uint64_t next = 1;
  for (size_t n = 0; n < server->batches(); ++n) {
    const v1::CommandBatch batch = server->Batch(n);
    EXPECT_LT(batch.ByteSizeLong(), 3U << 20) << "gRPC refuses 4 MiB";
    EXPECT_EQ(batch.first_seq(), next);
    next += batch.commands_size();
    for (const v1::Command& c : batch.commands()) out.insert(out.end(), c.release().begin(), c.release().end());
  }
  return out;
}

TEST_F(OpBatcherTest, ReleasesNeitherWaitNorFillABatch) {
  server_.Block(true);
  Append();
  constexpr uint64_t kMany = 1000000;
  for (uint64_t h = 1; h <= kMany; ++h) batcher_->Release(h);  // a blocked server holds nobody back here
  server_.AcknowledgeAll();
  server_.Block(false);
  uint64_t seq = Append();
  // What was put off goes out with the batches to come.
  for (int i = 0; i < 1000 && batcher_->WaitExecuted(seq).ok() && Released(&server_).size() < kMany; ++i) seq = Append();
  const std::vector<uint64_t> released = Released(&server_);
  ASSERT_EQ(released.size(), kMany);
  for (uint64_t h = 1; h <= kMany; ++h) ASSERT_EQ(released[h - 1], h);
}

TEST_F(OpBatcherTest, LongOperandListsAreBounded) {
  server_.Block(true);
  std::thread caller([&] {
    for (int i = 0; i < 100; ++i) {
      OpBatcher::Appender append(batcher_.get());
      append.command()->set_kind(v1::Command::KIND_OP);
      for (int k = 0; k < 20000; ++k) append.command()->add_inputs(1);
      append.AddBytes(20000 * 8);
    }
  });
  server_.AcknowledgeAll();
  server_.Block(false);
  caller.join();
  ASSERT_TRUE(batcher_->WaitExecuted(100).ok());
  EXPECT_TRUE(Released(&server_).empty());
  EXPECT_GT(server_.batches(), 10U);
}

std::atomic<bool> g_interrupt{false};
std::atomic<int> g_paused{0};

TEST_F(OpBatcherTest, AnInterruptEndsAWaitAndNothingElse) {
  WaitHooks hooks;
  hooks.pause = [] { return ++g_paused, static_cast<void*>(&g_paused); };
  hooks.resume = [](void* paused) { --*static_cast<std::atomic<int>*>(paused); };
  hooks.interrupted = [] { return g_paused > 0 && g_interrupt; };
  SetWaitHooks(hooks);
  const uint64_t read = Append(v1::Command::KIND_READ, 5);
  g_interrupt = true;
  EXPECT_EQ(batcher_->WaitExecuted(read).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(batcher_->WaitRead(read).status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(g_paused, 0);
  // A server that takes nothing holds back neither a wait nor who wants room.
  server_.Batch(0);
  server_.Block(true);
  absl::Status room;
  while (room.ok()) {  // one batch is on its way before another fills
    while (!batcher_->full()) Append();
    room = batcher_->AwaitRoom();
  }
  EXPECT_EQ(room.code(), absl::StatusCode::kCancelled);
  g_interrupt = false;
  // The result comes after all, and is nobody's; a large one is left to be fetched.
  v1::EventBatch events;
  events.set_executed_seq(read);
  events.add_reads()->set_seq(read);
  events.mutable_reads(0)->set_too_large(true);
  server_.Say(events);
  server_.AcknowledgeAll();
  server_.Block(false);
  ASSERT_TRUE(batcher_->AwaitRoom().ok());
  const uint64_t last = Append(v1::Command::KIND_READ, 7);
  EXPECT_EQ(batcher_->WaitRead(last)->data(), "7");
  EXPECT_EQ(batcher_->TakeAbandoned(), std::vector<uint64_t>{read});
  EXPECT_TRUE(batcher_->TakeAbandoned().empty());
  SetWaitHooks({});
}

TEST_F(OpBatcherTest, ARaisedFailureIsNotRaisedAgain) {
  const uint64_t read = Append(v1::Command::KIND_READ, 1);
  v1::EventBatch events;
  events.set_executed_seq(read);
  for (uint64_t seq : {9, 4}) {
    v1::CommandError* error = events.add_errors();
    error->mutable_error()->set_code(static_cast<int>(absl::StatusCode::kInvalidArgument));
    error->mutable_error()->set_message(std::to_string(seq));
    error->mutable_error()->set_seq(seq);
  }
  v1::ReadResult* r = events.add_reads();
  r->set_seq(read);
  *r->mutable_error() = events.errors(1).error();
  server_.Say(events);
  EXPECT_EQ(batcher_->WaitRead(read).status(), absl::InvalidArgumentError("4"));
  EXPECT_EQ(batcher_->TakeError(), absl::InvalidArgumentError("9"));
}

TEST_F(OpBatcherTest, ALostConnectionWakesEverybody) {
  server_.Block(true);
  const uint64_t read = Append(v1::Command::KIND_READ, 1);
  std::vector<std::thread> threads;
  std::vector<absl::Status> statuses(3);
  threads.emplace_back([&] { statuses[0] = batcher_->WaitRead(read).status(); });
  threads.emplace_back([&] { statuses[1] = batcher_->WaitExecuted(read); });
  threads.emplace_back([&] {
    for (int i = 0; i < 100000; ++i) Append();  // held back by the bound, until nothing will be sent any more
    statuses[2] = batcher_->WaitDynamic(read).status();
  });
  server_.End(absl::UnavailableError("socket closed"));
  for (std::thread& t : threads) t.join();
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()), HasSubstr("the connection to the server is lost: socket closed"));
  }
  EXPECT_FALSE(batcher_->connection_status().ok());
  // It can be used on, to no effect.
  batcher_->Release(3);
  EXPECT_EQ(batcher_->WaitExecuted(Append()).code(), absl::StatusCode::kUnavailable);
}

TEST_F(OpBatcherTest, AnswersThatCameBeforeTheLossAreGood) {
  const uint64_t read = Append(v1::Command::KIND_READ, 9);
  server_.AcknowledgeAll();
  server_.Batch(0);
  ASSERT_EQ(batcher_->WaitExecuted(read), absl::OkStatus());
  server_.End(absl::OkStatus());
  EXPECT_EQ(batcher_->WaitRead(read)->data(), "9");
  EXPECT_EQ(batcher_->WaitExecuted(read), absl::OkStatus());
}

TEST_F(OpBatcherTest, ItsEndSendsWhatWaits) {
  Append();
  server_.Batch(0);
  Append();
  Append();
  batcher_.reset();
  ASSERT_EQ(server_.batches(), 2u);
  EXPECT_EQ(server_.Batch(1).commands_size(), 2);
}

TEST_F(OpBatcherTest, ManyThreads) {
  server_.AcknowledgeAll();
  constexpr int kThreads = 6, kRounds = 400;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < kRounds; ++i) {
        const uint64_t id = 1 + t * 100000 + i;
        if (i % 3 == 0) batcher_->Release(id);
        const uint64_t seq = Append(i % 4 == 0 ? v1::Command::KIND_READ : v1::Command::KIND_FENCE, id);
        if (i % 4 == 0) {
          EXPECT_EQ(batcher_->WaitRead(seq)->data(), std::to_string(id));
        }
        if (i % 7 == 0) {
          EXPECT_TRUE(batcher_->WaitExecuted(seq).ok());
        }
        if (i % 50 == 0) batcher_->Flush();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  ASSERT_TRUE(batcher_->WaitExecuted(Append()).ok());
  // Every command and release once, in one unbroken order, and handles rise with it.
  uint64_t next = 1, released = 0;
  for (size_t n = 0; n < server_.batches(); ++n) {
    const v1::CommandBatch batch = server_.Batch(n);
    EXPECT_EQ(batch.first_seq(), next);
    next += batch.commands_size();
    for (const v1::Command& c : batch.commands()) released += c.release_size();
  }
  EXPECT_EQ(released, kThreads * (kRounds + 2) / 3);
}

TEST_F(OpBatcherTest, HandlesRiseInTheOrderOfTheCommands) {
  server_.AcknowledgeAll();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this] {
      for (int i = 0; i < 500; ++i) {
        OpBatcher::Appender append(batcher_.get());
        append.command()->add_outputs(append.NewHandle());
      }
    });
  }
  for (std::thread& t : threads) t.join();
  ASSERT_TRUE(batcher_->WaitExecuted(2000).ok());
  uint64_t last = 0;
  for (size_t n = 0; n < server_.batches(); ++n) {
    const v1::CommandBatch batch = server_.Batch(n);
    for (const v1::Command& c : batch.commands()) {
      EXPECT_GT(c.outputs(0), last);
      last = c.outputs(0);
    }
  }
  EXPECT_EQ(last, 2000u);
}

TEST(FromWireTest, KeepsCodeAndWords) {
  v1::Error error;
  EXPECT_TRUE(FromWire(error).ok());
  error.set_code(5);
  error.set_message("gone");
  EXPECT_EQ(FromWire(error), absl::NotFoundError("gone"));
}

}  // namespace
}  // namespace telensor::client
