// What the server makes of plug-ins, by one that looks as it is told to.
#include "server/device_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

namespace telensor::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class DeviceSetTest : public ::testing::Test {
 protected:
  void SetUp() override {
    unsetenv("TELENSOR_FAULT");
    config_.cuda_plugin = TELENSOR_TEST_PLUGIN;
  }
  void TearDown() override { unsetenv("TELENSOR_FAULT"); }
  std::unique_ptr<DeviceSet> Create() {
    absl::StatusOr<std::unique_ptr<DeviceSet>> set = DeviceSet::Create(config_);
    EXPECT_TRUE(set.ok()) << set.status();
    return set.ok() ? *std::move(set) : nullptr;
  }
  // Not required, the rest works and the report says why; required, it is the error.
  void ExpectAbsent(const std::string& why) {
    const auto set = Create();
    ASSERT_EQ(set->devices().size(), 1u);
    EXPECT_EQ(set->devices()[0]->name(), "cpu");
    EXPECT_THAT(set->reports(), ElementsAre(StartsWith("cpu: "), HasSubstr(why)));
    EXPECT_THAT(set->reports()[1], StartsWith("cuda: no device: "));
    config_.cuda_required = true;
    EXPECT_THAT(std::string(DeviceSet::Create(config_).status().message()), HasSubstr(why));
    config_.cuda_required = false;
  }

  Config config_;
};

TEST_F(DeviceSetTest, CpuFirstThenEachDeviceOfThePlugin) {
  setenv("TELENSOR_FAULT", "devices=2", 1);
  const auto set = Create();
  ASSERT_EQ(set->devices().size(), 3u);
  EXPECT_EQ(set->devices()[0]->name(), "cpu");
  EXPECT_EQ(set->devices()[1]->name(), "cuda:0");
  EXPECT_EQ(set->devices()[2]->name(), "cuda:1");
  EXPECT_EQ(set->devices()[2]->index(), 2);
  EXPECT_EQ(set->devices()[2]->backend_device(), 1);
  EXPECT_EQ(set->reports().size(), 3u);
}

TEST_F(DeviceSetTest, SaysWhyThereIsNone) {
  setenv("TELENSOR_FAULT", "devices=0", 1);
  ExpectAbsent("told to have none");
}

TEST_F(DeviceSetTest, APluginMustBeThere) {
  config_.cuda_plugin = "/nowhere/libtelensor_cuda.so";
  ExpectAbsent("cannot open the plug-in");
  config_.cuda_plugin = "libtelensor_cuda.so";
  ExpectAbsent("is not absolute");
  config_.cuda_plugin = "/proc/self/exe";
  ExpectAbsent("");
}

TEST_F(DeviceSetTest, APluginMustBeWhole) {
  std::ifstream file(TELENSOR_TEST_PLUGIN, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  ASSERT_GT(whole.size(), 10000u);
  // A file of its own for each: the loader keeps what it has opened.
  const auto write = [&](const std::string& bytes) {
    static int number = 0;
    config_.cuda_plugin = ::testing::TempDir() + "cut_" + std::to_string(getpid()) + "_" + std::to_string(number++) + ".so";
    std::ofstream(config_.cuda_plugin, std::ios::binary) << bytes;
  };
  for (const size_t size : {size_t{0}, size_t{10}, size_t{64}, size_t{200}, size_t{4096}, whole.size() / 4,
                            whole.size() / 2, whole.size() - 1}) {
    write(whole.substr(0, size));
    ExpectAbsent("cannot open the plug-in");
    std::remove(config_.cuda_plugin.c_str());
  }
  write(std::string(whole.size(), 'x'));
  ExpectAbsent("cannot open the plug-in");
  std::remove(config_.cuda_plugin.c_str());
  setenv("TELENSOR_FAULT", "devices=1", 1);
  write(whole);
  EXPECT_EQ(Create()->devices().size(), 2u);
  std::remove(config_.cuda_plugin.c_str());
}

TEST_F(DeviceSetTest, APluginMustFit) {
  setenv("TELENSOR_FAULT", "abi=9", 1);
  ExpectAbsent("speaks ABI 9");
  setenv("TELENSOR_FAULT", "unknown_kernel", 1);
  ExpectAbsent("no row of the op table claims kernel 'no_such_row'");
}

TEST_F(DeviceSetTest, ADeviceThatDoesNotAnswerTakesItsBackendAlong) {
  setenv("TELENSOR_FAULT", "devices=2,broken=1", 1);
  // The first device is good, and must not stay behind when its backend goes.
  ExpectAbsent("device query failed: the device does not answer");
}

TEST_F(DeviceSetTest, TheCpusMemoryHasALimit) {
  config_.cpu_memory_limit = 4 << 20;
  const auto set = Create();
  CachingAllocator& allocator = set->devices()[0]->allocator();
  EXPECT_TRUE(allocator.Allocate(1 << 20, nullptr).ok());
  EXPECT_EQ(allocator.Allocate(64 << 20, nullptr).status().code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace telensor::server
