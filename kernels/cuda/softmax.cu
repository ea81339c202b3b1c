// softmax, log_softmax and nll_loss with their gradients.
#include <cstring>
#include <limits>

#include "kernels/cuda/block_sum.cuh"

namespace telensor::cuda {
namespace {

// A dense tensor as (outer, n, inner) around one dimension.
struct Axis {
  int64_t outer = 1, n = 1, inner = 1;
  Axis(const tt_tensor& t, int64_t dim) {
    if (t.rank == 0) return;
    const int d = WrapDim(dim, t.rank);
    for (int i = 0; i < d; ++i) outer *= t.sizes[i];
    n = t.sizes[d];
    for (int i = d + 1; i < t.rank; ++i) inner *= t.sizes[i];
  }
  __device__ int64_t Base(int64_t line) const { return line / inner * n * inner + line % inner; }
};

// A line of elements and those of its threads: a whole block where lines are dense, one thread where neighbours are
// lines of their own.
struct Alone {
  static constexpr int kBlock = 0;
  template <typename C>
  __device__ static C Sum(C v, C*) {
    return v;
  }
  template <typename C>
  __device__ static C Max(C v, C*, C) {
    return v;
  }
};
struct Together {
  static constexpr int kBlock = 1;
  template <typename C>
  __device__ static C Sum(C v, C* shared) {
    return BlockSum(v, shared);
  }
  template <typename C>
  __device__ static C Max(C v, C* shared, C least) {
    return BlockJoin(v, shared, least, Most<C>());
  }
};

template <typename Team, typename T>
__global__ void SoftmaxLines(Axis a, const T* x, T* y, bool log, ComputeType<T> least) {
  using C = ComputeType<T>;
  __shared__ C shared[33];
  const int64_t lines = a.outer * a.inner;
  const int64_t start = Team::kBlock ? threadIdx.x : 0, step = Team::kBlock ? blockDim.x : 1;
  const int64_t teams = Team::kBlock ? gridDim.x : int64_t{gridDim.x} * blockDim.x;
  for (int64_t line = Team::kBlock ? blockIdx.x : int64_t{blockIdx.x} * blockDim.x + threadIdx.x; line < lines;
       line += teams) {
    const int64_t base = a.Base(line);
    C most = least;
    for (int64_t i = start; i < a.n; i += step) most = Most<C>()(most, Widen(x[base + i * a.inner]));
    most = Team::Max(most, shared, least);
    C sum = 0;
    for (int64_t i = start; i < a.n; i += step) sum += std::exp(Widen(x[base + i * a.inner]) - most);
    sum = Team::Sum(sum, shared);
    const C log_sum = std::log(sum), scale = C(1) / sum;
    for (int64_t i = start; i < a.n; i += step) {
      const C v = Widen(x[base + i * a.inner]) - most;
      y[base + i * a.inner] = static_cast<T>(log ? v - log_sum : std::exp(v) * scale);
    }
  }
}

template <typename Team, typename T>
__global__ void SoftmaxGradientLines(Axis a, const T* g, const T* y, T* dx, bool log) {
  using C = ComputeType<T>;
  __shared__ C shared[33];
  const int64_t lines = a.outer * a.inner;
  const int64_t start = Team::kBlock ? threadIdx.x : 0, step = Team::kBlock ? blockDim.x : 1;
  const int64_t teams = Team::kBlock ? gridDim.x : int64_t{gridDim.x} * blockDim.x;
  for (int64_t line = Team::kBlock ? blockIdx.x : int64_t{blockIdx.x} * blockDim.x + threadIdx.x; line < lines;
       line += teams) {
    const int64_t base = a.Base(line);
    C sum = 0;
    for (int64_t i = start; i < a.n; i += step) {
      const int64_t at = base + i * a.inner;
      sum += log ? Widen(g[at]) : Widen(g[at]) * Widen(y[at]);
    }
    sum = Team::Sum(sum, shared);
    for (int64_t i = start; i < a.n; i += step) {
      const int64_t at = base + i * a.inner;
      const C gi = Widen(g[at]), yi = Widen(y[at]);
      dx[at] = static_cast<T>(log ? gi - std::exp(yi) * sum : yi * (gi - sum));
    }
  }
}

struct LineGrid {
  bool together;
  unsigned blocks, threads;
  LineGrid(tt_call* call, const Axis& a) {
    const int64_t lines = a.outer * a.inner;
    together = a.inner == 1 || (lines < 4096 && a.n > 256);
    const int64_t most = int64_t{ComputeUnits(call->device)} * 64;
    threads = together ? static_cast<unsigned>(RowThreads(a.n)) : 128u;
    const int64_t wanted = together ? lines : (lines + threads - 1) / threads;
    blocks = static_cast<unsigned>(wanted < most ? wanted : most);
  }
};

template <bool kLog>
int Softmax(tt_call* call) {
  const tt_tensor& in = call->inputs[0];
  if (in.numel == 0) return TT_OK;
  const Axis a(in, call->attrs[0].i);
  int code = TT_OK;
  const void* dense = Dense(call, in, &code);
  if (code != TT_OK) return code;
  return DispatchFloating(call, in.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto least = -std::numeric_limits<ComputeType<T>>::infinity();
    const LineGrid grid(call, a);
    const T* x = static_cast<const T*>(dense);
    T* y = static_cast<T*>(call->outputs[0].data);
    if (grid.together) {
      SoftmaxLines<Together, T><<<grid.blocks, grid.threads, 0, StreamOf(call)->stream>>>(a, x, y, kLog, least);
    } else {
      SoftmaxLines<Alone, T><<<grid.blocks, grid.threads, 0, StreamOf(call)->stream>>>(a, x, y, kLog, least);
    }
    return Launched(call);
  });
}

template <bool kLog>
int SoftmaxBackward(tt_call* call) {
  const tt_tensor &grad = call->inputs[0], &result = call->inputs[1];
  if (!SameSizes(grad, result))
    return Fail(call, TT_INVALID_ARGUMENT, "softmax backward: the sizes do not belong together");
  if (result.rank > 0 && (call->attrs[0].i < -result.rank || call->attrs[0].i >= result.rank)) {
    return Fail(call, TT_OUT_OF_RANGE, "softmax backward: dimension out of range");
  }
  if (result.numel == 0) return TT_OK;
  const Axis a(result, call->attrs[0].i);
  int code = TT_OK;
  const void* dense_g = Dense(call, grad, &code);
  const void* dense_y = code == TT_OK ? Dense(call, result, &code) : nullptr;
  if (code != TT_OK) return code;
  return DispatchFloating(call, result.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const LineGrid grid(call, a);
    const T *g = static_cast<const T*>(dense_g), *y = static_cast<const T*>(dense_y);
    T* dx = static_cast<T*>(call->outputs[0].data);
    if (grid.together) {
      SoftmaxGradientLines<Together, T><<<grid.blocks, grid.threads, 0, StreamOf(call)->stream>>>(a, g, y, dx, kLog);
    } else {
      SoftmaxGradientLines<Alone, T><<<grid.blocks, grid.threads, 0, StreamOf(call)->stream>>>(a, g, y, dx, kLog);
    }
    return Launched(call);
  });
}

