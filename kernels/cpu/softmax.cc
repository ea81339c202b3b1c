// softmax, log_softmax and nll_loss with their gradients.
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cpu/families.h"
#include "kernels/cpu/gemm.h"

namespace telensor::cpu::TT_CPU_VARIANT {
namespace {

// A dense tensor as (outer, n, inner) around one dimension.
struct Axis {
  int64_t outer = 1, n = 1, inner = 1;
};
Axis MakeAxis(const tt_tensor& t, int64_t dim) {
  Axis a;
  if (t.rank == 0) return a;
  const int d = WrapDim(dim, t.rank);
  for (int i = 0; i < d; ++i) a.outer *= t.sizes[i];
  a.n = t.sizes[d];
  for (int i = d + 1; i < t.rank; ++i) a.inner *= t.sizes[i];
  return a;
}

template <bool kLog>
int Softmax(tt_call* call) {
  const tt_tensor& in = call->inputs[0];
  const Axis a = MakeAxis(in, call->attrs[0].i);
  return DispatchFloating(call, in.dtype, [&](auto tag) -> int {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const T* x = Dense<T>(call, in);
    if (x == nullptr && in.numel > 0) return TT_OUT_OF_MEMORY;
    T* y = static_cast<T*>(call->outputs[0].data);
    ParallelFor(a.outer * a.inner, std::max<int64_t>(1, kGrain / 4 / (a.n + 1)), [&](int64_t begin, int64_t end) {
      for (int64_t line = begin; line < end; ++line) {
        const int64_t base = line / a.inner * a.n * a.inner + line % a.inner;
        C most = -std::numeric_limits<C>::infinity();
        for (int64_t i = 0; i < a.n; ++i) {
          const C v = static_cast<C>(x[base + i * a.inner]);
          most = v > most || v != v ? v : most;
        }
        C sum = 0;
        for (int64_t i = 0; i < a.n; ++i) sum += std::exp(static_cast<C>(x[base + i * a.inner]) - most);
        const C log_sum = std::log(sum), scale = C(1) / sum;
        for (int64_t i = 0; i < a.n; ++i) {
          const C v = static_cast<C>(x[base + i * a.inner]) - most;
          y[base + i * a.inner] = static_cast<T>(kLog ? v - log_sum : std::exp(v) * scale);
        }
      }
    });
    return TT_OK;
  });
}

template <bool kLog>
int SoftmaxBackward(tt_call* call) {
  const tt_tensor &grad = call->inputs[0], &result = call->inputs[1];
  if (grad.numel != result.numel) return Fail(call, TT_INVALID_ARGUMENT, "softmax backward: the sizes do not belong together");
  if (result.rank > 0 && (call->attrs[0].i < -result.rank || call->attrs[0].i >= result.rank)) {
    return Fail(call, TT_OUT_OF_RANGE, "softmax backward: dimension out of range");
  }
  const Axis a = MakeAxis(result, call->attrs[0].i);
  return DispatchFloating(call, result.dtype, [&](auto tag) -> int {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const T *g = Dense<T>(call, grad), *y = Dense<T>(call, result);
    if ((g == nullptr || y == nullptr) && result.numel > 0) return TT_OUT_OF_MEMORY;
    T* dx = static_cast<T*>(call->outputs[0].data);
    ParallelFor(a.outer * a.inner, std::max<int64_t>(1, kGrain / 4 / (a.n + 1)), [&](int64_t begin, int64_t end) {
      for (int64_t line = begin; line < end; ++line) {
        const int64_t base = line / a.inner * a.n * a.inner + line % a.inner;
        C sum = 0;
        for (int64_t i = 0; i < a.n; ++i) {
          const C gi = static_cast<C>(g[base + i * a.inner]);
          sum += kLog ? gi : gi * static_cast<C>(y[base + i * a.inner]);
        }
        for (int64_t i = 0; i < a.n; ++i) {
          const C gi = static_cast<C>(g[base + i * a.inner]), yi = static_cast<C>(y[base + i * a.inner]);
          dx[base + i * a.inner] = static_cast<T>(kLog ? gi - std::exp(yi) * sum : yi * (gi - sum));
        }
      }
    });
    return TT_OK;
  });
}

enum class Reduction { kNone, kMean, kSum };
Reduction ReductionOf(const tt_value& v) {
  return std::strcmp(v.text, "mean") == 0 ? Reduction::kMean : std::strcmp(v.text, "sum") == 0 ? Reduction::kSum : Reduction::kNone;
}

// Checked before anything is written.
int CheckTargets(tt_call* call, const int64_t* target, int64_t rows, int64_t classes, int64_t ignore) {
  for (int64_t i = 0; i < rows; ++i) {
    if (target[i] != ignore && (target[i] < 0 || target[i] >= classes)) {
      return Fail(call, TT_OUT_OF_RANGE, "Target %lld is out of bounds.", static_cast<long long>(target[i]));
    }
  }
  return TT_OK;
}

int NllLoss(tt_call* call) {
  const tt_tensor &input = call->inputs[0], &target = call->inputs[1], &weight = call->inputs[2];
  const int64_t rows = input.sizes[0], classes = input.sizes[1], ignore = call->attrs[0].i;
  const Reduction reduction = ReductionOf(call->attrs[1]);
  return DispatchFloating(call, input.dtype, [&](auto tag) -> int {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const int64_t* t = Dense<int64_t>(call, target);
    if (t == nullptr && rows > 0) return TT_OUT_OF_MEMORY;
    if (const int code = CheckTargets(call, t, rows, classes, ignore); code != TT_OK) return code;
    const T* x = static_cast<const T*>(input.data);
    T* out = static_cast<T*>(call->outputs[0].data);
    double total = 0, sum = 0;
    for (int64_t i = 0; i < rows; ++i) {
      const bool used = t[i] != ignore;
      const C w = !used ? C(0) : weight.dtype != 0 ? static_cast<C>(static_cast<const T*>(weight.data)[t[i] * weight.strides[0]]) : C(1);
      const C loss = used ? -w * static_cast<C>(x[i * input.strides[0] + t[i] * input.strides[1]]) : C(0);
      if (reduction == Reduction::kNone) out[i] = static_cast<T>(loss);
      total += w;
      sum += loss;
    }
    // No row at all gives NaN, as in PyTorch.
    if (reduction != Reduction::kNone) out[0] = static_cast<T>(static_cast<C>(reduction == Reduction::kMean ? sum / total : sum));
    *static_cast<T*>(call->outputs[1].data) = static_cast<T>(static_cast<C>(total));
    return TT_OK;
  });
}

int NllLossBackward(tt_call* call) {
  const tt_tensor &grad = call->inputs[0], &target = call->inputs[1], &weight = call->inputs[2], &total = call->inputs[3];
  const tt_tensor& out = call->outputs[0];
  const int64_t ignore = call->attrs[1].i;
  const Reduction reduction = ReductionOf(call->attrs[2]);
  if (out.rank != 2 || target.numel != out.sizes[0] || target.dtype != TT_INT64 || total.numel != 1 || total.dtype != grad.dtype ||
      grad.numel != (reduction == Reduction::kNone ? out.sizes[0] : 1) ||
      (weight.dtype != 0 && (weight.dtype != grad.dtype || weight.rank != 1 || weight.numel != out.sizes[1]))) {
    return Fail(call, TT_INVALID_ARGUMENT, "nll_loss backward: the sizes do not belong together");
  }
  const int64_t rows = out.sizes[0], classes = out.sizes[1];
  return DispatchFloating(call, grad.dtype, [&](auto tag) -> int {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const int64_t* t = Dense<int64_t>(call, target);
    const T* g = Dense<T>(call, grad);
    if ((t == nullptr || g == nullptr) && rows > 0) return TT_OUT_OF_MEMORY;
    if (const int code = CheckTargets(call, t, rows, classes, ignore); code != TT_OK) return code;
    T* dx = static_cast<T*>(out.data);
    std::fill_n(dx, out.numel, T());
    const C sum = static_cast<C>(*static_cast<const T*>(total.data));
    for (int64_t i = 0; i < rows; ++i) {
      if (t[i] == ignore) continue;
      C v = -static_cast<C>(g[reduction == Reduction::kNone ? i : 0]);
      if (weight.dtype != 0) v *= static_cast<C>(static_cast<const T*>(weight.data)[t[i] * weight.strides[0]]);
      if (reduction == Reduction::kMean) v /= sum;
      dx[i * classes + t[i]] = static_cast<T>(v);
    }
    return TT_OK;
  });
}

}  // namespace

void AppendSoftmaxKernels(KernelList* list) {
  list->push_back({"_softmax", TT_FLOATING, Softmax<false>});
  list->push_back({"_log_softmax", TT_FLOATING, Softmax<true>});
  list->push_back({"_softmax_backward", TT_FLOATING, SoftmaxBackward<false>});
  list->push_back({"_log_softmax_backward", TT_FLOATING, SoftmaxBackward<true>});
  list->push_back({"_nll_loss", TT_FLOATING, NllLoss});
  list->push_back({"_nll_loss_backward", TT_FLOATING, NllLossBackward});
}

}  // namespace telensor::cpu::TT_CPU_VARIANT
