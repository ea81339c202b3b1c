// TelensorService: the gRPC service. Only translates: calls in, sessions behind it do the work.
//
// gRPC calls it from its own threads.
#pragma once

#include <chrono>

#include "server/session_manager.h"
#include "telensor/v1/telensor.grpc.pb.h"

namespace telensor::server {

class TelensorService final : public v1::Telensor::Service {
 public:
  // `backends` says for every backend what it offers or why it does not.
  TelensorService(SessionManager* sessions, std::vector<std::string> backends)
      : sessions_(*sessions), backends_(std::move(backends)) {}

  grpc::Status OpenSession(grpc::ServerContext* context, const v1::OpenSessionRequest* request,
                           v1::OpenSessionResponse* response) override;
  grpc::Status Execute(grpc::ServerContext* context,
                       grpc::ServerReaderWriter<v1::EventBatch, v1::CommandBatch>* stream) override;
  grpc::Status Upload(grpc::ServerContext* context, grpc::ServerReader<v1::UploadChunk>* reader,
                      v1::UploadResponse* response) override;
  grpc::Status Download(grpc::ServerContext* context, const v1::DownloadRequest* request,
                        grpc::ServerWriter<v1::DownloadChunk>* writer) override;
  grpc::Status GetStatus(grpc::ServerContext* context, const v1::GetStatusRequest* request,
                         v1::GetStatusResponse* response) override;

 private:
  SessionManager& sessions_;
  std::vector<std::string> backends_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace telensor::server
