/* The plug-in ABI: how the runtime talks to a device backend.
 *
 * Plain C. The CPU backend fills the same struct and is linked in; CUDA is a shared object opened at run time.
 * No C++ type and no exception crosses. Every struct starts with its size, so members can be appended.
 *
 * Threads: one compute thread calls `run` functions of one device at a time; memory, copy, event and stream
 * functions may be called from any thread at once.
 */
#ifndef TELENSOR_KERNELS_PLUGIN_ABI_H_
#define TELENSOR_KERNELS_PLUGIN_ABI_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TT_ABI_VERSION 1
#define TT_MAX_RANK 16

/* Status codes of every function below. */
enum {
  TT_OK = 0,
  TT_INVALID_ARGUMENT = 1,
  TT_OUT_OF_RANGE = 2, /* an index value out of bounds: IndexError in Python */
  TT_OUT_OF_MEMORY = 3,
  TT_UNIMPLEMENTED = 4,
  TT_INTERNAL = 5,
  TT_NOT_READY = 6 /* event_query only */
};

/* The numbers of telensor::DType (proto/core/dtype.h). */
enum {
  TT_BOOL = 1, TT_UINT8 = 2, TT_INT8 = 3, TT_INT16 = 4, TT_INT32 = 5, TT_INT64 = 6,
  TT_FLOAT16 = 7, TT_BFLOAT16 = 8, TT_FLOAT32 = 9, TT_FLOAT64 = 10
};
#define TT_DTYPE_BIT(t) (1u << (t))
#define TT_FLOATING (TT_DTYPE_BIT(7) | TT_DTYPE_BIT(8) | TT_DTYPE_BIT(9) | TT_DTYPE_BIT(10))
#define TT_INTEGER (TT_DTYPE_BIT(2) | TT_DTYPE_BIT(3) | TT_DTYPE_BIT(4) | TT_DTYPE_BIT(5) | TT_DTYPE_BIT(6))
#define TT_ALL_DTYPES (TT_FLOATING | TT_INTEGER | TT_DTYPE_BIT(1))

typedef struct tt_tensor {
  void* data;             /* first element; NULL with dtype 0 where an optional tensor is absent */
  const int64_t* sizes;   /* rank of them */
  const int64_t* strides; /* in elements; 0 where broadcast */
  int64_t numel;
  int32_t rank;
  int32_t dtype;
  int32_t on_host;        /* a number given as an operand: data points to one element in host memory */
  int32_t contiguous;     /* dense and row-major */
} tt_tensor;

/* telensor::Value, seen from C. `kind` has the numbers of Value::Kind. */
typedef struct tt_value {
  int32_t kind; /* 0 none, 1 bool, 2 int, 3 float, 4 ints, 5 string, 6 dtype, 7 device, 8 floats */
  int32_t count;
  int64_t i;
  double f;
  const int64_t* ints;
  const double* floats;
  const char* text;
} tt_value;

typedef void* tt_stream;
typedef void* tt_event;

/* One call of one op. Outputs are allocated, with the dtypes and shapes of the op's row.
 * For an elementwise row all tensors come with the same sizes, adjacent dimensions merged. */
typedef struct tt_call {
  uint32_t size;
  int32_t device; /* the backend's own number of it */
  int32_t num_inputs, num_outputs, num_attrs;
  const tt_tensor* inputs;
  const tt_tensor* outputs;
  const tt_value* attrs; /* in the order of the op's signature, defaults filled in */
  tt_stream stream;
  uint64_t seed;   /* random rows: Philox key */
  uint64_t offset; /* random rows: Philox counter of this call */
  /* Device memory that lives until the work queued by this call is done; NULL where there is none left. */
  void* (*workspace)(struct tt_call* call, size_t bytes);
  void* host; /* the runtime's own */
  char* error; /* where a failing kernel writes why */
  uint32_t error_size;
} tt_call;

typedef int (*tt_kernel_fn)(tt_call* call);

typedef struct tt_kernel {
  const char* op;  /* the row's name */
  uint32_t dtypes; /* TT_DTYPE_BIT of each compute dtype it takes */
  tt_kernel_fn run;
} tt_kernel;

typedef struct tt_device_info {
  uint32_t size;
  char name[128];
  uint64_t total_memory;
  int32_t host_accessible; /* memory of this device can be read and written by the host directly */
  int32_t compute_units;
} tt_device_info;

typedef struct tt_backend {
  uint32_t abi_version; /* TT_ABI_VERSION */
  uint32_t size;        /* sizeof(tt_backend) */
  const char* name;     /* "cpu", "cuda" */
  const char* version;
  int32_t device_count;
  const char* no_device_reason; /* why device_count is 0 */

  int (*device_info)(int32_t device, tt_device_info* info);
  int (*memory_info)(int32_t device, uint64_t* free_bytes, uint64_t* total_bytes);
  int (*memory_allocate)(int32_t device, size_t bytes, void** out);
  int (*memory_free)(int32_t device, void* data, size_t bytes);
  int (*host_allocate)(size_t bytes, void** out); /* pinned, where that means something */
  int (*host_free)(void* data, size_t bytes);

  int (*stream_create)(int32_t device, tt_stream* out);
  int (*stream_destroy)(int32_t device, tt_stream stream);
  int (*stream_synchronize)(int32_t device, tt_stream stream);
  int (*stream_wait_event)(int32_t device, tt_stream stream, tt_event event);
  int (*event_create)(int32_t device, tt_event* out);
  int (*event_destroy)(int32_t device, tt_event event);
  int (*event_record)(int32_t device, tt_event event, tt_stream stream);
  int (*event_query)(int32_t device, tt_event event); /* TT_OK or TT_NOT_READY */
  int (*event_synchronize)(int32_t device, tt_event event);

  /* Queued on the stream; host memory must stay valid until the stream has passed. */
  int (*copy_to_device)(int32_t device, void* dst, const void* src, size_t bytes, tt_stream stream);
  int (*copy_to_host)(int32_t device, void* dst, const void* src, size_t bytes, tt_stream stream);
  int (*copy_on_device)(int32_t device, void* dst, const void* src, size_t bytes, tt_stream stream);

  const tt_kernel* kernels;
  int32_t num_kernels;
  const char* (*last_error)(void); /* the calling thread's last failure, in words */
} tt_backend;

/* The one symbol of a plug-in. Never NULL; a backend without a device says why. */
typedef const tt_backend* (*tt_backend_get_fn)(void);
#define TT_BACKEND_SYMBOL "telensor_backend"

#ifdef __cplusplus
}
#endif

#endif /* TELENSOR_KERNELS_PLUGIN_ABI_H_ */
