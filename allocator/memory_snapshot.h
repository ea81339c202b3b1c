// MemorySnapshot: what every segment of an allocator looked like at one moment. Plain values.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "allocator/device_memory.h"

namespace telensor {

enum class BlockState { kInactive, kActiveAllocated, kActivePendingFree };

// "inactive", "active_allocated" or "active_pending_free", as in torch.cuda.memory_snapshot().
std::string_view BlockStateName(BlockState state);

struct BlockSnapshot {
  void* address = nullptr;
  size_t size = 0;
  size_t requested_size = 0;  // 0 for an inactive block
  BlockState state = BlockState::kInactive;
  std::string owner;  // the name of the budget that is charged, if any
};

struct SegmentSnapshot {
  void* address = nullptr;
  size_t total_size = 0;
  size_t allocated_size = 0;  // in the user's hands
  size_t active_size = 0;     // the same, and what waits for a foreign stream
  size_t requested_size = 0;
  StreamId stream = nullptr;
  bool is_small = false;  // PyTorch's segment_type "small"
  std::vector<BlockSnapshot> blocks;  // by address, without gaps
};

// By address.
using MemorySnapshot = std::vector<SegmentSnapshot>;

}  // namespace telensor
