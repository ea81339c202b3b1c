// BlockPool: the free blocks of a caching allocator, and the splitting and merging of blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <vector>

#include "allocator/device_memory.h"

namespace telensor {

class MemoryBudget;
class BlockPool;
struct StreamLists;

// A piece of a segment. The blocks of a segment form a list by address that covers it without gaps; the first one
// stays the same object as long as the segment lives.
//
// Made, deleted and moved between states by its BlockPool, under the allocator's lock.
struct Block {
  enum class State : uint8_t {
    kTaken,    // with the user, or on its way there
    kPending,  // freed by the user, waiting for events of other streams
    kFast,     // free, on an exact-size list
    kFree,     // free, in the ordered set
  };

  // What a same-size cycle touches comes first, in one cache line.
  void* data = nullptr;
  size_t size = 0;
  size_t requested_size = 0;
  StreamId stream = nullptr;
  StreamLists* lists = nullptr;  // the stream's exact-size lists; null in a pool without them
  Block* next_fast = nullptr;
  MemoryBudget* budget = nullptr;
  State state = State::kTaken;
  int event_count = 0;  // events still to come before the block may be reused

  std::vector<StreamId> stream_uses;  // other streams that used the memory
  Block* prev = nullptr;
  Block* next = nullptr;
  BlockPool* pool = nullptr;
  uint64_t free_since = 0;  // the pool's clock when it became free

  bool is_split() const { return prev != nullptr || next != nullptr; }
};

// The exact-size lists of one stream, by size / 512.
struct StreamLists {
  static constexpr size_t kLimit = 64 << 10;
  static constexpr int kShift = 9;
  StreamId stream = nullptr;
  int num_segments = 0;
  Block* heads[(kLimit >> kShift) + 1] = {};
};

// BlockPool keeps free blocks by (stream, size, address) and finds the best fit on a stream. In front of that stand,
// in a small pool, last-in-first-out lists of blocks of exactly one size, which a free and an allocation of the same
// size pass in a few nanoseconds. Blocks on those lists are not merged until DrainFast().
//
// Owned by a CachingAllocator and guarded by its lock; not synchronised itself.
class BlockPool {
 public:
  struct Rules {
    bool small = false;  // small pools have exact-size lists and keep every remainder
    size_t grain = 512;  // all sizes are multiples of it
    size_t max_split_size = std::numeric_limits<size_t>::max();
    size_t max_non_split_rounding = 20 << 20;
  };

  explicit BlockPool(const Rules& rules) : rules_(rules) {}
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // A new segment's only block, taken.
  Block* AddSegment(void* data, size_t size, StreamId stream);
  // Forgets a taken block that is a whole segment, and deletes it.
  void RemoveSegment(Block* block);

  // A block of exactly this size from the lists, taken; null where there is none.
  Block* TakeFast(size_t size, StreamId stream) {
    if (!rules_.small || size > StreamLists::kLimit) return nullptr;
    StreamLists* lists = last_lists_;
    if (lists == nullptr || lists->stream != stream) {
      lists = FindLists(stream);
      if (lists == nullptr) return nullptr;
      last_lists_ = lists;
    }
    Block*& head = lists->heads[size >> StreamLists::kShift];
    Block* block = head;
    if (block == nullptr) return nullptr;
    head = block->next_fast;
    --num_fast_;
    block->state = Block::State::kTaken;
    return block;
  }
  // Puts a taken block on its list; false where there is none for it, and Put() is to be used.
  bool PutFast(Block* block) {
    if (block->lists == nullptr || block->size > StreamLists::kLimit) return false;
    Block*& head = block->lists->heads[block->size >> StreamLists::kShift];
    block->next_fast = head;
    head = block;
    ++num_fast_;
    block->state = Block::State::kFast;
    return true;
  }

  // The smallest free block of the stream with room for `size`, taken and cut to size; null where there is none.
  Block* TakeBestFit(size_t size, StreamId stream);
  // Cuts a taken block to `size` where the rest is worth keeping, and puts the rest back.
  void Trim(Block* block, size_t size);
  // Makes a taken or pending block free: merges it with free neighbours.
  void Put(Block* block);
  // Empties the exact-size lists with Put().
  void DrainFast();

  // Take free whole segments, to be given back to the device.
  std::vector<Block*> TakeUnsplit();
  // Oversize ones of the stream, just enough to make room for a segment of `size`: one that is large enough, or the
  // largest ones together. Empty where all of them would not do.
  std::vector<Block*> TakeOversize(size_t size, StreamId stream);
  // Those that have been free for longest, of at least `bytes` together if there are as many.
  std::vector<Block*> TakeOldest(size_t bytes);

  bool small() const { return rules_.small; }
  // Free blocks that share their segment with others; those on the lists do not count.
  int64_t num_split() const { return num_split_; }
  int64_t split_bytes() const { return split_bytes_; }
  size_t num_fast() const { return num_fast_; }
  size_t num_free() const { return free_.size(); }

 private:
  struct Key {
    StreamId stream;
    size_t size;
    void* data;
  };
  struct Less {
    using is_transparent = void;
    static Key KeyOf(const Block* block) { return {block->stream, block->size, block->data}; }
    static const Key& KeyOf(const Key& key) { return key; }
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      const Key& x = KeyOf(a);
      const Key& y = KeyOf(b);
      if (x.stream != y.stream) return std::less<StreamId>()(x.stream, y.stream);
      if (x.size != y.size) return x.size < y.size;
      return std::less<void*>()(x.data, y.data);
    }
  };
  using FreeSet = std::set<Block*, Less>;

  bool oversize(size_t size) const { return size >= rules_.max_split_size; }
  StreamLists* FindLists(StreamId stream) const;
  void Insert(Block* block);
  FreeSet::iterator Erase(FreeSet::iterator it);

  const Rules rules_;
  FreeSet free_;
  // Few streams are in use at a time, so a linear search does.
  std::vector<std::unique_ptr<StreamLists>> lists_;
  StreamLists* last_lists_ = nullptr;
  size_t num_fast_ = 0;
  int64_t num_split_ = 0;
  int64_t split_bytes_ = 0;
  uint64_t clock_ = 0;  // searches so far: the age of a free block is measured in them
};

}  // namespace telensor
