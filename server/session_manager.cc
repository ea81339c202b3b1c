#include "server/session_manager.h"

#include <sys/random.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/version.h"

namespace telensor::server {
namespace {

constexpr uint32_t kMaxBatchBytes = 4 << 20;  // what gRPC takes

absl::StatusOr<std::string> RandomId() {
  char bytes[32];
  if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes)) return absl::InternalError("no random bytes from the kernel");
  return absl::BytesToHexString(absl::string_view(bytes, sizeof(bytes)));
}

// "name signature" of every row: what two tables compare.
std::string RowText(const OpSchema& schema) { return absl::StrCat(schema.name, " ", schema.signature); }

}  // namespace

absl::StatusOr<std::shared_ptr<Session>> SessionManager::Open(const v1::OpenSessionRequest& request,
                                                              v1::OpenSessionResponse* response) {
  if (draining_) return absl::UnavailableError("the server is shutting down");
  if (request.protocol_version() != kProtocolVersion) {
    return absl::FailedPreconditionError(absl::StrCat("the client speaks protocol ", request.protocol_version(),
                                                      ", this server speaks ", kProtocolVersion));
  }
  TD_ASSIGN_OR_RETURN(const std::string id, RandomId());
  const OpTable& table = OpTable::Get();
  ExecutorLimits limits;
  limits.max_handles = config_.max_handles;
  CloseAbandoned();
  auto session = std::make_shared<Session>(
      id, std::make_shared<Executor>(devices_, config_.session_memory_limit, limits), scheduler_,
      SessionLimits());
  {
    absl::MutexLock lock(&mu_);
    if (sessions_.size() >= config_.max_sessions) {
      return absl::ResourceExhaustedError(absl::StrCat("sessions: limit ", config_.max_sessions, ", used ",
                                                       sessions_.size(), ", requested 1"));
    }
    sessions_[id] = session;
  }
  response->set_session_id(id);
  for (const rt::Device* device : devices_) {
    v1::Device* out = response->add_devices();
    out->set_name(device->name());
    out->set_description(device->description());
    out->set_total_memory(device->total_memory());
  }
  // An accelerator is what a user came for.
  response->set_default_device(devices_.size() > 1 ? 1 : 0);
  response->set_op_table_fingerprint(table.fingerprint());
  if (request.op_table_fingerprint() != table.fingerprint()) {
    for (int i = 0; i < table.size(); ++i) response->add_op_signatures(RowText(table.at(i)));
  }
  response->mutable_limits()->set_max_batch_bytes(kMaxBatchBytes);
  response->mutable_limits()->set_max_inline_bytes(32 * 1024);
  response->mutable_limits()->set_max_chunk_bytes(1 << 20);
  response->mutable_limits()->set_max_handles(config_.max_handles);
  response->set_server_version(kVersion);
  return session;
}

absl::StatusOr<std::shared_ptr<Session>> SessionManager::Find(const std::string& id) {
  absl::MutexLock lock(&mu_);
  auto it = sessions_.find(id);
  if (it == sessions_.end()) return absl::NotFoundError("no such session");
  return it->second;
}

void SessionManager::Close(const std::string& id) {
  std::shared_ptr<Session> session;
  {
    absl::MutexLock lock(&mu_);
    auto it = sessions_.find(id);
    if (it == sessions_.end()) return;
    session = std::move(it->second);
    sessions_.erase(it);
  }
  session->Close();
}

void SessionManager::CloseAbandoned() {
  std::vector<std::string> ids;
  {
    const absl::Time now = absl::Now();
    absl::MutexLock lock(&mu_);
    for (const auto& [id, session] : sessions_) {
      if (session->Abandoned(now)) ids.push_back(id);
    }
  }
  for (const std::string& id : ids) Close(id);
}

void SessionManager::CloseAll() {
  std::vector<std::string> ids;
  {
    absl::MutexLock lock(&mu_);
    for (const auto& [id, session] : sessions_) ids.push_back(id);
  }
  for (const std::string& id : ids) Close(id);
}

size_t SessionManager::size() {
  absl::MutexLock lock(&mu_);
  return sessions_.size();
}

}  // namespace telensor::server
