// Version numbers of this build.
#pragma once

#include <cstdint>

namespace telensor::server {

inline constexpr char kVersion[] = "0.1.0";
inline constexpr uint32_t kProtocolVersion = 1;

}  // namespace telensor::server
