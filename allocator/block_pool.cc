#include "allocator/block_pool.h"

#include <algorithm>
#include <utility>

namespace telensor {

Block* BlockPool::AddSegment(void* data, size_t size, StreamId stream) {
  auto block = std::make_unique<Block>();
  block->data = data;
  block->size = size;
  block->stream = stream;
  block->pool = this;
  if (rules_.small) {
    block->lists = FindLists(stream);
    if (block->lists == nullptr) {
      lists_.push_back(std::make_unique<StreamLists>());
      block->lists = lists_.back().get();
      block->lists->stream = stream;
    }
    ++block->lists->num_segments;
  }
  return block.release();  // deleted by RemoveSegment, or by Put when it is merged into a neighbour
}

void BlockPool::RemoveSegment(Block* block) {
  StreamLists* lists = block->lists;
  delete block;
  if (lists == nullptr || --lists->num_segments > 0) return;
  // Streams come and go in a daemon; their lists go with the last segment.
  if (last_lists_ == lists) last_lists_ = nullptr;
  lists_.erase(std::find_if(lists_.begin(), lists_.end(), [lists](const auto& l) { return l.get() == lists; }));
}

StreamLists* BlockPool::FindLists(StreamId stream) const {
  for (const auto& lists : lists_) {
    if (lists->stream == stream) return lists.get();
  }
  return nullptr;
}

void BlockPool::Insert(Block* block) {
  block->state = Block::State::kFree;
  block->free_since = clock_;
  if (block->is_split()) {
    ++num_split_;
    split_bytes_ += static_cast<int64_t>(block->size);
  }
  free_.insert(block);
}

BlockPool::FreeSet::iterator BlockPool::Erase(FreeSet::iterator it) {
  Block* block = *it;
  block->state = Block::State::kTaken;
  // A free block's neighbours neither appear nor vanish while it is free: so this undoes what Insert counted.
  if (block->is_split()) {
    --num_split_;
    split_bytes_ -= static_cast<int64_t>(block->size);
  }
  return free_.erase(it);
}

Block* BlockPool::TakeBestFit(size_t size, StreamId stream) {
  ++clock_;
  auto it = free_.lower_bound(Key{stream, size, nullptr});
  if (it == free_.end() || (*it)->stream != stream) return nullptr;
  Block* block = *it;
  // An oversize block is never split: kept for requests that come near its size.
  if (oversize(block->size)) {
    if (!oversize(size)) return nullptr;
    if (block->size - size >= rules_.max_non_split_rounding) return nullptr;
  }
  Erase(it);
  Trim(block, size);
  return block;
}

void BlockPool::Trim(Block* block, size_t size) {
  constexpr size_t kSmallestLargeRest = 1 << 20;
  const size_t rest_size = block->size - size;
  const bool keep = rules_.small ? rest_size >= rules_.grain : !oversize(size) && rest_size > kSmallestLargeRest;
  if (!keep) return;

  auto rest = std::make_unique<Block>();
  rest->data = static_cast<char*>(block->data) + size;
  rest->size = rest_size;
  rest->stream = block->stream;
  rest->lists = block->lists;
  rest->pool = this;
  rest->prev = block;
  rest->next = block->next;
  if (rest->next != nullptr) rest->next->prev = rest.get();
  block->next = rest.get();
  block->size = size;
  Insert(rest.release());
}

void BlockPool::Put(Block* block) {
  // The left one of two survives, so that a segment's first block stays the same object.
  Block* next = block->next;
  if (next != nullptr && next->state == Block::State::kFree) {
    Erase(free_.find(next));
    block->size += next->size;
    block->next = next->next;
    if (block->next != nullptr) block->next->prev = block;
    delete next;
  }
  Block* prev = block->prev;
  if (prev != nullptr && prev->state == Block::State::kFree) {
    Erase(free_.find(prev));
    prev->size += block->size;
    prev->next = block->next;
    if (prev->next != nullptr) prev->next->prev = prev;
    delete block;
    block = prev;
  }
  Insert(block);
}

void BlockPool::DrainFast() {
  if (num_fast_ == 0) return;
  for (const auto& lists : lists_) {
    for (Block*& head : lists->heads) {
      while (head != nullptr) {
        Block* block = head;
        head = block->next_fast;
        block->next_fast = nullptr;
        Put(block);
      }
    }
  }
  num_fast_ = 0;
}

std::vector<Block*> BlockPool::TakeUnsplit() {
  std::vector<Block*> taken;
  for (auto it = free_.begin(); it != free_.end();) {
    if ((*it)->is_split()) {
      ++it;
    } else {
      taken.push_back(*it);
      it = Erase(it);
    }
  }
  return taken;
}

std::vector<Block*> BlockPool::TakeOversize(size_t size, StreamId stream) {
  const auto first = free_.lower_bound(Key{stream, rules_.max_split_size, nullptr});
  const auto end = std::find_if(first, free_.end(), [stream](const Block* b) { return b->stream != stream; });
  std::vector<FreeSet::iterator> chosen;
  size_t total = 0;
  // From the largest down, and then drop all but the smallest that does alone.
  for (auto it = end; it != first && total < size;) {
    --it;
    if ((*it)->is_split()) continue;
    chosen.push_back(it);
    total += (*it)->size;
  }
  if (total < size) return {};
  if (chosen.size() == 1) {
    auto enough = std::find_if(free_.lower_bound(Key{stream, std::max(size, rules_.max_split_size), nullptr}), end,
                               [](const Block* b) { return !b->is_split(); });
    chosen[0] = enough;  // exists: the one chosen is no smaller
  }
  std::vector<Block*> taken;
  for (auto it : chosen) {
    taken.push_back(*it);
    Erase(it);
  }
  return taken;
}

std::vector<Block*> BlockPool::TakeOldest(size_t bytes) {
  std::vector<Block*> old;
  for (Block* block : free_) {
    if (!block->is_split()) old.push_back(block);
  }
  std::sort(old.begin(), old.end(), [](const Block* a, const Block* b) { return a->free_since < b->free_since; });

  // PyTorch frees in rounds whatever is older than the average of what is left; going through them by age frees the
  // same kind of blocks, but stops as soon as there is enough.
  size_t freed = 0, count = 0;
  while (count < old.size() && freed < bytes) {
    freed += old[count]->size;
    Erase(free_.find(old[count]));
    ++count;
  }
  old.resize(count);
  return old;
}

}  // namespace telensor
