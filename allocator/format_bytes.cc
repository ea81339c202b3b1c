#include "allocator/format_bytes.h"

#include "absl/strings/str_format.h"

namespace telensor {

std::string FormatBytes(uint64_t bytes) {
  constexpr uint64_t kKiB = uint64_t{1} << 10, kMiB = uint64_t{1} << 20, kGiB = uint64_t{1} << 30;
  // PyTorch moves to the next unit only past it: 1 MiB is "1024.00 KiB" there, and so it is here.
  if (bytes <= kKiB) return absl::StrFormat("%d bytes", bytes);
  if (bytes <= kMiB) return absl::StrFormat("%.2f KiB", static_cast<double>(bytes) / kKiB);
  if (bytes <= kGiB) return absl::StrFormat("%.2f MiB", static_cast<double>(bytes) / kMiB);
  return absl::StrFormat("%.2f GiB", static_cast<double>(bytes) / kGiB);
}

}  // namespace telensor
