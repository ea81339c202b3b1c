// The client's side of a session, against a private server: what is known without asking, and what is refused here.
#include "client-cpp/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "client-cpp/telensor.h"

namespace telensor::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ClientSessionTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("TELENSORD", TELENSOR_TEST_SERVER, 1);
    unsetenv("TELENSOR_ADDR");
    const absl::StatusOr<Session*> session = Session::Default();
    ASSERT_TRUE(session.ok()) << session.status();
  }
  Session& session() { return *Session::Existing(); }
  uint64_t commands() { return session().stats().commands; }
  template <typename Call>
  std::string ErrorOf(const Call& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  // An error that comes without anything being sent.
  template <typename Call>
  std::string Refused(const Call& call) {
    const uint64_t before = commands();
    const std::string words = ErrorOf(call);
    EXPECT_FALSE(words.empty());
    EXPECT_EQ(commands(), before) << words;
    return words;
  }
};

TEST_F(ClientSessionTest, ThereIsOneForTheProcess) {
  EXPECT_EQ(*Session::Default(), Session::Existing());
  EXPECT_EQ(*Session::Open(""), Session::Existing());
  EXPECT_EQ(*Session::Open(session().address()), Session::Existing());
  const absl::Status other = Session::Open("unix:/nowhere.sock").status();
  EXPECT_EQ(other.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(other.message()), HasSubstr("this process has a session with unix:"));
}

TEST_F(ClientSessionTest, WhatIsWrongWithAnOpIsSaidHere) {
  const Tensor x = zeros({2, 3}), other = zeros({4});
  EXPECT_THAT(Refused([&] { add(x, other); }), HasSubstr("must match"));
  EXPECT_THAT(Refused([&] { view(x, {5}); }), HasSubstr("invalid for input of size 6"));
  EXPECT_THAT(Refused([&] { zeros({-1}); }), HasSubstr("negative dimension"));
  EXPECT_THAT(Refused([&] { zeros({int64_t{1} << 62, 8}); }), HasSubstr("too large"));
}

TEST_F(ClientSessionTest, LeafRulesAreAppliedHere) {
  const Tensor w = zeros({3}).requires_grad_();
  EXPECT_THAT(Refused([&] { add_(w, 1); }), HasSubstr("a leaf Variable that requires grad"));
  const Tensor part = view(w, {3, 1});
  EXPECT_THAT(Refused([&] { add_(part, 1); }), HasSubstr("a view of a leaf Variable"));
  const Tensor y = w * 2;
  EXPECT_THAT(Refused([&] { y.requires_grad_(false); }), HasSubstr("leaf variables"));
  EXPECT_THAT(Refused([&] { y.backward(); }), HasSubstr("implicitly created only for scalar outputs"));
  const Tensor plain = zeros({1});
  EXPECT_THAT(Refused([&] { plain.backward(); }), HasSubstr("does not require grad"));
  const Tensor total = sum(y);
  EXPECT_THAT(Refused([&] { grad({total}, {plain}); }), HasSubstr("does not require grad"));
  NoGradGuard off;
  add_(w, 1);
  EXPECT_THAT(w.to_vector<float>(), ElementsAre(1, 1, 1));
}

TEST_F(ClientSessionTest, AFreedGraphIsKnownHere) {
  const Tensor w = ones({3}).requires_grad_();
  const Tensor loss = sum(w * w);
  loss.backward();
  EXPECT_THAT(Refused([&] { loss.backward(); }), HasSubstr("a second time"));
  const Tensor other = ones({1}).requires_grad_();
  const Tensor again = sum(w * w);
  EXPECT_THAT(ErrorOf([&] { grad({again}, {other}); }), HasSubstr("appears to not have been used in the graph"));
  EXPECT_FALSE(grad({again}, {other}, {}, true, false, true)[0].defined());
  EXPECT_THAT(grad({again}, {w})[0].to_vector<float>(), ElementsAre(2, 2, 2));
}

TEST_F(ClientSessionTest, GradModeBelongsToTheThread) {
  NoGradGuard off;
  EXPECT_FALSE(GradEnabled());
  std::thread([] { EXPECT_TRUE(GradEnabled()); }).join();
  const Tensor w = ones({1}).requires_grad_();
  EXPECT_FALSE((w * 2).requires_grad());
}

TEST_F(ClientSessionTest, WhatChangesNothingSendsNothing) {
  const Tensor w = ones({1}).requires_grad_();
  const uint64_t before = commands();
  w.requires_grad_();
  w.set_grad(Tensor());
  EXPECT_EQ(commands(), before);
}

TEST_F(ClientSessionTest, AFailedPassLeavesGradientsAsTheyWere) {
  const Tensor w = ones({2}).requires_grad_();
  sum(w * 3).backward();
  const Tensor y = w * 2;
  const Tensor loss = sum(y * y);
  add_(y, 1);
  loss.backward();
  EXPECT_THAT(ErrorOf([] { synchronize(); }), HasSubstr("modified by an inplace operation"));
  EXPECT_THAT(w.grad().to_vector<float>(), ElementsAre(3, 3));
}

TEST_F(ClientSessionTest, AfterAnErrorTheSessionGoesOn) {
  const Tensor x = ones({2});
  const int64_t wrong[] = {9};
  const Tensor bad = index_select(x, 0, Tensor::FromData(wrong, {1}, DType::kInt64));
  EXPECT_THAT(ErrorOf([&] { bad.item(); }), HasSubstr("index 9 is out of bounds"));
  const std::vector<float> data(100000, 1.5f);
  EXPECT_EQ(Tensor::FromData(data.data(), {100000}, DType::kFloat32).to_vector<float>(), data);
  EXPECT_THAT((x + 1).to_vector<float>(), ElementsAre(2, 2));
}

TEST_F(ClientSessionTest, ManyThreadsShareIt) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      Tensor x = zeros({4});
      for (int i = 0; i < 200; ++i) {
        x = x + t;
        if (i % 50 == 49) {
          EXPECT_EQ(x.to_vector<float>()[0], static_cast<float>(t * (i + 1)));
        }
      }
    });
  }
  for (std::thread& t : threads) t.join();
}

TEST_F(ClientSessionTest, AForkedChildIsToldSo) {
  const Tensor x = ones({1});
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    std::string words;
    try {
      x + 1;
    } catch (const Error& error) {
      words = error.what();
    }
    _exit(write(ends[1], words.data(), words.size()) < 0);
  }
  close(ends[1]);
  std::string words;
  char buffer[256];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof(buffer))) > 0;) words.append(buffer, static_cast<size_t>(n));
  close(ends[0]);
  waitpid(child, nullptr, 0);
  EXPECT_THAT(words, HasSubstr("this process was forked from one with a telensor session"));
  EXPECT_EQ((x + 1).item(), 2) << "the parent goes on";
}

}  // namespace
}  // namespace telensor::client
