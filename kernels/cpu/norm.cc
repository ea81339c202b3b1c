// batch_norm and layer_norm with their gradients.
//
// Statistics are taken in two passes: the sum of squared distances from the mean loses nothing where the mean is large.
// Sums over channels and rows are finished in double.
#include <cmath>
#include <limits>

#include "kernels/cpu/dense.h"
#include "kernels/cpu/families.h"

namespace telensor::cpu::TT_CPU_VARIANT {

namespace {

// ---- batch_norm

// A dense tensor as (outer, channels, inner). Rows of channels are taken whole where inner is 1.
struct ChannelShape {
  int64_t outer, channels, inner;
  int64_t count() const { return outer * inner; }
};

int ReadChannels(tt_call* call, const tt_tensor& t, ChannelShape* s) {
  if (t.rank < 2) return Fail(call, TT_INVALID_ARGUMENT, "batch_norm takes tensors of at least 2 dimensions");
  *s = {t.sizes[0], t.sizes[1], 1};
  for (int d = 2; d < t.rank; ++d) s->inner *= t.sizes[d];
  return TT_OK;
}

bool HasChannels(const tt_tensor& t, int64_t channels) {
  return !Present(t) || (t.rank == 1 && t.sizes[0] == channels);
}

// Calls fn(x, y, n, channel) for runs of the channels [begin, end) of two dense tensors, in the compute type; the
// second may be NULL. All elements of a run belong to `channel`, or, where inner is 1, its i-th to `channel` + i.
template <typename T, typename Fn>
void ForRuns(const ChannelShape& s, const T* a, const T* b, int64_t begin, int64_t end, const Fn& fn) {
  using C = ComputeType<T>;
  RunBuffer<T> a_buffer, b_buffer;
  const auto run = [&](int64_t at, int64_t n, int64_t channel) {
    const C* x = LoadRun<T>(a + at, n, a_buffer.data);
    const C* y = b == nullptr ? nullptr : LoadRun<T>(b + at, n, b_buffer.data);
    fn(x, y, n, channel, at);
  };
  if (s.inner == 1) {
    for (int64_t o = 0; o < s.outer; ++o) run(o * s.channels + begin, end - begin, begin);
    return;
  }
  for (int64_t o = 0; o < s.outer; ++o) {
    for (int64_t c = begin; c < end; ++c) {
      const int64_t at = (o * s.channels + c) * s.inner;
      for (int64_t i = 0; i < s.inner; i += kRun) run(at + i, std::min(kRun, s.inner - i), c);
    }
  }
}

// fn(begin, end) over blocks of channels on the threads; kBlock channels have room on the stack. Many channels at a
// time, because memory is then read in order, which is worth more than finding one channel in the cache again.
constexpr int64_t kBlock = 128;

template <typename Fn>
void ForChannels(const ChannelShape& s, const Fn& fn) {
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, s.count()));
  ParallelFor(s.channels, grain, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; c += kBlock) fn(c, std::min(end, c + kBlock));
  });
}

// Sums a term over every channel: term(x, channel).
template <typename T, typename Term>
void ChannelSums(const ChannelShape& s, const T* a, int64_t begin, int64_t end, const Term& term, double* sums) {
  using C = ComputeType<T>;
  std::fill(sums, sums + (end - begin), 0.0);
  ForRuns<T>(s, a, nullptr, begin, end, [&](const C* x, const C*, int64_t n, int64_t channel, int64_t) {
    if (s.inner == 1) {
      for (int64_t i = 0; i < n; ++i) sums[i] += static_cast<double>(term(x[i], channel + i));
    } else {
      sums[channel - begin] += static_cast<double>(SumOf<C>(n, [&](int64_t i) { return term(x[i], channel); }));
    }
  });
}

