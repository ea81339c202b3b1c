// A session without a transport: what its stream's reading and writing threads, its uploads and its end do.
#include "server/session.h"

#include <gmock/gmock.h>

#include "server/executor_testing.h"

namespace telensor::server {
namespace {

using ::testing::HasSubstr;

class SessionTest : public ::testing::Test {
 protected:
  void Open(SessionLimits limits = {}) {
    session_ = std::make_shared<Session>("0123", std::make_unique<Executor>(devices_.all(), 0, ExecutorLimits()), &scheduler_,
                                         limits);
    ASSERT_TRUE(session_->Attach());
  }
  void TearDown() override {
    if (session_ != nullptr) session_->Close();
    for (std::thread& t : threads_) t.join();
    session_.reset();
    EXPECT_EQ(devices_.allocated_bytes(), 0) << "a closed session holds memory";
  }

  absl::Status Submit(std::vector<v1::Command> commands) {
    v1::CommandBatch batch;
    batch.set_first_seq(next_seq_);
    for (v1::Command& c : commands) *batch.add_commands() = std::move(c);
    next_seq_ += batch.commands_size();
    return session_->Submit(&batch, [this](const v1::EventBatch& events) { return Note(events); });
  }
  // The writing thread of a stream.
  void StartWriter() {
    threads_.emplace_back([this] {
      v1::EventBatch events;
      while (session_->NextEvents(&events)) {
        Note(events);
        session_->EventsSent();
      }
    });
  }
  bool Note(const v1::EventBatch& events) {
    absl::MutexLock lock(&mu_);
    executed_ = std::max(executed_, events.executed_seq());
    for (const v1::ReadResult& r : events.reads()) reads_.push_back(r);
    for (const v1::CommandError& e : events.errors()) errors_.push_back(e);
    return true;
  }
  template <typename Done>
  void Await(const Done& done) {
    absl::MutexLock lock(&mu_);
    ASSERT_TRUE(mu_.AwaitWithTimeout(absl::Condition(&done), absl::Seconds(30)));
  }
  void AwaitExecuted(uint64_t seq) {
    Await([&] { return executed_ >= seq; });
  }
  void AwaitStats(uint64_t seq) {
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    while (session_->GetStats().executed_seq < seq) {
      ASSERT_LT(absl::Now(), deadline);
      std::this_thread::yield();
    }
  }

  v1::Command Write(Handle handle, const std::vector<float>& values) {
    return TestClient::WriteCommand(handle, {static_cast<int64_t>(values.size())}, DType::kFloat32,
                                    std::string(reinterpret_cast<const char*>(values.data()), values.size() * 4));
  }
  v1::Command Announce(Handle handle, int64_t n, DType dtype = DType::kFloat32) {
    v1::Command command = TestClient::WriteCommand(handle, {n}, dtype, "");
    command.set_kind(v1::Command::KIND_UPLOAD);
    return command;
  }
  v1::Command Op(const char* name, std::vector<Handle> in, Handle out) {
    v1::Command command;
    command.set_kind(v1::Command::KIND_OP);
    command.set_op(OpTable::Get().Find(name)->id);
    for (Handle h : in) command.add_inputs(h);
    command.add_outputs(out);
    return command;
  }
  v1::Command Read(Handle handle) {
    v1::Command command;
    command.set_kind(v1::Command::KIND_READ);
    command.add_inputs(handle);
    return command;
  }
  absl::Status Upload(Handle handle, std::vector<std::string> chunks, uint64_t* bytes = nullptr) {
    size_t next = 0;
    uint64_t count = 0;
    return session_->WriteUpload(handle,
                                 [&](std::string* chunk) {
                                   if (next == chunks.size()) return false;
                                   *chunk = chunks[next++];
                                   return true;
                                 },
                                 bytes != nullptr ? bytes : &count);
  }
  static std::vector<float> Floats(const std::string& data) {
    std::vector<float> out(data.size() / 4);
    if (!out.empty()) std::memcpy(out.data(), data.data(), data.size());
    return out;
  }
  static std::string Bytes(const std::vector<float>& v) { return {reinterpret_cast<const char*>(v.data()), v.size() * 4}; }

