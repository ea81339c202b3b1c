// The C++ client against a server of this process, over a Unix socket: results, errors, and what a client leaves.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <thread>

#include "client-cpp/optim.h"
#include "client-cpp/session.h"
#include "client-cpp/telensor.h"
#include "server/server.h"

namespace telensor {
namespace {

server::Server* g_server = nullptr;

class ServerEnvironment : public ::testing::Environment {
 public:
  void SetUp() override {
    char folder[] = "/tmp/telensor-test-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    server::Config config;
    config.socket = std::string(folder) + "/telensord.sock";
    config.log_level = "off";
    absl::StatusOr<std::unique_ptr<server::Server>> started = server::Server::Start(config);
    ASSERT_TRUE(started.ok()) << started.status();
    g_server = started->release();  // until the process ends, as the session is
    connect(g_server->address());
  }
};
const auto* const g_environment = ::testing::AddGlobalTestEnvironment(new ServerEnvironment);

TEST(ClientServerTest, AddsAndReads) {
  const float data[] = {1, 2, 3, 4};
  const Tensor x = Tensor::FromData(data, {2, 2}, DType::kFloat32);
  EXPECT_EQ((x + x * 2).to_vector<float>(), (std::vector<float>{3, 6, 9, 12}));
  EXPECT_EQ(sum(x).item(), 10);
}

TEST(ClientServerTest, KnowsShapesWithoutAsking) {
  const uint64_t before = session_stats().blocked_round_trips;
  const Tensor x = zeros({3, 4, 5});
  EXPECT_EQ(matmul(x, zeros({5, 2})).sizes(), (std::vector<int64_t>{3, 4, 2}));
  EXPECT_EQ(session_stats().blocked_round_trips, before);
}

TEST(ClientServerTest, ShapeErrorsAreRaisedAtOnce) {
  const Tensor x = zeros({3});
  EXPECT_THROW(x + zeros({4}), Error);
  EXPECT_EQ(sum(x).item(), 0);  // and nothing else happened
}

TEST(ClientServerTest, AFailedOpPoisonsItsResultAlone) {
  const int64_t wrong[] = {7};
  const Tensor x = ones({3});
  const Tensor bad = index_select(x, 0, Tensor::FromData(wrong, {1}, DType::kInt64));
  const Tensor worse = bad + 1;
  try {
    worse.to_vector<float>();
    FAIL() << "an index out of range was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIndex);
    EXPECT_NE(std::string(error.what()).find("out of"), std::string::npos) << error.what();
  }
  EXPECT_EQ(sum(x).item(), 3);
}

TEST(ClientServerTest, ANumberIsADimensionAndABoolIsAFlag) {
  const float data[] = {1, 2, 3, 5};
  const Tensor x = Tensor::FromData(data, {2, 2}, DType::kFloat32);
  EXPECT_EQ(var(x, 1).to_vector<float>(), (std::vector<float>{0.5, 2}));
  EXPECT_EQ(var(x, 0, false).to_vector<float>(), (std::vector<float>{1, 2.25}));
  EXPECT_EQ(var(x, int64_t{1}, true, true).sizes(), (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(var(x, {0, 1}).dim(), 0);
  EXPECT_FLOAT_EQ(var(x, true).item(), 8.75 / 3);
  EXPECT_FLOAT_EQ(var(x, false).item(), 8.75 / 4);
  EXPECT_EQ(std::get<0>(max(x, 1)).sizes(), (std::vector<int64_t>{2}));
  EXPECT_EQ(telensor::std(x, 0, false).to_vector<float>(), (std::vector<float>{1, 1.5}));
  EXPECT_FLOAT_EQ(telensor::std(x, false).item(), std::sqrt(8.75F / 4));
  // One number is a size of every part; a list has each part's.
  const Tensor y = zeros({6});
  EXPECT_EQ(split(y, 2).size(), 3U);
  EXPECT_EQ(split(y, {6}).size(), 1U);
  EXPECT_EQ(split(y, {1, 5})[1].size(0), 5);
  EXPECT_THROW(split(y, {2}), Error);
  EXPECT_EQ(sum(x, {}).dim(), 0);
  EXPECT_EQ(sum(x, {1}).to_vector<float>(), (std::vector<float>{3, 8}));
  EXPECT_EQ(prod(x, DType::kFloat64).dtype(), DType::kFloat64);
  EXPECT_EQ(randint(3, {4, 5}).dim(), 2);
  EXPECT_EQ(randint(0, 3, {4, 5}).dim(), 2);
}

template <typename T, typename = void>
struct MaxTakes : std::false_type {};
template <typename T>
struct MaxTakes<T, std::void_t<decltype(max(std::declval<Tensor>(), std::declval<T>()))>> : std::true_type {};
template <typename T, typename = void>
struct SumTakes : std::false_type {};
template <typename T>
struct SumTakes<T, std::void_t<decltype(sum(std::declval<Tensor>(), std::declval<T>()))>> : std::true_type {};
static_assert(MaxTakes<int>::value && MaxTakes<size_t>::value && MaxTakes<Tensor>::value);
static_assert(!MaxTakes<double>::value, "a number is no dimension");
static_assert(SumTakes<int>::value && SumTakes<std::vector<int64_t>>::value && SumTakes<std::nullopt_t>::value);
static_assert(!SumTakes<bool>::value && !SumTakes<double>::value, "neither names a dimension");
static_assert(!std::is_constructible_v<Operand, const char*> && !std::is_constructible_v<Scalar, const Tensor*>,
              "a pointer is no bool");

TEST(ClientServerTest, LargeTensorsTravelBothWays) {
  std::vector<float> data(3 << 20);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i % 1000);
  const Tensor x = Tensor::FromData(data.data(), {static_cast<int64_t>(data.size())}, DType::kFloat32);
  EXPECT_EQ((x + 0).to_vector<float>(), data);
}

TEST(ClientServerTest, BackwardAccumulates) {
  const float data[] = {1, 2, 3};
  const Tensor x = Tensor::FromData(data, {3}, DType::kFloat32).requires_grad_();
  sum(x * x).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{2, 4, 6}));
  sum(x * x).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{4, 8, 12}));
}

