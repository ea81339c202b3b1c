#include "server/config.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <limits>
#include <map>
#include <toml++/toml.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace telensor::server {
namespace {

// How a setting's value is taken. Gives what the value must be, or nothing where it was taken.
using Setter = std::function<std::string(const toml::node&, Config*)>;

template <typename T>
Setter Number(T Config::*field) {
  return [field](const toml::node& node, Config* config) {
    constexpr uint64_t kMost = std::min<uint64_t>(std::numeric_limits<T>::max(), std::numeric_limits<int64_t>::max());
    const auto value = node.value_exact<int64_t>();
    if (!value || *value < 0 || static_cast<uint64_t>(*value) > kMost) {
      return absl::StrCat("a whole number of at least 0 and at most ", kMost);
    }
    config->*field = static_cast<T>(*value);
    return std::string();
  };
}
Setter Text(std::string Config::*field) {
  return [field](const toml::node& node, Config* config) -> std::string {
    const auto value = node.value_exact<std::string>();
    if (!value) return "text in quotes";
    config->*field = *value;
    return "";
  };
}
Setter Flag(bool Config::*field) {
  return [field](const toml::node& node, Config* config) -> std::string {
    const auto value = node.value_exact<bool>();
    if (!value) return "true or false";
    config->*field = *value;
    return "";
  };
}

const std::map<std::string, std::map<std::string, Setter>>& Settings() {
  static const auto* const settings = new std::map<std::string, std::map<std::string, Setter>>{
      {"listen", {{"socket", Text(&Config::socket)}, {"tcp", Text(&Config::tcp)}, {"insecure_dev", Flag(&Config::insecure_dev)}}},
      {"limits",
       {{"max_sessions", Number(&Config::max_sessions)},
        {"max_handles", Number(&Config::max_handles)},
        {"session_memory", Number(&Config::session_memory_limit)}}},
      {"cpu", {{"memory", Number(&Config::cpu_memory_limit)}, {"threads", Number(&Config::threads)}}},
      {"cuda", {{"plugin", Text(&Config::cuda_plugin)}, {"required", Flag(&Config::cuda_required)}}},
      {"server", {{"drain_seconds", Number(&Config::drain_seconds)}, {"slice_us", Number(&Config::slice_us)}}},
      {"log", {{"level", Text(&Config::log_level)}, {"format", Text(&Config::log_format)}}},
  };
  return *settings;
}

// A name that only looks like a number could be anybody's, so numbers are read as numbers.
bool IsLoopback(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return false;
  const std::string host = address.substr(0, colon);
  uint32_t port;
  if (address.size() - colon > 6 || !absl::SimpleAtoi(address.substr(colon + 1), &port) || port > 65535) return false;
  in_addr number;
  return host == "localhost" || host == "[::1]" ||
         (inet_pton(AF_INET, host.c_str(), &number) == 1 && ntohl(number.s_addr) >> 24 == 127);
}

}  // namespace

absl::Status Config::ReadFile(const std::string& path, Config* config) {
  toml::table file;
  try {
    file = toml::parse_file(path);
  } catch (const toml::parse_error& error) {
    return absl::InvalidArgumentError(absl::StrCat(path, ":", error.source().begin.line, ": ", std::string(error.description())));
  }
  for (const auto& [section, node] : file) {
    const auto found = Settings().find(std::string(section.str()));
    if (found == Settings().end() || !node.is_table()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ":", node.source().begin.line, ": unknown section [",
                                                     std::string(section.str()), "]"));
    }
    for (const auto& [key, value] : *node.as_table()) {
      const auto setting = found->second.find(std::string(key.str()));
      const std::string where = absl::StrCat(path, ":", value.source().begin.line, ": ");
      if (setting == found->second.end()) {
        return absl::InvalidArgumentError(absl::StrCat(where, "unknown key '", std::string(key.str()), "' in [",
                                                       std::string(section.str()), "]"));
      }
      if (const std::string want = setting->second(value, config); !want.empty()) {
        return absl::InvalidArgumentError(absl::StrCat(where, "'", std::string(key.str()), "' must be ", want));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Config::Check() const {
  if (!tcp.empty()) {
    if (!insecure_dev) {
      return absl::InvalidArgumentError("listen.tcp has no authentication yet: it needs --insecure-dev, and a loopback address");
    }
    if (!IsLoopback(tcp)) {
      return absl::InvalidArgumentError(absl::StrCat("listen.tcp = '", tcp, "' is not a loopback address with a port"));
    }
  }
  if (!socket.empty() && socket[0] != '/') {
    return absl::InvalidArgumentError(absl::StrCat("the socket needs an absolute path, not ", socket));
  }
  // sockaddr_un holds 107 characters.
  if (socket.size() > 107) return absl::InvalidArgumentError(absl::StrCat("the socket path is too long: ", socket));
  if (max_sessions == 0 || max_handles == 0) return absl::InvalidArgumentError("limits must not be 0");
  if (threads < 0) return absl::InvalidArgumentError("cpu.threads must not be negative");
  if (slice_us < 100) return absl::InvalidArgumentError("server.slice_us must be at least 100");
  if (log_format != "text" && log_format != "json") return absl::InvalidArgumentError("log.format is 'text' or 'json'");
  for (const char* level : {"trace", "debug", "info", "warn", "error", "off"}) {
    if (log_level == level) {
      if (!cuda_plugin.empty() && cuda_plugin[0] != '/') return absl::InvalidArgumentError("cuda.plugin must be an absolute path");
      return absl::OkStatus();
    }
  }
  return absl::InvalidArgumentError("log.level is one of trace, debug, info, warn, error, off");
}

std::string Config::ToToml() const {
  const toml::table file{
      {"listen", toml::table{{"socket", socket}, {"tcp", tcp}, {"insecure_dev", insecure_dev}}},
      {"limits", toml::table{{"max_sessions", static_cast<int64_t>(max_sessions)},
                             {"max_handles", static_cast<int64_t>(max_handles)},
                             {"session_memory", static_cast<int64_t>(session_memory_limit)}}},
      {"cpu", toml::table{{"memory", static_cast<int64_t>(cpu_memory_limit)}, {"threads", threads}}},
      {"cuda", toml::table{{"plugin", cuda_plugin}, {"required", cuda_required}}},
      {"server", toml::table{{"drain_seconds", drain_seconds}, {"slice_us", slice_us}}},
      {"log", toml::table{{"level", log_level}, {"format", log_format}}},
  };
  std::ostringstream out;
  out << file << "\n";
  return out.str();
}

std::string DefaultSocketPath() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && runtime[0] == '/') return absl::StrCat(runtime, "/telensor/telensord.sock");
  return absl::StrCat("/tmp/telensor-", getuid(), "/telensord.sock");
}

}  // namespace telensor::server
