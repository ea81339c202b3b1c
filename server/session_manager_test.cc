#include "server/session_manager.h"

#include <gmock/gmock.h>

#include <set>

#include "server/executor_testing.h"
#include "server/version.h"

namespace telensor::server {
namespace {

using ::testing::HasSubstr;

class SessionManagerTest : public ::testing::Test {
 protected:
  SessionManagerTest() {
    config_.max_sessions = 3;
    config_.max_handles = 77;
    config_.session_memory_limit = 1 << 20;
    request_.set_protocol_version(kProtocolVersion);
    request_.set_op_table_fingerprint(OpTable::Get().fingerprint());
  }
  TestDevices devices_{rt::CpuBackend()};
  Config config_;
  Scheduler scheduler_{std::chrono::microseconds(500)};
  SessionManager manager_{devices_.all(), config_, &scheduler_};
  v1::OpenSessionRequest request_;
  v1::OpenSessionResponse response_;
};

TEST_F(SessionManagerTest, OpensFindsAndCloses) {
  const auto session = manager_.Open(request_, &response_);
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ(response_.session_id(), (*session)->id());
  EXPECT_EQ(response_.session_id().size(), 64u) << "256 bits";
  EXPECT_EQ(response_.devices_size(), 1);
  EXPECT_EQ(response_.devices(0).name(), "cpu");
  EXPECT_EQ(response_.default_device(), 0u);
  EXPECT_EQ(response_.limits().max_handles(), 77u);
  EXPECT_EQ(response_.op_signatures_size(), 0) << "the tables agree";
  EXPECT_EQ(manager_.Find((*session)->id())->get(), session->get());
  manager_.Close((*session)->id());
  EXPECT_EQ(manager_.size(), 0u);
  EXPECT_FALSE((*session)->Attach()) << "it is closed for who still has it";
}

TEST_F(SessionManagerTest, AnUnknownIdTellsNothing) {
  const auto session = manager_.Open(request_, &response_);
  ASSERT_TRUE(session.ok());
  const std::string id = (*session)->id();
  for (const std::string& wrong : {std::string(), id.substr(1), id + "0", std::string(64, '0')}) {
    EXPECT_EQ(manager_.Find(wrong).status(), absl::NotFoundError("no such session"));
  }
  manager_.Close(id);
  EXPECT_EQ(manager_.Find(id).status(), absl::NotFoundError("no such session"));
  manager_.Close(id);
  manager_.Close("nobody");
}

TEST_F(SessionManagerTest, IdsDiffer) {
  std::set<std::string> ids;
  for (int i = 0; i < 100; ++i) {
    const auto session = manager_.Open(request_, &response_);
    ASSERT_TRUE(session.ok());
    ids.insert((*session)->id());
    manager_.Close((*session)->id());
  }
  EXPECT_EQ(ids.size(), 100u);
}

TEST_F(SessionManagerTest, LimitsSessions) {
  std::string last;
  for (int i = 0; i < 3; ++i) last = (*manager_.Open(request_, &response_))->id();
  const absl::Status status = manager_.Open(request_, &response_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "sessions: limit 3, used 3, requested 1");
  manager_.Close(last);
  EXPECT_TRUE(manager_.Open(request_, &response_).ok());
  manager_.CloseAll();
  EXPECT_EQ(manager_.size(), 0u);
}

TEST_F(SessionManagerTest, SpeaksOneProtocol) {
  request_.set_protocol_version(kProtocolVersion + 1);
  const absl::Status status = manager_.Open(request_, &response_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the client speaks protocol 2"));
  EXPECT_EQ(manager_.size(), 0u);
}

TEST_F(SessionManagerTest, SendsItsTableWhereTheClientsDiffers) {
  request_.set_op_table_fingerprint(1);
  ASSERT_TRUE(manager_.Open(request_, &response_).ok());
  ASSERT_EQ(response_.op_signatures_size(), OpTable::Get().size());
  const OpSchema& add = *OpTable::Get().Find("add");
  EXPECT_EQ(response_.op_signatures(add.id), std::string(add.name) + " " + add.signature);
}

TEST_F(SessionManagerTest, DrainingOpensNoMore) {
  const auto session = manager_.Open(request_, &response_);
  manager_.Drain();
  EXPECT_EQ(manager_.Open(request_, &response_).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(manager_.Find((*session)->id()).ok()) << "those that are open go on";
}

TEST_F(SessionManagerTest, LimitsReachTheSession) {
  const auto session = *manager_.Open(request_, &response_);
  ASSERT_TRUE(session->Attach());
  v1::CommandBatch batch;
  batch.set_first_seq(1);
  v1::Command* read = batch.add_commands();
  *read = TestClient::WriteCommand(1, {1 << 20}, DType::kFloat32, "");
  read->set_kind(v1::Command::KIND_UPLOAD);
  *batch.add_commands() = TestClient::WriteCommand(1000, {1}, DType::kFloat32, "1234");
  std::vector<v1::Command> handles;
  for (Handle h = 2000; h < 2080; ++h) *batch.add_commands() = TestClient::WriteCommand(h, {1}, DType::kFloat32, "1234");
  for (const Handle h : {Handle{2075}, Handle{2076}, Handle{2079}}) {
    v1::Command* read = batch.add_commands();
    read->set_kind(v1::Command::KIND_READ);
    read->add_inputs(h);
  }
  std::vector<std::string> errors;
  ASSERT_TRUE(session->Submit(&batch, [&](const v1::EventBatch& events) {
    EXPECT_EQ(events.errors_size(), 0);
    for (const v1::ReadResult& r : events.reads()) errors.push_back(r.error().message());
    return true;
  }).ok());
  ASSERT_EQ(errors.size(), 3u);
  EXPECT_EQ(errors[0], "");
  EXPECT_THAT(errors[1], HasSubstr("handles: limit 77, used 77, requested 1"));
  EXPECT_THAT(errors[2], HasSubstr("handles: limit 77, used 77, requested 1"));
  uint64_t bytes;
  const absl::Status upload = session->WriteUpload(1, [](std::string*) { return false; }, &bytes);
  EXPECT_THAT(std::string(upload.message()), HasSubstr("session memory exhausted"));
}

}  // namespace
}  // namespace telensor::server