TEST(ClientServerTest, AResultKeepsItsGradientWhereAsked) {
  const Tensor x = ones({2}).requires_grad_();
  const Tensor y = x * 3, other = x * 5;
  y.retain_grad();
  EXPECT_TRUE(y.retains_grad());
  EXPECT_FALSE(other.retains_grad());
  sum(y * y + other).backward();
  EXPECT_EQ(y.grad().to_vector<float>(), (std::vector<float>{6, 6}));
  EXPECT_FALSE(other.grad().defined());
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{23, 23}));
  EXPECT_THROW(ones({2}).retain_grad(), Error);
  x.retain_grad();  // a leaf has one anyway
  EXPECT_FALSE(x.retains_grad());
}

TEST(ClientServerTest, RandintLikeChecksItsBoundsAtOnce) {
  const Tensor x = zeros({3}, DType::kUInt8);
  EXPECT_THROW(randint_like(x, 0, 257), Error);
  EXPECT_THROW(randint_like(x, -1, 3), Error);
  EXPECT_THROW(randint_like(x, 4, 4), Error);
  EXPECT_THROW(randint_like(x, 0), Error);
  EXPECT_EQ(randint_like(x, 255, 256).to_vector<uint8_t>(), (std::vector<uint8_t>{255, 255, 255}));
  EXPECT_EQ(randint_like(x, 1).to_vector<uint8_t>(), (std::vector<uint8_t>{0, 0, 0}));
  EXPECT_EQ(randint_like(x, 1000, 1001, DType::kInt64).to_vector<int64_t>(), (std::vector<int64_t>{1000, 1000, 1000}));
}

TEST(ClientServerTest, SecondBackwardNeedsTheGraph) {
  const Tensor x = ones({2}).requires_grad_();
  const Tensor y = sum(x * x);
  y.backward();
  EXPECT_THROW(y.backward(), Error);
}

TEST(ClientServerTest, ChangedSavedTensorIsAnError) {
  const Tensor x = ones({2}).requires_grad_();
  const Tensor y = exp(x);
  const Tensor z = sum(y);
  mul_(y, 2);
  z.backward();
  try {
    x.grad().to_vector<float>();
    FAIL() << "the gradient of an overwritten result was given";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("modified by an inplace operation"), std::string::npos) << error.what();
  }
  try {
    synchronize();  // the failed backward itself
  } catch (const Error&) {
  }
}

TEST(ClientServerTest, DoubleBackward) {
  const double data[] = {2.0};
  const Tensor x = Tensor::FromData(data, {1}, DType::kFloat64).requires_grad_();
  const Tensor first = grad({sum(x * x * x)}, {x}, {}, true, true)[0];
  const Tensor second = grad({sum(first)}, {x})[0];
  EXPECT_NEAR(second.item(), 12.0, 1e-12);
}

TEST(ClientServerTest, AChainOfManyOpsWalksAndFrees) {
  const Tensor x = ones({1}).requires_grad_();
  Tensor y = x;
  for (int i = 0; i < 100000; ++i) y = y + 0;
  sum(y).backward();
  y = Tensor();
  EXPECT_EQ(x.grad().item(), 1);
}

