// The plug-in's one symbol: the table of its functions and kernels.
#include <cstdio>

#include "kernels/cuda/copy.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/memory.h"
#include "kernels/cuda/stream.h"

namespace telensor::cuda {
namespace {

int DeviceInfo(int32_t device, tt_device_info* info) {
  cudaDeviceProp properties;
  const cudaError_t error = cudaGetDeviceProperties(&properties, device);
  if (error != cudaSuccess) return Check(nullptr, error, "cudaGetDeviceProperties");
  std::snprintf(info->name, sizeof(info->name), "%.127s", properties.name);
  info->total_memory = properties.totalGlobalMem;
  info->host_accessible = 0;
  info->compute_units = properties.multiProcessorCount;
  return TT_OK;
}

struct Table {
  tt_backend backend = {};
  KernelList kernels;
  char reason[256] = {};

  Table();
};

Table::Table() {
  AppendUnaryKernels(&kernels);
  AppendFloatUnaryKernels(&kernels);
  AppendBinaryKernels(&kernels);
  AppendFloatBinaryKernels(&kernels);
  AppendComparisonKernels(&kernels);
  AppendCopyKernels(&kernels);
  AppendCreationKernels(&kernels);
  AppendRandomKernels(&kernels);
  AppendReductionKernels(&kernels);
  AppendExtremumKernels(&kernels);
  AppendMatmulKernels(&kernels);
  AppendConvolutionKernels(&kernels);
  AppendPoolingKernels(&kernels);
  AppendNormKernels(&kernels);
  AppendSoftmaxKernels(&kernels);
  AppendScanKernels(&kernels);
  AppendOrderKernels(&kernels);
  AppendIndexingKernels(&kernels);
  AppendScatterKernels(&kernels);
  AppendShapeKernels(&kernels);
  AppendOptimKernels(&kernels);

  backend.abi_version = TT_ABI_VERSION;
  backend.size = sizeof(tt_backend);
  backend.name = "cuda";
  backend.version = TELENSOR_VERSION;
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count > 0) {
    backend.device_count = count;
  } else {
    (void)cudaGetLastError();
    int driver = 0;
    // Without libcuda.so.1 the runtime knows a driver version of 0 and calls it too old.
    if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0) {
      std::snprintf(reason, sizeof(reason), "the NVIDIA driver is not installed (libcuda.so.1 not found)");
    } else if (error == cudaErrorInsufficientDriver) {
      std::snprintf(reason, sizeof(reason), "the NVIDIA driver serves CUDA %d.%d, this plug-in needs %d.%d",
                    driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    } else {
      std::snprintf(reason, sizeof(reason), "%s",
                    error == cudaSuccess ? "there is no CUDA device" : cudaGetErrorString(error));
    }
    backend.no_device_reason = reason;
  }
  backend.device_info = DeviceInfo;
  backend.memory_info = MemoryInfo;
  backend.memory_allocate = MemoryAllocate;
  backend.memory_free = MemoryFree;
  backend.host_allocate = HostAllocate;
  backend.host_free = HostFree;
  backend.stream_create = StreamCreate;
  backend.stream_destroy = StreamDestroy;
  backend.stream_synchronize = StreamSynchronize;
  backend.stream_wait_event = StreamWaitEvent;
  backend.event_create = EventCreate;
  backend.event_destroy = EventDestroy;
  backend.event_record = EventRecord;
  backend.event_query = EventQuery;
  backend.event_synchronize = EventSynchronize;
  backend.copy_to_device = CopyToDevice;
  backend.copy_to_host = CopyToHost;
  backend.copy_on_device = CopyOnDevice;
  backend.kernels = kernels.data();
  backend.num_kernels = static_cast<int32_t>(kernels.size());
  backend.last_error = LastError;
}

}  // namespace
}  // namespace telensor::cuda

extern "C" __attribute__((visibility("default"))) const tt_backend* telensor_backend(void) {
  // Never destroyed: the runtime's threads may outlive static destruction.
  static const auto* const table = new telensor::cuda::Table();
  return &table->backend;
}
