// Byte counts as PyTorch's error messages write them.
#pragma once

#include <cstdint>
#include <string>

namespace telensor {

// "512 bytes", "1.50 KiB", "20.00 MiB", "2.00 GiB".
std::string FormatBytes(uint64_t bytes);

}  // namespace telensor