// The sums of a gradient, and of its products with the distances of x from the means.
template <typename T>
void GradientSums(const ChannelShape& s, const T* grad, const T* input, int64_t begin, int64_t end,
                  const ComputeType<T>* means, double* sums, double* dots) {
  using C = ComputeType<T>;
  std::fill(sums, sums + (end - begin), 0.0);
  std::fill(dots, dots + (end - begin), 0.0);
  ForRuns<T>(s, grad, input, begin, end, [&](const C* g, const C* x, int64_t n, int64_t channel, int64_t) {
    if (s.inner == 1) {
      const C* mean = means + channel;
      for (int64_t i = 0; i < n; ++i) sums[i] += static_cast<double>(g[i]);
      for (int64_t i = 0; i < n; ++i) dots[i] += static_cast<double>(g[i] * (x[i] - mean[i]));
    } else {
      const C mean = means[channel];
      sums[channel - begin] += static_cast<double>(SumOf<C>(n, [g](int64_t i) { return g[i]; }));
      dots[channel - begin] += static_cast<double>(SumOf<C>(n, [=](int64_t i) { return g[i] * (x[i] - mean); }));
    }
  });
}

// Reads and writes element i of a vector of any floating dtype.
double ReadAt(const tt_tensor& t, int64_t i) {
  const int64_t at = i * t.strides[0];
  switch (t.dtype) {
    case TT_FLOAT32: return static_cast<const float*>(t.data)[at];
    case TT_FLOAT64: return static_cast<const double*>(t.data)[at];
    case TT_FLOAT16: return static_cast<const Half*>(t.data)[at];
    default: return static_cast<const BFloat16*>(t.data)[at];
  }
}

void WriteAt(const tt_tensor& t, int64_t i, double value) {
  const int64_t at = i * t.strides[0];
  switch (t.dtype) {
    case TT_FLOAT32: static_cast<float*>(t.data)[at] = static_cast<float>(value); break;
    case TT_FLOAT64: static_cast<double*>(t.data)[at] = value; break;
    case TT_FLOAT16: static_cast<Half*>(t.data)[at] = Half(static_cast<float>(value)); break;
    default: static_cast<BFloat16*>(t.data)[at] = BFloat16(static_cast<float>(value)); break;
  }
}

struct BatchNorm {
  ChannelShape shape;
  tt_tensor running_mean, running_var;
  bool training;
  double momentum, eps;
};

// Statistics of the channels [begin, end), as the backward pass is to see them.
template <typename T>
void Statistics(const BatchNorm& bn, const T* x, int64_t begin, int64_t end, ComputeType<T>* means,
                ComputeType<T>* invstds) {
  using C = ComputeType<T>;
  const ChannelShape& s = bn.shape;
  if (!bn.training) {
    for (int64_t c = begin; c < end; ++c) {
      means[c] = static_cast<C>(ReadAt(bn.running_mean, c));
      invstds[c] = static_cast<C>(1 / std::sqrt(ReadAt(bn.running_var, c) + bn.eps));
    }
    return;
  }
  double sums[kBlock], squares[kBlock], exact[kBlock];
  const double n = static_cast<double>(s.count());
  ChannelSums<T>(s, x, begin, end, [](C v, int64_t) { return v; }, sums);
  for (int64_t c = begin; c < end; ++c) {
    exact[c - begin] = sums[c - begin] / n;
    means[c] = static_cast<C>(exact[c - begin]);
  }
  const auto square = [means](C v, int64_t c) { return (v - means[c]) * (v - means[c]); };
  ChannelSums<T>(s, x, begin, end, square, squares);
  for (int64_t c = begin; c < end; ++c) {
    // What rounding the mean has added.
    const double error = static_cast<double>(means[c]) - exact[c - begin];
    const double square = std::max(0.0, squares[c - begin] - n * error * error);
    const double variance = std::isnan(squares[c - begin]) ? squares[c - begin] : square;
    invstds[c] = static_cast<C>(1 / std::sqrt(variance / n + bn.eps));
    const double keep = 1 - bn.momentum;
    if (Present(bn.running_mean)) {
      WriteAt(bn.running_mean, c, keep * ReadAt(bn.running_mean, c) + bn.momentum * exact[c - begin]);
    }
    if (Present(bn.running_var)) {
      WriteAt(bn.running_var, c, keep * ReadAt(bn.running_var, c) + bn.momentum * variance / (n - 1));
    }
  }
}