enum Reduction { kNone, kMean, kSum };
Reduction ReductionOf(const tt_value& v) {
  return std::strcmp(v.text, "mean") == 0 ? kMean : std::strcmp(v.text, "sum") == 0 ? kSum : kNone;
}

template <typename T>
struct Losses {
  const T* x;
  int64_t row_stride, class_stride, classes, ignore;
  const int64_t* target;
  const T* weight;
  int64_t weight_stride;
  Report* report;

  // The weight of row i, its target in *t; 0 where it does not count.
  __device__ ComputeType<T> Weight(int64_t i, int64_t* t) const {
    *t = target[i];
    if (*t == ignore) return 0;
    if (*t < 0 || *t >= classes) {
      ReportError(report, Report::kTarget, *t, 1, classes);
      *t = ignore;
      return 0;
    }
    return weight != nullptr ? Widen(weight[*t * weight_stride]) : ComputeType<T>(1);
  }
  __device__ ComputeType<T> Loss(int64_t i, ComputeType<T>* w) const {
    int64_t t;
    *w = Weight(i, &t);
    return t == ignore ? ComputeType<T>(0) : -*w * Widen(x[i * row_stride + t * class_stride]);
  }
};

// One block: the rows of a batch are few, and the order of the sum is fixed.
template <typename T>
__global__ void NllSum(Losses<T> losses, int64_t rows, int reduction, T* out, T* total) {
  using C = ComputeType<T>;
  __shared__ double shared[33];
  double sum = 0, weights = 0;
  for (int64_t i = threadIdx.x; i < rows; i += blockDim.x) {
    C w;
    const C loss = losses.Loss(i, &w);
    if (reduction == kNone) out[i] = static_cast<T>(loss);
    sum += static_cast<double>(loss);
    weights += static_cast<double>(w);
  }
  sum = BlockSum(sum, shared);
  weights = BlockSum(weights, shared);
  if (threadIdx.x != 0) return;
  // No row at all gives NaN, as in PyTorch.
  if (reduction != kNone) out[0] = Narrow<T>(reduction == kMean ? sum / weights : sum);
  *total = Narrow<T>(reduction == kNone ? 0.0 : weights);
}

