#include "kernels/fault/fault_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "kernels/backend.h"

namespace telensor::fault {
namespace {

using ::testing::HasSubstr;

class FaultBackendTest : public ::testing::Test {
 protected:
  FaultBackend backend_{rt::CpuBackend()};
  const tt_backend& api_ = *backend_.api();
};

TEST_F(FaultBackendTest, PassesOnAndCounts) {
  void* data = nullptr;
  ASSERT_EQ(api_.memory_allocate(0, 100, &data), TT_OK);
  EXPECT_EQ(backend_.live_allocations(), 1);
  EXPECT_EQ(backend_.live_bytes(), 100);
  char out[4] = {};
  ASSERT_EQ(api_.copy_to_device(0, data, "abc", 4, nullptr), TT_OK);
  ASSERT_EQ(api_.copy_to_host(0, out, data, 4, nullptr), TT_OK);
  EXPECT_STREQ(out, "abc");
  EXPECT_EQ(backend_.calls(Point::kCopy), 2);
  ASSERT_EQ(api_.memory_free(0, data, 100), TT_OK);
  EXPECT_EQ(backend_.live_allocations(), 0);
  EXPECT_EQ(backend_.live_bytes(), 0);
}

TEST_F(FaultBackendTest, FailsTheNthCallOnceWithCodeAndWords) {
  backend_.Fail(Point::kAllocate, 2, TT_OUT_OF_MEMORY, "told to");
  void *first = nullptr, *second = nullptr;
  ASSERT_EQ(api_.memory_allocate(0, 64, &first), TT_OK);
  EXPECT_EQ(api_.memory_allocate(0, 64, &second), TT_OUT_OF_MEMORY);
  EXPECT_STREQ(api_.last_error(), "told to");
  EXPECT_EQ(second, nullptr);
  ASSERT_EQ(api_.memory_allocate(0, 64, &second), TT_OK);
  EXPECT_EQ(backend_.failures(Point::kAllocate), 1);
  EXPECT_EQ(backend_.live_allocations(), 2);
  api_.memory_free(0, first, 64);
  api_.memory_free(0, second, 64);
}

TEST_F(FaultBackendTest, FailsForGoodUntilHealed) {
  backend_.Fail(Point::kSynchronize, 1, TT_INTERNAL, "lost", INT64_MAX);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(api_.stream_synchronize(0, nullptr), TT_INTERNAL);
  backend_.Heal();
  EXPECT_EQ(api_.stream_synchronize(0, nullptr), TT_OK);
}

TEST_F(FaultBackendTest, AFailedLaunchRunsNothing) {
  const OpSchema* add = OpTable::Get().Find("neg");
  auto bound = rt::Backend::Create(&api_);
  ASSERT_TRUE(bound.ok()) << bound.status();
  const tt_kernel_fn run = (*bound)->Find(add->id, DType::kFloat32);
  ASSERT_NE(run, nullptr);
  float in = 3, out = 7;
  const int64_t one = 1;
  tt_tensor x = {&in, &one, &one, 1, 1, TT_FLOAT32, 0, 1}, y = {&out, &one, &one, 1, 1, TT_FLOAT32, 0, 1};
  char error[64] = "";
  tt_call call = {};
  call.size = sizeof(call);
  call.num_inputs = call.num_outputs = 1;
  call.inputs = &x;
  call.outputs = &y;
  call.error = error;
  call.error_size = sizeof(error);
  backend_.Fail(Point::kLaunch, 1, TT_INTERNAL, "no launch");
  EXPECT_EQ(run(&call), TT_INTERNAL);
  EXPECT_STREQ(error, "no launch");
  EXPECT_EQ(out, 7);
  EXPECT_EQ(run(&call), TT_OK);
  EXPECT_EQ(out, -3);
  EXPECT_EQ(backend_.calls(Point::kLaunch), 2);
}

TEST_F(FaultBackendTest, HasEveryKernelOfTheInnerBackend) {
  ASSERT_EQ(api_.num_kernels, rt::CpuBackend()->num_kernels);
  for (int i = 0; i < api_.num_kernels; ++i) {
    EXPECT_STREQ(api_.kernels[i].op, rt::CpuBackend()->kernels[i].op);
    EXPECT_NE(api_.kernels[i].run, rt::CpuBackend()->kernels[i].run);
  }
}

TEST_F(FaultBackendTest, NoticesWrongFrees) {
  void* data = nullptr;
  ASSERT_EQ(api_.memory_allocate(0, 64, &data), TT_OK);
  EXPECT_NE(api_.memory_free(0, data, 65), TT_OK);
  EXPECT_EQ(backend_.wrong_frees(), 1);
  EXPECT_EQ(api_.memory_free(0, data, 64), TT_OK);
  EXPECT_NE(api_.memory_free(0, data, 64), TT_OK);
  EXPECT_EQ(backend_.wrong_frees(), 2);
}

TEST_F(FaultBackendTest, WordsBelongToTheThreadThatFailed) {
  backend_.Fail(Point::kCopy, 1, TT_INTERNAL, "here");
  std::thread([&] { EXPECT_EQ(api_.copy_on_device(0, nullptr, nullptr, 0, nullptr), TT_INTERNAL); }).join();
  EXPECT_STRNE(api_.last_error(), "here");
}

TEST(FaultBackendAppearanceTest, IsWhatItIsToldToBe) {
  Appearance look;
  look.name = "other";
  look.device_count = 2;
  look.broken_device = 1;
  look.host_accessible = false;
  look.unknown_kernel = true;
  FaultBackend backend(rt::CpuBackend(), look);
  const tt_backend& api = *backend.api();
  EXPECT_STREQ(api.name, "other");
  EXPECT_EQ(api.device_count, 2);
  tt_device_info info = {};
  ASSERT_EQ(api.device_info(0, &info), TT_OK);
  EXPECT_EQ(info.host_accessible, 0);
  EXPECT_EQ(api.device_info(1, &info), TT_INTERNAL);
  EXPECT_STREQ(api.last_error(), "the device does not answer");
  const auto bound = rt::Backend::Create(&api);
  EXPECT_THAT(std::string(bound.status().message()), HasSubstr("no row of the op table claims kernel 'no_such_row'"));
}

TEST(FaultBackendAppearanceTest, AnotherAbiIsRefused) {
  Appearance look;
  look.abi_version = 7;
  FaultBackend backend(rt::CpuBackend(), look);
  const auto bound = rt::Backend::Create(backend.api());
  EXPECT_EQ(bound.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(bound.status().message()), HasSubstr("ABI 7"));
}

}  // namespace
}  // namespace telensor::fault
