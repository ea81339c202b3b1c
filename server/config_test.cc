// Settings: the file's keys and their values, and which of flag, environment and file goes before which, by the program.
#include "server/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <fstream>

namespace telensor::server {
namespace {

using ::testing::HasSubstr;

class ConfigTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/telensor-config-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    path_ = folder_ + "/telensord.toml";
  }
  void TearDown() override {
    unlink(path_.c_str());
    rmdir(folder_.c_str());
  }
  absl::Status Read(const std::string& text, Config* config) {
    std::ofstream(path_) << text;
    return Config::ReadFile(path_, config);
  }
  std::string ReadError(const std::string& text) {
    Config config;
    const absl::Status status = Read(text, &config);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    return std::string(status.message());
  }
  // What telensord prints and its exit status; `words` come before or after its name on a shell's line.
  std::pair<std::string, int> Run(const std::string& environment, const std::string& flags) {
    const std::string line = "env -i " + environment + " " TELENSOR_TEST_SERVER " " + flags + " 2>&1";
    FILE* pipe = popen(line.c_str(), "r");
    std::string out;
    char buffer[512];
    for (size_t n; (n = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) out.append(buffer, n);
    return {out, WEXITSTATUS(pclose(pipe))};
  }

  std::string folder_, path_;
};

constexpr char kEverything[] = R"([listen]
socket = "/run/t/s.sock"
tcp = "127.0.0.1:7070"
insecure_dev = true
[limits]
max_sessions = 5
max_handles = 6
session_memory = 7
[cpu]
memory = 8
threads = 9
[cuda]
plugin = "/opt/libtelensor_cuda.so"
required = true
[server]
drain_seconds = 10
slice_us = 1100
[log]
level = "debug"
format = "json"
)";

TEST_F(ConfigTest, ReadsEverySetting) {
  Config c;
  ASSERT_TRUE(Read(kEverything, &c).ok());
  EXPECT_EQ(c.socket, "/run/t/s.sock");
  EXPECT_EQ(c.tcp, "127.0.0.1:7070");
  EXPECT_TRUE(c.insecure_dev);
  EXPECT_EQ(c.max_sessions, 5u);
  EXPECT_EQ(c.max_handles, 6u);
  EXPECT_EQ(c.session_memory_limit, 7u);
  EXPECT_EQ(c.cpu_memory_limit, 8u);
  EXPECT_EQ(c.threads, 9);
  EXPECT_EQ(c.cuda_plugin, "/opt/libtelensor_cuda.so");
  EXPECT_TRUE(c.cuda_required);
  EXPECT_EQ(c.drain_seconds, 10);
  EXPECT_EQ(c.slice_us, 1100);
  EXPECT_EQ(c.log_level, "debug");
  EXPECT_EQ(c.log_format, "json");
  EXPECT_TRUE(c.Check().ok());
}

TEST_F(ConfigTest, WritesWhatItReads) {
  Config first, second;
  ASSERT_TRUE(Read(kEverything, &first).ok());
  ASSERT_TRUE(Read(first.ToToml(), &second).ok());
  EXPECT_EQ(first.ToToml(), second.ToToml());
  EXPECT_NE(first.ToToml(), Config().ToToml());
}

TEST_F(ConfigTest, DefaultsAreGoodAndAnEmptyFileKeepsThem) {
  Config c;
  EXPECT_TRUE(c.Check().ok());
  EXPECT_TRUE(Read("", &c).ok());
  EXPECT_EQ(c.ToToml(), Config().ToToml());
}

TEST_F(ConfigTest, AnUnknownKeyNamesItsLine) {
  EXPECT_THAT(ReadError("[limits]\nmax_sessions = 1\nmax_handels = 2\n"), HasSubstr(path_ + ":3: unknown key 'max_handels' in [limits]"));
  EXPECT_THAT(ReadError("\n[limit]\n"), HasSubstr(":2: unknown section [limit]"));
  EXPECT_THAT(ReadError("socket = \"/a\"\n"), HasSubstr(":1: unknown section [socket]"));
  EXPECT_THAT(ReadError("limits = 3\n"), HasSubstr(":1: unknown section [limits]"));
  EXPECT_THAT(ReadError("[listen]\n\nmax_sessions = 3\n"), HasSubstr(":3: unknown key 'max_sessions' in [listen]"));
}

