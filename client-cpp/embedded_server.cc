#include "client-cpp/embedded_server.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

extern char** environ;

namespace telensor::client {
namespace {

constexpr auto kPatience = std::chrono::seconds(20);

std::string FindServer(const std::string& folder) {
  if (const char* named = std::getenv("TELENSORD")) return named;
  std::vector<std::string> folders;
  if (!folder.empty()) folders.push_back(folder);
  if (const char* path = std::getenv("PATH")) {
    for (absl::string_view part : absl::StrSplit(path, ':', absl::SkipEmpty())) folders.emplace_back(part);
  }
  for (const std::string& place : folders) {
    const std::string candidate = place + "/telensord";
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

bool Answers(const std::string& socket) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (socket.size() >= sizeof(address.sun_path)) return false;
  std::memcpy(address.sun_path, socket.data(), socket.size());
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool ok = connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  close(fd);
  return ok;
}

}  // namespace

absl::StatusOr<std::unique_ptr<EmbeddedServer>> EmbeddedServer::Start(const std::string& folder) {
  const std::string program = FindServer(folder);
  if (program.empty()) {
    return absl::NotFoundError(
        "no server is named (TELENSOR_ADDR, telensor.connect) and telensord is not on the PATH to start a private one");
  }
  std::unique_ptr<EmbeddedServer> server(new EmbeddedServer());
  const char* base = std::getenv("XDG_RUNTIME_DIR");
  std::string name = absl::StrCat(base != nullptr && base[0] == '/' ? base : "/tmp", "/telensor-XXXXXX");
  if (mkdtemp(name.data()) == nullptr) {
    name = "/tmp/telensor-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) return absl::PermissionDeniedError("cannot make a private folder in /tmp");
  }
  server->folder_ = name;
  const std::string socket = name + "/telensord.sock";
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::ResourceExhaustedError("no more file descriptors");
  server->owner_fd_ = ends[1];

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[0], 3);
  // The server must not hold open what the program closes and waits for.
  posix_spawn_file_actions_addclosefrom_np(&actions, 4);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // A group of its own: Ctrl-C in the client's terminal is the client's business.
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  std::vector<std::string> args = {program, "--socket", socket, "--owner-fd", "3"};
  if (std::getenv("TELENSOR_LOG_LEVEL") == nullptr) {
    args.push_back("--log-level");
    args.push_back("warn");
  }
  std::vector<char*> argv;
  for (std::string& arg : args) argv.push_back(arg.data());
  argv.push_back(nullptr);
  const int error = posix_spawn(&server->pid_, program.c_str(), &actions, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(ends[0]);
  if (error != 0) {
    server->pid_ = -1;
    return absl::NotFoundError(absl::StrCat("cannot start ", program, ": ", strerror(error)));
  }
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!Answers(socket)) {
    int status;
    if (waitpid(server->pid_, &status, WNOHANG) == server->pid_) {
      server->pid_ = -1;
      return absl::UnavailableError(absl::StrCat(program, " ended at start with status ",
                                                 WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status)));
    }
    if (std::chrono::steady_clock::now() > deadline) return absl::DeadlineExceededError(absl::StrCat(program, " does not answer"));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  server->address_ = "unix:" + socket;
  return server;
}

void EmbeddedServer::AbandonInChild() {
  if (owner_fd_ >= 0) close(owner_fd_);
  owner_fd_ = -1;
}

EmbeddedServer::~EmbeddedServer() {
  if (owner_fd_ >= 0) close(owner_fd_);
  if (pid_ > 0) {
    // It goes by itself now that the pipe is closed; a hung one is not waited for.
    for (int i = 0; i < 200; ++i) {
      if (waitpid(pid_, nullptr, WNOHANG) != 0) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      if (i == 150) kill(pid_, SIGKILL);
    }
  }
  if (!folder_.empty()) {
    unlink((folder_ + "/telensord.sock").c_str());
    rmdir(folder_.c_str());
  }
}

}  // namespace telensor::client
