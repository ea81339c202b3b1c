#include "server/log.h"

#include <google/protobuf/stubs/common.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

// From version 22 on protobuf, and since 1.65 gRPC, log by Abseil.
#if GOOGLE_PROTOBUF_VERSION >= 4022000
#include "absl/base/log_severity.h"
#include "absl/log/globals.h"
#include "absl/log/initialize.h"
#include "absl/log/log_entry.h"
#include "absl/log/log_sink.h"
#include "absl/log/log_sink_registry.h"
#else
#include <google/protobuf/stubs/logging.h>
#endif

namespace telensor::server {
namespace {

// How many bytes from `at` are one character of well-formed UTF-8; 0: none.
size_t CharacterBytes(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0u; };
  const auto follows = [&](size_t i) { return (byte(i) & 0xc0) == 0x80; };
  const unsigned first = byte(0), second = byte(1);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return follows(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    // Neither what is longer than it must be, nor halves of UTF-16 pairs.
    if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f)) return 0;
    return follows(1) && follows(2) ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    if ((first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f)) return 0;
    return follows(1) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

// %v would print a message as it came.
class MessageFlag final : public spdlog::custom_flag_formatter {
 public:
  explicit MessageFlag(bool json) : json_(json) {}
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
    const std::string text = Printable({message.payload.data(), message.payload.size()}, json_);
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<MessageFlag>(json_); }

 private:
  bool json_;
};

#if GOOGLE_PROTOBUF_VERSION >= 4022000
class FromLibraries final : public absl::LogSink {
 public:
  void Send(const absl::LogEntry& entry) override {
    const auto level = entry.log_severity() >= absl::LogSeverity::kError     ? spdlog::level::err
                       : entry.log_severity() == absl::LogSeverity::kWarning ? spdlog::level::warn
                                                                             : spdlog::level::debug;
    const absl::string_view text = entry.text_message();
    spdlog::log(level, "library: {}", std::string_view(text.data(), text.size()));
  }
};

void HearLibraries() {
  static FromLibraries* const sink = [] {
    absl::InitializeLog();
    absl::SetStderrThreshold(absl::LogSeverityAtLeast::kInfinity);
    auto* made = new FromLibraries;
    absl::AddLogSink(made);
    return made;
  }();
  (void)sink;
}
#else
void FromProtobuf(google::protobuf::LogLevel level, const char*, int, const std::string& message) {
  spdlog::log(level >= google::protobuf::LOGLEVEL_ERROR ? spdlog::level::err : spdlog::level::warn, "protobuf: {}", message);
}

void HearLibraries() { google::protobuf::SetLogHandler(&FromProtobuf); }
#endif

}  // namespace

std::string Printable(std::string_view text, bool json) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const unsigned char c = static_cast<unsigned char>(text[at]);
    const size_t bytes = CharacterBytes(text, at);
    // U+0080 to U+009F are control characters too.
    const bool control = c < 0x20 || c == 0x7f || (c == 0xc2 && bytes == 2 && static_cast<unsigned char>(text[at + 1]) < 0xa0);
    if (bytes == 0 || control) {
      const unsigned char shown = bytes == 2 ? static_cast<unsigned char>(text[at + 1]) : c;
      out += json ? "\\u00" : "\\x";
      out += kDigits[shown >> 4];
      out += kDigits[shown & 15];
      at += std::max<size_t>(bytes, 1);
      continue;
    }
    if (json && (c == '"' || c == '\\')) out += '\\';
    out.append(text, at, bytes);
    at += bytes;
  }
  return out;
}

void StartLog(const Config& config) {
  const bool json = config.log_format == "json";
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<MessageFlag>('*', json);
  formatter->set_pattern(json ? R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l","message":"%*"})"
                              : "%Y-%m-%d %H:%M:%S.%e %^%l%$ %*");
  auto logger = spdlog::stderr_color_mt("telensord");
  logger->set_formatter(std::move(formatter));
  logger->set_level(spdlog::level::from_str(config.log_level == "error" ? "err" : config.log_level));
  spdlog::set_default_logger(logger);
  HearLibraries();
}

}  // namespace telensor::server
