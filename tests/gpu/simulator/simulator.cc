// The simulator's scheduler of threads, and the functions of the CUDA runtime that the plug-in calls.
#include "tests/gpu/simulator/cuda_simulator.h"

#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

namespace cudasim {
namespace {

constexpr size_t kStack = 64 << 10;

enum class State { kRuns, kWaitsForWarp, kWaitsForBlock, kDone };

struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack;
  State state;
  uint3 index;
};

std::vector<Fiber> fibers;
std::vector<char> dynamic_shared;
std::vector<uint64_t> slots;
ucontext_t scheduler;
Fiber* current = nullptr;
const std::function<void()>* body = nullptr;

void Enter() {
  (*body)();
  current->state = State::kDone;
  swapcontext(&current->context, &scheduler);
}

void Wait(State state) {
  if (current == nullptr) {
    std::fprintf(stderr, "simulator: a kernel waits that was taken for one that does not\n");
    std::abort();
  }
  Fiber* self = current;
  self->state = state;
  swapcontext(&self->context, &scheduler);
}

uint3 IndexOf(unsigned thread, dim3 block) {
  return {thread % block.x, thread / block.x % block.y, thread / block.x / block.y};
}

void RunFibers(unsigned threads, dim3 block) {
  if (fibers.size() < threads) fibers.resize(threads);
  slots.assign((threads + 31) / 32 * 32, 0xdeadbeefdeadbeef);
  for (unsigned t = 0; t < threads; ++t) {
    Fiber& f = fibers[t];
    if (f.stack == nullptr) f.stack = std::make_unique<char[]>(kStack);
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = f.stack.get();
    f.context.uc_stack.ss_size = kStack;
    f.context.uc_link = &scheduler;
    makecontext(&f.context, Enter, 0);
    f.state = State::kRuns;
    f.index = IndexOf(t, block);
  }
  while (true) {
    bool ran = false;
    for (unsigned t = 0; t < threads; ++t) {
      if (fibers[t].state != State::kRuns) continue;
      ran = true;
      current = &fibers[t];
      threadIdx = current->index;
      swapcontext(&scheduler, &current->context);
    }
    current = nullptr;
    // A warp goes on when all of its threads that still run wait for it, the block likewise.
    unsigned done = 0, at_block = 0;
    bool released = false;
    for (unsigned first = 0; first < threads; first += 32) {
      const unsigned last = std::min(first + 32, threads);
      bool all = true, any = false;
      for (unsigned t = first; t < last; ++t) {
        const State s = fibers[t].state;
        done += s == State::kDone;
        at_block += s == State::kWaitsForBlock;
        any = any || s == State::kWaitsForWarp;
        all = all && (s == State::kWaitsForWarp || s == State::kDone);
      }
      if (!any || !all) continue;
      released = true;
      for (unsigned t = first; t < last; ++t) {
        if (fibers[t].state == State::kWaitsForWarp) fibers[t].state = State::kRuns;
      }
    }
    if (done == threads) return;
    if (!released && done + at_block == threads) {
      for (unsigned t = 0; t < threads; ++t) {
        if (fibers[t].state == State::kWaitsForBlock) fibers[t].state = State::kRuns;
      }
      released = true;
    }
    if (!released && !ran) {
      std::fprintf(stderr, "simulator: the threads of a block wait for each other for ever\n");
      std::abort();
    }
  }
}

}  // namespace

void Run(dim3 grid, dim3 block, size_t shared, bool waits, const std::function<void()>& kernel) {
  const unsigned threads = block.x * block.y * block.z;
  if (threads == 0 || threads > 1024 || grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.y > 65535 || grid.z > 65535) {
    std::fprintf(stderr, "simulator: a launch of %u threads in %u x %u x %u blocks\n", threads, grid.x, grid.y, grid.z);
    std::abort();
  }
  if (shared > (48u << 10)) {
    std::fprintf(stderr, "simulator: %zu bytes of shared memory\n", shared);
    std::abort();
  }
  blockDim = block;
  gridDim = grid;
  body = &kernel;
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        blockIdx = {x, y, z};
        dynamic_shared.assign(shared + 8, static_cast<char>(0xcd));
        if (waits) {
          RunFibers(threads, block);
          continue;
        }
        for (unsigned t = 0; t < threads; ++t) {
          threadIdx = IndexOf(t, block);
          kernel();
        }
      }
    }
  }
}

char* DynamicShared() { return dynamic_shared.data(); }
void WaitForBlock() { Wait(State::kWaitsForBlock); }
void WaitForWarp() { Wait(State::kWaitsForWarp); }
uint64_t* WarpSlots() { return slots.data() + (current - fibers.data()) / 32 * 32; }

}  // namespace cudasim

// ---- the runtime

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  std::memset(properties, 0, sizeof(*properties));
  std::snprintf(properties->name, sizeof(properties->name), "simulator");
  properties->totalGlobalMem = size_t{1} << 30;
  properties->multiProcessorCount = 2;
  return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}
cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : cudaErrorInvalidDevice; }
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = 2;
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total) {
  *free_bytes = *total = size_t{1} << 30;
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** out, size_t bytes) {
  if (bytes > (size_t{1} << 30)) return cudaErrorMemoryAllocation;
  *out = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  // Nothing may count on fresh memory being zero.
  if (*out != nullptr) std::memset(*out, 0xcd, bytes);
  return *out != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFree(void* data) {
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** out, size_t bytes, unsigned) { return cudaMalloc(out, bytes); }
cudaError_t cudaFreeHost(void* data) { return cudaFree(data); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* out, unsigned) {
  *out = reinterpret_cast<cudaStream_t>(uintptr_t{1});
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned) {
  *out = nullptr;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t) {
  std::memset(to, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaGetLastError(void) { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t) { return "an error of the simulator"; }
const char* cudaGetErrorName(cudaError_t) { return "cudaError"; }

}  // extern "C"
