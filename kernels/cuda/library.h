// NVIDIA's libraries, opened when an op first needs them: the plug-in itself loads where none is installed.
#pragma once

#include <atomic>
#include <mutex>

#include "kernels/cuda/device.h"

namespace telensor::cuda {

class Library {
 public:
  // `names`: what to open, the first that is found; `what`: how to call it in words. Both end with NULL or '\0'.
  constexpr Library(const char* what, const char* const* names) : what_(what), names_(names) {}

  // TT_OK once it is open. An absent library is looked for again, so that installing it is enough.
  int Open(tt_call* call);
  // NULL, with words, where the library has no such function.
  void* Find(tt_call* call, const char* function);

 private:
  const char* what_;
  const char* const* names_;
  std::mutex mutex_;
  std::atomic<void*> handle_{nullptr};
};

}  // namespace telensor::cuda
