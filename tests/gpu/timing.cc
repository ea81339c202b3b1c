// Figures of a backend: bandwidth of elementwise kernels, products per second, the cost of a launch.
//
//   gpu_timing cpu | PATH
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>

#include "tests/gpu/runner.h"

namespace telensor::conformance {
namespace {

using Clock = std::chrono::steady_clock;

class Timing {
 public:
  explicit Timing(Runner* runner) : runner_(runner) {}

  // Seconds a call of `kernel` takes, the best of three rounds; the device's work counts, not the host's alone.
  double Seconds(const tt_kernel& kernel, tt_call* call, double at_least) {
    double best = 1e30;
    int repeats = 1;
    for (int round = 0; round < 3;) {
      const auto start = Clock::now();
      for (int i = 0; i < repeats; ++i) {
        runner_->ReuseWorkspaces();
        if (const int code = kernel.run(call); code != TT_OK) {
          std::printf("%s failed: %s\n", kernel.op, call->error);
          failed_ = true;
          return 1e30;
        }
      }
      if (!runner_->Synchronize()) {
        std::printf("%s failed\n", kernel.op);
        failed_ = true;
        return 1e30;
      }
      const double took = std::chrono::duration<double>(Clock::now() - start).count();
      if (took < at_least && repeats < (1 << 20)) {
        repeats *= 2;
        continue;
      }
      best = std::min(best, took / repeats);
      ++round;
    }
    return best;
  }

  struct Dense {
    int64_t sizes[2], strides[2];
    tt_tensor tensor;
    void Make(Runner* r, int64_t rows, int64_t columns, int dtype, int64_t size) {
      sizes[0] = rows, sizes[1] = columns;
      strides[0] = columns, strides[1] = 1;
      tensor = {};
      tensor.data = r->Allocate(static_cast<size_t>(rows * columns * size));
      tensor.sizes = rows == 1 ? sizes + 1 : sizes;
      tensor.strides = rows == 1 ? strides + 1 : strides;
      tensor.rank = rows == 1 ? 1 : 2;
      tensor.numel = rows * columns;
      tensor.dtype = dtype;
      tensor.contiguous = 1;
    }
  };

  // Zeros give a GPU less to switch, so products of them look too fast: ones from `full`, then noise from `randn`.
  void Fill(tt_tensor* t) {
    const tt_kernel* randn = runner_->Find("randn");
    if (randn == nullptr) return;
    tt_call call;
    runner_->Prepare(&call);
    call.outputs = t;
    call.num_outputs = 1;
    call.seed = 1;
    (void)randn->run(&call);
    (void)runner_->Synchronize();
  }

  void Elementwise(const char* op, int inputs, int dtype, int64_t size, int64_t n) {
    const tt_kernel* kernel = runner_->Find(op);
    if (kernel == nullptr) return;
    Dense t[3];
    tt_tensor in[2];
    for (int i = 0; i <= inputs; ++i) {
      t[i].Make(runner_, 1, n, dtype, size);
      if (t[i].tensor.data == nullptr) return;
      if (i > 0) in[i - 1] = t[i].tensor;
      Fill(&t[i].tensor);
    }
    tt_value one = {};
    one.kind = 2;
    one.i = 1;
    one.f = 1;
    tt_call call;
    runner_->Prepare(&call);
    call.outputs = &t[0].tensor;
    call.num_outputs = 1;
    call.inputs = in;
    call.num_inputs = inputs;
    call.attrs = &one;
    call.num_attrs = 1;
    const double seconds = Seconds(*kernel, &call, n > 100000 ? 0.1 : 0.05);
    if (n > 100000) {
      std::printf("%-8s dtype %2d  %10lld elements  %8.1f us  %8.1f GB/s\n", op, dtype, static_cast<long long>(n),
                  seconds * 1e6, static_cast<double>((inputs + 1) * n * size) / seconds * 1e-9);
    } else {
      std::printf("%-8s dtype %2d  %10lld elements  %8.2f us a call\n", op, dtype, static_cast<long long>(n),
                  seconds * 1e6);
    }
    runner_->Free();
  }

  void Sum(int dtype, int64_t size, int64_t rows, int64_t columns, int64_t dim) {
    const tt_kernel* kernel = runner_->Find("sum");
    if (kernel == nullptr) return;
    Dense in, out;
    in.Make(runner_, rows, columns, dtype, size);
    out.Make(runner_, 1, dim == 0 ? columns : rows, dtype, size);
    if (in.tensor.data == nullptr || out.tensor.data == nullptr) return;
    Fill(&in.tensor);
    tt_value attrs[3] = {};
    attrs[0].kind = 4;
    attrs[0].count = 1;
    attrs[0].ints = &dim;
    attrs[1].kind = 1;
    tt_call call;
    runner_->Prepare(&call);
    call.outputs = &out.tensor;
    call.num_outputs = 1;
    call.inputs = &in.tensor;
    call.num_inputs = 1;
    call.attrs = attrs;
    call.num_attrs = 3;
    const double seconds = Seconds(*kernel, &call, 0.1);
    std::printf("sum      dtype %2d  %lld x %lld along %lld  %8.1f us  %8.1f GB/s\n", dtype,
                static_cast<long long>(rows), static_cast<long long>(columns), static_cast<long long>(dim),
                seconds * 1e6, static_cast<double>(rows * columns * size) / seconds * 1e-9);
    runner_->Free();
  }

