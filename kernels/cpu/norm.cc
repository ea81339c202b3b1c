// batch_norm and layer_norm with their gradients.
#include <cmath>

#include "kernels/cpu/families.h"
#include "kernels/cpu/gemm.h"

namespace telensor::cpu::TT_CPU_VARIANT {
namespace {

// The statistics' type: float for 16-bit floats.
template <typename T>
using Stat = ComputeType<T>;

template <typename T>
Stat<T> At(const tt_tensor& t, int64_t i, Stat<T> otherwise) {
  if (t.dtype == 0) return otherwise;
  const int64_t at = i * t.strides[0];
  // Weights may come in the input's type or in the statistics'.
  if (t.dtype == TT_FLOAT32) return static_cast<Stat<T>>(static_cast<const float*>(t.data)[at]);
  if (t.dtype == TT_FLOAT64) return static_cast<Stat<T>>(static_cast<const double*>(t.data)[at]);
  if (t.dtype == TT_FLOAT16) return static_cast<Stat<T>>(static_cast<float>(static_cast<const Half*>(t.data)[at]));
  return static_cast<Stat<T>>(static_cast<float>(static_cast<const BFloat16*>(t.data)[at]));
}

void Store(const tt_tensor& t, int64_t i, double v) {
  const int64_t at = i * t.strides[0];
  switch (t.dtype) {
    case TT_FLOAT32: static_cast<float*>(t.data)[at] = static_cast<float>(v); break;
    case TT_FLOAT64: static_cast<double*>(t.data)[at] = v; break;
    case TT_FLOAT16: static_cast<Half*>(t.data)[at] = Half(static_cast<float>(v)); break;
    default: static_cast<BFloat16*>(t.data)[at] = BFloat16(static_cast<float>(v));
  }
}

// (outer, channels, inner) of a dense tensor whose channels are dimension 1.
struct Layout {
  int64_t outer, channels, inner;
};
Layout ChannelLayout(const tt_tensor& t) {
  Layout l{t.sizes[0], t.sizes[1], 1};
  for (int d = 2; d < t.rank; ++d) l.inner *= t.sizes[d];
  return l;
}

int BatchNorm(tt_call* call) {
  const tt_tensor &input = call->inputs[0], &running_mean = call->inputs[1], &running_var = call->inputs[2];
  const tt_tensor &weight = call->inputs[3], &bias = call->inputs[4];
  const bool training = call->attrs[0].i != 0;
  const double momentum = call->attrs[1].f, eps = call->attrs[2].f;
  const Layout l = ChannelLayout(input);
  return DispatchFloating(call, input.dtype, [&](auto tag) -> int {
    using T = typename decltype(tag)::type;
    using S = Stat<T>;
    const T* x = Dense<T>(call, input);
    if (x == nullptr && input.numel > 0) return TT_OUT_OF_MEMORY;
    T* y = static_cast<T*>(call->outputs[0].data);
    const double count = static_cast<double>(l.outer * l.inner);
    ParallelFor(l.channels, std::max<int64_t>(1, kGrain / (l.outer * l.inner + 1)), [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        double mean, invstd;
        if (training) {
          // Two passes: the second sees what the rounding of the first leaves.
          double sum = 0;
          for (int64_t o = 0; o < l.outer; ++o) {
            const T* row = x + (o * l.channels + c) * l.inner;
            S part = 0;
            for (int64_t i = 0; i < l.inner; ++i) part += static_cast<S>(row[i]);
            sum += part;
          }
          mean = sum / count;
          const S m = static_cast<S>(mean);
          double squares = 0;
          for (int64_t o = 0; o < l.outer; ++o) {
            const T* row = x + (o * l.channels + c) * l.inner;
            S part = 0;
            for (int64_t i = 0; i < l.inner; ++i) part += (static_cast<S>(row[i]) - m) * (static_cast<S>(row[i]) - m);
            squares += part;
          }
          invstd = 1.0 / std::sqrt(squares / count + eps);
          if (running_mean.dtype != 0) {
            Store(running_mean, c, (1 - momentum) * At<T>(running_mean, c, 0) + momentum * mean);
          }
          if (running_var.dtype != 0) {
            Store(running_var, c, (1 - momentum) * At<T>(running_var, c, 0) + momentum * squares / (count - 1));
          }
        } else {
          mean = At<T>(running_mean, c, 0);
          invstd = 1.0 / std::sqrt(static_cast<double>(At<T>(running_var, c, 1)) + eps);
        }
        Store(call->outputs[1], c, mean);
        Store(call->outputs[2], c, invstd);
        const S scale = static_cast<S>(invstd) * At<T>(weight, c, 1);
        const S shift = At<T>(bias, c, 0) - static_cast<S>(mean) * scale;
        for (int64_t o = 0; o < l.outer; ++o) {
          const int64_t at = (o * l.channels + c) * l.inner;
          for (int64_t i = 0; i < l.inner; ++i) y[at + i] = static_cast<T>(static_cast<S>(x[at + i]) * scale + shift);
        }
      }
    });
    return TT_OK;
  });
}

int BatchNormBackward(tt_call* call) {
  const tt_tensor &grad = call->inputs[0], &input = call->inputs[1], &weight = call->inputs[2];
  const tt_tensor &save_mean = call->inputs[3], &save_invstd = call->inputs[4];
  const bool training = call->attrs[0].i != 0;
  const Layout l = ChannelLayout(input);
  if (grad.numel != input.numel || save_mean.numel != l.channels || save_invstd.numel != l.channels ||
      (weight.dtype != 0 && weight.numel != l.channels)) {
    return Fail(call, TT_INVALID_ARGUMENT, "batch_norm backward: the sizes do not belong together");
  }
  return DispatchFloating(call, input.dtype, [&](auto tag) -> int {
    using T = typename decltype(tag)::type;
    using S = Stat<T>;
    const T *x = Dense<T>(call, input), *g = Dense<T>(call, grad);
    if ((x == nullptr || g == nullptr) && input.numel > 0) return TT_OUT_OF_MEMORY;
    T* dx = static_cast<T*>(call->outputs[0].data);
    const double count = static_cast<double>(l.outer * l.inner);
    ParallelFor(l.channels, std::max<int64_t>(1, kGrain / (l.outer * l.inner + 1)), [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        const S mean = At<T>(save_mean, c, 0), invstd = At<T>(save_invstd, c, 1), w = At<T>(weight, c, 1);
        double sum = 0, dot = 0;
        for (int64_t o = 0; o < l.outer; ++o) {
          const int64_t at = (o * l.channels + c) * l.inner;
          S part_sum = 0, part_dot = 0;
          for (int64_t i = 0; i < l.inner; ++i) {
            const S gi = static_cast<S>(g[at + i]);
            part_sum += gi;
            part_dot += gi * (static_cast<S>(x[at + i]) - mean);
          }
          sum += part_sum;
          dot += part_dot;
        }
        Store(call->outputs[1], c, dot * invstd);
        Store(call->outputs[2], c, sum);
        const S scale = w * invstd;
        const S k = training ? static_cast<S>(dot / count) * invstd * invstd : S(0);
        const S m = training ? static_cast<S>(sum / count) : S(0);
        for (int64_t o = 0; o < l.outer; ++o) {
          const int64_t at = (o * l.channels + c) * l.inner;
          for (int64_t i = 0; i < l.inner; ++i) {
            dx[at + i] = static_cast<T>((static_cast<S>(g[at + i]) - m - (static_cast<S>(x[at + i]) - mean) * k) * scale);
          }
        }
      }
    });
    return TT_OK;
  });
}

