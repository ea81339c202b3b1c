// Device: one device of this server, with its allocator. Stream: a queue of work on it.
//
// The DeviceSet is made once at start and outlives every session. Device functions may be called from any thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "allocator/caching_allocator.h"
#include "kernels/backend.h"
#include "proto/core/tensor_meta.h"

namespace telensor::rt {

class Device {
 public:
  static absl::StatusOr<std::unique_ptr<Device>> Create(const Backend* backend, int backend_device,
                                                        DeviceIndex index, size_t memory_limit);
  ~Device();

  DeviceIndex index() const { return index_; }
  int backend_device() const { return backend_device_; }
  const Backend& backend() const { return *backend_; }
  const tt_backend& api() const { return backend_->api(); }
  CachingAllocator& allocator() { return *allocator_; }
  // "cpu", "cuda:0"
  const std::string& name() const { return name_; }
  const std::string& description() const { return description_; }
  uint64_t total_memory() const { return total_memory_; }
  bool host_accessible() const { return host_accessible_; }

  absl::Status Check(int code, const char* what) const { return backend_->Check(code, what); }

 private:
  class Memory;
  class Events;
  Device(const Backend* backend, int backend_device, DeviceIndex index);

  const Backend* backend_;
  int backend_device_;
  DeviceIndex index_;
  std::string name_;
  std::string description_;
  uint64_t total_memory_ = 0;
  bool host_accessible_ = false;
  std::unique_ptr<Memory> memory_;
  std::unique_ptr<Events> events_;
  std::unique_ptr<CachingAllocator> allocator_;
};

class Stream {
 public:
  // A stream of its own for a session; the CPU's streams are empty, its work is done when the call returns.
  static absl::StatusOr<std::unique_ptr<Stream>> Create(Device* device);
  ~Stream();
  Stream(const Stream&) = delete;

  Device& device() const { return *device_; }
  tt_stream handle() const { return handle_; }
  absl::Status Synchronize() const;

 private:
  Stream(Device* device, tt_stream handle) : device_(device), handle_(handle) {}
  Device* device_;
  tt_stream handle_;
};

}  // namespace telensor::rt
