#include "server/service.h"

#include <spdlog/spdlog.h>

#include <atomic>
#include <thread>

#include "server/version.h"

namespace telensor::server {
namespace {

constexpr char kSessionKey[] = "telensor-session";
constexpr size_t kChunkBytes = 1 << 20;

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

}  // namespace

grpc::Status TelensorService::OpenSession(grpc::ServerContext*, const v1::OpenSessionRequest* request,
                                          v1::OpenSessionResponse* response) {
  absl::StatusOr<std::shared_ptr<Session>> session = sessions_.Open(*request, response);
  if (!session.ok()) {
    spdlog::warn("session refused: {}", std::string(session.status().message()));
    return ToGrpc(session.status());
  }
  // An id is a credential: the log gets its beginning only.
  spdlog::info("session {} opened by {}", (*session)->id().substr(0, 8), request->client().substr(0, 64));
  return grpc::Status::OK;
}

grpc::Status TelensorService::Execute(grpc::ServerContext* context,
                                      grpc::ServerReaderWriter<v1::EventBatch, v1::CommandBatch>* stream) {
  const auto key = context->client_metadata().find(kSessionKey);
  if (key == context->client_metadata().end()) return ToGrpc(absl::NotFoundError("no such session"));
  const std::string id(key->second.data(), key->second.size());
  absl::StatusOr<std::shared_ptr<Session>> found = sessions_.Find(id);
  if (!found.ok()) return ToGrpc(found.status());
  Session& session = **found;
  if (!session.Attach()) return ToGrpc(absl::FailedPreconditionError("the session has a stream already"));

  std::atomic<bool> reading{true};
  std::thread writer([&] {
    v1::EventBatch events;
    while (session.NextEvents(&events)) {
      const bool sent = stream->Write(events);
      session.EventsSent();
      if (sent) continue;
      // The reader may wait for room in a queue that nothing empties any more.
      sessions_.Close(id);
      break;
    }
    // Closed from elsewhere, as at the server's end: nobody waits for a client that does not end its stream.
    if (reading) context->TryCancel();
  });
  v1::CommandBatch batch;
  absl::Status status;
  const auto send = [stream](const v1::EventBatch& events) { return stream->Write(events); };
  const auto gone = [context] { return context->IsCancelled(); };
  while (status.ok() && stream->Read(&batch)) status = session.Submit(&batch, send, gone);
  reading = false;
  // The stream is the session's life for now: its end frees everything.
  sessions_.Close(id);
  writer.join();
  spdlog::info("session {} closed: {}", id.substr(0, 8), status.ok() ? "its stream ended" : std::string(status.message()));
  return ToGrpc(status);
}

grpc::Status TelensorService::Upload(grpc::ServerContext*, grpc::ServerReader<v1::UploadChunk>* reader,
                                     v1::UploadResponse* response) {
  v1::UploadChunk chunk;
  if (!reader->Read(&chunk)) return ToGrpc(InvalidArgument("an upload needs a first chunk"));
  absl::StatusOr<std::shared_ptr<Session>> session = sessions_.Find(chunk.session_id());
  if (!session.ok()) return ToGrpc(session.status());
  bool first = true;
  uint64_t bytes = 0;
  const auto next = [&](std::string* data) {
    if (!first && !reader->Read(&chunk)) return false;
    first = false;
    data->swap(*chunk.mutable_data());
    return true;
  };
  const absl::Status status = (*session)->WriteUpload(chunk.handle(), next, &bytes);
  response->set_bytes(bytes);
  return ToGrpc(status);
}

grpc::Status TelensorService::Download(grpc::ServerContext*, const v1::DownloadRequest* request,
                                       grpc::ServerWriter<v1::DownloadChunk>* writer) {
  absl::StatusOr<std::shared_ptr<Session>> session = sessions_.Find(request->session_id());
  if (!session.ok()) return ToGrpc(session.status());
  absl::StatusOr<std::string> data = (*session)->TakeDownload(request->read_seq());
  if (!data.ok()) return ToGrpc(data.status());
  v1::DownloadChunk chunk;
  chunk.set_total_bytes(data->size());
  for (size_t at = 0; at < data->size(); at += kChunkBytes) {
    chunk.set_data(data->data() + at, std::min(kChunkBytes, data->size() - at));
    if (!writer->Write(chunk)) return ToGrpc(absl::CancelledError("the client is gone"));
    chunk.Clear();
  }
  return grpc::Status::OK;
}

grpc::Status TelensorService::GetStatus(grpc::ServerContext*, const v1::GetStatusRequest* request,
                                        v1::GetStatusResponse* response) {
  const auto add = [](google::protobuf::RepeatedPtrField<v1::Stat>* list, const std::string& name, int64_t value) {
    v1::Stat* stat = list->Add();
    stat->set_name(name);
    stat->set_value(value);
  };
  for (rt::Device* device : sessions_.devices()) {
    v1::Device* out = response->add_devices();
    out->set_name(device->name());
    out->set_description(device->description());
    out->set_total_memory(device->total_memory());
  }
  rt::Device* device = sessions_.devices().back();
  if (sessions_.devices().size() > 1) device = sessions_.devices()[1];
  for (const auto& [name, value] : Flatten(device->allocator().Stats())) add(response->mutable_memory(), name, value);
  response->set_uptime_s(std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - start_).count());
  response->set_version(kVersion);
  for (const std::string& backend : backends_) response->add_backends(backend);
  if (!request->session_id().empty()) {
    absl::StatusOr<std::shared_ptr<Session>> session = sessions_.Find(request->session_id());
    if (!session.ok()) return ToGrpc(session.status());
    const Session::Stats stats = (*session)->GetStats();
    add(response->mutable_session(), "tensors", static_cast<int64_t>(stats.tensors));
    add(response->mutable_session(), "allocated_bytes", static_cast<int64_t>(stats.allocated_bytes));
    add(response->mutable_session(), "peak_bytes", static_cast<int64_t>(stats.peak_bytes));
    add(response->mutable_session(), "ops", static_cast<int64_t>(stats.ops));
    add(response->mutable_session(), "executed_seq", static_cast<int64_t>(stats.executed_seq));
  }
  return grpc::Status::OK;
}

}  // namespace telensor::server
