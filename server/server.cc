#include "server/server.h"

#include <fcntl.h>
#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/version_info.h>
#include <malloc.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <climits>
#include <thread>

#include "absl/strings/str_cat.h"
#include "server/device_set.h"
#include "server/health.h"
#include "server/service.h"

namespace telensor::server {
namespace {

std::string FolderOf(const std::string& socket) { return socket.substr(0, socket.rfind('/')); }

// The folder of the socket: ours, and closed to everybody else.
absl::Status PrepareFolder(const std::string& folder) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return absl::NotFoundError(absl::StrCat("cannot make ", folder, ": ", strerror(errno)));
  }
  struct stat info;
  if (lstat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(folder, " is not a folder"));
  }
  if (info.st_uid != geteuid() || (info.st_mode & 077) != 0) {
    return absl::PermissionDeniedError(absl::StrCat(folder, " must belong to this user with mode 0700: whoever may enter it may use the server"));
  }
  return absl::OkStatus();
}

// A socket that a killed server left behind goes; one that answers belongs to a living one.
absl::Status ClearSocket(const std::string& socket) {
  struct stat info;
  if (lstat(socket.c_str(), &info) != 0) return absl::OkStatus();
  if (!S_ISSOCK(info.st_mode)) return absl::FailedPreconditionError(absl::StrCat(socket, " is there, and is not a socket"));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  socket.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  // A stopped server's queue of callers may be full.
  const bool alive = connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 || errno == EAGAIN;
  close(fd);
  if (alive) return absl::AlreadyExistsError(absl::StrCat("another server listens on ", socket));
  unlink(socket.c_str());
  return absl::OkStatus();
}

// Servers that start at once in one folder do so in turn: each would take the other's new socket for a stale one.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder) : fd_(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (fd_ >= 0) flock(fd_, LOCK_EX);
  }
  ~FolderLock() {
    if (fd_ >= 0) close(fd_);
  }
  FolderLock(const FolderLock&) = delete;

 private:
  int fd_;
};

// Newer gRPC logs by Abseil: log.cc hears it.
#if GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR < 65
void FromGrpc(gpr_log_func_args* args) {
  const auto level = args->severity == GPR_LOG_SEVERITY_ERROR ? spdlog::level::err
                     : args->severity == GPR_LOG_SEVERITY_INFO ? spdlog::level::info
                                                               : spdlog::level::debug;
  spdlog::log(level, "grpc: {}", args->message);
}

void HearGrpc() { gpr_set_log_function(&FromGrpc); }
#else
void HearGrpc() {}
#endif

}  // namespace

struct Server::Parts {
  Config config;
  std::unique_ptr<DeviceSet> devices;
  std::unique_ptr<Scheduler> scheduler;
  std::unique_ptr<SessionManager> sessions;
  std::unique_ptr<TelensorService> service;
  HealthService health{v1::Telensor::service_full_name()};
  std::unique_ptr<grpc::Server> grpc;
  std::string socket;
  int tcp_port = 0;
  std::atomic<bool> shutdown{false};
};

Server::Server() : parts_(std::make_unique<Parts>()) {}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const Config& config) {
  TD_RETURN_IF_ERROR(config.Check());
  // Chunks of bulk transfers are malloc'ed by gRPC: returning them to the kernel each time halves the throughput.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  std::unique_ptr<Server> server(new Server());
  Parts& parts = *server->parts_;
  parts.config = config;
  parts.socket = config.socket.empty() ? DefaultSocketPath() : config.socket;
  TD_RETURN_IF_ERROR(PrepareFolder(FolderOf(parts.socket)));
  HearGrpc();
  TD_ASSIGN_OR_RETURN(parts.devices, DeviceSet::Create(config));
  for (const std::string& report : parts.devices->reports()) spdlog::info("{}", report);
  parts.scheduler = std::make_unique<Scheduler>(std::chrono::microseconds(config.slice_us));
  parts.sessions = std::make_unique<SessionManager>(parts.devices->devices(), parts.config, parts.scheduler.get());
  parts.service = std::make_unique<TelensorService>(parts.sessions.get(), parts.devices->reports());

  grpc::EnableDefaultHealthCheckService(false);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  builder.AddListeningPort(absl::StrCat("unix:", parts.socket), grpc::InsecureServerCredentials());
  if (!config.tcp.empty()) builder.AddListeningPort(config.tcp, grpc::InsecureServerCredentials(), &parts.tcp_port);
  builder.RegisterService(parts.service.get());
  builder.RegisterService(&parts.health);
  // On a Unix socket the kernel tells of a client's end; pings would end one that is only stopped, as in a debugger.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, config.tcp.empty() ? INT_MAX : 10000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5000);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5000);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, 8192);
  {
    const FolderLock lock(FolderOf(parts.socket));
    TD_RETURN_IF_ERROR(ClearSocket(parts.socket));
    const mode_t before = umask(0177);
    parts.grpc = builder.BuildAndStart();
    umask(before);
    if (parts.grpc == nullptr) {
      unlink(parts.socket.c_str());
      return absl::UnavailableError(absl::StrCat("cannot listen on ", parts.socket, config.tcp.empty() ? "" : " and ", config.tcp));
    }
  }
  server->address_ = absl::StrCat("unix:", parts.socket);
  return server;
}

int Server::tcp_port() const { return parts_->tcp_port; }

bool Server::Drain(int seconds) {
  parts_->sessions->Drain();
  parts_->health.SetServing(false);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (parts_->sessions->size() > 0 && !parts_->shutdown && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    parts_->sessions->CloseAbandoned();
  }
  return parts_->sessions->size() == 0;
}

void Server::Shutdown() { parts_->shutdown = true; }

Server::~Server() {
  if (parts_->grpc != nullptr) {
    parts_->sessions->Drain();
    parts_->sessions->CloseAll();
    parts_->health.Shutdown();
    parts_->grpc->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(500));
    parts_->grpc->Wait();
    unlink(parts_->socket.c_str());
  }
}

}  // namespace telensor::server
