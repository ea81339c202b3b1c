// DeviceSet: the backends that could be had and their devices. Made once at start, before any session.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "server/config.h"

namespace telensor::server {

class DeviceSet {
 public:
  // The CPU always; CUDA where its plug-in and a device are found. An absent backend is an error only if the
  // configuration requires it; otherwise its reason is in `reports`.
  static absl::StatusOr<std::unique_ptr<DeviceSet>> Create(const Config& config);

  std::vector<rt::Device*> devices() const;
  const std::vector<std::string>& reports() const { return reports_; }

 private:
  absl::Status AddCuda(const Config& config);

  std::vector<std::unique_ptr<rt::Backend>> backends_;
  std::vector<std::unique_ptr<rt::Device>> devices_;
  std::vector<std::string> reports_;
};

}  // namespace telensor::server
