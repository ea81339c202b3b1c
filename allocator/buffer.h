// Buffer: memory taken from a CachingAllocator, given back when it goes.
#pragma once

#include <cstddef>
#include <utility>

#include "allocator/device_memory.h"

namespace telensor {

struct Block;
class CachingAllocator;

// Buffer owns one block of an allocator. A default-made one, or one of 0 bytes, holds nothing: data() is null.
//
// The allocator, and the budget that was charged, must outlive it. Its owner moves it about; it is not synchronised,
// but any thread may destroy it, at any time: the block is reused in the order of its own stream, so kernels that
// are still queued there are safe. For other streams see CachingAllocator::RecordStream.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        block_(std::exchange(other.block_, nullptr)),
        allocator_(other.allocator_) {}
  Buffer& operator=(Buffer&& other) noexcept {
    if (this != &other) {
      Reset();
      data_ = std::exchange(other.data_, nullptr);
      size_ = std::exchange(other.size_, 0);
      block_ = std::exchange(other.block_, nullptr);
      allocator_ = other.allocator_;
    }
    return *this;
  }
  ~Buffer() {
    if (block_ != nullptr) Release();
  }

  void* data() const { return data_; }
  // The bytes asked for.
  size_t size() const { return size_; }
  // The bytes there are: size() rounded up, or more.
  size_t capacity() const;
  // The stream it was allocated for; null for an empty one.
  StreamId stream() const;

  // Gives the memory back now.
  void Reset() {
    if (block_ != nullptr) Release();
    data_ = nullptr;
    size_ = 0;
    block_ = nullptr;
  }

 private:
  friend class CachingAllocator;
  Buffer(CachingAllocator* allocator, Block* block, void* data, size_t size)
      : data_(data), size_(size), block_(block), allocator_(allocator) {}
  void Release();

  void* data_ = nullptr;
  size_t size_ = 0;
  Block* block_ = nullptr;
  CachingAllocator* allocator_ = nullptr;
};

static_assert(sizeof(Buffer) <= 32, "tensors hold a Buffer by value");

}  // namespace telensor