// A weight of normalized_shape as dense statistics; null where absent.
template <typename T>
bool DenseWeight(tt_call* call, const tt_tensor& t, const Stat<T>** out) {
  *out = nullptr;
  if (t.dtype == 0) return true;
  auto* copy = static_cast<Stat<T>*>(call->workspace(call, std::max<size_t>(1, static_cast<size_t>(t.numel)) * sizeof(Stat<T>)));
  if (copy == nullptr) return false;
  CopyDense<Stat<T>, T>(t, copy);
  *out = copy;
  return true;
}

int LayerNorm(tt_call* call) {
  const tt_tensor &input = call->inputs[0], &weight = call->inputs[1], &bias = call->inputs[2];
  int64_t n = 1;
  for (int32_t i = 0; i < call->attrs[0].count; ++i) n *= call->attrs[0].ints[i];
  const int64_t rows = n > 0 ? input.numel / n : 0;
  const double eps = call->attrs[1].f;
  if ((weight.dtype != 0 && weight.dtype != input.dtype) || (bias.dtype != 0 && bias.dtype != input.dtype)) {
    return Fail(call, TT_INVALID_ARGUMENT, "expected scalar type of weight and bias to be the input's");
  }
  return DispatchFloating(call, input.dtype, [&](auto tag) -> int {
    using T = typename decltype(tag)::type;
    using S = Stat<T>;
    const T* x = Dense<T>(call, input);
    const S *w, *b;
    if ((x == nullptr && input.numel > 0) || !DenseWeight<T>(call, weight, &w) || !DenseWeight<T>(call, bias, &b)) return TT_OUT_OF_MEMORY;
    T* y = static_cast<T*>(call->outputs[0].data);
    S *means = static_cast<S*>(call->outputs[1].data), *rstds = static_cast<S*>(call->outputs[2].data);
    ParallelFor(rows, std::max<int64_t>(1, kGrain / (n + 1)), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const T* row = x + r * n;
        S sum = 0, squares = 0;
        for (int64_t i = 0; i < n; ++i) sum += static_cast<S>(row[i]);
        const S mean = sum / static_cast<S>(n);
        for (int64_t i = 0; i < n; ++i) squares += (static_cast<S>(row[i]) - mean) * (static_cast<S>(row[i]) - mean);
        const S rstd = S(1) / std::sqrt(squares / static_cast<S>(n) + static_cast<S>(eps));
        means[r] = mean;
        rstds[r] = rstd;
        for (int64_t i = 0; i < n; ++i) {
          S v = (static_cast<S>(row[i]) - mean) * rstd;
          if (w != nullptr) v *= w[i];
          if (b != nullptr) v += b[i];
          y[r * n + i] = static_cast<T>(v);
        }
      }
    });
    return TT_OK;
  });
}

