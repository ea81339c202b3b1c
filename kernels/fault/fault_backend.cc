#include "kernels/fault/fault_backend.h"

#include <cstdio>
#include <utility>

namespace telensor::fault {
namespace {

FaultBackend* g_backend = nullptr;

// The calling thread's last failure: one of ours, or else the inner backend's.
thread_local std::string t_message;
thread_local bool t_ours = false;

constexpr int kMaxKernels = 512;

}  // namespace

// The C functions. A kernel gets no number of its own either, so each has an instance of Launch.
struct Entries {
  static int Planned(Point point) {
    std::string message;
    const int code = g_backend->Count(point, &message);
    t_ours = code != TT_OK;
    if (t_ours) t_message = std::move(message);
    return code;
  }

  template <int kIndex>
  static int Launch(tt_call* call) {
    if (const int code = Planned(Point::kLaunch); code != TT_OK) {
      std::snprintf(call->error, call->error_size, "%s", t_message.c_str());
      return code;
    }
    return g_backend->inner_->kernels[kIndex].run(call);
  }

  template <int... kIndices>
  static void List(std::integer_sequence<int, kIndices...>, std::vector<tt_kernel_fn>* out) {
    *out = {&Launch<kIndices>...};
  }

  static int DeviceInfo(int32_t device, tt_device_info* info) {
    const FaultBackend& b = *g_backend;
    t_ours = device == b.appearance_.broken_device;
    if (t_ours) {
      t_message = "the device does not answer";
      return TT_INTERNAL;
    }
    const int code = b.inner_->device_info(b.InnerDevice(device), info);
    if (!b.appearance_.host_accessible) info->host_accessible = 0;
    return code;
  }
  static int MemoryInfo(int32_t device, uint64_t* free_bytes, uint64_t* total_bytes) {
    t_ours = false;
    return g_backend->inner_->memory_info(g_backend->InnerDevice(device), free_bytes, total_bytes);
  }
  static int MemoryAllocate(int32_t device, size_t bytes, void** out) {
    FaultBackend& b = *g_backend;
    if (const int code = Planned(Point::kAllocate); code != TT_OK) return code;
    const int code = b.inner_->memory_allocate(b.InnerDevice(device), bytes, out);
    if (code != TT_OK) return code;
    std::lock_guard<std::mutex> lock(b.mu_);
    b.allocations_[*out] = bytes;
    b.live_bytes_ += static_cast<int64_t>(bytes);
    return TT_OK;
  }
  static int MemoryFree(int32_t device, void* data, size_t bytes) {
    FaultBackend& b = *g_backend;
    if (const int code = Planned(Point::kFree); code != TT_OK) return code;
    {
      std::lock_guard<std::mutex> lock(b.mu_);
      const auto it = b.allocations_.find(data);
      if (it == b.allocations_.end() || it->second != bytes) {
        ++b.wrong_frees_;
        return TT_INVALID_ARGUMENT;
      }
      b.allocations_.erase(it);
      b.live_bytes_ -= static_cast<int64_t>(bytes);
    }
    return b.inner_->memory_free(b.InnerDevice(device), data, bytes);
  }

  static int StreamCreate(int32_t device, tt_stream* out) {
    FaultBackend& b = *g_backend;
    if (const int code = Planned(Point::kStream); code != TT_OK) return code;
    const int code = b.inner_->stream_create(b.InnerDevice(device), out);
    std::lock_guard<std::mutex> lock(b.mu_);
    if (code == TT_OK) ++b.live_streams_;
    return code;
  }
  static int StreamDestroy(int32_t device, tt_stream stream) {
    FaultBackend& b = *g_backend;
    {
      std::lock_guard<std::mutex> lock(b.mu_);
      --b.live_streams_;
    }
    return b.inner_->stream_destroy(b.InnerDevice(device), stream);
  }
  static int StreamSynchronize(int32_t device, tt_stream stream) {
    FaultBackend& b = *g_backend;
    const int code = Planned(Point::kSynchronize);
    const int inner = b.inner_->stream_synchronize(b.InnerDevice(device), stream);
    return code != TT_OK ? code : inner;
  }
  static int StreamWaitEvent(int32_t device, tt_stream stream, tt_event event) {
    return g_backend->inner_->stream_wait_event(g_backend->InnerDevice(device), stream, event);
  }
  static int EventCreate(int32_t device, tt_event* out) {
    return g_backend->inner_->event_create(g_backend->InnerDevice(device), out);
  }
  static int EventDestroy(int32_t device, tt_event event) {
    return g_backend->inner_->event_destroy(g_backend->InnerDevice(device), event);
  }
  static int EventRecord(int32_t device, tt_event event, tt_stream stream) {
    return g_backend->inner_->event_record(g_backend->InnerDevice(device), event, stream);
  }
  static int EventQuery(int32_t device, tt_event event) {
    return g_backend->inner_->event_query(g_backend->InnerDevice(device), event);
  }
  static int EventSynchronize(int32_t device, tt_event event) {
    return g_backend->inner_->event_synchronize(g_backend->InnerDevice(device), event);
  }

