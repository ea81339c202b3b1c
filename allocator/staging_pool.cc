#include "allocator/staging_pool.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "allocator/format_bytes.h"

namespace telensor {

size_t StagingBuffer::capacity() const { return data_ != nullptr ? StagingPool::ClassSize(size_class_) : 0; }

void StagingBuffer::Reset() {
  if (data_ != nullptr) pool_->Return(data_, size_class_);
  data_ = nullptr;
  size_ = 0;
}

StagingPool::StagingPool(DeviceMemory* host_memory, size_t max_bytes)
    : host_memory_(host_memory), max_bytes_(max_bytes) {}

StagingPool::~StagingPool() {
  Trim();
  if (used_bytes() != 0) {
    std::fprintf(stderr, "staging pool destroyed with %zu bytes in use\n", used_bytes());
    std::abort();
  }
}

absl::StatusOr<StagingBuffer> StagingPool::Allocate(size_t bytes) {
  if (bytes == 0) return StagingBuffer();
  int size_class = 0;
  while (size_class < kNumClasses && ClassSize(size_class) < bytes) ++size_class;
  const bool too_large = size_class == kNumClasses;
  const size_t size = too_large ? 0 : ClassSize(size_class);

  std::vector<Memory> evicted;
  {
    MutexLock lock(&mu_);
    if (too_large || size > max_bytes_ - used_bytes_) {
      return absl::ResourceExhaustedError(absl::StrCat("staging memory exhausted: tried to allocate ",
                                                       FormatBytes(bytes), " with ", FormatBytes(used_bytes_),
                                                       " used of a limit of ", FormatBytes(max_bytes_)));
    }
    used_bytes_ += size;
    std::vector<void*>& cached = cached_[size_class];
    if (!cached.empty()) {
      void* data = cached.back();
      cached.pop_back();
      cached_bytes_ -= size;
      return StagingBuffer(this, data, bytes, size_class);
    }
    // Counted as used already, so the limit holds while the lock is free for the host call.
    const size_t held = used_bytes_ + cached_bytes_;
    if (held > max_bytes_) evicted = TakeCached(held - max_bytes_);
  }
  FreeAll(evicted);
  absl::StatusOr<void*> data = AllocateHost(size);
  if (!data.ok()) {
    MutexLock lock(&mu_);
    used_bytes_ -= size;
    return std::move(data).status();
  }
  return StagingBuffer(this, *data, bytes, size_class);
}

absl::StatusOr<void*> StagingPool::AllocateHost(size_t size) {
  absl::StatusOr<void*> data = host_memory_->Allocate(size);
  if (data.ok() || !absl::IsResourceExhausted(data.status())) return data;
  Trim();
  return host_memory_->Allocate(size);
}

void StagingPool::Return(void* data, int size_class) {
  MutexLock lock(&mu_);
  used_bytes_ -= ClassSize(size_class);
  cached_bytes_ += ClassSize(size_class);
  cached_[size_class].push_back(data);
}

std::vector<StagingPool::Memory> StagingPool::TakeCached(size_t bytes) {
  std::vector<Memory> taken;
  size_t freed = 0;
  for (int size_class = kNumClasses - 1; size_class >= 0; --size_class) {
    std::vector<void*>& cached = cached_[size_class];
    while (!cached.empty() && freed < bytes) {
      taken.push_back({cached.back(), ClassSize(size_class)});
      cached.pop_back();
      cached_bytes_ -= ClassSize(size_class);
      freed += ClassSize(size_class);
    }
  }
  return taken;
}

void StagingPool::FreeAll(const std::vector<Memory>& memory) {
  for (const Memory& m : memory) host_memory_->Free(m.data, m.size);
}

void StagingPool::Trim() {
  std::vector<Memory> taken;
  {
    MutexLock lock(&mu_);
    taken = TakeCached(std::numeric_limits<size_t>::max());
  }
  FreeAll(taken);
}

size_t StagingPool::used_bytes() const {
  MutexLock lock(&mu_);
  return used_bytes_;
}

size_t StagingPool::cached_bytes() const {
  MutexLock lock(&mu_);
  return cached_bytes_;
}

}  // namespace telensor
