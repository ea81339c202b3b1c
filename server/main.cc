// telensord: flags, logging, signals. Everything else is in libraries.
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <thread>
#include <unistd.h>

#include "server/log.h"
#include "server/server.h"
#include "server/version.h"

namespace {

using telensor::server::Config;

// sysexits(3): what a service manager can tell apart.
constexpr int kExitUsage = 2;
constexpr int kExitDevice = 69;
constexpr int kExitPermission = 77;
constexpr int kExitConfig = 78;

int g_signal_fd = -1;
void OnSignal(int) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = write(g_signal_fd, &one, sizeof(one));
}

// OpenMP's threads spin while they wait, which stalls everybody where cores are shared with clients and neighbours.
// libgomp reads its settings when it is loaded, so they can only be given to a program that starts.
void LimitSpinning(char** argv) {
  prctl(PR_SET_NAME, "telensord");  // started again below, it would be called "exe" in ps and top
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  setenv("GOMP_SPINCOUNT", "2000", 1);
  execv("/proc/self/exe", argv);  // where this fails, the server runs as it is
}

int ExitCode(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kPermissionDenied: return kExitPermission;
    case absl::StatusCode::kInvalidArgument: return kExitConfig;
    default: return kExitDevice;
  }
}

// A private server's folder was made for it alone.
void RemoveTraces(const std::string& path, bool and_folder) {
  unlink(path.c_str());
  if (and_folder) rmdir(path.substr(0, path.rfind('/')).c_str());
}

// A running kernel can't be interrupted: after a while the process ends under it.
void EndInTime(const std::string& path, bool and_folder) {
  std::thread([path, and_folder] {
    std::this_thread::sleep_for(std::chrono::seconds(2));
    spdlog::warn("an op still runs: ending all the same");
    RemoveTraces(path, and_folder);
    _exit(0);
  }).detach();
}

}  // namespace

int main(int argc, char** argv) {
  LimitSpinning(argv);
  CLI::App app{"telensord: a tensor runtime in a daemon"};
  Config config;
  std::string file;
  bool check = false, print = false;
  int owner_fd = -1;
  app.set_version_flag("--version", telensor::server::kVersion);
  app.add_option("--config", file, "TOML file with the settings")->envname("TELENSOR_CONFIG");
  app.add_flag("--check-config", check, "check the settings and end");
  app.add_flag("--print-config", print, "print the settings in force and end");
  // Given on the command line or in the environment, a setting goes before the file.
  Config given;
  auto* socket = app.add_option("--socket", given.socket, "path of the Unix socket")->envname("TELENSOR_SOCKET");
  auto* tcp = app.add_option("--tcp", given.tcp, "loopback address and port, with --insecure-dev")->envname("TELENSOR_TCP");
  auto* insecure = app.add_flag("--insecure-dev", given.insecure_dev, "serve TCP on loopback without authentication");
  auto* threads = app.add_option("--threads", given.threads, "threads of the CPU device")->envname("TELENSOR_THREADS");
  auto* level = app.add_option("--log-level", given.log_level, "trace, debug, info, warn, error, off")->envname("TELENSOR_LOG_LEVEL");
  auto* format = app.add_option("--log-format", given.log_format, "text or json")->envname("TELENSOR_LOG_FORMAT");
  auto* plugin = app.add_option("--cuda-plugin", given.cuda_plugin, "absolute path of libtelensor_cuda.so")->envname("TELENSOR_CUDA_PLUGIN");
  app.add_option("--owner-fd", owner_fd, "end when the other end of this pipe is closed")->group("");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  if (!file.empty()) {
    if (absl::Status status = Config::ReadFile(file, &config); !status.ok()) {
      std::cerr << "telensord: " << status.message() << "\n";
      return kExitConfig;
    }
  }
  if (socket->count() > 0) config.socket = given.socket;
  if (tcp->count() > 0) config.tcp = given.tcp;
  if (insecure->count() > 0) config.insecure_dev = given.insecure_dev;
  if (threads->count() > 0) config.threads = given.threads;
  if (level->count() > 0) config.log_level = given.log_level;
  if (format->count() > 0) config.log_format = given.log_format;
  if (plugin->count() > 0) config.cuda_plugin = given.cuda_plugin;
  if (absl::Status status = config.Check(); !status.ok()) {
    std::cerr << "telensord: " << status.message() << "\n";
    return kExitConfig;
  }
  if (print) std::cout << config.ToToml();
  if (check) std::cout << "the configuration is good\n";
  if (print || check) return 0;

  telensor::server::StartLog(config);
  g_signal_fd = eventfd(0, EFD_CLOEXEC);
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);

  absl::StatusOr<std::unique_ptr<telensor::server::Server>> server = telensor::server::Server::Start(config);
  if (!server.ok()) {
    spdlog::error("cannot start: {}", std::string(server.status().message()));
    if (config.log_level == "off") std::cerr << "telensord: " << server.status().message() << "\n";
    return ExitCode(server.status());
  }
  spdlog::info("telensord {} listens on {}", telensor::server::kVersion, (*server)->address());
  if ((*server)->tcp_port() != 0) spdlog::info("and, without authentication, on port {} of loopback", (*server)->tcp_port());

  pollfd waits[2] = {{g_signal_fd, POLLIN, 0}, {owner_fd, 0, 0}};
  while (poll(waits, owner_fd >= 0 ? 2 : 1, -1) < 0) {
  }
  if ((waits[0].revents & POLLIN) != 0) {
    uint64_t count;
    [[maybe_unused]] const ssize_t n = read(g_signal_fd, &count, sizeof(count));
    spdlog::info("draining: waiting up to {} s for sessions to end", config.drain_seconds);
    std::atomic<bool> done{false};
    std::thread second([&] {
      // A second signal ends the wait.
      pollfd wait = {g_signal_fd, POLLIN, 0};
      while (!done && poll(&wait, 1, 100) <= 0) {
      }
      (*server)->Shutdown();
    });
    const bool clean = (*server)->Drain(config.drain_seconds);
    done = true;
    second.join();
    spdlog::info(clean ? "all sessions have ended" : "sessions were cut");
  }
  const std::string path = (*server)->address().substr(std::strlen("unix:"));
  EndInTime(path, owner_fd >= 0);
  server->reset();
  RemoveTraces(path, owner_fd >= 0);
  return 0;
}
