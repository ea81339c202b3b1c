// batch_norm and layer_norm with their gradients. Statistics are summed in double.
#include "kernels/cuda/block_sum.cuh"

namespace telensor::cuda {
namespace {

// A vector of any floating dtype; absent ones give a constant.
struct Vector {
  const void* data;
  int64_t stride;
  int dtype;

  explicit Vector(const tt_tensor& t) : data(t.data), stride(t.rank > 0 ? t.strides[0] : 0), dtype(t.dtype) {}
  Vector(const void* dense, int type) : data(dense), stride(1), dtype(type) {}
  __device__ double At(int64_t i, double otherwise) const {
    i *= stride;
    switch (dtype) {
      case TT_FLOAT32: return static_cast<const float*>(data)[i];
      case TT_FLOAT64: return static_cast<const double*>(data)[i];
      case TT_FLOAT16: return static_cast<double>(Widen(static_cast<const Half*>(data)[i]));
      case TT_BFLOAT16: return static_cast<double>(Widen(static_cast<const BFloat16*>(data)[i]));
      default: return otherwise;
    }
  }
  __device__ void Put(int64_t i, double v) const {
    i *= stride;
    void* to = const_cast<void*>(data);
    switch (dtype) {
      case TT_FLOAT32: static_cast<float*>(to)[i] = static_cast<float>(v); break;
      case TT_FLOAT64: static_cast<double*>(to)[i] = v; break;
      case TT_FLOAT16: static_cast<Half*>(to)[i] = Narrow<Half>(v); break;
      case TT_BFLOAT16: static_cast<BFloat16*>(to)[i] = Narrow<BFloat16>(v); break;
      default: break;
    }
  }
};

// (outer, channels, inner) of a dense tensor whose channels are dimension 1.
struct Channels {
  int64_t outer, channels, inner;
  explicit Channels(const tt_tensor& t) : outer(t.sizes[0]), channels(t.sizes[1]), inner(1) {
    for (int d = 2; d < t.rank; ++d) inner *= t.sizes[d];
  }
  __host__ __device__ int64_t count() const { return outer * inner; }
  // Element i of a channel.
  __device__ int64_t At(int64_t channel, int64_t i) const {
    return (i / inner * channels + channel) * inner + i % inner;
  }
};

// One block a channel: mean and 1 / std, by two passes, and the running statistics.
template <typename T>
__global__ void ChannelStatistics(Channels l, const T* x, Vector running_mean, Vector running_var, Vector save_mean,
                                  Vector save_invstd, double momentum, double eps) {
  __shared__ double shared[33];
  const int64_t c = blockIdx.x, n = l.count();
  double sum = 0;
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) sum += static_cast<double>(Widen(x[l.At(c, i)]));
  const double mean = BlockSum(sum, shared) / static_cast<double>(n);
  double squares = 0;
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
    const double d = static_cast<double>(Widen(x[l.At(c, i)])) - mean;
    squares += d * d;
  }
  squares = BlockSum(squares, shared);
  if (threadIdx.x != 0) return;
  save_mean.Put(c, mean);
  save_invstd.Put(c, 1.0 / sqrt(squares / static_cast<double>(n) + eps));
  running_mean.Put(c, (1 - momentum) * running_mean.At(c, 0) + momentum * mean);
  running_var.Put(c, (1 - momentum) * running_var.At(c, 0) + momentum * squares / static_cast<double>(n - 1));
}

struct KnownStatistics {
  Vector running_mean, running_var, save_mean, save_invstd;
  double eps;
  __device__ void operator()(int64_t c) const {
    save_mean.Put(c, running_mean.At(c, 0));
    save_invstd.Put(c, 1.0 / sqrt(running_var.At(c, 1) + eps));
  }
};

template <typename T>
struct Normalise {
  Channels l;
  const T* x;
  T* y;
  Vector mean, invstd, weight, bias;
  __device__ void operator()(int64_t i) const {
    using C = ComputeType<T>;
    const int64_t c = i / l.inner % l.channels;
    const C scale = static_cast<C>(invstd.At(c, 1)) * static_cast<C>(weight.At(c, 1));
    const C shift = static_cast<C>(bias.At(c, 0)) - static_cast<C>(mean.At(c, 0)) * scale;
    y[i] = static_cast<T>(Widen(x[i]) * scale + shift);
  }
};

struct NoStatistics {
  Vector save_mean, save_invstd;
  __device__ void operator()(int64_t c) const {
    save_mean.Put(c, NAN);
    save_invstd.Put(c, NAN);
  }
};

bool HasChannels(const tt_tensor& t, int64_t channels) {
  return t.dtype == 0 || (t.rank == 1 && t.sizes[0] == channels);
}

