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

int BatchNorm(tt_call* call) {
  const tt_tensor& input = call->inputs[0];
  const Vector running_mean(call->inputs[1]), running_var(call->inputs[2]), weight(call->inputs[3]),
      bias(call->inputs[4]);
  const Vector save_mean(call->outputs[1]), save_invstd(call->outputs[2]);
  const double momentum = call->attrs[1].f, eps = call->attrs[2].f;
  const Channels l(input);
  if (l.channels == 0) return TT_OK;
  if (l.channels > INT32_MAX) return Fail(call, TT_UNIMPLEMENTED, "batch_norm of more than 2^31 channels");
  int code = TT_OK;
  const void* dense = Dense(call, input, &code);
  if (code != TT_OK) return code;
  return DispatchFloating(call, input.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = static_cast<const T*>(dense);
    if (call->attrs[0].i != 0) {
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
  if (input.rank < 2 || !SameSizes(grad, input) || save_mean.rank != 1 || save_invstd.rank != 1 ||
      save_mean.numel != input.sizes[1] || save_invstd.numel != input.sizes[1] ||
      (weight.dtype != 0 && (weight.rank != 1 || weight.numel != input.sizes[1]))) {
    return Fail(call, TT_INVALID_ARGUMENT, "batch_norm backward: the sizes do not belong together");
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

// One block a row. Rows beyond the grid's limit follow in a loop.
template <typename T, typename S>
__global__ void LayerNormRows(int64_t rows, int64_t n, const T* x, const T* weight, const T* bias, T* y, S* means,
                              S* rstds, double eps) {
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
      S v = (Widen(row[i]) - static_cast<S>(mean)) * static_cast<S>(rstd);
      if (weight != nullptr) v *= Widen(weight[i]);
      if (bias != nullptr) v += Widen(bias[i]);
      y[r * n + i] = static_cast<T>(v);
    }
  }
}

unsigned RowBlocks(int64_t rows) { return static_cast<unsigned>(rows < INT32_MAX ? rows : INT32_MAX); }

// The dense data of an optional weight; NULL where there is none.
template <typename T>
const T* DenseWeight(tt_call* call, const tt_tensor& t, int* code) {
  return t.dtype == 0 || *code != TT_OK ? nullptr : static_cast<const T*>(Dense(call, t, code));
}

int LayerNorm(tt_call* call) {
  const tt_tensor &input = call->inputs[0], &weight = call->inputs[1], &bias = call->inputs[2];
  int64_t n = 1;
  for (int32_t i = 0; i < call->attrs[0].count; ++i) n *= call->attrs[0].ints[i];
  const int64_t rows = call->outputs[1].numel;
  if ((weight.dtype != 0 && weight.dtype != input.dtype) || (bias.dtype != 0 && bias.dtype != input.dtype)) {
    return Fail(call, TT_INVALID_ARGUMENT, "expected scalar type of weight and bias to be the input's");
  }
  if (rows == 0 || n == 0) return TT_OK;
  int code = TT_OK;
  const void* x = Dense(call, input, &code);
  if (code != TT_OK) return code;
  return DispatchFloating(call, input.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using S = ComputeType<T>;
    const T* w = DenseWeight<T>(call, weight, &code);
    const T* b = DenseWeight<T>(call, bias, &code);
    if (code != TT_OK) return code;
    LayerNormRows<T, S><<<RowBlocks(rows), RowThreads(n), 0, StreamOf(call)->stream>>>(
        rows, n, static_cast<const T*>(x), w, b, static_cast<T*>(call->outputs[0].data),
        static_cast<S*>(call->outputs[1].data), static_cast<S*>(call->outputs[2].data), call->attrs[1].f);
    return Launched(call);
  });
}

template <typename T, typename S>
__global__ void LayerNormInputGradient(int64_t rows, int64_t n, const T* g, const T* x, const T* weight, const S* mean,
                                       const S* rstd, T* dx) {
  __shared__ double shared[33];
  for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const S m = mean[r], s = rstd[r];
    double sum = 0, dot = 0;
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
      const S xh = (Widen(x[r * n + i]) - m) * s;
      const S gw = weight != nullptr ? Widen(g[r * n + i]) * Widen(weight[i]) : Widen(g[r * n + i]);
      sum += static_cast<double>(gw);
      dot += static_cast<double>(gw) * static_cast<double>(xh);
    }
    sum = BlockSum(sum, shared) / static_cast<double>(n);
    dot = BlockSum(dot, shared) / static_cast<double>(n);
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
      const S xh = (Widen(x[r * n + i]) - m) * s;
      const S gw = weight != nullptr ? Widen(g[r * n + i]) * Widen(weight[i]) : Widen(g[r * n + i]);
      dx[r * n + i] = static_cast<T>(s * (gw - static_cast<S>(sum) - xh * static_cast<S>(dot)));
    }
  }
}

// 32 columns a block, 8 threads deep; each column's rows are summed in one order.
template <typename T, typename S>
__global__ void LayerNormWeightGradient(int64_t rows, int64_t n, const T* g, const T* x, const S* mean, const S* rstd,
                                        S* dw, S* db) {
  __shared__ double part_w[8][33], part_b[8][33];
  const int64_t column = int64_t{blockIdx.x} * 32 + threadIdx.x;
  double w = 0, b = 0;
  for (int64_t r = threadIdx.y; column < n && r < rows; r += 8) {
    const double gi = static_cast<double>(Widen(g[r * n + column]));
    w += gi * static_cast<double>((Widen(x[r * n + column]) - mean[r]) * rstd[r]);
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
  if (grad.numel != input.numel || mean.numel != rows || rstd.numel != rows || rows * n != input.numel ||
      (weight.dtype != 0 && (weight.numel != n || weight.dtype != input.dtype))) {
    return Fail(call, TT_INVALID_ARGUMENT, "layer_norm backward: the sizes do not belong together");
  }
  if (n == 0) return TT_OK;
  int code = TT_OK;
  const void* x = Dense(call, input, &code);
  const void* g = code == TT_OK ? Dense(call, grad, &code) : nullptr;
  const void* m = code == TT_OK ? Dense(call, mean, &code) : nullptr;
  const void* s = code == TT_OK ? Dense(call, rstd, &code) : nullptr;
  if (code != TT_OK) return code;
  return DispatchFloating(call, input.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using S = ComputeType<T>;
    const T* w = DenseWeight<T>(call, weight, &code);
    if (code != TT_OK) return code;
    const cudaStream_t stream = StreamOf(call)->stream;
    if (rows > 0) {
      LayerNormInputGradient<T, S><<<RowBlocks(rows), RowThreads(n), 0, stream>>>(
          rows, n, static_cast<const T*>(g), static_cast<const T*>(x), w, static_cast<const S*>(m),
          static_cast<const S*>(s), static_cast<T*>(call->outputs[0].data));
      if (code = Launched(call); code != TT_OK) return code;
    }
    LayerNormWeightGradient<T, S><<<Blocks(n, 32), dim3(32, 8), 0, stream>>>(
        rows, n, static_cast<const T*>(g), static_cast<const T*>(x), static_cast<const S*>(m), static_cast<const S*>(s),
        static_cast<S*>(call->outputs[1].data), static_cast<S*>(call->outputs[2].data));
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