TEST_F(ConfigTest, ValuesHaveTheirKind) {
  const std::pair<const char*, std::vector<const char*>> wrong[] = {
      {"listen", {"socket = 1", "tcp = true", "insecure_dev = 1", "insecure_dev = \"yes\""}},
      {"limits", {"max_sessions = \"3\"", "max_sessions = 1.5", "max_sessions = -1", "max_handles = true", "session_memory = -5"}},
      {"cpu", {"memory = \"1G\"", "threads = -1", "threads = 4294967297", "threads = 2147483648"}},
      {"cuda", {"plugin = 3", "required = 1"}},
      {"server", {"drain_seconds = 1.5", "drain_seconds = -1", "drain_seconds = 99999999999", "slice_us = \"2\"", "slice_us = 4294969296"}},
      {"log", {"level = 1", "format = false"}},
  };
  for (const auto& [section, lines] : wrong) {
    for (const char* line : lines) {
      EXPECT_THAT(ReadError(std::string("[") + section + "]\n" + line + "\n"), HasSubstr(path_ + ":2: '")) << line;
    }
  }
}

TEST_F(ConfigTest, AFileMustBeTomlAndThere) {
  EXPECT_THAT(ReadError("[listen]\nsocket = \n"), HasSubstr(path_ + ":2: "));
  EXPECT_THAT(ReadError("[listen\n"), HasSubstr(path_ + ":1: "));
  Config c;
  EXPECT_FALSE(Config::ReadFile("/nowhere/telensord.toml", &c).ok());
}

TEST_F(ConfigTest, ChecksWhatGoesTogether) {
  const auto error = [](const std::function<void(Config*)>& change) {
    Config c;
    change(&c);
    const absl::Status status = c.Check();
    return std::string(status.message());
  };
  EXPECT_THAT(error([](Config* c) { c->tcp = "127.0.0.1:0"; }), HasSubstr("--insecure-dev"));
  for (const char* bad : {"0.0.0.0:7070", "10.0.0.1:7070", "example.com:7070", "127.0.0.1", "127.0.0.1:", "127.0.0.1:70707",
                          "127.0.0.1:x", "127.evil.example:80", "127.0.0.1.evil.example:80", "localhost.evil.example:1",
                          "localhost", "[::]:7070", ":7070", "127.1:80"}) {
    EXPECT_THAT(error([bad](Config* c) { c->tcp = bad, c->insecure_dev = true; }), HasSubstr("not a loopback address")) << bad;
  }
  for (const char* good : {"127.0.0.1:0", "127.9.8.7:7070", "localhost:65535", "[::1]:7070"}) {
    EXPECT_EQ(error([good](Config* c) { c->tcp = good, c->insecure_dev = true; }), "") << good;
  }
  EXPECT_THAT(error([](Config* c) { c->socket = "/" + std::string(107, 'x'); }), HasSubstr("too long"));
  EXPECT_EQ(error([](Config* c) { c->socket = "/" + std::string(106, 'x'); }), "");
  EXPECT_THAT(error([](Config* c) { c->max_sessions = 0; }), HasSubstr("limits must not be 0"));
  EXPECT_THAT(error([](Config* c) { c->max_handles = 0; }), HasSubstr("limits must not be 0"));
  EXPECT_THAT(error([](Config* c) { c->slice_us = 99; }), HasSubstr("slice_us"));
  EXPECT_THAT(error([](Config* c) { c->threads = -1; }), HasSubstr("cpu.threads"));
  EXPECT_THAT(error([](Config* c) { c->log_format = "xml"; }), HasSubstr("log.format"));
  EXPECT_THAT(error([](Config* c) { c->log_level = "loud"; }), HasSubstr("log.level"));
  EXPECT_THAT(error([](Config* c) { c->cuda_plugin = "lib.so"; }), HasSubstr("absolute"));
}

