#include "allocator/memory_stats.h"

#include "absl/strings/str_cat.h"

namespace telensor {
namespace {

using Flat = std::vector<std::pair<std::string, int64_t>>;

void Append(const std::string& name, const Stat& stat, Flat* out) {
  out->emplace_back(absl::StrCat(name, ".current"), stat.current);
  out->emplace_back(absl::StrCat(name, ".peak"), stat.peak);
  out->emplace_back(absl::StrCat(name, ".allocated"), stat.allocated);
  out->emplace_back(absl::StrCat(name, ".freed"), stat.freed());
}

void Append(const std::string& name, const StatByPool& stat, Flat* out) {
  Append(absl::StrCat(name, ".all"), stat.all, out);
  Append(absl::StrCat(name, ".small_pool"), stat.small_pool, out);
  Append(absl::StrCat(name, ".large_pool"), stat.large_pool, out);
}

}  // namespace

std::vector<std::pair<std::string, int64_t>> Flatten(const MemoryStats& stats) {
  Flat out;
  Append("allocation", stats.allocation, &out);
  Append("segment", stats.segment, &out);
  Append("active", stats.active, &out);
  Append("inactive_split", stats.inactive_split, &out);
  Append("allocated_bytes", stats.allocated_bytes, &out);
  Append("reserved_bytes", stats.reserved_bytes, &out);
  Append("active_bytes", stats.active_bytes, &out);
  Append("inactive_split_bytes", stats.inactive_split_bytes, &out);
  Append("requested_bytes", stats.requested_bytes, &out);
  Append("oversize_allocations", stats.oversize_allocations, &out);
  Append("oversize_segments", stats.oversize_segments, &out);
  out.emplace_back("num_alloc_retries", stats.num_alloc_retries);
  out.emplace_back("num_ooms", stats.num_ooms);
  out.emplace_back("num_sync_all_streams", stats.num_sync_all_streams);
  out.emplace_back("num_device_alloc", stats.num_device_alloc);
  out.emplace_back("num_device_free", stats.num_device_free);
  out.emplace_back("max_split_size", stats.max_split_size);
  return out;
}

StatByPool PoolCounter::Read() const {
  StatByPool read;
  read.small_pool = {current_[0], peak_[0], allocated_[0]};
  read.large_pool = {current_[1], peak_[1], allocated_[1]};
  read.all = {current_[0] + current_[1], peak_all_, allocated_[0] + allocated_[1]};
  return read;
}

}  // namespace telensor