  TestDevices devices_{rt::CpuBackend()};
  Scheduler scheduler_{std::chrono::microseconds(500)};
  std::shared_ptr<Session> session_;
  uint64_t next_seq_ = 1;
  std::vector<std::thread> threads_;
  absl::Mutex mu_;
  uint64_t executed_ = 0;
  std::vector<v1::ReadResult> reads_;
  std::vector<v1::CommandError> errors_;
};

TEST_F(SessionTest, SmallWorkIsDoneAndAnsweredByTheSubmitter) {
  Open();  // no writer at all
  ASSERT_TRUE(Submit({Write(1, {1, 2}), Op("neg", {1}, 2), Read(2)}).ok());
  AwaitExecuted(3);
  ASSERT_EQ(reads_.size(), 1u);
  EXPECT_EQ(Floats(reads_[0].data()), (std::vector<float>{-1, -2}));
  const Session::Stats stats = session_->GetStats();
  EXPECT_EQ(stats.tensors, 2u);
  EXPECT_EQ(stats.ops, 1u);
  EXPECT_EQ(stats.executed_seq, 3u);
  EXPECT_EQ(stats.allocated_bytes, 1024u);
}

TEST_F(SessionTest, LargeWorkGoesToTheComputeThreadInOrder) {
  Open();
  StartWriter();
  std::vector<v1::Command> commands = {Write(1, std::vector<float>(20000, 1))};
  for (Handle h = 2; h <= 100; ++h) commands.push_back(Op("neg", {h - 1}, h));
  commands.push_back(Read(100));
  ASSERT_TRUE(Submit(commands).ok());
  ASSERT_TRUE(Submit({Read(99)}).ok());
  AwaitExecuted(102);
  Await([&] { return reads_.size() == 2; });
  EXPECT_TRUE(reads_[0].too_large());
  EXPECT_EQ(Floats(*session_->TakeDownload(101))[7], -1);
  EXPECT_EQ(Floats(*session_->TakeDownload(102))[7], 1);
  EXPECT_EQ(session_->TakeDownload(102).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(SessionTest, ABatchFollowsTheLastOne) {
  Open();
  ASSERT_TRUE(Submit({Write(1, {1})}).ok());
  for (uint64_t wrong : {uint64_t{0}, uint64_t{1}, uint64_t{3}, UINT64_MAX}) {
    v1::CommandBatch batch;
    batch.set_first_seq(wrong);
    *batch.add_commands() = Write(2, {1});
    const absl::Status status = session_->Submit(&batch, [](const v1::EventBatch&) { return true; });
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("expected 2"));
  }
  EXPECT_TRUE(Submit({Write(2, {1})}).ok());
  EXPECT_TRUE(Submit({}).ok()) << "an empty batch is a batch";
  EXPECT_TRUE(Submit({Write(3, {1})}).ok());
  EXPECT_EQ(session_->GetStats().tensors, 3u);
}

TEST_F(SessionTest, GivesTheBatchBackEmpty) {
  Open();
  for (uint64_t seq = 1; seq < 20; ++seq) {
    v1::CommandBatch batch;
    batch.set_first_seq(seq);
    *batch.add_commands() = Write(seq, {1});
    ASSERT_TRUE(session_->Submit(&batch, [](const v1::EventBatch&) { return true; }).ok());
    EXPECT_EQ(batch.commands_size(), 0);
  }
}

TEST_F(SessionTest, OneStreamAtATime) {
  Open();
  EXPECT_FALSE(session_->Attach());
  session_->Close();
  EXPECT_FALSE(session_->Attach());
}

TEST_F(SessionTest, AFullQueueHoldsTheReaderBack) {
  SessionLimits limits;
  limits.max_queued_bytes = 100;
  Open(limits);
  StartWriter();
  std::atomic<int> submitted{0};
  Scheduler::Turn turn = scheduler_.WaitTurn();  // nothing can be run
  threads_.emplace_back([&] {
    for (Handle h = 1; h <= 20; ++h) {
      if (!Submit({Write(h, {1, 2, 3})}).ok()) return;
      ++submitted;
    }
  });
  // It cannot be shown that a thread waits for ever; that it gets no further than the limit, at the end, can.
  while (submitted.load() < 2) std::this_thread::yield();
  turn = Scheduler::Turn();
  threads_.back().join();
  threads_.pop_back();
  AwaitExecuted(20);
  EXPECT_EQ(session_->GetStats().tensors, 20u);
}

TEST_F(SessionTest, CloseWakesAReaderThatIsHeldBack) {
  SessionLimits limits;
  limits.max_queued_bytes = 1;
  Open(limits);
  std::vector<absl::Status> statuses(2);
  ASSERT_TRUE(Submit({Announce(1, 4), Op("neg", {1}, 2)}).ok());  // waits for its upload, and stays in the queue
  threads_.emplace_back([&] { statuses[0] = Submit({Write(3, {1})}); });
  session_->Close();
  threads_.back().join();
  threads_.pop_back();
  EXPECT_EQ(statuses[0].code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(Submit({}).code(), absl::StatusCode::kCancelled);
}

TEST_F(SessionTest, NothingRunsWhileTheClientTakesNoEvents) {
  SessionLimits limits;
  limits.max_event_bytes = 1000;
  Open(limits);
  // Too large for the submitter, so that the compute thread's events wait for a writer that does not come.
  ASSERT_TRUE(Submit({Write(1, std::vector<float>(20000, 1)), Write(2, std::vector<float>(500, 2))}).ok());
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(Submit({Op("neg", {1}, 3 + i), Read(2)}).ok());
  // Runs on until more than 1000 bytes of events wait, which one answer of 2000 bytes is.
  AwaitStats(4);
  { Scheduler::Turn turn = scheduler_.WaitTurn(); }
  EXPECT_LT(session_->GetStats().executed_seq, 42u);
  StartWriter();
  AwaitExecuted(42);
  Await([&] { return reads_.size() == 20; });
}

TEST_F(SessionTest, WorkWaitsForItsUploadAndGoesOnAfterIt) {
  Open();
  StartWriter();
  ASSERT_TRUE(Submit({Announce(1, 3), Op("neg", {1}, 2), Read(2)}).ok());
  ASSERT_TRUE(Submit({Write(3, {9}), Read(3)}).ok());
  EXPECT_LE(session_->GetStats().executed_seq, 1u);
  uint64_t bytes = 0;
  const std::string data = Bytes({1, 2, 3});
  ASSERT_TRUE(Upload(1, {data.substr(0, 5), "", data.substr(5)}, &bytes).ok());
  EXPECT_EQ(bytes, 12u);
  AwaitExecuted(5);
  Await([&] { return reads_.size() == 2; });
  EXPECT_EQ(Floats(reads_[0].data()), (std::vector<float>{-1, -2, -3}));
  EXPECT_EQ(Floats(reads_[1].data()), (std::vector<float>{9}));
}

TEST_F(SessionTest, AnUploadMayOvertakeItsCommand) {
  Open();
  StartWriter();
  absl::Status status = absl::UnknownError("not done");
  std::thread upload([&] { status = Upload(2, {Bytes({5})}); });
  ASSERT_TRUE(Submit({Write(1, {1})}).ok());
  ASSERT_TRUE(Submit({Announce(2, 1), Read(2)}).ok());
  upload.join();
  EXPECT_TRUE(status.ok()) << status;
  AwaitExecuted(3);
  Await([&] { return reads_.size() == 1; });
  EXPECT_EQ(Floats(reads_[0].data()), (std::vector<float>{5}));
}

TEST_F(SessionTest, AnUploadOfAnotherLengthPoisonsItsHandle) {
  Open();
  StartWriter();
  ASSERT_TRUE(Submit({Announce(1, 2), Announce(2, 2), Read(1), Read(2)}).ok());
  EXPECT_THAT(std::string(Upload(1, {Bytes({1})}).message()), HasSubstr("an upload of 8 bytes brought 4"));
  EXPECT_THAT(std::string(Upload(2, {Bytes({1}), Bytes({1, 2})}).message()), HasSubstr("brought more"));
  AwaitExecuted(4);
  Await([&] { return reads_.size() == 2; });
  EXPECT_THAT(reads_[0].error().message(), HasSubstr("brought 4"));
  EXPECT_THAT(reads_[1].error().message(), HasSubstr("brought more"));
}

TEST_F(SessionTest, AnUploadThatCannotBeIsNotWaitedFor) {
  Open();
  ASSERT_TRUE(Submit({Write(1, {1}), Announce(2, int64_t{1} << 50)}).ok());
  EXPECT_EQ(Upload(1, {}).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Upload(2, {}).code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(SessionTest, BoolsOfAnUploadAreZeroOrOne) {
  Open();
  ASSERT_TRUE(Submit({Announce(1, 3, DType::kBool)}).ok());
  ASSERT_TRUE(Upload(1, {std::string("\x00\x02\xff", 3)}).ok());
  ASSERT_TRUE(Submit({Read(1)}).ok());
  StartWriter();
  Await([&] { return reads_.size() == 1; });
  EXPECT_EQ(reads_[0].data(), std::string("\x00\x01\x01", 3));
}

TEST_F(SessionTest, CloseEndsEverythingThatWaits) {
  Open();
  StartWriter();
  ASSERT_TRUE(Submit({Announce(1, 2), Read(1)}).ok());
  absl::Status cut, early;
  absl::Mutex mu;
  bool started = false;
  std::thread first([&] {
    uint64_t bytes = 0;
    cut = session_->WriteUpload(1,
                                [&](std::string*) {
                                  absl::MutexLock lock(&mu);
                                  started = true;
                                  // The client sends nothing more until the session is gone.
                                  return false;
                                },
                                &bytes);
  });
  first.join();
  EXPECT_TRUE(started);
  EXPECT_FALSE(cut.ok());
  std::thread second([&] { early = Upload(7, {}); });  // its command never comes
  session_->Close();
  second.join();
  EXPECT_EQ(early.code(), absl::StatusCode::kCancelled);
  v1::EventBatch events;
  EXPECT_FALSE(session_->NextEvents(&events));
  EXPECT_EQ(session_->TakeDownload(1).status().code(), absl::StatusCode::kCancelled);
  session_->Close();  // twice is once
}

TEST_F(SessionTest, CloseInTheMiddleOfWork) {
  for (int round = 0; round < 20; ++round) {
    next_seq_ = 1;
    Open();
    std::vector<v1::Command> commands = {Write(1, std::vector<float>(20000, 1))};
    for (Handle h = 2; h <= 300; ++h) commands.push_back(Op("neg", {h - 1}, h));
    ASSERT_TRUE(Submit(commands).ok());
    if (round % 2) AwaitStats(2 + round);
    session_->Close();
    EXPECT_EQ(devices_.allocated_bytes(), 0);
  }
}

TEST_F(SessionTest, AClientThatIsGoneEndsTheSubmit) {
  Open();
  v1::CommandBatch batch;
  batch.set_first_seq(1);
  *batch.add_commands() = Write(1, {1});
  EXPECT_EQ(session_->Submit(&batch, [](const v1::EventBatch&) { return false; }).code(), absl::StatusCode::kCancelled);
}

TEST_F(SessionTest, ErrorsWithoutAResultAreEvents) {
  Open();
  v1::Command bad;
  bad.set_kind(v1::Command::KIND_BACKWARD);
  ASSERT_TRUE(Submit({bad, Write(1, {1})}).ok());
  StartWriter();
  Await([&] { return errors_.size() == 1 && executed_ == 2; });
  EXPECT_EQ(errors_[0].seq(), 1u);
}

}  // namespace
}  // namespace telensor::server