int BatchNormForward(tt_call* call) {
  const tt_tensor &input = call->inputs[0], &out = call->outputs[0];
  BatchNorm bn = {{}, call->inputs[1], call->inputs[2], call->attrs[0].i != 0, NumberOf(call->attrs[1]),
                  NumberOf(call->attrs[2])};
  if (const int code = ReadChannels(call, input, &bn.shape); code != TT_OK) return code;
  const ChannelShape& s = bn.shape;
  for (int i = 1; i < 5; ++i) {
    if (HasChannels(call->inputs[i], s.channels)) continue;
    return Fail(call, TT_INVALID_ARGUMENT, "batch_norm: the sizes do not fit");
  }
  if (!bn.training && !(Present(bn.running_mean) && Present(bn.running_var))) {
    return Fail(call, TT_INVALID_ARGUMENT, "running statistics must be defined in evaluation mode");
  }
  return DispatchFloating(call, input.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    C *means = static_cast<C*>(call->outputs[1].data), *invstds = static_cast<C*>(call->outputs[2].data);
    if (bn.training && s.count() == 0) {  // no batch to take statistics of: the running ones stay
      std::fill(means, means + s.channels, std::numeric_limits<C>::quiet_NaN());
      std::fill(invstds, invstds + s.channels, std::numeric_limits<C>::quiet_NaN());
      return static_cast<int>(TT_OK);
    }
    const T* x = Dense<T>(call, input);
    const C *weight, *bias;
    if (x == nullptr && input.numel > 0) return FailMemory(call);
    if (const int code = DenseParameter<C>(call, call->inputs[3], &weight); code != TT_OK) return code;
    if (const int code = DenseParameter<C>(call, call->inputs[4], &bias); code != TT_OK) return code;
    T* y = static_cast<T*>(out.data);
    ForChannels(s, [&](int64_t begin, int64_t end) {
      Statistics<T>(bn, x, begin, end, means, invstds);
      C scales[kBlock], shifts[kBlock];
      for (int64_t c = begin; c < end; ++c) {
        scales[c - begin] = weight == nullptr ? invstds[c] : invstds[c] * weight[c];
        shifts[c - begin] = bias == nullptr ? C(0) : bias[c];
      }
      RunBuffer<T> buffer;
      ForRuns<T>(s, x, nullptr, begin, end, [&](const C* v, const C*, int64_t n, int64_t channel, int64_t at) {
        C* to = RunTarget<T>(y + at, buffer.data);
        const int64_t k = channel - begin;
        if (s.inner == 1) {
          for (int64_t i = 0; i < n; ++i) to[i] = (v[i] - means[channel + i]) * scales[k + i] + shifts[k + i];
        } else {
          const C mean = means[channel], scale = scales[k], shift = shifts[k];
          for (int64_t i = 0; i < n; ++i) to[i] = (v[i] - mean) * scale + shift;
        }
        StoreRun<T>(to, n, y + at);
      });
    });
    return static_cast<int>(TT_OK);
  });
}