int BatchNorm(tt_call* call) {
  const tt_tensor& input = call->inputs[0];
  const bool training = call->attrs[0].i != 0;
  bool good = input.rank >= 2;
  for (int i = 1; good && i < 5; ++i) good = HasChannels(call->inputs[i], input.sizes[1]);
  if (!good) return Fail(call, TT_INVALID_ARGUMENT, "batch_norm: the sizes do not fit");
  if (!training && (call->inputs[1].dtype == 0 || call->inputs[2].dtype == 0)) {
    return Fail(call, TT_INVALID_ARGUMENT, "running statistics must be defined in evaluation mode");
  }
  const Vector running_mean(call->inputs[1]), running_var(call->inputs[2]), weight(call->inputs[3]),
      bias(call->inputs[4]);
  const Vector save_mean(call->outputs[1]), save_invstd(call->outputs[2]);
  const double momentum = call->attrs[1].f, eps = call->attrs[2].f;
  const Channels l(input);
  if (l.channels == 0) return TT_OK;
  if (l.channels > INT32_MAX) return Fail(call, TT_UNIMPLEMENTED, "batch_norm of more than 2^31 channels");
  // No batch to take statistics of: the running ones stay.
  if (training && l.count() == 0) return ForEach(call, l.channels, NoStatistics{save_mean, save_invstd});
  int code = TT_OK;
  const void* dense = Dense(call, input, &code);
  if (code != TT_OK) return code;
  return DispatchFloating(call, input.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = static_cast<const T*>(dense);
    if (training) {
      ChannelStatistics<T><<<static_cast<unsigned>(l.channels), RowThreads(l.count()), 0, StreamOf(call)->stream>>>(
          l, x, running_mean, running_var, save_mean, save_invstd, momentum, eps);
      code = Launched(call);
    } else {
      code = ForEach(call, l.channels, KnownStatistics{running_mean, running_var, save_mean, save_invstd, eps});
    }
    if (code != TT_OK) return code;
    return ForEach(call, input.numel,
                   Normalise<T>{l, x, static_cast<T*>(call->outputs[0].data), save_mean, save_invstd, weight, bias});
  });
}

// One block a channel: the sums of the gradient and of its product with the distance from the mean.
template <typename T>
__global__ void ChannelGradients(Channels l, const T* g, const T* x, Vector mean, Vector invstd, Vector grad_weight,
                                 Vector grad_bias, double* sums) {
  __shared__ double shared[33];
  const int64_t c = blockIdx.x, n = l.count();
  const double m = mean.At(c, 0);
  double sum = 0, dot = 0;
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
    const int64_t at = l.At(c, i);
    const double gi = static_cast<double>(Widen(g[at]));
    sum += gi;
    dot += gi * (static_cast<double>(Widen(x[at])) - m);
  }
  sum = BlockSum(sum, shared);
  dot = BlockSum(dot, shared);
  if (threadIdx.x != 0) return;
  grad_weight.Put(c, dot * invstd.At(c, 1));
  grad_bias.Put(c, sum);
  sums[2 * c] = sum;
  sums[2 * c + 1] = dot;
}

template <typename T>
struct ChannelInputGradient {
  Channels l;
  const T *g, *x;
  T* dx;
  Vector mean, invstd, weight;
  const double* sums;
  bool training;
  __device__ void operator()(int64_t i) const {
    using C = ComputeType<T>;
    const int64_t c = i / l.inner % l.channels;
    const double n = static_cast<double>(l.count());
    const C s = static_cast<C>(invstd.At(c, 1)), w = static_cast<C>(weight.At(c, 1));
    const C k = training ? static_cast<C>(sums[2 * c + 1] / n) * s * s : C(0);
    const C m = training ? static_cast<C>(sums[2 * c] / n) : C(0);
    dx[i] = static_cast<T>((Widen(g[i]) - m - (Widen(x[i]) - static_cast<C>(mean.At(c, 0))) * k) * (w * s));
  }
};

