// Backend: a device plug-in and its kernels, looked up by op and dtype.
//
// Made once at start, then constant: any thread may use it.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "kernels/plugin_abi.h"
#include "proto/core/op_schema.h"
#include "proto/core/status.h"

namespace telensor::rt {

class Backend {
 public:
  // Checks the ABI and binds every kernel to its row. A kernel that no row claims is an error.
  static absl::StatusOr<std::unique_ptr<Backend>> Create(const tt_backend* api);
  // Opens a plug-in by its absolute path.
  static absl::StatusOr<std::unique_ptr<Backend>> Open(const std::string& path);

  const tt_backend& api() const { return *api_; }
  tt_kernel_fn Find(OpId op, DType dtype) const { return kernels_[op][static_cast<int>(dtype)]; }
  bool HasKernel(OpId op) const;
  // The status of a plug-in call: `what` and the plug-in's own words.
  absl::Status Check(int code, const char* what) const;

 private:
  explicit Backend(const tt_backend* api) : api_(api) {}

  const tt_backend* api_;
  std::vector<std::array<tt_kernel_fn, kNumDTypes>> kernels_;
};

absl::Status StatusFromCode(int code, std::string_view message);

// The backend that is linked in.
const tt_backend* CpuBackend();

}  // namespace telensor::rt
