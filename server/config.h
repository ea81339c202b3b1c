// Config: what telensord is told at start. Flags go before TELENSOR_* variables, these before the file, the file
// before the defaults.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace telensor::server {

struct Config {
  std::string socket;                // Unix socket; empty: $XDG_RUNTIME_DIR/telensor/telensord.sock
  std::string tcp;                   // "127.0.0.1:7070"; only with insecure_dev, only on loopback
  bool insecure_dev = false;
  size_t max_sessions = 32;
  size_t max_handles = 1000000;      // of one session
  size_t session_memory_limit = 0;   // bytes; 0: the device's own limit
  size_t cpu_memory_limit = 0;       // bytes; 0: the host's memory
  int threads = 0;                   // of the CPU device; 0: all cores
  std::string cuda_plugin;           // absolute path of libtelensor_cuda.so; empty: beside the server, if there
  bool cuda_required = false;
  int drain_seconds = 20;
  int slice_us = 2000;               // of device time a session gets before the next one's turn
  std::string log_level = "info";
  std::string log_format = "text";   // or "json"

  // Every setting is checked; an unknown key is an error that names its line.
  static absl::Status ReadFile(const std::string& path, Config* config);
  absl::Status Check() const;
  std::string ToToml() const;
};

// Where a server without a configured socket listens.
std::string DefaultSocketPath();

}  // namespace telensor::server
