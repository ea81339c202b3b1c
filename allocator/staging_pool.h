// StagingPool: host memory for bulk transfers, kept between uses.
#pragma once

#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "allocator/device_memory.h"
#include "allocator/mutex.h"

namespace telensor {

class StagingPool;

// StagingBuffer owns one host buffer of a pool, and gives it back when it goes. Empty if default-made.
//
// The pool must outlive it. The owner moves it about; not synchronised, but any thread may destroy it once no
// transfer uses it any more.
class StagingBuffer {
 public:
  StagingBuffer() = default;
  StagingBuffer(StagingBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        size_class_(other.size_class_),
        pool_(other.pool_) {}
  StagingBuffer& operator=(StagingBuffer&& other) noexcept {
    if (this != &other) {
      Reset();
      data_ = std::exchange(other.data_, nullptr);
      size_ = std::exchange(other.size_, 0);
      size_class_ = other.size_class_;
      pool_ = other.pool_;
    }
    return *this;
  }
  ~StagingBuffer() { Reset(); }

  void* data() const { return data_; }
  // The bytes asked for.
  size_t size() const { return size_; }
  // The bytes there are.
  size_t capacity() const;
  void Reset();

 private:
  friend class StagingPool;
  StagingBuffer(StagingPool* pool, void* data, size_t size, int size_class)
      : data_(data), size_(size), size_class_(size_class), pool_(pool) {}

  void* data_ = nullptr;
  size_t size_ = 0;
  int size_class_ = 0;
  StagingPool* pool_ = nullptr;
};

// StagingPool hands out host buffers of 64 KiB times a power of two. It never holds more than its limit, and never
// waits for a buffer: the caller decides what to do without one.
//
// Owned by the backend, or by the server for all of them. Outlives its buffers. Thread-safe; the host memory (for
// CUDA pinned, so slow to get) is asked for outside the lock.
class StagingPool {
 public:
  StagingPool(DeviceMemory* host_memory, size_t max_bytes);
  ~StagingPool();
  StagingPool(const StagingPool&) = delete;
  StagingPool& operator=(const StagingPool&) = delete;

  // For 0 bytes an empty buffer. ResourceExhausted where the limit would be passed, or the host has no more.
  absl::StatusOr<StagingBuffer> Allocate(size_t bytes);
  // Gives the cached buffers back to the host.
  void Trim();

  size_t max_bytes() const { return max_bytes_; }
  size_t used_bytes() const;
  size_t cached_bytes() const;

 private:
  friend class StagingBuffer;
  static constexpr int kMinShift = 16;  // 64 KiB
  static constexpr int kNumClasses = 32;
  static size_t ClassSize(int size_class) { return size_t{1} << (kMinShift + size_class); }

  struct Memory {
    void* data;
    size_t size;
  };

  void Return(void* data, int size_class);
  absl::StatusOr<void*> AllocateHost(size_t size);
  // Takes cached buffers out, the largest first, until `bytes` are freed or none is left.
  std::vector<Memory> TakeCached(size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FreeAll(const std::vector<Memory>& memory);

  DeviceMemory* const host_memory_;
  const size_t max_bytes_;
  mutable Mutex mu_;
  std::array<std::vector<void*>, kNumClasses> cached_ ABSL_GUARDED_BY(mu_);
  size_t used_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  size_t cached_bytes_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace telensor
