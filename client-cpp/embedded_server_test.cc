// The private server: how it is found, what a start that fails says, and that it goes with its owner.
#include "client-cpp/embedded_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "client-cpp/connection.h"

namespace telensor::client {
namespace {

using ::testing::HasSubstr;

class EmbeddedServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/telensor-embedded-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    setenv("TELENSORD", TELENSOR_TEST_SERVER, 1);
    setenv("XDG_RUNTIME_DIR", folder_.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("TELENSORD");
    unsetenv("XDG_RUNTIME_DIR");
    EXPECT_EQ(std::system(("rm -rf " + folder_).c_str()), 0);
  }
  std::string Program(const std::string& text) {
    const std::string path = folder_ + "/telensord";
    std::ofstream(path) << "#!/bin/sh\n" << text << "\n";
    chmod(path.c_str(), 0755);
    return path;
  }
  // How many entries are left in the folder of private servers.
  int Left() {
    int count = 0;
    FILE* pipe = popen(("ls " + folder_ + " | grep -c '^telensor-'").c_str(), "r");
    if (fscanf(pipe, "%d", &count) != 1) count = -1;
    pclose(pipe);
    return count;
  }

  std::string folder_;
};

TEST_F(EmbeddedServerTest, AnswersWhenStartReturnsAndLeavesNothing) {
  std::string address;
  {
    auto server = EmbeddedServer::Start("");
    ASSERT_TRUE(server.ok()) << server.status();
    address = (*server)->address();
    EXPECT_THAT(address, HasSubstr("unix:" + folder_ + "/telensor-"));
    struct stat info;
    const std::string socket = address.substr(5);
    ASSERT_EQ(stat(socket.substr(0, socket.rfind('/')).c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700u);
    EXPECT_TRUE(Connection::Open(address, "test").ok());
    EXPECT_EQ(Left(), 1);
  }
  EXPECT_EQ(Left(), 0);
  EXPECT_NE(access(address.substr(5).c_str(), F_OK), 0);
}

TEST_F(EmbeddedServerTest, TwoDoNotMeet) {
  auto first = EmbeddedServer::Start(""), second = EmbeddedServer::Start("");
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE((*first)->address(), (*second)->address());
}

TEST_F(EmbeddedServerTest, LooksInItsFolderAndOnThePath) {
  unsetenv("TELENSORD");
  const std::string path = std::getenv("PATH");
  setenv("PATH", "/nowhere", 1);
  EXPECT_THAT(std::string(EmbeddedServer::Start("").status().message()), HasSubstr("telensord is not on the PATH"));
  EXPECT_EQ(symlink(TELENSOR_TEST_SERVER, (folder_ + "/telensord").c_str()), 0);
  EXPECT_TRUE(EmbeddedServer::Start(folder_).ok());
  setenv("PATH", ("/nowhere:" + folder_).c_str(), 1);
  EXPECT_TRUE(EmbeddedServer::Start("").ok());
  setenv("PATH", path.c_str(), 1);
}

TEST_F(EmbeddedServerTest, AStartThatFailsSaysHow) {
  setenv("TELENSORD", "/nowhere/telensord", 1);
  EXPECT_THAT(std::string(EmbeddedServer::Start("").status().message()), HasSubstr("cannot start /nowhere/telensord"));
  setenv("TELENSORD", Program("exit 69").c_str(), 1);
  const absl::Status ended = EmbeddedServer::Start("").status();
  EXPECT_EQ(ended.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(ended.message()), HasSubstr("ended at start with status 69"));
  setenv("TELENSORD", Program("kill -9 $$").c_str(), 1);
  EXPECT_THAT(std::string(EmbeddedServer::Start("").status().message()), HasSubstr("status -9"));
  EXPECT_EQ(Left(), 0) << "a folder was left behind";
}

TEST_F(EmbeddedServerTest, EndsWithItsOwnerHoweverThatEnds) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t owner = fork();
  if (owner == 0) {
    auto server = EmbeddedServer::Start("");
    const std::string address = server.ok() ? (*server)->address() : "failed";
    if (write(ends[1], address.data(), address.size()) < 0) _exit(1);
    close(ends[1]);
    kill(getpid(), SIGKILL);
  }
  close(ends[1]);
  std::string address;
  char buffer[256];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof(buffer))) > 0;) address.append(buffer, static_cast<size_t>(n));
  close(ends[0]);
  int status;
  waitpid(owner, &status, 0);
  ASSERT_THAT(address, HasSubstr("unix:"));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (Connection::Open(address, "test").ok() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_FALSE(Connection::Open(address, "test").ok());
}

}  // namespace
}  // namespace telensor::client
