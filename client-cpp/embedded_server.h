// EmbeddedServer: a private telensord on a Unix socket in a private folder, which ends with this process.
// Owned by the session that started it.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "proto/core/status.h"

namespace telensor::client {

class EmbeddedServer {
 public:
  // Finds telensord by TELENSORD, in `folder` (may be empty) and on the PATH; returns once it takes connections.
  static absl::StatusOr<std::unique_ptr<EmbeddedServer>> Start(const std::string& folder);
  ~EmbeddedServer();
  EmbeddedServer(const EmbeddedServer&) = delete;

  const std::string& address() const { return address_; }
  // In a forked child: gives up its end of the pipe, which would keep the server after its owner's end.
  void AbandonInChild();

 private:
  EmbeddedServer() = default;
  std::string folder_;
  std::string address_;
  pid_t pid_ = -1;
  int owner_fd_ = -1;  // the server ends when this closes, however this process ends
};

}  // namespace telensor::client
