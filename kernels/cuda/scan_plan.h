// How running sums along lines are shared out.
#pragma once

#include <algorithm>
#include <cstdint>

namespace telensor::cuda {

// Each line is cut into `parts` of `each` elements. A part is walked by one thread where `columns`, else by a block.
struct ScanPlan {
  bool columns = false;
  int64_t parts = 1, each = 1;
};

// `lines_are_neighbours`: an element's neighbour in memory is of another line.
inline ScanPlan PlanScan(int64_t lines, int64_t length, bool lines_are_neighbours, int compute_units) {
  ScanPlan p;
  p.columns = (lines_are_neighbours && lines >= 32) || length <= 32;
  // A part is worth the launches it costs where its walker has enough to do.
  const int64_t walkers = int64_t{compute_units} * (p.columns ? 1024 : 8), least = p.columns ? 64 : 4096;
  const int64_t wanted = (walkers + lines - 1) / std::max<int64_t>(lines, 1);
  p.parts = std::clamp<int64_t>(std::min(wanted, length / least), 1, 1024);
  p.each = std::max<int64_t>(1, (length + p.parts - 1) / p.parts);
  p.parts = std::max<int64_t>(1, (length + p.each - 1) / p.each);
  return p;
}

}  // namespace telensor::cuda
