// Runs kernels of a backend on tensors that live in host memory: copies in, calls, synchronises, copies out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/plugin_abi.h"
#include "proto/core/tensor_meta.h"

namespace telensor::conformance {

// A tensor with its storage. `meta.offset` counts elements from the storage's start.
struct HostTensor {
  TensorMeta meta;
  std::vector<char> bytes;
};

double LoadElement(DType dtype, const char* at);
void StoreElement(DType dtype, double value, char* at);
// The elements in row-major order.
std::vector<double> Elements(const HostTensor& t);

// An operand as the kernel gets it: a tensor, a number of one element (`scalar`), or nothing.
struct CallInput {
  HostTensor* tensor = nullptr;
  std::vector<char> scalar;
  DType scalar_dtype = DType::kNone;
};

struct KernelCall {
  bool elementwise = false;
  bool in_place = false;  // the first output is the first input's memory
  std::vector<CallInput> inputs;
  std::vector<HostTensor*> outputs;
  std::vector<tt_value> attrs;
  uint64_t seed = 42, offset = 7;
};

struct Outcome {
  int code = TT_OK;
  std::string error;
};

class Runner {
 public:
  // NULL and words on stderr where the backend has no device.
  static Runner* Open(const tt_backend* api);
  ~Runner();

  const tt_backend& api() const { return *api_; }
  tt_stream stream() const { return stream_; }
  const tt_kernel* Find(const std::string& op) const;
  // Runs the kernel; tensors' bytes are replaced by what the device has afterwards.
  Outcome Run(const tt_kernel& kernel, KernelCall* call);

  // For timing: device memory that lives until Free.
  void* Allocate(size_t bytes);
  void Free();
  bool Synchronize();
  // A call that runs on this backend, with its workspace.
  void Prepare(tt_call* call);
  // Lets the workspaces of earlier calls be used again.
  void ReuseWorkspaces() { used_ = 0; }

 private:
  explicit Runner(const tt_backend* api) : api_(api) {}
  static void* Workspace(tt_call* call, size_t bytes);

  const tt_backend* api_;
  tt_stream stream_ = nullptr;
  struct Block {
    void* data;
    size_t bytes;
  };
  std::vector<Block> blocks_, workspaces_;
  size_t used_ = 0;
  char error_[512] = "";
};

// The backend of "cpu" or of a plug-in's path; NULL and words on stderr.
const tt_backend* OpenBackend(const std::string& name);

}  // namespace telensor::conformance