int BatchNormBackward(tt_call* call) {
  const tt_tensor &grad = call->inputs[0], &input = call->inputs[1], &weight = call->inputs[2];
  const tt_tensor &save_mean = call->inputs[3], &save_invstd = call->inputs[4];
  bool good = input.rank >= 2 && SameSizes(grad, input) && grad.dtype == input.dtype;
  good = good && save_mean.dtype != 0 && save_invstd.dtype != 0;
  for (int i = 2; good && i < 5; ++i) good = HasChannels(call->inputs[i], input.sizes[1]);
  if (!good) {
    return Fail(call, TT_INVALID_ARGUMENT, "batch_norm backward: sizes or dtypes do not fit");
  }
  const Channels l(input);
  if (l.channels == 0) return TT_OK;
  if (l.channels > INT32_MAX) return Fail(call, TT_UNIMPLEMENTED, "batch_norm of more than 2^31 channels");
  int code = TT_OK;
  const void* dense_x = Dense(call, input, &code);
  const void* dense_g = code == TT_OK ? Dense(call, grad, &code) : nullptr;
  auto* sums = code == TT_OK ? static_cast<double*>(Workspace(call, l.channels * 16, &code)) : nullptr;
  if (code != TT_OK) return code;
  return DispatchFloating(call, input.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *x = static_cast<const T*>(dense_x), *g = static_cast<const T*>(dense_g);
    ChannelGradients<T><<<static_cast<unsigned>(l.channels), RowThreads(l.count()), 0, StreamOf(call)->stream>>>(
        l, g, x, Vector(save_mean), Vector(save_invstd), Vector(call->outputs[1]), Vector(call->outputs[2]), sums);
    if (code = Launched(call); code != TT_OK) return code;
    return ForEach(call, input.numel,
                   ChannelInputGradient<T>{l, g, x, static_cast<T*>(call->outputs[0].data), Vector(save_mean),
                                           Vector(save_invstd), Vector(weight), sums, call->attrs[0].i != 0});
  });
}

// A dense weight or bias of any floating dtype, mostly the input's; an absent one is a constant.
template <typename T>
struct Parameter {
  Vector vector;
  bool same;
  __device__ ComputeType<T> At(int64_t i, double otherwise) const {
    return same ? Widen(static_cast<const T*>(vector.data)[i]) : static_cast<ComputeType<T>>(vector.At(i, otherwise));
  }
};

// One block a row. Rows beyond the grid's limit follow in a loop.
template <typename T, typename S>
__global__ void LayerNormRows(int64_t rows, int64_t n, const T* x, Parameter<T> weight, Parameter<T> bias, T* y,
                              S* means, S* rstds, double eps) {
  __shared__ double shared[33];
  for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const T* row = x + r * n;
    double sum = 0, squares = 0;
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) sum += static_cast<double>(Widen(row[i]));
    const double mean = BlockSum(sum, shared) / static_cast<double>(n);
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
      const double d = static_cast<double>(Widen(row[i])) - mean;
      squares += d * d;
    }
    const double rstd = 1.0 / sqrt(BlockSum(squares, shared) / static_cast<double>(n) + eps);
    if (threadIdx.x == 0) {
      means[r] = static_cast<S>(mean);
      rstds[r] = static_cast<S>(rstd);
    }
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
      const S v = (Widen(row[i]) - static_cast<S>(mean)) * static_cast<S>(rstd);
      y[r * n + i] = static_cast<T>(v * weight.At(i, 1) + bias.At(i, -0.0));
    }
  }
}

unsigned RowBlocks(int64_t rows) { return static_cast<unsigned>(rows < INT32_MAX ? rows : INT32_MAX); }

template <typename T>
Parameter<T> ParameterOf(tt_call* call, const tt_tensor& t, int input_dtype, int* code) {
  const void* data = t.dtype == 0 || *code != TT_OK ? nullptr : Dense(call, t, code);
  return {Vector(data, t.dtype), t.dtype == input_dtype};
}

int LayerNorm(tt_call* call) {
  const tt_tensor &input = call->inputs[0], &weight = call->inputs[1], &bias = call->inputs[2];
  int64_t n = 1;
  for (int32_t i = 0; i < call->attrs[0].count; ++i) n *= call->attrs[0].ints[i];
  const int64_t rows = call->outputs[1].numel;
  for (const tt_tensor* t : {&weight, &bias}) {
    if (t->dtype != 0 && t->numel != n) return Fail(call, TT_INVALID_ARGUMENT, "layer_norm: the sizes do not fit");
  }
  if (rows == 0 || n == 0) return TT_OK;
  int code = TT_OK;
  const void* x = Dense(call, input, &code);
  if (code != TT_OK) return code;
  return DispatchFloating(call, input.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using S = ComputeType<T>;
    const Parameter<T> w = ParameterOf<T>(call, weight, input.dtype, &code);
    const Parameter<T> b = ParameterOf<T>(call, bias, input.dtype, &code);
    if (code != TT_OK) return code;
    LayerNormRows<T, S><<<RowBlocks(rows), RowThreads(n), 0, StreamOf(call)->stream>>>(
        rows, n, static_cast<const T*>(x), w, b, static_cast<T*>(call->outputs[0].data),
        static_cast<S*>(call->outputs[1].data), static_cast<S*>(call->outputs[2].data), call->attrs[1].f);
    return Launched(call);
  });
}