int LayerNormBackward(tt_call* call) {
  const tt_tensor &grad = call->inputs[0], &input = call->inputs[1], &weight = call->inputs[2], &mean = call->inputs[3], &rstd = call->inputs[4];
  const int64_t n = call->outputs[1].numel, rows = n > 0 ? input.numel / n : 0;
  if (grad.numel != input.numel || mean.numel != rows || rstd.numel != rows || (weight.dtype != 0 && (weight.numel != n || weight.dtype != input.dtype))) {
    return Fail(call, TT_INVALID_ARGUMENT, "layer_norm backward: the sizes do not belong together");
  }
  return DispatchFloating(call, input.dtype, [&](auto tag) -> int {
    using T = typename decltype(tag)::type;
    using S = Stat<T>;
    const T *x = Dense<T>(call, input), *g = Dense<T>(call, grad);
    const S *m = Dense<S>(call, mean), *is = Dense<S>(call, rstd);
    const S* w;
    if ((rows > 0 && (x == nullptr || g == nullptr || m == nullptr || is == nullptr)) || !DenseWeight<T>(call, weight, &w)) return TT_OUT_OF_MEMORY;
    T* dx = static_cast<T*>(call->outputs[0].data);
    S *dw = static_cast<S*>(call->outputs[1].data), *db = static_cast<S*>(call->outputs[2].data);
    std::fill_n(dw, n, S(0));
    std::fill_n(db, n, S(0));
    for (int64_t r = 0; r < rows; ++r) {
      S sum = 0, dot = 0;
      for (int64_t i = 0; i < n; ++i) {
        const S gi = static_cast<S>(g[r * n + i]);
        const S xh = (static_cast<S>(x[r * n + i]) - m[r]) * is[r];
        dw[i] += gi * xh;
        db[i] += gi;
        const S gw = w != nullptr ? gi * w[i] : gi;
        sum += gw;
        dot += gw * xh;
      }
      sum /= static_cast<S>(n);
      dot /= static_cast<S>(n);
      for (int64_t i = 0; i < n; ++i) {
        const S xh = (static_cast<S>(x[r * n + i]) - m[r]) * is[r];
        const S gw = w != nullptr ? static_cast<S>(g[r * n + i]) * w[i] : static_cast<S>(g[r * n + i]);
        dx[r * n + i] = static_cast<T>(is[r] * (gw - sum - xh * dot));
      }
    }
    return TT_OK;
  });
}

}  // namespace

void AppendNormKernels(KernelList* list) {
  list->push_back({"_batch_norm", TT_FLOATING, BatchNorm});
  list->push_back({"_batch_norm_backward", TT_FLOATING, BatchNormBackward});
  list->push_back({"_layer_norm", TT_FLOATING, LayerNorm});
  list->push_back({"_layer_norm_backward", TT_FLOATING, LayerNormBackward});
}

}  // namespace telensor::cpu::TT_CPU_VARIANT