int BatchNormBackward(tt_call* call) {
  const tt_tensor &grad = call->inputs[0], &input = call->inputs[1], &out = call->outputs[0];
  const bool training = call->attrs[0].i != 0;
  ChannelShape s;
  if (const int code = ReadChannels(call, input, &s); code != TT_OK) return code;
  bool good = SameSizes(grad, input) && grad.dtype == input.dtype;
  good = good && Present(call->inputs[3]) && Present(call->inputs[4]);
  for (int i = 2; i < 5; ++i) good = good && HasChannels(call->inputs[i], s.channels);
  if (!good) return Fail(call, TT_INVALID_ARGUMENT, "batch_norm backward: sizes or dtypes do not fit");
  return DispatchFloating(call, input.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const T *x = Dense<T>(call, input), *g = Dense<T>(call, grad);
    const C *weight, *mean, *invstd;
    if ((x == nullptr || g == nullptr) && input.numel > 0) return FailMemory(call);
    if (const int code = DenseParameter<C>(call, call->inputs[2], &weight); code != TT_OK) return code;
    if (const int code = DenseParameter<C>(call, call->inputs[3], &mean); code != TT_OK) return code;
    if (const int code = DenseParameter<C>(call, call->inputs[4], &invstd); code != TT_OK) return code;
    T* dx = static_cast<T*>(out.data);
    C *dw = static_cast<C*>(call->outputs[1].data), *db = static_cast<C*>(call->outputs[2].data);
    const double count = static_cast<double>(std::max<int64_t>(1, s.count()));
    ForChannels(s, [&](int64_t begin, int64_t end) {
      double sums[kBlock], dots[kBlock];
      GradientSums<T>(s, g, x, begin, end, mean, sums, dots);
      C scales[kBlock], means[kBlock], slopes[kBlock];
      for (int64_t c = begin; c < end; ++c) {
        const int64_t k = c - begin;
        const double inverse = static_cast<double>(invstd[c]);
        dw[c] = static_cast<C>(dots[k] * inverse);
        db[c] = static_cast<C>(sums[k]);
        scales[k] = weight == nullptr ? invstd[c] : invstd[c] * weight[c];
        means[k] = training ? static_cast<C>(sums[k] / count) : C(0);
        slopes[k] = training ? static_cast<C>(dots[k] / count * inverse * inverse) : C(0);
      }
      RunBuffer<T> buffer;
      ForRuns<T>(s, g, x, begin, end, [&](const C* v, const C* w, int64_t n, int64_t channel, int64_t at) {
        C* to = RunTarget<T>(dx + at, buffer.data);
        const int64_t k = channel - begin;
        if (s.inner == 1) {
          for (int64_t i = 0; i < n; ++i) {
            to[i] = (v[i] - means[k + i] - (w[i] - mean[channel + i]) * slopes[k + i]) * scales[k + i];
          }
        } else if (training) {
          const C m = mean[channel], gm = means[k], slope = slopes[k], scale = scales[k];
          for (int64_t i = 0; i < n; ++i) to[i] = (v[i] - gm - (w[i] - m) * slope) * scale;
        } else {
          const C scale = scales[k];
          for (int64_t i = 0; i < n; ++i) to[i] = v[i] * scale;
        }
        StoreRun<T>(to, n, dx + at);
      });
    });
    return static_cast<int>(TT_OK);
  });
}

// ---- layer_norm

// Elements of one row: the product of normalized_shape, which the last dimensions of `input` must equal.
bool RowLength(const tt_tensor& input, const tt_value& shape, int64_t* length) {
  if (shape.count < 1 || shape.count > input.rank) return false;
  *length = 1;
  for (int i = 0; i < shape.count; ++i) {
    if (shape.ints[i] != input.sizes[input.rank - shape.count + i]) return false;
    *length *= shape.ints[i];
  }
  return true;
}

// Part of an optional parameter.
template <typename C>
const C* At(const C* parameter, int64_t at) {
  return parameter == nullptr ? nullptr : parameter + at;
}

// fn(i, n) over runs of a row.
template <typename Fn>
void ForRow(int64_t length, const Fn& fn) {
  for (int64_t i = 0; i < length; i += kRun) fn(i, std::min(kRun, length - i));
}

