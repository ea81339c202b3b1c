#include "server/health.h"

#include "absl/strings/str_cat.h"

namespace telensor::server {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

constexpr int kMaxWatchers = 64;  // each holds a thread
constexpr absl::Duration kLookForCancel = absl::Seconds(1);

HealthCheckResponse Answer(bool known, bool serving) {
  HealthCheckResponse response;
  response.set_status(!known    ? HealthCheckResponse::SERVICE_UNKNOWN
                      : serving ? HealthCheckResponse::SERVING
                                : HealthCheckResponse::NOT_SERVING);
  return response;
}

}  // namespace

void HealthService::SetServing(bool on) {
  absl::MutexLock lock(&mu_);
  serving_ = on;
}

void HealthService::Shutdown() {
  absl::MutexLock lock(&mu_);
  serving_ = false;
  shutdown_ = true;
}

grpc::Status HealthService::Check(grpc::ServerContext*, const HealthCheckRequest* request,
                                  HealthCheckResponse* response) {
  if (!Knows(request->service())) return {grpc::StatusCode::NOT_FOUND, "this server has no such service"};
  absl::MutexLock lock(&mu_);
  *response = Answer(true, serving_);
  return grpc::Status::OK;
}

grpc::Status HealthService::Watch(grpc::ServerContext* context, const HealthCheckRequest* request,
                                  grpc::ServerWriter<HealthCheckResponse>* writer) {
  const bool known = Knows(request->service());
  bool told;
  {
    absl::MutexLock lock(&mu_);
    if (watchers_ >= kMaxWatchers) {
      return {grpc::StatusCode::RESOURCE_EXHAUSTED,
              absl::StrCat("health watchers: limit ", kMaxWatchers, ", used ", watchers_, ", requested 1")};
    }
    ++watchers_;
    told = serving_;
  }
  bool open = writer->Write(Answer(known, told));
  while (open && !context->IsCancelled()) {
    const auto news = [this, told]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return serving_ != told || shutdown_; };
    bool changed, ends;
    {
      absl::MutexLock lock(&mu_);
      mu_.AwaitWithTimeout(absl::Condition(&news), kLookForCancel);
      changed = serving_ != told;
      told = serving_;
      ends = shutdown_;
    }
    if (changed && known) open = writer->Write(Answer(known, told));
    if (ends) break;
  }
  absl::MutexLock lock(&mu_);
  --watchers_;
  return grpc::Status::OK;
}

}  // namespace telensor::server
