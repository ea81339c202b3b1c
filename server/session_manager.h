// SessionManager: opens sessions, finds them by id, closes them. Thread-safe; one for the server.
#pragma once

#include <atomic>

#include "absl/container/flat_hash_map.h"
#include "server/config.h"
#include "server/session.h"

namespace telensor::server {

class SessionManager {
 public:
  SessionManager(std::vector<rt::Device*> devices, const Config& config, Scheduler* scheduler)
      : devices_(std::move(devices)), config_(config), scheduler_(scheduler) {}

  absl::StatusOr<std::shared_ptr<Session>> Open(const v1::OpenSessionRequest& request, v1::OpenSessionResponse* response);
  // An unknown id and another's id give the same error.
  absl::StatusOr<std::shared_ptr<Session>> Find(const std::string& id);
  void Close(const std::string& id);
  // Refuses new sessions from now on.
  void Drain() { draining_ = true; }
  // Closes sessions that no stream took up: their clients ended before.
  void CloseAbandoned();
  void CloseAll();
  size_t size();
  const std::vector<rt::Device*>& devices() const { return devices_; }

 private:
  std::vector<rt::Device*> devices_;
  const Config& config_;
  Scheduler* scheduler_;
  std::atomic<bool> draining_{false};
  absl::Mutex mu_;
  absl::flat_hash_map<std::string, std::shared_ptr<Session>> sessions_ ABSL_GUARDED_BY(mu_);
};

}  // namespace telensor::server
