// HealthService: whether the server takes new sessions, told by gRPC's standard contract.
//
// gRPC's own is not used: it is written with the callback API, whose threads poll beside those that serve the streams
// and cost each op that is waited for a thread switch more (tests/bench/client.cc: 80 us against 68).
//
// Owned by the Server. Thread-safe.
#pragma once

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace telensor::server {

class HealthService final : public grpc::health::v1::Health::Service {
 public:
  // The whole server is known, and this service by its name.
  explicit HealthService(std::string service) : service_(std::move(service)) {}

  void SetServing(bool on);
  // Ends every Watch; must come before gRPC's shutdown, which waits for them.
  void Shutdown();

  grpc::Status Check(grpc::ServerContext* context, const grpc::health::v1::HealthCheckRequest* request,
                     grpc::health::v1::HealthCheckResponse* response) override;
  grpc::Status Watch(grpc::ServerContext* context, const grpc::health::v1::HealthCheckRequest* request,
                     grpc::ServerWriter<grpc::health::v1::HealthCheckResponse>* writer) override;

 private:
  bool Knows(const std::string& service) const { return service.empty() || service == service_; }

  const std::string service_;
  absl::Mutex mu_;
  bool serving_ ABSL_GUARDED_BY(mu_) = true;
  bool shutdown_ ABSL_GUARDED_BY(mu_) = false;
  int watchers_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace telensor::server