int LayerNorm(tt_call* call) {
  const tt_tensor& input = call->inputs[0];
  int64_t length;
  if (!RowLength(input, call->attrs[0], &length) || (Present(call->inputs[1]) && call->inputs[1].numel != length) ||
      (Present(call->inputs[2]) && call->inputs[2].numel != length)) {
    return Fail(call, TT_INVALID_ARGUMENT, "layer_norm: the sizes do not fit");
  }
  if (length == 0) {
    // Rows without elements: there is nothing to normalise, but statistics to fill.
    for (int i = 1; i < 3; ++i) {
      for (int64_t r = 0; r < call->outputs[i].numel; ++r) {
        if (call->outputs[i].dtype == TT_FLOAT64) static_cast<double*>(call->outputs[i].data)[r] = 0;
        if (call->outputs[i].dtype == TT_FLOAT32) static_cast<float*>(call->outputs[i].data)[r] = 0;
      }
    }
    return TT_OK;
  }
  const double eps = NumberOf(call->attrs[1]), count = static_cast<double>(length);
  return DispatchFloating(call, input.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const T* x = Dense<T>(call, input);
    const C *weight, *bias;
    if (x == nullptr && input.numel > 0) return FailMemory(call);
    if (const int code = DenseParameter<C>(call, call->inputs[1], &weight); code != TT_OK) return code;
    if (const int code = DenseParameter<C>(call, call->inputs[2], &bias); code != TT_OK) return code;
    T* y = static_cast<T*>(call->outputs[0].data);
    C *means = static_cast<C*>(call->outputs[1].data), *rstds = static_cast<C*>(call->outputs[2].data);
    ParallelFor(input.numel / length, std::max<int64_t>(1, kGrain / length), [&](int64_t begin, int64_t end) {
      RunBuffer<T> in, out;
      for (int64_t r = begin; r < end; ++r) {
        const T* row = x + r * length;
        double sum = 0, squares = 0;
        ForRow(length, [&](int64_t at, int64_t n) {
          const C* v = LoadRun<T>(row + at, n, in.data);
          sum += static_cast<double>(SumOf<C>(n, [v](int64_t i) { return v[i]; }));
        });
        const C mean = static_cast<C>(sum / count);
        ForRow(length, [&](int64_t at, int64_t n) {
          const C* v = LoadRun<T>(row + at, n, in.data);
          squares += static_cast<double>(SumOf<C>(n, [v, mean](int64_t i) { return (v[i] - mean) * (v[i] - mean); }));
        });
        const C rstd = static_cast<C>(1 / std::sqrt(squares / count + eps));
        means[r] = mean;
        rstds[r] = rstd;
        ForRow(length, [&](int64_t at, int64_t n) {
          const C* v = LoadRun<T>(row + at, n, in.data);
          C* to = RunTarget<T>(y + r * length + at, out.data);
          const C *w = At(weight, at), *b = At(bias, at);
          if (w != nullptr && b != nullptr) {
            for (int64_t i = 0; i < n; ++i) to[i] = (v[i] - mean) * rstd * w[i] + b[i];
          } else {
            for (int64_t i = 0; i < n; ++i) to[i] = (v[i] - mean) * rstd;
            for (int64_t i = 0; w != nullptr && i < n; ++i) to[i] *= w[i];
            for (int64_t i = 0; b != nullptr && i < n; ++i) to[i] += b[i];
          }
          StoreRun<T>(to, n, y + r * length + at);
        });
      }
    });
    return static_cast<int>(TT_OK);
  });
}

// One thread's part of the rows. `partial` holds the sums of a few rows in C, before they go to `totals` in double:
// grad_weight, then grad_bias.
template <typename T>
struct LayerNormPart {
  using C = ComputeType<T>;
  static constexpr int64_t kRows = 64;

  const T *grad, *x;
  const C *weight, *means, *rstds;
  T* dx;
  int64_t length;

  void Rows(int64_t begin, int64_t end, C* partial, double* totals) const {
    std::fill(totals, totals + 2 * length, 0.0);
    for (int64_t r = begin; r < end; r += kRows) {
      std::fill(partial, partial + 2 * length, C(0));
      for (int64_t i = r; i < std::min(end, r + kRows); ++i) Row(i, partial, partial + length);
      for (int64_t i = 0; i < 2 * length; ++i) totals[i] += static_cast<double>(partial[i]);
    }
  }

