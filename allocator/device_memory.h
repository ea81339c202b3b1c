// The seam under the allocators: where memory comes from, and how to learn that a stream has passed a point.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace telensor {

// A stream of ordered device work. Opaque; null is the device's default stream.
using StreamId = void*;

// DeviceMemory hands out raw memory of one device, or of the host. Slow: cudaMalloc, cudaHostAlloc, aligned_alloc.
//
// Owned by the backend, outlives every allocator on it. Thread-safe.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  // ResourceExhausted where the device is full: the caller then gives cached memory back and tries again. Any
  // other error is passed on to the user as it is.
  virtual absl::StatusOr<void*> Allocate(size_t bytes) = 0;

  // Must return only once work already queued on the device no longer touches the memory, as cudaFree does:
  // the allocator calls it for blocks whose last use may still be in a stream.
  virtual void Free(void* data, size_t bytes) = 0;

  // Free and total bytes of the device. False where they are unknown.
  virtual bool Info(uint64_t* free, uint64_t* total) = 0;
};

// StreamEvents marks points in streams, so that memory used by a foreign stream is not reused too early.
// A device that runs every operation before returning needs none.
//
// Owned by the backend, outlives every allocator on it. Thread-safe. Record, Done and Destroy are called under the
// allocator's lock: they may not block or call the allocator. Wait is called outside it.
class StreamEvents {
 public:
  using Event = void*;

  virtual ~StreamEvents() = default;
  // Marks the end of the work queued on the stream so far.
  virtual absl::StatusOr<Event> Record(StreamId stream) = 0;
  virtual bool Done(Event event) = 0;
  virtual void Wait(Event event) = 0;
  virtual void Destroy(Event event) = 0;
};

}  // namespace telensor
