// What one op costs the C++ client over a Unix socket, and a lone op with its read beside a raw gRPC unary call.
//
//   client_bench [rounds]     medians of the rounds; both sides of a ratio alternate within a round
//
// TELENSORD names the server to start, TELENSOR_ADDR a running one. Run it on a quiet machine.
#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "client-cpp/telensor.h"
#include "telensor/v1/telensor.grpc.pb.h"

namespace tt = telensor;
namespace v1 = telensor::v1;

extern char** environ;

namespace {

using Clock = std::chrono::steady_clock;

double Since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// A gRPC server as small as can be: an empty answer, nothing done.
class Echo final : public v1::Telensor::Service {
 public:
  grpc::Status GetStatus(grpc::ServerContext*, const v1::GetStatusRequest*, v1::GetStatusResponse*) override {
    return grpc::Status::OK;
  }
};

// Serves until its standard input ends; says when it listens.
int ServeEcho(const std::string& address) {
  Echo service;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return 1;
  char byte = 1;
  if (write(STDOUT_FILENO, &byte, 1) != 1) return 1;
  while (read(STDIN_FILENO, &byte, 1) > 0) {}
  server->Shutdown(std::chrono::system_clock::now());
  return 0;
}

[[noreturn]] void Fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

// This program again, with other arguments. Its end is waited for when this goes; it sees its standard input end.
class Child {
 public:
  explicit Child(std::vector<std::string> args) {
    int input[2], output[2];
    if (pipe2(input, O_CLOEXEC) != 0 || pipe2(output, O_CLOEXEC) != 0) Fail("pipe");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
    args.insert(args.begin(), "client_bench");
    std::vector<char*> argv;
    for (std::string& arg : args) argv.push_back(arg.data());
    argv.push_back(nullptr);
    if (posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, argv.data(), environ) != 0) Fail("posix_spawn");
    posix_spawn_file_actions_destroy(&actions);
    close(input[0]);
    close(output[1]);
    keep_ = input[1];
    said_ = output[0];
  }
  ~Child() {
    close(keep_);
    close(said_);
    waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  // The next bytes it says.
  template <typename T>
  T Hear() {
    T value;
    if (read(said_, &value, sizeof(value)) != sizeof(value)) Fail("a child of the benchmark");
    return value;
  }

 private:
  pid_t pid_ = -1;
  int keep_ = -1, said_ = -1;
};

class PrivateFolder {
 public:
  PrivateFolder() {
    char folder[] = "/tmp/telensor-bench-XXXXXX";
    if (mkdtemp(folder) == nullptr) Fail("mkdtemp");
    path_ = folder;
  }
  ~PrivateFolder() {
    unlink((path_ + "/echo.sock").c_str());
    rmdir(path_.c_str());
  }
  std::string address() const { return "unix:" + path_ + "/echo.sock"; }

 private:
  std::string path_;
};

// Millions of ops a second, executed: n chained adds of 16 floats and one read of the last.
double Chain(int n, bool requires_grad) {
  tt::Tensor x = tt::randn({16});
  if (requires_grad) x.requires_grad_();
  const tt::Tensor y = tt::randn({16});
  tt::Tensor z = x;
  tt::synchronize();
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < n; ++i) z = z + y;
  z.to_vector<float>();
  return n / Since(start) / 1e6;
}

// Nanoseconds of the caller for one of n `z = x + y`, the release of the old z included.
double Issue(int n) {
  const tt::Tensor x = tt::randn({16}), y = tt::randn({16});
  tt::synchronize();
  tt::Tensor z;
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < n; ++i) z = x + y;
  const double taken = Since(start);
  tt::synchronize();
  return taken / n * 1e9;
}

// Microseconds, the median of n.
double OpAndRead(int n) {
  const tt::Tensor x = tt::randn({16}), y = tt::randn({16});
  std::vector<double> times;
  for (int i = 0; i < n; ++i) {
    const Clock::time_point start = Clock::now();
    (x + y).to_vector<float>();
    times.push_back(Since(start) * 1e6);
  }
  return Median(std::move(times));
}

// The same of a raw call, in a process of its own: two channels in one process share what polls, and slow each other.
int SayUnary(const std::string& address, int n) {
  const auto stub = v1::Telensor::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  std::vector<double> times;
  v1::GetStatusRequest request;
  v1::GetStatusResponse response;
  for (int i = -100; i < n; ++i) {
    grpc::ClientContext context;
    const Clock::time_point start = Clock::now();
    const grpc::Status status = stub->GetStatus(&context, request, &response);
    if (i >= 0) times.push_back(Since(start) * 1e6);
    if (!status.ok()) return 1;
  }
  const double median = Median(std::move(times));
  return write(STDOUT_FILENO, &median, sizeof(median)) == sizeof(median) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc == 3 && std::strcmp(argv[1], "--echo") == 0) return ServeEcho(argv[2]);
  if (argc == 4 && std::strcmp(argv[1], "--unary") == 0) return SayUnary(argv[2], std::atoi(argv[3]));
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 7;
  const PrivateFolder folder;
  Child echo({"--echo", folder.address()});
  echo.Hear<char>();
  Issue(4096);
  OpAndRead(200);
  std::vector<double> issue, chain, grad, longer, read, unary, ratio;
  for (int i = 0; i < rounds; ++i) {
    issue.push_back(Issue(4096));
    chain.push_back(Chain(10000, false));
    grad.push_back(Chain(10000, true));
    longer.push_back(Chain(500000, false));
    read.push_back(OpAndRead(1000));
    unary.push_back(Child({"--unary", folder.address(), "1000"}).Hear<double>());
    ratio.push_back(read.back() / unary.back());
  }
  std::printf("issue z = x + y, 4,096 in a row               %8.1f ns an op\n", Median(issue));
  std::printf("10,000 chained adds and a read                %8.2f M ops/s executed\n", Median(chain));
  std::printf("the same with requires_grad                   %8.2f M ops/s executed\n", Median(grad));
  std::printf("500,000 chained adds and a read               %8.2f M ops/s executed\n", Median(longer));
  std::printf("one op and a read of it                       %8.1f us\n", Median(read));
  std::printf("a raw gRPC unary call                         %8.1f us\n", Median(unary));
  std::printf("  ratio                                       %8.2f\n", Median(ratio));
  return 0;
} catch (const tt::Error& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
