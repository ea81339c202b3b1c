// What an executor does with well-formed commands, and with the failures that ops meet in normal life.
#include <gmock/gmock.h>

#include "server/executor_testing.h"

namespace telensor::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Outcome = Executor::Outcome;

class ExecutorTest : public ::testing::Test {
 protected:
  TestDevices devices_{rt::CpuBackend()};
  TestClient client_{devices_.all()};
};

TEST_F(ExecutorTest, RunsOpsAndAnswersReads) {
  const Handle x = client_.Write({1, 2, 3, 4}, {2, 2});
  const Handle y = client_.Op("add", {x, client_.Op("mul", {x, 10})});
  EXPECT_THAT(client_.Values(y), ElementsAre(11, 22, 33, 44));
  EXPECT_EQ(client_.events.reads(0).seq(), client_.seq);
  EXPECT_EQ(client_.executor.ops_run(), 2u);
}

TEST_F(ExecutorTest, ReleasesRideOnAnyCommandAndComeAfterIt) {
  const Handle x = client_.Write({1, 2}, {2});
  v1::Command command = client_.Command("neg", {x});
  command.add_release(x);
  command.add_release(999);  // holds nothing: no error
  const Handle y = client_.NewHandle();
  command.add_outputs(y);
  client_.Run(command);
  EXPECT_THAT(client_.Values(y), ElementsAre(-1, -2));
  EXPECT_FALSE(client_.Holds(x));
  // A command that fails releases as well: the client has dropped the handle for good.
  v1::Command wrong = client_.Command("neg", {x});
  wrong.add_outputs(client_.NewHandle());
  wrong.add_release(y);
  client_.Run(wrong);
  EXPECT_FALSE(client_.Holds(y));
}

TEST_F(ExecutorTest, AFailedOpPoisonsItsResultsAndWhatComesOfThem) {
  const Handle x = client_.Write({1, 2, 3}, {3});
  const Handle index = client_.WriteInts({0, 7}, {2});
  const Handle bad = client_.Op("index_select", {x, index}, {Value::Int(0)});
  const uint64_t failed = client_.seq;
  EXPECT_EQ(client_.events.errors_size(), 0) << "the handle carries it";
  const absl::Status error = client_.Poison(bad);
  EXPECT_EQ(error.code(), absl::StatusCode::kOutOfRange);
  const Handle worse = client_.Op("add", {x, bad});
  const Handle worst = client_.Op("sum", {worse}, {Value(), Value::Bool(false)});
  EXPECT_EQ(client_.Poison(worst), error) << "the root cause, unchanged";
  EXPECT_EQ(client_.Read(worst).status(), error);
  EXPECT_EQ(client_.events.reads(0).error().seq(), failed);
  EXPECT_THAT(client_.Values(client_.Op("add", {x, x})), ElementsAre(2, 4, 6)) << "the rest goes on";
}

TEST_F(ExecutorTest, AFailureOfACommandWithoutResultsIsAnEvent) {
  const Handle x = client_.Write({1, 2, 3}, {3});
  const Handle y = client_.Write({1, 2}, {2});
  const absl::Status status = client_.Do("add", {x, y});
  EXPECT_THAT(std::string(status.message()), HasSubstr("must match the size"));
  EXPECT_EQ(client_.events.errors(0).seq(), client_.seq);
  EXPECT_EQ(client_.events.errors(0).error().seq(), client_.seq);
  EXPECT_TRUE(client_.Fence().ok()) << "it is told already";
  EXPECT_THAT(client_.Values(x), ElementsAre(1, 2, 3));
  EXPECT_EQ(client_.Version(x), 0u);
}

