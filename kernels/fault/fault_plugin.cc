// The fault-injecting backend over the CPU as a plug-in, for tests of whoever opens one. TELENSOR_FAULT says what it
// looks like: words separated by commas, "devices=N", "broken=N", "abi=N", "unknown_kernel", "host_inaccessible".
#include <cstdlib>
#include <memory>
#include <sstream>
#include <vector>

#include "kernels/fault/fault_backend.h"

namespace telensor::rt {
const tt_backend* CpuBackend();
}

extern "C" __attribute__((visibility("default"))) const tt_backend* telensor_backend() {
  telensor::fault::Appearance look;
  look.name = "cuda";
  const char* words = std::getenv("TELENSOR_FAULT");
  std::istringstream list(words != nullptr ? words : "");
  for (std::string word; std::getline(list, word, ',');) {
    const size_t equals = word.find('=');
    const std::string key = word.substr(0, equals);
    const int value = equals == std::string::npos ? 0 : std::atoi(word.c_str() + equals + 1);
    if (key == "devices") look.device_count = value;
    if (key == "broken") look.broken_device = value;
    if (key == "abi") look.abi_version = static_cast<uint32_t>(value);
    if (key == "unknown_kernel") look.unknown_kernel = true;
    if (key == "host_inaccessible") look.host_accessible = false;
  }
  // Kept while the plug-in is loaded, as any one's struct is; a later opening finds the appearance of its own time.
  static std::vector<std::unique_ptr<telensor::fault::FaultBackend>> kept;
  kept.push_back(std::make_unique<telensor::fault::FaultBackend>(telensor::rt::CpuBackend(), look));
  return kept.back()->api();
}