template <typename T, typename S>
__global__ void LayerNormInputGradient(int64_t rows, int64_t n, const T* g, const T* x, Parameter<T> weight, Vector mean,
                                       Vector rstd, T* dx) {
  __shared__ double shared[33];
  for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const S m = static_cast<S>(mean.At(r, 0)), s = static_cast<S>(rstd.At(r, 1));
    double sum = 0, dot = 0;
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
      const S xh = (Widen(x[r * n + i]) - m) * s;
      const S gw = Widen(g[r * n + i]) * weight.At(i, 1);
      sum += static_cast<double>(gw);
      dot += static_cast<double>(gw) * static_cast<double>(xh);
    }
    sum = BlockSum(sum, shared) / static_cast<double>(n);
    dot = BlockSum(dot, shared) / static_cast<double>(n);
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
      const S xh = (Widen(x[r * n + i]) - m) * s;
      const S gw = Widen(g[r * n + i]) * weight.At(i, 1);
      dx[r * n + i] = static_cast<T>(s * (gw - static_cast<S>(sum) - xh * static_cast<S>(dot)));
    }
  }
}

// 32 columns a block, 8 threads deep; each column's rows are summed in one order.
template <typename T, typename S>
__global__ void LayerNormWeightGradient(int64_t rows, int64_t n, const T* g, const T* x, Vector mean, Vector rstd,
                                        S* dw, S* db) {
  __shared__ double part_w[8][33], part_b[8][33];
  const int64_t column = int64_t{blockIdx.x} * 32 + threadIdx.x;
  double w = 0, b = 0;
  for (int64_t r = threadIdx.y; column < n && r < rows; r += 8) {
    const double gi = static_cast<double>(Widen(g[r * n + column]));
    const S m = static_cast<S>(mean.At(r, 0)), s = static_cast<S>(rstd.At(r, 1));
    w += gi * static_cast<double>((Widen(x[r * n + column]) - m) * s);
    b += gi;
  }
  part_w[threadIdx.y][threadIdx.x] = w;
  part_b[threadIdx.y][threadIdx.x] = b;
  __syncthreads();
  if (threadIdx.y != 0 || column >= n) return;
  for (int k = 1; k < 8; ++k) {
    w += part_w[k][threadIdx.x];
    b += part_b[k][threadIdx.x];
  }
  dw[column] = static_cast<S>(w);
  db[column] = static_cast<S>(b);
}

int LayerNormBackward(tt_call* call) {
  const tt_tensor &grad = call->inputs[0], &input = call->inputs[1], &weight = call->inputs[2];
  const tt_tensor &mean = call->inputs[3], &rstd = call->inputs[4];
  const int64_t n = call->outputs[1].numel, rows = n > 0 ? input.numel / n : 0;
  if (grad.numel != input.numel || grad.dtype != input.dtype || mean.numel != rows || rstd.numel != rows || rows * n != input.numel ||
      (weight.dtype != 0 && weight.numel != n)) {
    return Fail(call, TT_INVALID_ARGUMENT, "layer_norm backward: sizes or dtypes do not fit");
  }
  if (n == 0) return TT_OK;
  int code = TT_OK;
  const void* x = Dense(call, input, &code);
  const void* g = code == TT_OK ? Dense(call, grad, &code) : nullptr;
  const Vector m(code == TT_OK ? Dense(call, mean, &code) : nullptr, mean.dtype);
  const Vector s(code == TT_OK ? Dense(call, rstd, &code) : nullptr, rstd.dtype);
  if (code != TT_OK) return code;
  return DispatchFloating(call, input.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using S = ComputeType<T>;
    const Parameter<T> w = ParameterOf<T>(call, weight, input.dtype, &code);
    if (code != TT_OK) return code;
    const cudaStream_t stream = StreamOf(call)->stream;
    if (rows > 0) {
      LayerNormInputGradient<T, S><<<RowBlocks(rows), RowThreads(n), 0, stream>>>(
          rows, n, static_cast<const T*>(g), static_cast<const T*>(x), w, m, s, static_cast<T*>(call->outputs[0].data));
      if (code = Launched(call); code != TT_OK) return code;
    }
    LayerNormWeightGradient<T, S><<<Blocks(n, 32), dim3(32, 8), 0, stream>>>(
        rows, n, static_cast<const T*>(g), static_cast<const T*>(x), m, s, static_cast<S*>(call->outputs[1].data), static_cast<S*>(call->outputs[2].data));
    return Launched(call);
  });
}

}  // namespace

void AppendNormKernels(KernelList* list) {
  list->push_back({"_batch_norm", TT_FLOATING, OnDevice<BatchNorm>});
  list->push_back({"_batch_norm_backward", TT_FLOATING, OnDevice<BatchNormBackward>});
  list->push_back({"_layer_norm", TT_FLOATING, OnDevice<LayerNorm>});
  list->push_back({"_layer_norm_backward", TT_FLOATING, OnDevice<LayerNormBackward>});
}

}  // namespace telensor::cuda
