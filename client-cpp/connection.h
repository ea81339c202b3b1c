// Connection: the gRPC side of a session. The only file of the client, with its .cc, that knows gRPC.
//
// Thread-safe but for the stream it hands out, whose Read and Write each belong to one thread at a time.
#pragma once

#include <memory>
#include <string>

#include "client-cpp/op_batcher.h"

namespace telensor::client {

class Connection {
 public:
  virtual ~Connection() = default;

  // "unix:/path" or "host:port".
  static absl::StatusOr<std::unique_ptr<Connection>> Open(const std::string& address, const std::string& client_name);

  virtual const v1::OpenSessionResponse& session() const = 0;
  virtual std::unique_ptr<CommandStream> OpenStream() = 0;
  // Bulk bytes of a handle that the ordered stream has announced.
  virtual absl::Status Upload(uint64_t handle, const char* data, size_t bytes) = 0;
  virtual absl::StatusOr<std::string> Download(uint64_t read_seq, size_t bytes) = 0;
  virtual absl::StatusOr<v1::GetStatusResponse> GetStatus() = 0;
  // In a forked child: gives up its copy of the socket, which would keep the session after its owner's end.
  virtual void AbandonInChild() = 0;
};

}  // namespace telensor::client