TEST(ClientServerTest, AnotherClientsMemoryComesBack) {
  absl::StatusOr<std::unique_ptr<client::Connection>> other = client::Connection::Open(g_server->address(), "test");
  ASSERT_TRUE(other.ok()) << other.status();
  const auto allocated = [&] {
    int64_t bytes = 0;
    const absl::StatusOr<v1::GetStatusResponse> status = client::Session::Existing()->GetStatus();
    if (!status.ok()) return int64_t{-1};
    for (const v1::Stat& stat : status->memory()) {
      if (stat.name() == "allocated_bytes.all.current") bytes = stat.value();
    }
    return bytes;
  };
  synchronize();
  const int64_t before = allocated();
  {
    client::OpBatcher batcher((*other)->OpenStream());
    uint64_t seq;
    {
      client::OpBatcher::Appender append(&batcher);
      seq = append.seq();
      append.command()->set_kind(v1::Command::KIND_OP);
      append.command()->set_op(OpTable::Get().Find("full")->id);
      append.command()->add_outputs(append.NewHandle());
      v1::Attribute* size = append.command()->add_attributes();
      size->set_kind(static_cast<uint32_t>(Value::Kind::kInts));
      size->add_ints(1 << 20);
      v1::Attribute* value = append.command()->add_attributes();
      value->set_kind(static_cast<uint32_t>(Value::Kind::kFloat));
    }
    ASSERT_TRUE(batcher.WaitExecuted(seq).ok());
    EXPECT_GE(allocated(), before + (4 << 20));
  }
  for (int i = 0; i < 200 && allocated() > before; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_LE(allocated(), before);
}

TEST(ClientServerTest, MalformedCommandsFailAlone) {
  absl::StatusOr<std::unique_ptr<client::Connection>> other = client::Connection::Open(g_server->address(), "test");
  ASSERT_TRUE(other.ok()) << other.status();
  client::OpBatcher batcher((*other)->OpenStream());
  uint64_t seq = 0;
  uint32_t random = 1;
  const auto next = [&random] { return random = random * 1664525u + 1013904223u, random >> 8; };
  // Every op with operands that are absent, unknown, or of every wrong count and kind.
  for (int i = 0; i < 20000; ++i) {
    client::OpBatcher::Appender append(&batcher);
    seq = append.seq();
    v1::Command* command = append.command();
    command->set_kind(static_cast<v1::Command::Kind>(next() % 14));
    command->set_op(next() % (OpTable::Get().size() + 3));
    command->set_flags(next() % 128);
    for (uint32_t k = next() % 4; k > 0; --k) command->add_inputs(next() % 40);
    for (uint32_t k = next() % 3; k > 0; --k) command->add_outputs(next() % 3 == 0 ? uint64_t{next()} << 20 : append.NewHandle());
    for (uint32_t k = next() % 5; k > 0; --k) {
      v1::Attribute* a = next() % 2 ? command->add_attributes() : command->add_scalars();
      a->set_kind(next() % 10);
      a->set_i(static_cast<int64_t>(next() % 7) - 3);
      a->set_f(static_cast<double>(next() % 5) - 2);
      for (uint32_t n = next() % 4; n > 0; --n) a->add_ints(static_cast<int64_t>(next() % 6) - 1);
    }
    for (uint32_t k = next() % 3; k > 0; --k) command->add_sizes(static_cast<int64_t>(next() % 5) - 1);
    command->set_dtype(static_cast<v1::DType>(next() % 13));
    if (next() % 2) command->set_data("0123456789abcdef");
  }
  ASSERT_TRUE(batcher.WaitExecuted(seq - 1).ok() || !batcher.connection_status().ok());
  EXPECT_EQ(sum(ones({5})).item(), 5);  // the neighbour goes on
}

TEST(ClientServerTest, AdamLowersALoss) {
  manual_seed(1);
  const Tensor w = randn({4, 1}).requires_grad_();
  const Tensor x = randn({64, 4});
  const Tensor y = matmul(x, ones({4, 1}));
  Adam adam({w}, 0.1);
  double first = 0, last = 0;
  for (int i = 0; i < 50; ++i) {
    const Tensor loss = mse_loss(matmul(x, w), y);
    adam.zero_grad();
    loss.backward();
    adam.step();
    last = loss.item();
    if (i == 0) first = last;
  }
  EXPECT_LT(last, first * 0.1);
}

}  // namespace
}  // namespace telensor