TEST_F(ExecutorTest, AFailedWriteFailsWhatUsesItUntilItIsTold) {
  const Handle x = client_.Write({1, 2, 3}, {3}), other = client_.Write({1, 2}, {2});
  const Handle view = client_.Op("slice", {x}, {Value::Int(0), Value::Int(1), Value::Int(3), Value::Int(1)});
  const absl::Status error = client_.Do("add", {view, client_.Write({1, 2, 3}, {3})});
  ASSERT_FALSE(error.ok());
  const uint64_t failed = client_.seq;
  EXPECT_THAT(client_.Values(other), ElementsAre(1, 2)) << "it has nothing to do with it";
  const Handle later = client_.Op("neg", {x});
  EXPECT_EQ(client_.Poison(later), error) << "by the memory, not by the handle";
  EXPECT_EQ(client_.Do("mul", {x, 2.0}), error);
  EXPECT_TRUE(client_.Simple(v1::Command::KIND_CLEAR_GRAD, {x}).ok()) << "what reads no values is done";
  EXPECT_EQ(client_.Read(later).status(), error);
  EXPECT_EQ(client_.events.reads(0).error().seq(), failed) << "the first failure";
  EXPECT_THAT(client_.Values(x), ElementsAre(1, 2, 3)) << "told, and never written";
  EXPECT_THAT(client_.Values(view), ElementsAre(2, 3));
  EXPECT_EQ(client_.Read(later).status(), error) << "what was made meanwhile stays bad";
  ASSERT_TRUE(client_.Do("mul", {x, 2.0}).ok());
  EXPECT_THAT(client_.Values(view), ElementsAre(4, 6));
  // What was told is not told again; and an unwritten tensor that is dropped keeps no memory.
  EXPECT_TRUE(client_.Fence().ok());
  ASSERT_FALSE(client_.Do("add", {x, other}).ok());
  const size_t used = client_.executor.budget().used();
  client_.Release({x, view});
  EXPECT_LT(client_.executor.budget().used(), used);
}

TEST_F(ExecutorTest, AFenceTellsTheFirstFailureThatResultsCarry) {
  const Handle x = client_.Write({1, 2, 3}, {3}), i = client_.WriteInts({9}, {1});
  const Handle first = client_.Op("index_select", {x, i}, {Value::Int(0)});
  client_.Op("gather", {x, i}, {Value::Int(0)});
  EXPECT_EQ(client_.Fence(), client_.Poison(first));
  EXPECT_TRUE(client_.Fence().ok()) << "once";
  const Handle again = client_.Op("neg", {first});
  EXPECT_TRUE(client_.Fence().ok()) << "of the same failure, which was told";
  EXPECT_FALSE(client_.Read(again).ok());
}

TEST_F(ExecutorTest, AFailedBackwardFailsTheGradientsItWasToAddTo) {
  const Handle w = client_.Write({1, 2}, {2});
  ASSERT_TRUE(client_.RequireGrad(w).ok());
  std::vector<Handle> grads;
  ASSERT_TRUE(client_.Backward(client_.Op("sum", {client_.Op("mul", {w, w})}, {Value(), Value::Bool(false)}), {w}, &grads).ok());
  const Handle y = client_.Op("exp", {w});
  const Handle loss = client_.Op("sum", {y}, {Value(), Value::Bool(false)});
  client_.record = 0;
  ASSERT_TRUE(client_.Do("mul", {y, 2.0}).ok());  // a saved tensor is written
  v1::Command command;
  command.set_kind(v1::Command::KIND_BACKWARD);
  for (Handle h : {loss, Handle{0}, grads[0]}) command.add_inputs(h);
  client_.Run(command);
  const absl::Status error = client_.Error();
  EXPECT_THAT(std::string(error.message()), HasSubstr("modified by an inplace operation"));
  EXPECT_EQ(client_.Do("add", {w, grads[0]}), error) << "an optimizer's step must not take the old gradient";
  EXPECT_EQ(client_.Read(w).status(), error);
  EXPECT_THAT(client_.Values(grads[0]), ElementsAre(2, 4));
  EXPECT_THAT(client_.Values(w), ElementsAre(1, 2));
}

