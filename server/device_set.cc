#include "server/device_set.h"

#include <omp.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace telensor::server {
namespace {

// Where the plug-in stands when nobody says otherwise: beside the server, or in the library folder beside its own.
std::string FindCudaPlugin() {
  char self[4096];
  const ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
  if (n <= 0) return "";
  const std::string folder = std::string(self, n).substr(0, std::string(self, n).rfind('/'));
  for (const char* place : {"/libtelensor_cuda.so", "/../lib/telensor/libtelensor_cuda.so", "/../kernels/cuda/libtelensor_cuda.so"}) {
    const std::string path = folder + place;
    if (access(path.c_str(), R_OK) == 0) return path;
  }
  return "";
}

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceSet>> DeviceSet::Create(const Config& config) {
  std::unique_ptr<DeviceSet> set(new DeviceSet());
  if (config.threads > 0) omp_set_num_threads(config.threads);
  TD_ASSIGN_OR_RETURN(std::unique_ptr<rt::Backend> cpu, rt::Backend::Create(rt::CpuBackend()));
  TD_ASSIGN_OR_RETURN(std::unique_ptr<rt::Device> device, rt::Device::Create(cpu.get(), 0, 0, config.cpu_memory_limit));
  set->reports_.push_back(absl::StrCat("cpu: ", device->description()));
  set->backends_.push_back(std::move(cpu));
  set->devices_.push_back(std::move(device));
  if (absl::Status status = set->AddCuda(config); !status.ok()) {
    if (config.cuda_required) return status;
    set->reports_.push_back(absl::StrCat("cuda: no device: ", status.message()));
  }
  return set;
}

absl::Status DeviceSet::AddCuda(const Config& config) {
  const std::string path = config.cuda_plugin.empty() ? FindCudaPlugin() : config.cuda_plugin;
  if (path.empty()) return absl::NotFoundError("the plug-in libtelensor_cuda.so is not installed");
  TD_ASSIGN_OR_RETURN(std::unique_ptr<rt::Backend> backend, rt::Backend::Open(path));
  if (backend->api().device_count == 0) return absl::NotFoundError(backend->api().no_device_reason);
  // All or none: a device must not outlive its backend.
  std::vector<std::unique_ptr<rt::Device>> devices;
  for (int i = 0; i < backend->api().device_count; ++i) {
    TD_ASSIGN_OR_RETURN(std::unique_ptr<rt::Device> device,
                        rt::Device::Create(backend.get(), i, static_cast<DeviceIndex>(devices_.size() + i), 0));
    devices.push_back(std::move(device));
  }
  for (std::unique_ptr<rt::Device>& device : devices) {
    reports_.push_back(absl::StrCat(device->name(), ": ", device->description()));
    devices_.push_back(std::move(device));
  }
  backends_.push_back(std::move(backend));
  return absl::OkStatus();
}

std::vector<rt::Device*> DeviceSet::devices() const {
  std::vector<rt::Device*> out;
  for (const auto& device : devices_) out.push_back(device.get());
  return out;
}

}  // namespace telensor::server
