#include "allocator/memory_snapshot.h"

namespace telensor {

std::string_view BlockStateName(BlockState state) {
  switch (state) {
    case BlockState::kInactive:
      return "inactive";
    case BlockState::kActiveAllocated:
      return "active_allocated";
    case BlockState::kActivePendingFree:
      return "active_pending_free";
  }
  return "unknown";
}

}  // namespace telensor
