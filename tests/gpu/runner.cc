#include "tests/gpu/runner.h"

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "proto/core/half.h"

namespace telensor::rt {
const tt_backend* CpuBackend();
}

namespace telensor::conformance {
namespace {

constexpr size_t kGuard = 64;  // bytes behind every allocation that no kernel may touch
constexpr unsigned char kGuardByte = 0xa5;

template <typename T>
T Get(const char* at) {
  T v;
  std::memcpy(&v, at, sizeof(v));
  return v;
}
template <typename T>
void Put(char* at, T v) {
  std::memcpy(at, &v, sizeof(v));
}

}  // namespace

double LoadElement(DType dtype, const char* at) {
  switch (dtype) {
    case DType::kBool:
    case DType::kUInt8: return Get<uint8_t>(at);
    case DType::kInt8: return Get<int8_t>(at);
    case DType::kInt16: return Get<int16_t>(at);
    case DType::kInt32: return Get<int32_t>(at);
    case DType::kInt64: return static_cast<double>(Get<int64_t>(at));
    case DType::kFloat16: return HalfBitsToFloat(Get<uint16_t>(at));
    case DType::kBFloat16: return BFloat16BitsToFloat(Get<uint16_t>(at));
    case DType::kFloat32: return Get<float>(at);
    default: return Get<double>(at);
  }
}

void StoreElement(DType dtype, double v, char* at) {
  switch (dtype) {
    case DType::kBool: return Put<uint8_t>(at, v != 0);
    case DType::kUInt8: return Put(at, static_cast<uint8_t>(static_cast<int64_t>(v)));
    case DType::kInt8: return Put(at, static_cast<int8_t>(static_cast<int64_t>(v)));
    case DType::kInt16: return Put(at, static_cast<int16_t>(static_cast<int64_t>(v)));
    case DType::kInt32: return Put(at, static_cast<int32_t>(static_cast<int64_t>(v)));
    case DType::kInt64: return Put(at, static_cast<int64_t>(v));
    case DType::kFloat16: return Put(at, FloatToHalfBits(static_cast<float>(v)));
    case DType::kBFloat16: return Put(at, FloatToBFloat16Bits(static_cast<float>(v)));
    case DType::kFloat32: return Put(at, static_cast<float>(v));
    default: return Put(at, v);
  }
}

std::vector<double> Elements(const HostTensor& t) {
  const TensorMeta& m = t.meta;
  std::vector<double> out(static_cast<size_t>(m.numel()));
  const int64_t size = static_cast<int64_t>(ItemSize(m.dtype));
  for (size_t i = 0; i < out.size(); ++i) {
    int64_t rest = static_cast<int64_t>(i), at = m.offset;
    for (int d = m.rank() - 1; d >= 0; --d) {
      at += rest % m.sizes[d] * m.strides[d];
      rest /= m.sizes[d];
    }
    out[i] = LoadElement(m.dtype, t.bytes.data() + at * size);
  }
  return out;
}

Runner* Runner::Open(const tt_backend* api) {
  if (api->device_count == 0) {
    std::fprintf(stderr, "%s: no device: %s\n", api->name,
                 api->no_device_reason != nullptr ? api->no_device_reason : "");
    return nullptr;
  }
  auto* runner = new Runner(api);
  if (api->stream_create(0, &runner->stream_) != TT_OK) {
    std::fprintf(stderr, "%s: %s\n", api->name, api->last_error());
    delete runner;
    return nullptr;
  }
  return runner;
}

Runner::~Runner() {
  Free();
  for (const Block& b : workspaces_) api_->memory_free(0, b.data, b.bytes);
  api_->stream_destroy(0, stream_);
}

const tt_kernel* Runner::Find(const std::string& op) const {
  for (int i = 0; i < api_->num_kernels; ++i) {
    if (op == api_->kernels[i].op) return &api_->kernels[i];
  }
  return nullptr;
}

void* Runner::Allocate(size_t bytes) {
  void* data = nullptr;
  if (api_->memory_allocate(0, bytes, &data) != TT_OK) return nullptr;
  blocks_.push_back({data, bytes});
  return data;
}
void Runner::Free() {
  for (const Block& b : blocks_) api_->memory_free(0, b.data, b.bytes);
  blocks_.clear();
}
bool Runner::Synchronize() { return api_->stream_synchronize(0, stream_) == TT_OK; }

void* Runner::Workspace(tt_call* call, size_t bytes) {
  auto* self = static_cast<Runner*>(call->host);
  // Each workspace of a call is its own block; blocks are kept, so that timing sees no allocation.
  for (size_t i = self->used_; i < self->workspaces_.size(); ++i) {
    if (self->workspaces_[i].bytes >= bytes) {
      std::swap(self->workspaces_[i], self->workspaces_[self->used_]);
      return self->workspaces_[self->used_++].data;
    }
  }
  void* data = nullptr;
  if (self->api_->memory_allocate(0, bytes, &data) != TT_OK) return nullptr;
  self->workspaces_.push_back({data, bytes});
  std::swap(self->workspaces_.back(), self->workspaces_[self->used_]);
  return self->workspaces_[self->used_++].data;
}

void Runner::Prepare(tt_call* call) {
  *call = {};
  call->size = sizeof(tt_call);
  call->stream = stream_;
  call->workspace = &Workspace;
  call->host = this;
  call->error = error_;
  call->error_size = sizeof(error_);
  error_[0] = '\0';
}

Outcome Runner::Run(const tt_kernel& kernel, KernelCall* call) {
  Outcome outcome;
  const auto fail = [&](int code, const char* what) {
    if (outcome.code == TT_OK) outcome = {code, std::string(what) + ": " + api_->last_error()};
  };
  ReuseWorkspaces();
  std::vector<tt_tensor> tensors(call->inputs.size() + call->outputs.size());
  struct Copied {
    HostTensor* tensor;
    void* data;
  };
  std::vector<Copied> copied;
  const auto place = [&](HostTensor* t) -> char* {
    for (const Copied& c : copied) {
      if (c.tensor == t) return static_cast<char*>(c.data);
    }
    std::vector<char> guarded = t->bytes;
    guarded.resize(guarded.size() + kGuard, static_cast<char>(kGuardByte));
    void* data = Allocate(guarded.size());
    if (data == nullptr) {
      fail(TT_OUT_OF_MEMORY, "allocate");
      return nullptr;
    }
    const int code = api_->copy_to_device(0, data, guarded.data(), guarded.size(), stream_);
    if (code != TT_OK) fail(code, "copy to the device");
    if (!Synchronize()) fail(TT_INTERNAL, "synchronise after copying");
    copied.push_back({t, data});
    return static_cast<char*>(data);
  };
  const auto view = [&](HostTensor* t) {
    const TensorMeta& m = t->meta;
    tt_tensor v = {};
    char* data = place(t);
    if (data != nullptr) v.data = data + m.offset * static_cast<int64_t>(ItemSize(m.dtype));
    v.sizes = m.sizes.data();
    v.strides = m.strides.data();
    v.numel = m.numel();
    v.rank = m.rank();
    v.dtype = static_cast<int32_t>(m.dtype);
    v.contiguous = m.contiguous();
    return v;
  };
  const size_t outputs = call->outputs.size();
  for (size_t i = 0; i < outputs; ++i) tensors[i] = view(call->outputs[i]);
  for (size_t i = 0; i < call->inputs.size(); ++i) {
    CallInput& in = call->inputs[i];
    tt_tensor& t = tensors[outputs + i];
    if (in.tensor != nullptr) {
      t = view(in.tensor);
    } else if (!in.scalar.empty()) {
      t.data = in.scalar.data();
      t.dtype = static_cast<int32_t>(in.scalar_dtype);
      t.numel = 1;
      t.on_host = 1;
      t.contiguous = 1;
    }
  }
  // One iteration shape for all: as they stand, or joined to one dimension where everything is dense.
  std::vector<int64_t> sizes, strides;
  if (call->elementwise && outcome.code == TT_OK) {
    const TensorMeta& first = call->outputs[0]->meta;
    std::vector<int> order;
    for (int d = 0; d < first.rank(); ++d) {
      if (first.sizes[d] != 1) order.push_back(d);
    }
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return first.strides[a] > first.strides[b]; });
    const size_t n = tensors.size();
    std::vector<std::vector<int64_t>> steps(n);
    for (const int d : order) {
      std::vector<int64_t> step(n, 0);
      for (size_t k = 0; k < n; ++k) {
        const HostTensor* t = k < outputs ? call->outputs[k] : call->inputs[k - outputs].tensor;
        if (t == nullptr) continue;
        const int at = d - (first.rank() - t->meta.rank());
        if (at >= 0 && t->meta.sizes[at] != 1) step[k] = t->meta.strides[at];
      }
      bool merge = !sizes.empty();
      for (size_t k = 0; k < n && merge; ++k) merge = steps[k].back() == step[k] * first.sizes[d];
      if (merge) {
        sizes.back() *= first.sizes[d];
        for (size_t k = 0; k < n; ++k) steps[k].back() = step[k];
      } else {
        sizes.push_back(first.sizes[d]);
        for (size_t k = 0; k < n; ++k) steps[k].push_back(step[k]);
      }
    }
    const size_t rank = sizes.size();
    for (size_t k = 0; k < n; ++k) strides.insert(strides.end(), steps[k].begin(), steps[k].end());
    for (size_t k = 0; k < n; ++k) {
      tensors[k].sizes = sizes.data();
      tensors[k].strides = strides.data() + k * rank;
      tensors[k].rank = static_cast<int32_t>(rank);
      tensors[k].numel = first.numel();
      tensors[k].contiguous = rank == 0 || (rank == 1 && tensors[k].strides[0] == 1);
    }
  }
  if (outcome.code == TT_OK) {
    tt_call c;
    Prepare(&c);
    c.outputs = tensors.data();
    c.num_outputs = static_cast<int32_t>(outputs);
    c.inputs = tensors.data() + outputs;
    c.num_inputs = static_cast<int32_t>(call->inputs.size());
    c.attrs = call->attrs.data();
    c.num_attrs = static_cast<int32_t>(call->attrs.size());
    c.seed = call->seed;
    c.offset = call->offset;
    const int code = kernel.run(&c);
    if (code != TT_OK) outcome = {code, error_};
    const int done = api_->stream_synchronize(0, stream_);
    if (done != TT_OK) fail(done, "synchronise");
  }
  for (const Copied& c : copied) {
    std::vector<char> back(c.tensor->bytes.size() + kGuard);
    const int code = api_->copy_to_host(0, back.data(), c.data, back.size(), stream_);
    if (code != TT_OK || !Synchronize()) fail(code != TT_OK ? code : TT_INTERNAL, "copy to the host");
    for (size_t i = c.tensor->bytes.size(); i < back.size(); ++i) {
      if (static_cast<unsigned char>(back[i]) != kGuardByte) {
        outcome = {TT_INTERNAL, "the kernel wrote beyond the end of a tensor"};
        break;
      }
    }
    std::copy_n(back.begin(), c.tensor->bytes.size(), c.tensor->bytes.begin());
  }
  Free();
  return outcome;
}

const tt_backend* OpenBackend(const std::string& name) {
  if (name == "cpu") return rt::CpuBackend();
  void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return nullptr;
  }
  auto get = reinterpret_cast<tt_backend_get_fn>(dlsym(handle, TT_BACKEND_SYMBOL));
  if (get == nullptr) {
    std::fprintf(stderr, "%s has no %s\n", name.c_str(), TT_BACKEND_SYMBOL);
    return nullptr;
  }
  const tt_backend* api = get();
  if (api->abi_version != TT_ABI_VERSION || api->size < sizeof(tt_backend)) {
    std::fprintf(stderr, "%s has ABI version %u, wanted %d\n", name.c_str(), api->abi_version, TT_ABI_VERSION);
    return nullptr;
  }
  return api;
}

}  // namespace telensor::conformance
