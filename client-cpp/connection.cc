#include "client-cpp/connection.h"

#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "proto/core/op_schema.h"
#include "telensor/v1/telensor.grpc.pb.h"

namespace telensor::client {
namespace {

constexpr uint32_t kProtocolVersion = 1;
constexpr size_t kChunkBytes = 1 << 20;

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

class GrpcStream final : public CommandStream {
 public:
  GrpcStream(v1::Telensor::Stub* stub, const std::string& session_id) {
    context_.AddMetadata("telensor-session", session_id);
    stream_ = stub->Execute(&context_);
  }
  bool Write(const v1::CommandBatch& batch) override { return stream_->Write(batch); }
  bool Read(v1::EventBatch* events) override { return stream_->Read(events); }
  void Cancel() override { context_.TryCancel(); }
  absl::Status Finish() override { return FromGrpc(stream_->Finish()); }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::CommandBatch, v1::EventBatch>> stream_;
};

// A socket that gRPC owns, known again by what it is: its number may have been given to another file since.
class SocketIdentity {
 public:
  explicit SocketIdentity(int fd) : fd_(fd) {
    if (fd_ >= 0 && fstat(fd_, &info_) != 0) fd_ = -1;
  }
  void CloseInChild() const {
    struct stat now;
    if (fd_ >= 0 && fstat(fd_, &now) == 0 && now.st_dev == info_.st_dev && now.st_ino == info_.st_ino) close(fd_);
  }

 private:
  int fd_;
  struct stat info_ = {};
};

// -1, with errno, where nobody listens.
int ConnectUnix(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    errno = ENAMETOOLONG;
    return -1;
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      fcntl(fd, F_SETFL, O_NONBLOCK) != 0) {
    const int error = errno;
    close(fd);
    errno = error;
    return -1;
  }
  return fd;
}

class GrpcConnection final : public Connection {
 public:
  GrpcConnection(std::shared_ptr<grpc::Channel> channel, int fd)
      : socket_(fd), stub_(v1::Telensor::NewStub(std::move(channel))) {}
  void AbandonInChild() override { socket_.CloseInChild(); }

  absl::Status OpenSession(const std::string& client_name) {
    v1::OpenSessionRequest request;
    request.set_protocol_version(kProtocolVersion);
    request.set_op_table_fingerprint(OpTable::Get().fingerprint());
    request.set_client(client_name);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    return FromGrpc(stub_->OpenSession(&context, request, &session_));
  }

  const v1::OpenSessionResponse& session() const override { return session_; }
  std::unique_ptr<CommandStream> OpenStream() override {
    return std::make_unique<GrpcStream>(stub_.get(), session_.session_id());
  }

  absl::Status Upload(uint64_t handle, const char* data, size_t bytes) override {
    grpc::ClientContext context;
    v1::UploadResponse response;
    std::unique_ptr<grpc::ClientWriter<v1::UploadChunk>> writer = stub_->Upload(&context, &response);
    v1::UploadChunk chunk;
    chunk.set_session_id(session_.session_id());
    chunk.set_handle(handle);
    for (size_t at = 0; at < bytes; at += kChunkBytes) {
      chunk.set_data(data + at, std::min(kChunkBytes, bytes - at));
      if (!writer->Write(chunk)) break;
    }
    writer->WritesDone();
    return FromGrpc(writer->Finish());
  }

  absl::StatusOr<std::string> Download(uint64_t read_seq, size_t bytes) override {
    grpc::ClientContext context;
    v1::DownloadRequest request;
    request.set_session_id(session_.session_id());
    request.set_read_seq(read_seq);
    std::unique_ptr<grpc::ClientReader<v1::DownloadChunk>> reader = stub_->Download(&context, request);
    std::string out;
    out.reserve(bytes);
    v1::DownloadChunk chunk;
    // The server is not trusted to keep to the size either.
    while (reader->Read(&chunk)) {
      if (out.size() + chunk.data().size() > bytes) {
        context.TryCancel();  // it need not send the rest
        reader->Finish();
        return absl::DataLossError(absl::StrCat("a download of ", bytes, " bytes brought more"));
      }
      out += chunk.data();
    }
    TD_RETURN_IF_ERROR(FromGrpc(reader->Finish()));
    if (out.size() != bytes) return absl::DataLossError(absl::StrCat("a download of ", bytes, " bytes brought ", out.size()));
    return out;
  }

  absl::StatusOr<v1::GetStatusResponse> GetStatus() override {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    v1::GetStatusRequest request;
    request.set_session_id(session_.session_id());
    v1::GetStatusResponse response;
    TD_RETURN_IF_ERROR(FromGrpc(stub_->GetStatus(&context, request, &response)));
    return response;
  }

 private:
  SocketIdentity socket_;
  std::unique_ptr<v1::Telensor::Stub> stub_;
  v1::OpenSessionResponse session_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Connection>> Connection::Open(const std::string& address, const std::string& client_name) {
  grpc::ChannelArguments args;
  // A channel of its own: sessions don't share a connection, nor what clogs it.
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  std::unique_ptr<GrpcConnection> connection;
  if (address.rfind("unix:", 0) == 0) {
    // Connected by hand: a session ends with its connection, so there is nothing to reconnect to. The kernel tells of
    // the server's end; pings would only end a session whose process was stopped for a while.
    const int fd = ConnectUnix(address.substr(std::strlen("unix:")));
    if (fd < 0) return absl::UnavailableError(absl::StrCat("no server answers at ", address, ": ", strerror(errno)));
    connection = std::make_unique<GrpcConnection>(grpc::CreateCustomInsecureChannelFromFd("telensord", fd, args), fd);
  } else {
    args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10000);
    args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5000);
    connection = std::make_unique<GrpcConnection>(
        grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), args), -1);
  }
  if (absl::Status status = connection->OpenSession(client_name); !status.ok()) {
    return absl::Status(status.code(), absl::StrCat("cannot open a session with ", address, ": ", status.message()));
  }
  return connection;
}

}  // namespace telensor::client