  using Copier = int (*)(int32_t device, void* dst, const void* src, size_t bytes, tt_stream stream);
  static int Copy(Copier inner, int32_t device, void* dst, const void* src, size_t bytes, tt_stream stream) {
    if (const int code = Planned(Point::kCopy); code != TT_OK) return code;
    return inner(g_backend->InnerDevice(device), dst, src, bytes, stream);
  }
  static int CopyToDevice(int32_t device, void* dst, const void* src, size_t bytes, tt_stream stream) {
    return Copy(g_backend->inner_->copy_to_device, device, dst, src, bytes, stream);
  }
  static int CopyToHost(int32_t device, void* dst, const void* src, size_t bytes, tt_stream stream) {
    return Copy(g_backend->inner_->copy_to_host, device, dst, src, bytes, stream);
  }
  static int CopyOnDevice(int32_t device, void* dst, const void* src, size_t bytes, tt_stream stream) {
    return Copy(g_backend->inner_->copy_on_device, device, dst, src, bytes, stream);
  }

  static const char* LastError() { return t_ours ? t_message.c_str() : g_backend->inner_->last_error(); }

  static int UnknownKernel(tt_call*) { return TT_UNIMPLEMENTED; }
};

FaultBackend::FaultBackend(const tt_backend* inner, Appearance appearance)
    : inner_(inner), appearance_(std::move(appearance)) {
  g_backend = this;
  api_ = *inner;
  api_.abi_version = appearance_.abi_version;
  api_.size = sizeof(api_);
  api_.name = appearance_.name.c_str();
  api_.version = "1";
  api_.device_count = appearance_.device_count;
  api_.no_device_reason = appearance_.device_count == 0 ? appearance_.no_device_reason.c_str() : "";
  api_.device_info = Entries::DeviceInfo;
  api_.memory_info = Entries::MemoryInfo;
  api_.memory_allocate = Entries::MemoryAllocate;
  api_.memory_free = Entries::MemoryFree;
  api_.stream_create = Entries::StreamCreate;
  api_.stream_destroy = Entries::StreamDestroy;
  api_.stream_synchronize = Entries::StreamSynchronize;
  api_.stream_wait_event = Entries::StreamWaitEvent;
  api_.event_create = Entries::EventCreate;
  api_.event_destroy = Entries::EventDestroy;
  api_.event_record = Entries::EventRecord;
  api_.event_query = Entries::EventQuery;
  api_.event_synchronize = Entries::EventSynchronize;
  api_.copy_to_device = Entries::CopyToDevice;
  api_.copy_to_host = Entries::CopyToHost;
  api_.copy_on_device = Entries::CopyOnDevice;
  api_.last_error = Entries::LastError;

  std::vector<tt_kernel_fn> launches;
  Entries::List(std::make_integer_sequence<int, kMaxKernels>(), &launches);
  // Past kMaxKernels none is listed, and the conformance suite says which are missing.
  for (int i = 0; i < inner->num_kernels && i < kMaxKernels; ++i) {
    kernels_.push_back(inner->kernels[i]);
    kernels_.back().run = launches[i];
  }
  if (appearance_.unknown_kernel) kernels_.push_back({"no_such_row", TT_ALL_DTYPES, Entries::UnknownKernel});
  api_.kernels = kernels_.data();
  api_.num_kernels = static_cast<int32_t>(kernels_.size());
}

FaultBackend::~FaultBackend() {
  if (g_backend == this) g_backend = nullptr;
}

int FaultBackend::Count(Point point, std::string* message) {
  std::lock_guard<std::mutex> lock(mu_);
  Plan& plan = plans_[static_cast<int>(point)];
  ++plan.calls;
  if (plan.first == 0 || plan.calls < plan.first || plan.calls > plan.last) return TT_OK;
  ++plan.failures;
  *message = plan.message;
  return plan.code;
}

void FaultBackend::Fail(Point point, int64_t n, int code, std::string message, int64_t times) {
  std::lock_guard<std::mutex> lock(mu_);
  Plan& plan = plans_[static_cast<int>(point)];
  plan.first = plan.calls + n;
  plan.last = times >= INT64_MAX - plan.first ? INT64_MAX : plan.first + times - 1;
  plan.code = code;
  plan.message = std::move(message);
}

void FaultBackend::Heal() {
  std::lock_guard<std::mutex> lock(mu_);
  for (Plan& plan : plans_) plan.first = 0;
}

int64_t FaultBackend::calls(Point point) const {
  std::lock_guard<std::mutex> lock(mu_);
  return plans_[static_cast<int>(point)].calls;
}
int64_t FaultBackend::failures(Point point) const {
  std::lock_guard<std::mutex> lock(mu_);
  return plans_[static_cast<int>(point)].failures;
}
int64_t FaultBackend::live_allocations() const {
  std::lock_guard<std::mutex> lock(mu_);
  return static_cast<int64_t>(allocations_.size());
}
int64_t FaultBackend::live_bytes() const {
  std::lock_guard<std::mutex> lock(mu_);
  return live_bytes_;
}
int64_t FaultBackend::live_streams() const {
  std::lock_guard<std::mutex> lock(mu_);
  return live_streams_;
}
int64_t FaultBackend::wrong_frees() const {
  std::lock_guard<std::mutex> lock(mu_);
  return wrong_frees_;
}

}  // namespace telensor::fault
