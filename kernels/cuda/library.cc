#include "kernels/cuda/library.h"

#include <dlfcn.h>

#include <cstdio>

namespace telensor::cuda {

int Library::Open(tt_call* call) {
  if (handle_.load(std::memory_order_acquire) != nullptr) return TT_OK;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (handle_.load(std::memory_order_relaxed) != nullptr) return TT_OK;
  char why[256] = "";
  for (const char* const* name = names_; *name != nullptr; ++name) {
    // By name alone: the loader searches the plug-in's run path and the system's folders, never the working directory.
    void* handle = dlopen(*name, RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) {
      handle_.store(handle, std::memory_order_release);
      return TT_OK;
    }
    // The first name's error: it is the one to install.
    const char* error = dlerror();
    if (why[0] == '\0') std::snprintf(why, sizeof(why), "%s", error != nullptr ? error : *name);
  }
  return Fail(call, TT_UNIMPLEMENTED, "this op needs %s, which could not be opened: %s", what_, why);
}

void* Library::Find(tt_call* call, const char* function) {
  void* address = dlsym(handle_.load(std::memory_order_acquire), function);
  if (address == nullptr) Fail(call, TT_UNIMPLEMENTED, "%s has no function %s", what_, function);
  return address;
}

}  // namespace telensor::cuda
