// Server: the parts of telensord put together: devices, sessions, the gRPC endpoint.
//
// Start and the destructor belong to one thread; the rest is thread-safe.
#pragma once

#include <memory>

#include "server/config.h"

namespace telensor::server {

class Server {
 public:
  static absl::StatusOr<std::unique_ptr<Server>> Start(const Config& config);
  ~Server();

  // "unix:/run/user/1000/telensor/telensord.sock"
  const std::string& address() const { return address_; }
  // The port that a TCP address with port 0 got; 0 without one.
  int tcp_port() const;
  // Health turns to NOT_SERVING and new sessions are refused; true once the last session has ended.
  bool Drain(int seconds);
  // Ends Drain early.
  void Shutdown();

 private:
  struct Parts;
  Server();
  std::unique_ptr<Parts> parts_;
  std::string address_;
};

}  // namespace telensor::server