  void Row(int64_t r, C* dw, C* db) const {
    RunBuffer<T> g_buffer, x_buffer, out;
    const C mean = means[r], rstd = rstds[r];
    double sum = 0, dot = 0;
    ForRow(length, [&](int64_t at, int64_t n) {
      const C* g = LoadRun<T>(grad + r * length + at, n, g_buffer.data);
      const C* v = LoadRun<T>(x + r * length + at, n, x_buffer.data);
      const C* w = At(weight, at);
      for (int64_t i = 0; i < n; ++i) dw[at + i] += g[i] * ((v[i] - mean) * rstd);
      for (int64_t i = 0; i < n; ++i) db[at + i] += g[i];
      if (w != nullptr) {
        sum += static_cast<double>(SumOf<C>(n, [=](int64_t i) { return g[i] * w[i]; }));
        dot += static_cast<double>(SumOf<C>(n, [=](int64_t i) { return g[i] * w[i] * ((v[i] - mean) * rstd); }));
      } else {
        sum += static_cast<double>(SumOf<C>(n, [=](int64_t i) { return g[i]; }));
        dot += static_cast<double>(SumOf<C>(n, [=](int64_t i) { return g[i] * ((v[i] - mean) * rstd); }));
      }
    });
    const C shift = static_cast<C>(sum / static_cast<double>(length));
    const C slope = static_cast<C>(dot / static_cast<double>(length));
    ForRow(length, [&](int64_t at, int64_t n) {
      const C* g = LoadRun<T>(grad + r * length + at, n, g_buffer.data);
      const C* v = LoadRun<T>(x + r * length + at, n, x_buffer.data);
      const C* w = At(weight, at);
      C* to = RunTarget<T>(dx + r * length + at, out.data);
      if (w != nullptr) {
        for (int64_t i = 0; i < n; ++i) to[i] = rstd * (g[i] * w[i] - shift - (v[i] - mean) * rstd * slope);
      } else {
        for (int64_t i = 0; i < n; ++i) to[i] = rstd * (g[i] - shift - (v[i] - mean) * rstd * slope);
      }
      StoreRun<T>(to, n, dx + r * length + at);
    });
  }
};

int LayerNormBackward(tt_call* call) {
  const tt_tensor &grad = call->inputs[0], &input = call->inputs[1], &weight = call->inputs[2];
  int64_t length;
  bool good = RowLength(input, call->attrs[0], &length) && SameSizes(grad, input) && grad.dtype == input.dtype;
  good = good && (!Present(weight) || weight.numel == length);
  const int64_t rows = good && length > 0 ? input.numel / length : 0;
  for (int i = 3; i < 5; ++i) good = good && Present(call->inputs[i]) && (length == 0 || call->inputs[i].numel == rows);
  if (!good) return Fail(call, TT_INVALID_ARGUMENT, "layer_norm backward: sizes or dtypes do not fit");
  if (length == 0) return TT_OK;
  return DispatchFloating(call, input.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    LayerNormPart<T> part = {Dense<T>(call, grad), Dense<T>(call, input), nullptr, nullptr, nullptr,
                             static_cast<T*>(call->outputs[0].data), length};
    if ((part.grad == nullptr || part.x == nullptr) && input.numel > 0) return FailMemory(call);
    if (const int code = DenseParameter<C>(call, weight, &part.weight); code != TT_OK) return code;
    if (const int code = DenseParameter<C>(call, call->inputs[3], &part.means); code != TT_OK) return code;
    if (const int code = DenseParameter<C>(call, call->inputs[4], &part.rstds); code != TT_OK) return code;
    const int threads = omp_in_parallel() ? 1 : omp_get_max_threads();
    const int64_t parts = std::max<int64_t>(1, std::min<int64_t>(threads, input.numel / kGrain));
    C* partial = Workspace<C>(call, parts * 2 * length);
    double* totals = Workspace<double>(call, parts * 2 * length);
    if (partial == nullptr || totals == nullptr) return FailMemory(call);
    ParallelFor(parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        part.Rows(rows * p / parts, rows * (p + 1) / parts, partial + p * 2 * length, totals + p * 2 * length);
      }
    });
    C *dw = static_cast<C*>(call->outputs[1].data), *db = static_cast<C*>(call->outputs[2].data);
    for (int64_t i = 0; i < length; ++i) {
      double w = 0, b = 0;
      for (int64_t p = 0; p < parts; ++p) {
        w += totals[p * 2 * length + i];
        b += totals[(p * 2 + 1) * length + i];
      }
      dw[i] = static_cast<C>(w);
      db[i] = static_cast<C>(b);
    }
    return static_cast<int>(TT_OK);
  });
}

}  // namespace

void AppendNormKernels(KernelList* list) {
  list->push_back({"_batch_norm", TT_FLOATING, BatchNormForward});
  list->push_back({"_batch_norm_backward", TT_FLOATING, BatchNormBackward});
  list->push_back({"_layer_norm", TT_FLOATING, LayerNorm});
  list->push_back({"_layer_norm_backward", TT_FLOATING, LayerNormBackward});
}

}  // namespace telensor::cpu::TT_CPU_VARIANT
