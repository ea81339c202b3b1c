// Opens the built plug-in as the runtime does, on a machine with or without a GPU.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>

#include "kernels/plugin_abi.h"
#include "proto/core/op_schema.h"

namespace telensor {
namespace {

const tt_backend* Plugin() {
  static const tt_backend* const backend = []() -> const tt_backend* {
    void* handle = dlopen(TELENSOR_CUDA_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      ADD_FAILURE() << dlerror();
      return nullptr;
    }
    auto get = reinterpret_cast<tt_backend_get_fn>(dlsym(handle, TT_BACKEND_SYMBOL));
    return get == nullptr ? nullptr : get();
  }();
  return backend;
}

TEST(CudaPlugin, FillsTheTable) {
  const tt_backend* b = Plugin();
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->abi_version, TT_ABI_VERSION);
  EXPECT_EQ(b->size, sizeof(tt_backend));
  EXPECT_STREQ(b->name, "cuda");
  EXPECT_NE(b->version, nullptr);
  for (const bool given :
       {b->device_info != nullptr, b->memory_info != nullptr, b->memory_allocate != nullptr, b->memory_free != nullptr,
        b->host_allocate != nullptr, b->host_free != nullptr, b->stream_create != nullptr, b->stream_destroy != nullptr,
        b->stream_synchronize != nullptr, b->stream_wait_event != nullptr, b->event_create != nullptr,
        b->event_destroy != nullptr, b->event_record != nullptr, b->event_query != nullptr,
        b->event_synchronize != nullptr, b->copy_to_device != nullptr, b->copy_to_host != nullptr,
        b->copy_on_device != nullptr, b->last_error != nullptr}) {
    EXPECT_TRUE(given);
  }
}

TEST(CudaPlugin, SaysWhyThereIsNoDevice) {
  const tt_backend* b = Plugin();
  ASSERT_NE(b, nullptr);
  if (b->device_count == 0) {
    ASSERT_NE(b->no_device_reason, nullptr);
    EXPECT_GT(std::strlen(b->no_device_reason), 10u) << b->no_device_reason;
    RecordProperty("no_device_reason", b->no_device_reason);
  } else {
    EXPECT_EQ(b->no_device_reason, nullptr);
  }
}

TEST(CudaPlugin, EveryKernelIsOfARow) {
  const tt_backend* b = Plugin();
  ASSERT_NE(b, nullptr);
  std::set<std::string> kernels;
  const OpTable& table = OpTable::Get();
  for (int i = 0; i < table.size(); ++i) {
    if (table.at(static_cast<OpId>(i)).kernel != nullptr) kernels.insert(table.at(static_cast<OpId>(i)).kernel);
  }
  std::set<std::string> seen;
  ASSERT_GT(b->num_kernels, 100);
  for (int i = 0; i < b->num_kernels; ++i) {
    const tt_kernel& k = b->kernels[i];
    EXPECT_TRUE(kernels.count(k.op)) << k.op << " is no kernel of the table";
    EXPECT_TRUE(seen.insert(k.op).second) << k.op << " is there twice";
    EXPECT_NE(k.run, nullptr);
    EXPECT_NE(k.dtypes & TT_ALL_DTYPES, 0u) << k.op;
    EXPECT_EQ(k.dtypes & ~TT_ALL_DTYPES, 0u) << k.op;
  }
}

TEST(CudaPlugin, FailsWithWordsWithoutADevice) {
  const tt_backend* b = Plugin();
  ASSERT_NE(b, nullptr);
  if (b->device_count != 0) GTEST_SKIP() << "there is a device";
  void* memory = &memory;
  EXPECT_NE(b->memory_allocate(0, 16, &memory), TT_OK);
  EXPECT_EQ(memory, nullptr);
  EXPECT_GT(std::strlen(b->last_error()), 10u);
  tt_stream stream = nullptr;
  EXPECT_NE(b->stream_create(0, &stream), TT_OK);
  EXPECT_EQ(stream, nullptr);
  tt_device_info info = {};
  info.size = sizeof(info);
  EXPECT_NE(b->device_info(0, &info), TT_OK);

  // A kernel that is called all the same says so too, and does not fault.
  char error[256] = "";
  tt_call call = {};
  call.size = sizeof(call);
  call.error = error;
  call.error_size = sizeof(error);
  for (int i = 0; i < b->num_kernels; ++i) {
    error[0] = '\0';
    EXPECT_NE(b->kernels[i].run(&call), TT_OK) << b->kernels[i].op;
    EXPECT_NE(error[0], '\0') << b->kernels[i].op;
  }
}

}  // namespace
}  // namespace telensor