TEST_F(ExecutorTest, WritesInPlaceAndCountsTheWrites) {
  const Handle x = client_.Write({1, 2, 3}, {3});
  const Handle view = client_.Op("slice", {x}, {Value::Int(0), Value::Int(1), Value::Int(3), Value::Int(1)});
  ASSERT_TRUE(client_.Do("mul", {view, 10}).ok());
  EXPECT_THAT(client_.Values(x), ElementsAre(1, 20, 30));
  EXPECT_EQ(client_.Version(x), 1u);
}

TEST_F(ExecutorTest, LargeResultsWaitForADownload) {
  ExecutorLimits limits;
  limits.max_inline_bytes = 16;
  limits.max_pending_downloads = 2;
  TestClient client(devices_.all(), 0, limits);
  const Handle small = client.Write({1, 2, 3, 4}, {4});
  const Handle large = client.Write({1, 2, 3, 4, 5}, {5});
  const auto read = [&](Handle h) {
    EXPECT_TRUE(client.Simple(v1::Command::KIND_READ, {h}).ok());
    return client.events.reads(0);
  };
  EXPECT_EQ(read(small).data().size(), 16u);
  EXPECT_TRUE(read(large).too_large());
  const uint64_t first = client.seq;
  EXPECT_TRUE(read(large).too_large());
  const v1::ReadResult third = read(large);
  EXPECT_EQ(third.error().code(), static_cast<int>(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(client.executor.TakeDownload(first)->size(), 20u);
  EXPECT_EQ(client.executor.TakeDownload(first).status().code(), absl::StatusCode::kNotFound) << "gone with the call";
  EXPECT_TRUE(read(large).too_large()) << "there is room again";
}

TEST_F(ExecutorTest, PendingDownloadsAreLimitedInBytes) {
  ExecutorLimits limits;
  limits.max_inline_bytes = 0;
  limits.max_pending_download_bytes = 30;
  TestClient client(devices_.all(), 0, limits);
  const Handle x = client.Write({1, 2, 3, 4, 5}, {5});
  ASSERT_TRUE(client.Simple(v1::Command::KIND_READ, {x}).ok());
  const uint64_t first = client.seq;
  EXPECT_TRUE(client.events.reads(0).too_large());
  ASSERT_TRUE(client.Simple(v1::Command::KIND_READ, {x}).ok());
  EXPECT_THAT(client.events.reads(0).error().message(), HasSubstr("limit 30 bytes, used 20, requested 20"));
  ASSERT_TRUE(client.executor.TakeDownload(first).ok());
  ASSERT_TRUE(client.Simple(v1::Command::KIND_READ, {x}).ok());
  EXPECT_TRUE(client.events.reads(0).too_large());
}

TEST_F(ExecutorTest, ABoolIsZeroOrOneWhateverIsSent) {
  const Handle x = client_.NewHandle();
  client_.Run(TestClient::WriteCommand(x, {4}, DType::kBool, std::string("\x00\x01\x02\xff", 4)));
  EXPECT_EQ(*client_.ReadBytes(x), std::string("\x00\x01\x01\x01", 4));
}

TEST_F(ExecutorTest, ABoolOfEmptyMemoryIsZeroOrOne) {
  const std::vector<int64_t> ints(16, -1);
  client_.Release({client_.WriteInts(ints, {16})});
  const Handle empty = client_.Op("empty", {}, {Value::Ints(std::vector<int64_t>{128}), Value::Type(DType::kBool), Value()});
  const absl::StatusOr<std::string> bytes = client_.ReadBytes(empty);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  for (const char byte : *bytes) EXPECT_LE(static_cast<unsigned char>(byte), 1);
}

TEST_F(ExecutorTest, AnswersWithSizesThatDependOnData) {
  const Handle x = client_.Write({0, 5, 0, 6}, {4});
  v1::Command command = client_.Command("nonzero", {x});
  command.set_flags(command.flags() | v1::COMMAND_FLAG_WANT_META);
  const Handle y = client_.NewHandle();
  command.add_outputs(y);
  client_.Run(command);
  ASSERT_EQ(client_.events.dynamics_size(), 1);
  EXPECT_THAT(client_.events.dynamics(0).sizes(), ElementsAre(2, 1));
  EXPECT_EQ(client_.events.dynamics(0).seq(), client_.seq);
  EXPECT_THAT(client_.Values(y), ElementsAre(1, 3));
  // Where it fails, whoever waits for the sizes hears why.
  command.set_inputs(0, 999);
  command.set_outputs(0, client_.NewHandle());
  client_.Run(command);
  ASSERT_EQ(client_.events.dynamics_size(), 1);
  EXPECT_THAT(client_.events.dynamics(0).error().message(), HasSubstr("no tensor has the handle 999"));
}

class ExecutorUploadTest : public ExecutorTest {
 protected:
  Handle Announce(const std::vector<int64_t>& sizes) {
    const Handle handle = client_.NewHandle();
    v1::Command command = TestClient::WriteCommand(handle, sizes, DType::kFloat32, "");
    command.set_kind(v1::Command::KIND_UPLOAD);
    client_.Run(command);
    return handle;
  }
};

TEST_F(ExecutorUploadTest, WhatNeedsItWaitsAndNothingElse) {
  const Handle x = client_.Write({1, 2}, {2});
  const Handle up = Announce({2});
  client_.Op("add", {x, up});
  EXPECT_EQ(client_.outcome, Outcome::kWaiting);
  for (auto kind : {v1::Command::KIND_READ, v1::Command::KIND_REQUIRES_GRAD, v1::Command::KIND_BACKWARD,
                    v1::Command::KIND_CLEAR_GRAD}) {
    EXPECT_TRUE(client_.Simple(kind, {up}).ok());
    EXPECT_EQ(client_.outcome, Outcome::kWaiting) << kind;
    EXPECT_EQ(client_.events.ByteSizeLong(), 0u) << "nothing is answered yet";
  }
  EXPECT_THAT(client_.Values(client_.Op("neg", {x})), ElementsAre(-1, -2));

  absl::StatusOr<rt::Tensor> tensor = client_.executor.FindPending(up);
  ASSERT_TRUE(tensor.ok() && *tensor);
  const float data[] = {5, 6};
  std::memcpy((*tensor)->data(), data, sizeof(data));
  client_.executor.FinishUpload(up, absl::OkStatus());
  EXPECT_THAT(client_.Values(client_.Op("add", {x, up})), ElementsAre(6, 8));
}

TEST_F(ExecutorUploadTest, AFailedOnePoisonsItsHandle) {
  const Handle up = Announce({2});
  client_.executor.FinishUpload(up, absl::DataLossError("cut"));
  EXPECT_EQ(client_.Poison(up), absl::DataLossError("cut"));
  EXPECT_EQ(client_.Poison(client_.Op("neg", {up})), absl::DataLossError("cut"));
}

TEST_F(ExecutorUploadTest, ItsTensorMayBeReleasedMeanwhile) {
  const Handle up = Announce({1000});
  const absl::StatusOr<rt::Tensor> tensor = client_.executor.FindPending(up);
  client_.Release({up});
  client_.executor.FinishUpload(up, absl::OkStatus());
  EXPECT_FALSE(client_.executor.tensors().Find(up).found());
  EXPECT_TRUE((*tensor)->unique()) << "the upload still has its memory";
}

TEST_F(ExecutorUploadTest, OnlyWhatMayStillComeIsWaitedFor) {
  const Handle x = client_.Write({1}, {1});
  EXPECT_FALSE(*client_.executor.FindPending(x + 1)) << "its command may follow";
  EXPECT_EQ(client_.executor.FindPending(x).status().code(), absl::StatusCode::kNotFound) << "it is no upload";
  client_.Release({x});
  EXPECT_EQ(client_.executor.FindPending(x).status().code(), absl::StatusCode::kNotFound);
  const Handle huge = Announce({int64_t{1} << 50});
  EXPECT_EQ(client_.executor.FindPending(huge).status().code(), absl::StatusCode::kResourceExhausted)
      << "the error of its command";
}

TEST_F(ExecutorTest, SmallWorkOnlyMeansNothingIsDoneForLargeWork) {
  const Handle x = client_.Random({200, 200});
  v1::Command command = client_.Command("neg", {x});
  command.add_outputs(client_.NewHandle());
  v1::EventBatch events;
  EXPECT_EQ(client_.executor.Run(command, 99, true, &events), Outcome::kTooLarge);
  EXPECT_FALSE(client_.Holds(command.outputs(0)));
  for (auto kind : {v1::Command::KIND_BACKWARD, v1::Command::KIND_GRAD}) {
    v1::Command backward;
    backward.set_kind(kind);
    EXPECT_EQ(client_.executor.Run(backward, 99, true, &events), Outcome::kTooLarge);
  }
  v1::Command zeros = client_.Command("zeros", {}, {Value::Ints(std::vector<int64_t>{200, 200})});
  zeros.add_outputs(command.outputs(0));
  EXPECT_EQ(client_.executor.Run(zeros, 99, true, &events), Outcome::kTooLarge);
  EXPECT_EQ(events.ByteSizeLong(), 0u);
  EXPECT_EQ(client_.executor.Run(zeros, 99, false, &events), Outcome::kDone);
}

TEST_F(ExecutorTest, SeedAndDefaultDTypeBelongToTheSession) {
  TestClient other(devices_.all());
  const auto draw = [](TestClient* client) {
    return client->Values(client->Op("rand", {}, {Value::Ints(std::vector<int64_t>{4})}));
  };
  v1::Command seed;
  seed.set_kind(v1::Command::KIND_SEED);
  seed.set_seed(5);
  client_.Run(seed);
  other.Run(seed);
  const std::vector<double> first = draw(&client_);
  EXPECT_NE(draw(&client_), first);
  EXPECT_EQ(draw(&other), first) << "a neighbour draws nothing of ours";
  client_.Run(seed);
  EXPECT_EQ(draw(&client_), first);

  v1::Command dtype;
  dtype.set_kind(v1::Command::KIND_DEFAULT_DTYPE);
  dtype.set_dtype(v1::D_TYPE_FLOAT64);
  client_.Run(dtype);
  const std::vector<Value> size = {Value::Ints(std::vector<int64_t>{1})};
  EXPECT_EQ(client_.Meta(client_.Op("zeros", {}, size)).dtype, DType::kFloat64);
  EXPECT_EQ(other.Meta(other.Op("zeros", {}, size)).dtype, DType::kFloat32);
}

TEST_F(ExecutorTest, BackwardNamesNewGradientsAndAddsToOldOnes) {
  const Handle w = client_.Write({1, 2}, {2}), unused = client_.Write({1}, {1});
  ASSERT_TRUE(client_.RequireGrad(w).ok());
  ASSERT_TRUE(client_.RequireGrad(unused).ok());
  std::vector<Handle> grads;
  const auto loss = [&] { return client_.Op("sum", {client_.Op("mul", {w, w})}, {Value(), Value::Bool(false)}); };
  // A leaf that the client's graph reaches and the server's did not has a gradient of zero.
  ASSERT_TRUE(client_.Backward(loss(), {w, unused}, &grads).ok());
  EXPECT_THAT(client_.Values(grads[0]), ElementsAre(2, 4));
  EXPECT_THAT(client_.Values(grads[1]), ElementsAre(0));
  std::vector<Handle> none;
  const uint32_t version = client_.Version(grads[0]);
  ASSERT_TRUE(client_.Backward(loss(), {}, &none).ok());
  EXPECT_THAT(client_.Values(grads[0]), ElementsAre(4, 8)) << "under its own handle";
  EXPECT_EQ(client_.Version(grads[0]), version + 1);
  ASSERT_TRUE(client_.Simple(v1::Command::KIND_CLEAR_GRAD, {w}).ok());
  std::vector<Handle> fresh;
  ASSERT_TRUE(client_.Backward(loss(), {w}, &fresh).ok());
  EXPECT_THAT(client_.Values(fresh[0]), ElementsAre(2, 4));
  EXPECT_THAT(client_.Values(grads[0]), ElementsAre(4, 8)) << "the old one is the user's";
  ASSERT_TRUE(client_.Simple(v1::Command::KIND_SET_GRAD, {w, grads[0]}).ok());
  ASSERT_TRUE(client_.Backward(loss(), {}, &none).ok());
  EXPECT_THAT(client_.Values(grads[0]), ElementsAre(6, 12));
}

TEST_F(ExecutorTest, GradLeavesLeavesAlone) {
  const Handle w = client_.Write({3}, {1});
  ASSERT_TRUE(client_.RequireGrad(w).ok());
  const Handle y = client_.Op("mul", {w, w});
  v1::Command command;
  command.set_kind(v1::Command::KIND_GRAD);
  command.add_sizes(1);
  command.add_inputs(y);
  command.add_inputs(0);
  command.add_inputs(w);
  const Handle g = client_.NewHandle();
  command.add_outputs(g);
  client_.Run(command);
  ASSERT_TRUE(client_.Error().ok());
  EXPECT_THAT(client_.Values(g), ElementsAre(6));
  EXPECT_EQ(rt::AutogradMeta::Of(client_.executor.tensors().Find(w).tensor).grad, nullptr);
}

TEST_F(ExecutorTest, ALimitOfTheSessionFailsTheOpAndNamesItself) {
  TestClient client(devices_.all(), 4096);
  const Handle x = client.Random({512});
  const Handle y = client.Op("neg", {x});
  const Handle z = client.Op("neg", {y});
  const absl::Status error = client.Poison(z);
  EXPECT_EQ(error.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(error.message()), HasSubstr("session memory exhausted: tried to allocate 2.00 KiB with 4.00 KiB used of a limit of 4.00 KiB"));
  client.Release({y});
  EXPECT_TRUE(client.Read(client.Op("neg", {x})).ok()) << "a dropped tensor makes room for the next op";
}

TEST_F(ExecutorTest, HandlesAreLimited) {
  ExecutorLimits limits;
  limits.max_handles = 2;
  TestClient client(devices_.all(), 0, limits);
  const Handle x = client.Write({1}, {1});
  const Handle y = client.Op("neg", {x});
  const Handle z = client.Op("neg", {y});
  const absl::Status error = client.Poison(z);
  EXPECT_EQ(error.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(error.message()), HasSubstr("handles: limit 2, used 2, requested 1"));
  client.Release({y, z});
  EXPECT_THAT(client.Values(client.Op("neg", {x})), ElementsAre(-1));
}

TEST_F(ExecutorTest, ItsEndFreesEverything) {
  const int64_t before = devices_.allocated_bytes();
  {
    TestClient client(devices_.all());
    const Handle w = client.Random({100, 100});
    ASSERT_TRUE(client.RequireGrad(w).ok());
    Handle x = w;
    for (int i = 0; i < 50; ++i) x = client.Op("mul", {x, w});
    std::vector<Handle> grads;
    ASSERT_TRUE(client.Backward(client.Op("sum", {x}, {Value(), Value::Bool(false)}), {w}, &grads,
                                v1::COMMAND_FLAG_RETAIN_GRAPH).ok());
    EXPECT_GT(devices_.allocated_bytes(), before);
    EXPECT_EQ(static_cast<int64_t>(client.executor.budget().used()), devices_.allocated_bytes() - before);
  }
  EXPECT_EQ(devices_.allocated_bytes(), before);
}

}  // namespace
}  // namespace telensor::server
