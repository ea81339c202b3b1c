// The CPU backend: host memory, streams that are always done, and the kernels of the best instruction set here.
#include "kernels/backend.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#define TT_CPU_VARIANT base
#include "kernels/cpu/families.h"

namespace telensor::cpu {

// The same list of families from the other variant; its header's names differ only by namespace.
namespace avx2 {
using base::KernelList;
#define TT_FAMILY(name) void Append##name##Kernels(KernelList* list)
TT_FAMILY(Pointwise);
TT_FAMILY(Comparison);
TT_FAMILY(Copy);
TT_FAMILY(Creation);
TT_FAMILY(Random);
TT_FAMILY(Reduction);
TT_FAMILY(Scan);
TT_FAMILY(Shape);
TT_FAMILY(Indexing);
TT_FAMILY(Matmul);
TT_FAMILY(Convolution);
TT_FAMILY(Pooling);
TT_FAMILY(Norm);
TT_FAMILY(Softmax);
TT_FAMILY(Optim);
#undef TT_FAMILY
}  // namespace avx2

namespace {

thread_local std::string t_error;

int Fail(int code, std::string message) {
  t_error = std::move(message);
  return code;
}

bool HasAvx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c"); }

#define TT_APPEND_ALL(variant)                \
  variant::AppendPointwiseKernels(&list);     \
  variant::AppendComparisonKernels(&list);    \
  variant::AppendCopyKernels(&list);          \
  variant::AppendCreationKernels(&list);      \
  variant::AppendRandomKernels(&list);        \
  variant::AppendReductionKernels(&list);     \
  variant::AppendScanKernels(&list);          \
  variant::AppendShapeKernels(&list);         \
  variant::AppendIndexingKernels(&list);      \
  variant::AppendMatmulKernels(&list);        \
  variant::AppendConvolutionKernels(&list);   \
  variant::AppendPoolingKernels(&list);       \
  variant::AppendNormKernels(&list);          \
  variant::AppendSoftmaxKernels(&list);       \
  variant::AppendOptimKernels(&list)

const std::vector<tt_kernel>& Kernels() {
  static const auto* const kernels = [] {
    auto* all = new std::vector<tt_kernel>();
    std::vector<tt_kernel>& list = *all;
    if (HasAvx2()) {
      TT_APPEND_ALL(avx2);
    } else {
      TT_APPEND_ALL(base);
    }
    return all;
  }();
  return *kernels;
}

uint64_t HostMemory() { return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE); }

int DeviceInfo(int32_t, tt_device_info* info) {
  const unsigned cores = std::thread::hardware_concurrency();
  std::snprintf(info->name, sizeof(info->name), "%u cores, %s kernels", cores, HasAvx2() ? "AVX2" : "baseline x86-64");
  info->total_memory = HostMemory();
  info->host_accessible = 1;
  info->compute_units = static_cast<int32_t>(cores);
  return TT_OK;
}

int MemoryInfo(int32_t, uint64_t* free_bytes, uint64_t* total_bytes) {
  *free_bytes = static_cast<uint64_t>(sysconf(_SC_AVPHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  *total_bytes = HostMemory();
  return TT_OK;
}

int HostAllocate(size_t bytes, void** out) {
  constexpr size_t kHugePage = 2 << 20;
  // Huge pages make the first touch of a segment five times faster.
  void* data = nullptr;
  const size_t alignment = bytes >= kHugePage ? kHugePage : 64;
  if (posix_memalign(&data, alignment, bytes) != 0) return Fail(TT_OUT_OF_MEMORY, "the host has no more memory");
  if (bytes >= kHugePage) madvise(data, bytes, MADV_HUGEPAGE);
  *out = data;
  return TT_OK;
}

int HostFree(void* data, size_t) {
  std::free(data);
  return TT_OK;
}

int MemoryAllocate(int32_t, size_t bytes, void** out) {
  // Overcommit would let a huge request through and kill the server when it is used.
  if (bytes > HostMemory()) return Fail(TT_OUT_OF_MEMORY, "more than the host's memory");
  return HostAllocate(bytes, out);
}
int MemoryFree(int32_t, void* data, size_t bytes) { return HostFree(data, bytes); }

// Work is done when its call returns, so streams and events have nothing to hold.
int StreamCreate(int32_t, tt_stream* out) {
  *out = nullptr;
  return TT_OK;
}
int StreamDone(int32_t, tt_stream) { return TT_OK; }
int StreamWaitEvent(int32_t, tt_stream, tt_event) { return TT_OK; }
int EventCreate(int32_t, tt_event* out) {
  *out = nullptr;
  return TT_OK;
}
int EventDone(int32_t, tt_event) { return TT_OK; }
int EventRecord(int32_t, tt_event, tt_stream) { return TT_OK; }

int Copy(int32_t, void* dst, const void* src, size_t bytes, tt_stream) {
  std::memcpy(dst, src, bytes);
  return TT_OK;
}

const char* LastError() { return t_error.c_str(); }

}  // namespace
}  // namespace telensor::cpu

namespace telensor::rt {

const tt_backend* CpuBackend() {
  using namespace telensor::cpu;
  static const tt_backend* const backend = [] {
    auto* b = new tt_backend();
    b->abi_version = TT_ABI_VERSION;
    b->size = sizeof(tt_backend);
    b->name = "cpu";
    b->version = "1";
    b->device_count = 1;
    b->no_device_reason = "";
    b->device_info = DeviceInfo;
    b->memory_info = MemoryInfo;
    b->memory_allocate = MemoryAllocate;
    b->memory_free = MemoryFree;
    b->host_allocate = HostAllocate;
    b->host_free = HostFree;
    b->stream_create = StreamCreate;
    b->stream_destroy = StreamDone;
    b->stream_synchronize = StreamDone;
    b->stream_wait_event = StreamWaitEvent;
    b->event_create = EventCreate;
    b->event_destroy = EventDone;
    b->event_record = EventRecord;
    b->event_query = EventDone;
    b->event_synchronize = EventDone;
    b->copy_to_device = Copy;
    b->copy_to_host = Copy;
    b->copy_on_device = Copy;
    b->kernels = Kernels().data();
    b->num_kernels = static_cast<int32_t>(Kernels().size());
    b->last_error = LastError;
    return b;
  }();
  return backend;
}

}  // namespace telensor::rt
