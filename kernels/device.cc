#include "kernels/device.h"

namespace telensor::rt {

// Device memory as the allocator sees it.
class Device::Memory final : public DeviceMemory {
 public:
  explicit Memory(const Device& device) : device_(device) {}
  absl::StatusOr<void*> Allocate(size_t bytes) override {
    void* data = nullptr;
    const int code = device_.api().memory_allocate(device_.backend_device(), bytes, &data);
    TD_RETURN_IF_ERROR(device_.Check(code, "memory allocation"));
    return data;
  }
  void Free(void* data, size_t bytes) override { device_.api().memory_free(device_.backend_device(), data, bytes); }
  bool Info(uint64_t* free_bytes, uint64_t* total_bytes) override {
    return device_.api().memory_info(device_.backend_device(), free_bytes, total_bytes) == TT_OK;
  }

 private:
  const Device& device_;
};

// Marks on streams, for memory that is freed while another stream still uses it.
class Device::Events final : public StreamEvents {
 public:
  explicit Events(const Device& device) : device_(device) {}
  absl::StatusOr<Event> Record(StreamId stream) override {
    tt_event event = nullptr;
    TD_RETURN_IF_ERROR(device_.Check(device_.api().event_create(device_.backend_device(), &event), "event creation"));
    const int code = device_.api().event_record(device_.backend_device(), event, stream);
    if (code != TT_OK) {
      Destroy(event);
      return device_.Check(code, "event record");
    }
    return event;
  }
  bool Done(Event event) override {
    // A failed query counts as done: the device is lost then, and its memory with it.
    return device_.api().event_query(device_.backend_device(), event) != TT_NOT_READY;
  }
  void Wait(Event event) override { device_.api().event_synchronize(device_.backend_device(), event); }
  void Destroy(Event event) override { device_.api().event_destroy(device_.backend_device(), event); }

 private:
  const Device& device_;
};

Device::Device(const Backend* backend, int backend_device, DeviceIndex index)
    : backend_(backend),
      backend_device_(backend_device),
      index_(index),
      name_(index == 0 ? std::string("cpu") : absl::StrCat(backend->api().name, ":", backend_device)) {}

Device::~Device() = default;

absl::StatusOr<std::unique_ptr<Device>> Device::Create(const Backend* backend, int backend_device, DeviceIndex index,
                                                       size_t memory_limit) {
  std::unique_ptr<Device> device(new Device(backend, backend_device, index));
  tt_device_info info = {};
  info.size = sizeof(info);
  TD_RETURN_IF_ERROR(device->Check(backend->api().device_info(backend_device, &info), "device query"));
  device->description_ = info.name;
  device->total_memory_ = info.total_memory;
  device->host_accessible_ = info.host_accessible != 0;
  device->memory_ = std::make_unique<Memory>(*device);
  device->events_ = std::make_unique<Events>(*device);
  CachingAllocator::Options options;
  options.device_name = index == 0 ? "CPU" : absl::StrCat("GPU ", backend_device);
  if (index != 0) options.error_prefix = "CUDA out of memory.";
  if (memory_limit > 0) options.memory_limit = memory_limit;
  device->allocator_ = std::make_unique<CachingAllocator>(device->memory_.get(), device->events_.get(), options);
  return device;
}

absl::StatusOr<std::unique_ptr<Stream>> Stream::Create(Device* device) {
  tt_stream handle = nullptr;
  TD_RETURN_IF_ERROR(device->Check(device->api().stream_create(device->backend_device(), &handle), "stream creation"));
  return std::unique_ptr<Stream>(new Stream(device, handle));
}

Stream::~Stream() { device_->api().stream_destroy(device_->backend_device(), handle_); }

absl::Status Stream::Synchronize() const {
  return device_->Check(device_->api().stream_synchronize(device_->backend_device(), handle_), "stream");
}

}  // namespace telensor::rt