TEST_F(ConfigTest, FlagsGoBeforeTheEnvironmentAndThatBeforeTheFile) {
  struct Setting {
    const char *flag, *variable, *section, *key;
    const char *in_flag, *in_variable, *in_file;
    bool text;
  };
  const Setting settings[] = {
      {"--socket", "TELENSOR_SOCKET", "listen", "socket", "/flag/s", "/variable/s", "/file/s", true},
      {"--threads", "TELENSOR_THREADS", "cpu", "threads", "11", "12", "13", false},
      {"--log-level", "TELENSOR_LOG_LEVEL", "log", "level", "trace", "debug", "warn", true},
      {"--log-format", "TELENSOR_LOG_FORMAT", "log", "format", "json", "text", "json", true},
      {"--cuda-plugin", "TELENSOR_CUDA_PLUGIN", "cuda", "plugin", "/flag.so", "/variable.so", "/file.so", true},
      {"--insecure-dev --tcp", "TELENSOR_TCP", "listen", "tcp", "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", true},
  };
  for (const Setting& s : settings) {
    SCOPED_TRACE(s.key);
    const std::string quote = s.text ? "\"" : "";
    std::ofstream(path_) << "[" << s.section << "]\n" << s.key << " = " << quote << s.in_file << quote << "\n"
                         << (std::string(s.key) == "tcp" ? "insecure_dev = true\n" : "");
    const std::string file = " --print-config --config " + path_;
    const std::string flag = std::string(s.flag) + " " + s.in_flag, variable = std::string(s.variable) + "=" + s.in_variable;
    // toml++ writes strings in single quotes.
    const auto line = [&](const char* value) { return std::string(s.key) + " = " + (s.text ? "'" : "") + value + (s.text ? "'" : ""); };
    EXPECT_THAT(Run("", file).first, HasSubstr(line(s.in_file)));
    EXPECT_THAT(Run(variable, file).first, HasSubstr(line(s.in_variable)));
    EXPECT_THAT(Run(variable, flag + file).first, HasSubstr(line(s.in_flag)));
    EXPECT_THAT(Run("", flag + file).first, HasSubstr(line(s.in_flag)));
    EXPECT_THAT(Run("TELENSOR_CONFIG=" + path_, "--print-config").first, HasSubstr(line(s.in_file)));
  }
}

TEST_F(ConfigTest, TheProgramSaysWhatIsWrongAndEndsWithItsStatus) {
  std::ofstream(path_) << "[log]\nlevl = 1\n";
  auto [words, status] = Run("", "--check-config --config " + path_);
  EXPECT_EQ(status, 78);
  EXPECT_THAT(words, HasSubstr("telensord: " + path_ + ":2: unknown key 'levl'"));
  std::ofstream(path_) << "[log]\nlevel = 'info'\n";
  EXPECT_EQ(Run("", "--check-config --config " + path_).second, 0);
  EXPECT_EQ(Run("", "--check-config --log-level loud").second, 78);
  EXPECT_EQ(Run("TELENSOR_LOG_LEVEL=loud", "--check-config").second, 78);
  EXPECT_EQ(Run("", "--check-config --threads -1").second, 78);
  EXPECT_EQ(Run("", "--check-config --tcp 127.0.0.1:1").second, 78);
  EXPECT_EQ(Run("", "--no-such-flag").second, 2);
  EXPECT_EQ(Run("", "--threads many").second, 2);
  EXPECT_EQ(Run("TELENSOR_THREADS=many", "--check-config").second, 2);
  EXPECT_EQ(Run("", "--check-config --config /nowhere.toml").second, 78);
}

}  // namespace
}  // namespace telensor::server
