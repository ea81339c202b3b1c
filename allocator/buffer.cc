#include "allocator/buffer.h"

#include "allocator/caching_allocator.h"

namespace telensor {

// Both fields stay as they are while the block is allocated, so no lock is needed.
size_t Buffer::capacity() const { return block_ != nullptr ? block_->size : 0; }

StreamId Buffer::stream() const { return block_ != nullptr ? block_->stream : nullptr; }

void Buffer::Release() { allocator_->Free(block_); }

}  // namespace telensor