int NllLoss(tt_call* call) {
  const tt_tensor &input = call->inputs[0], &target = call->inputs[1], &weight = call->inputs[2];
  const int64_t rows = input.sizes[0];
  int code = TT_OK;
  const void* t = Dense(call, target, &code);
  if (code != TT_OK) return code;
  return DispatchFloating(call, input.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Losses<T> losses = {static_cast<const T*>(input.data),
                              input.strides[0],
                              input.strides[1],
                              input.sizes[1],
                              call->attrs[0].i,
                              static_cast<const int64_t*>(t),
                              weight.dtype != 0 ? static_cast<const T*>(weight.data) : nullptr,
                              weight.dtype != 0 ? weight.strides[0] : 0,
                              StreamOf(call)->report};
    NllSum<T><<<1, RowThreads(rows), 0, StreamOf(call)->stream>>>(losses, rows, ReductionOf(call->attrs[1]),
                                                                  static_cast<T*>(call->outputs[0].data),
                                                                  static_cast<T*>(call->outputs[1].data));
    return Launched(call);
  });
}

// The weights of all rows; the total that the forward pass gave is rounded to T.
template <typename T>
__global__ void NllTotal(Losses<T> losses, int64_t rows, double* total) {
  __shared__ double shared[33];
  double weights = 0;
  for (int64_t i = threadIdx.x; i < rows; i += blockDim.x) {
    int64_t t;
    weights += static_cast<double>(losses.Weight(i, &t));
  }
  weights = BlockSum(weights, shared);
  if (threadIdx.x == 0) *total = weights;
}

template <typename T>
struct NllGradientAt {
  Losses<T> losses;
  const T* grad;
  const double* total;  // NULL: one
  bool each;
  T* dx;
  __device__ void operator()(int64_t i) const {
    using C = ComputeType<T>;
    int64_t t;
    const C w = losses.Weight(i, &t);
    if (t == losses.ignore) return;
    C share = Widen(grad[each ? i : 0]);
    if (total != nullptr) share /= static_cast<C>(*total);
    dx[i * losses.classes + t] = static_cast<T>(-w * share);
  }
};

int NllLossBackward(tt_call* call) {
  const tt_tensor &grad = call->inputs[0], &target = call->inputs[1], &weight = call->inputs[2];
  const tt_tensor& out = call->outputs[0];
  const Reduction reduction = ReductionOf(call->attrs[2]);
  const bool each = reduction == kNone;
  if (out.rank != 2 || target.numel != out.sizes[0] || target.dtype != TT_INT64 || grad.dtype != out.dtype ||
      grad.numel != (each ? out.sizes[0] : 1) ||
      (weight.dtype != 0 && (weight.dtype != out.dtype || weight.rank != 1 || weight.numel != out.sizes[1]))) {
    return Fail(call, TT_INVALID_ARGUMENT, "nll_loss backward: sizes or dtypes do not fit");
  }
  int code = ZeroFill(call, out.data, out.numel * ElementSize(out.dtype));
  const void* t = code == TT_OK ? Dense(call, target, &code) : nullptr;
  const void* g = code == TT_OK ? Dense(call, grad, &code) : nullptr;
  double* total = nullptr;
  if (code == TT_OK && reduction == kMean) total = static_cast<double*>(Workspace(call, sizeof(double), &code));
  if (code != TT_OK) return code;
  return DispatchFloating(call, grad.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const int64_t rows = out.sizes[0];
    const Losses<T> losses = {nullptr,
                              0,
                              0,
                              out.sizes[1],
                              call->attrs[1].i,
                              static_cast<const int64_t*>(t),
                              weight.dtype != 0 ? static_cast<const T*>(weight.data) : nullptr,
                              weight.dtype != 0 ? weight.strides[0] : 0,
                              StreamOf(call)->report};
    if (total != nullptr) {
      NllTotal<T><<<1, RowThreads(rows), 0, StreamOf(call)->stream>>>(losses, rows, total);
      if (code = Launched(call); code != TT_OK) return code;
    }
    return ForEach(call, rows,
                   NllGradientAt<T>{losses, static_cast<const T*>(g), total, each, static_cast<T*>(out.data)});
  });
}

}  // namespace

void AppendSoftmaxKernels(KernelList* list) {
  list->push_back({"_softmax", TT_FLOATING, OnDevice<Softmax<false>>});
  list->push_back({"_log_softmax", TT_FLOATING, OnDevice<Softmax<true>>});
  list->push_back({"_softmax_backward", TT_FLOATING, OnDevice<SoftmaxBackward<false>>});
  list->push_back({"_log_softmax_backward", TT_FLOATING, OnDevice<SoftmaxBackward<true>>});
  list->push_back({"_nll_loss", TT_FLOATING, OnDevice<NllLoss>});
  list->push_back({"_nll_loss_backward", TT_FLOATING, OnDevice<NllLossBackward>});
}

}  // namespace telensor::cuda