  // cumsum and sort, along the rows.
  void Ordered(const char* op, int dtype, int64_t size, int64_t rows, int64_t columns) {
    const tt_kernel* kernel = runner_->Find(op);
    if (kernel == nullptr) return;
    Dense in, values, indices;
    in.Make(runner_, rows, columns, dtype, size);
    values.Make(runner_, rows, columns, dtype, size);
    indices.Make(runner_, rows, columns, TT_INT64, 8);
    if (in.tensor.data == nullptr || values.tensor.data == nullptr || indices.tensor.data == nullptr) return;
    Fill(&in.tensor);
    const tt_tensor outputs[2] = {values.tensor, indices.tensor};
    tt_value attrs[3] = {};
    attrs[0].kind = 2;
    attrs[0].i = -1;
    tt_call call;
    runner_->Prepare(&call);
    call.outputs = outputs;
    call.num_outputs = std::string(op) == "sort" ? 2 : 1;
    call.inputs = &in.tensor;
    call.num_inputs = 1;
    call.attrs = attrs;
    call.num_attrs = 3;
    const double seconds = Seconds(*kernel, &call, 0.1);
    std::printf("%-8s dtype %2d  %lld x %lld  %8.1f us  %8.1f million elements/s\n", op, dtype,
                static_cast<long long>(rows), static_cast<long long>(columns), seconds * 1e6,
                static_cast<double>(rows * columns) / seconds * 1e-6);
    runner_->Free();
  }

  void Product(int dtype, int64_t size, int64_t n) {
    const tt_kernel* kernel = runner_->Find("mm");
    if (kernel == nullptr) return;
    Dense t[3];
    for (Dense& one : t) {
      one.Make(runner_, n, n, dtype, size);
      if (one.tensor.data == nullptr) return;
      Fill(&one.tensor);
    }
    const tt_tensor in[2] = {t[1].tensor, t[2].tensor};
    tt_call call;
    runner_->Prepare(&call);
    call.outputs = &t[0].tensor;
    call.num_outputs = 1;
    call.inputs = in;
    call.num_inputs = 2;
    const double seconds = Seconds(*kernel, &call, 0.2);
    std::printf("mm       dtype %2d  %lld^3  %8.1f us  %8.2f TFLOP/s\n", dtype, static_cast<long long>(n),
                seconds * 1e6,
                2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n) / seconds * 1e-12);
    runner_->Free();
  }

  bool failed() const { return failed_; }

 private:
  Runner* runner_;
  bool failed_ = false;
};

int Main(int argc, char** argv) {
  const tt_backend* api = argc > 1 ? OpenBackend(argv[1]) : nullptr;
  Runner* runner = api != nullptr ? Runner::Open(api) : nullptr;
  if (runner == nullptr) {
    if (api == nullptr) std::fprintf(stderr, "usage: gpu_timing cpu | PATH\n");
    return api != nullptr && api->device_count == 0 ? 3 : 1;
  }
  tt_device_info info = {};
  info.size = sizeof(info);
  if (api->device_info(0, &info) == TT_OK)
    std::printf("%s: %s, %d compute units\n", api->name, info.name, info.compute_units);
  const bool host = info.host_accessible != 0;
  const int64_t n = host ? int64_t{1} << 22 : int64_t{1} << 28;
  Timing t(runner);
  t.Elementwise("add", 2, TT_FLOAT32, 4, 16);
  t.Elementwise("add", 2, TT_FLOAT32, 4, n);
  t.Elementwise("add", 2, TT_BFLOAT16, 2, n);
  t.Elementwise("mul", 2, TT_FLOAT64, 8, n / 2);
  t.Elementwise("exp", 1, TT_FLOAT32, 4, n);
  t.Elementwise("exp", 1, TT_BFLOAT16, 2, n);
  t.Sum(TT_FLOAT32, 4, n >> 12, 4096, 1);
  t.Sum(TT_FLOAT32, 4, n >> 12, 4096, 0);
  t.Sum(TT_BFLOAT16, 2, n >> 12, 4096, 1);
  for (const int64_t rows : {int64_t{1}, n >> 15}) {
    t.Ordered("cumsum", TT_FLOAT32, 4, rows, (n >> 3) / rows);
    t.Ordered("sort", TT_FLOAT32, 4, rows, (n >> 3) / rows);
    t.Ordered("sort", TT_FLOAT64, 8, rows, (n >> 3) / rows);
  }
  const int64_t side = host ? 512 : 8192;
  t.Product(TT_FLOAT32, 4, side);
  t.Product(TT_BFLOAT16, 2, side);
  t.Product(TT_FLOAT64, 8, side / 2);
  delete runner;
  return t.failed() ? 1 : 0;
}

}  // namespace
}  // namespace telensor::conformance

int main(int argc, char** argv) { return telensor::conformance::Main(argc, argv); }
