// Fused optimizer steps: all parameters in one call, each element by torch.optim's own sequence of operations.
#include <cmath>

#include "kernels/cpu/families.h"
#include "kernels/cpu/loops.h"
#include "kernels/functors_math.h"

namespace telensor::cpu::TT_CPU_VARIANT {
namespace {

using functors::Fma;

// `narrow` or, for float64 parameters, `wide` over parameter after parameter, in threads of elements: there may be many
// small parameters, or few large ones.
int RunSteps(tt_call* call, const Body& narrow, const Body& wide, int64_t n) {
  int64_t total = 0;
  for (int64_t i = 0; i < n; ++i) total += call->inputs[i].numel;
  ParallelFor(total, kGrain / 2, [&](int64_t begin, int64_t end) {
    int64_t first = 0;  // of this parameter's elements
    for (int64_t i = 0; i < n && first < end; first += call->inputs[i++].numel) {
      const int64_t from = std::max<int64_t>(begin - first, 0), to = std::min(call->inputs[i].numel, end - first);
      if (from >= to) continue;
      const int dtype = call->inputs[i].dtype;
      Body body = dtype == TT_FLOAT64 ? wide : narrow;
      const tt_tensor* tensors[kMaxOperands] = {};
      bool dense = dtype >= TT_FLOAT32;
      for (int k = 0; k < body.count; ++k) {
        body.formats[k] = FormatFor(dtype);
        tensors[k] = &call->inputs[k * n + i];
        dense = dense && tensors[k]->contiguous;
      }
      if (dense) {
        void* at[kMaxOperands];
        for (int k = 0; k < body.count; ++k)
          at[k] = static_cast<char*>(tensors[k]->data) + from * ItemSize(body.formats[k]);
        body.dense(body.functor, at, 0, to - from);
      } else {
        ElementLoop(body, tensors).Run(from, to);
      }
    }
  });
  return TT_OK;
}

// The row's rules have checked shapes and dtypes: every group has n tensors, all tensors of a parameter are alike.
int64_t ParametersOf(const tt_call* call) {
  const int64_t groups = call->attrs[0].i;
  return groups > 0 ? call->num_inputs / groups : 0;
}

template <typename C>
struct Sgd {
  C step, momentum, damping, decay;
  bool nesterov, maximize, first;
};

template <typename C, bool kMomentum>
void SgdLoop(const void* functor, void* const* at, unsigned, int64_t n) {
  const Sgd<C> s = *static_cast<const Sgd<C>*>(functor);
  const C sign = s.maximize ? C(-1) : C(1);
  const bool decays = s.decay != C(0);
  C* w = static_cast<C*>(at[0]);
  const C* grad = static_cast<const C*>(at[1]);
  C* buffer = static_cast<C*>(kMomentum ? at[2] : at[0]);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const C plain = sign * grad[i], decayed = Fma(w[i], s.decay, plain);
    C g = decays ? decayed : plain;
    if (kMomentum) {
      const C moved = Fma(g, s.damping, buffer[i] * s.momentum), v = s.first ? g : moved;
      buffer[i] = v;
      const C ahead = Fma(v, s.momentum, g);
      g = s.nesterov ? ahead : v;
    }
    w[i] = Fma(g, s.step, w[i]);
  }
}

int SgdStep(tt_call* call) {
  const tt_value* a = call->attrs;
  const bool with_momentum = a[2].f != 0;
  if (a[0].i < (with_momentum ? 3 : 2))
    return Fail(call, TT_INVALID_ARGUMENT, "_sgd_step_: momentum needs its buffers");
  const int64_t n = ParametersOf(call);
  if (n == 0) return TT_OK;
  const auto settings = [a](auto c) {
    using C = decltype(c);
    return Sgd<C>{static_cast<C>(-a[1].f),
                  static_cast<C>(a[2].f),
                  static_cast<C>(1 - a[3].f),
                  static_cast<C>(a[4].f),
                  a[5].i != 0,
                  a[6].i != 0,
                  a[7].i != 0};
  };
  const Sgd<float> narrow = settings(float());
  const Sgd<double> wide = settings(double());
  if (!with_momentum) {
    return RunSteps(call, {SgdLoop<float, false>, &narrow, 2, 3, 1, 0, {}},
                    {SgdLoop<double, false>, &wide, 2, 3, 1, 0, {}}, n);
  }
  return RunSteps(call, {SgdLoop<float, true>, &narrow, 3, 7, 5, 0, {}}, {SgdLoop<double, true>, &wide, 3, 7, 5, 0, {}},
                  n);
}

template <typename C>
struct Adam {
  C beta1, beta2, rest1, rest2, eps, decay, shrink, step, bias;
  bool maximize;
};

template <typename C, bool kMost>
void AdamLoop(const void* functor, void* const* at, unsigned, int64_t n) {
  const Adam<C> s = *static_cast<const Adam<C>*>(functor);
  const C sign = s.maximize ? C(-1) : C(1);
  const bool decays = s.decay != C(0);
  C* w = static_cast<C*>(at[0]);
  const C* grad = static_cast<const C*>(at[1]);
  C* mean = static_cast<C*>(at[2]);
  C* square = static_cast<C*>(at[3]);
  C* most = static_cast<C*>(kMost ? at[4] : at[3]);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const C weight = w[i] * s.shrink;
    const C plain = sign * grad[i], decayed = Fma(weight, s.decay, plain);
    const C g = decays ? decayed : plain;
    const C m = Fma(g, s.rest1, mean[i] * s.beta1);
    const C v = Fma(s.rest2 * g, g, square[i] * s.beta2);
    mean[i] = m;
    square[i] = v;
    C spread = v;
    if (kMost) {
      // NaN in either stays, as in maximum.
      spread = most[i] > v || most[i] != most[i] ? most[i] : v;
      most[i] = spread;
    }
    w[i] = weight + s.step * m / (std::sqrt(spread) / s.bias + s.eps);
  }
}

int AdamStep(tt_call* call) {
  const tt_value* a = call->attrs;
  const double lr = a[1].f, beta1 = a[2].f, beta2 = a[3].f, decay = a[5].f, step = static_cast<double>(a[9].i);
  const bool decoupled = a[6].i != 0, amsgrad = a[7].i != 0;
  if (a[0].i < (amsgrad ? 5 : 4) || !(step >= 1)) {
    return Fail(call, TT_INVALID_ARGUMENT, "_adam_step_: a group or the step is missing");
  }
  const int64_t n = ParametersOf(call);
  if (n == 0) return TT_OK;
  const double step_size = lr / (1 - std::pow(beta1, step)), bias = std::sqrt(1 - std::pow(beta2, step));
  const auto settings = [&](auto c) {
    using C = decltype(c);
    return Adam<C>{static_cast<C>(beta1),
                   static_cast<C>(beta2),
                   static_cast<C>(1 - beta1),
                   static_cast<C>(1 - beta2),
                   static_cast<C>(a[4].f),
                   static_cast<C>(decoupled ? 0 : decay),
                   static_cast<C>(decoupled ? 1 - lr * decay : 1),
                   static_cast<C>(-step_size),
                   static_cast<C>(bias),
                   a[8].i != 0};
  };
  const Adam<float> narrow = settings(float());
  const Adam<double> wide = settings(double());
  if (!amsgrad) {
    return RunSteps(call, {AdamLoop<float, false>, &narrow, 4, 15, 13, 0, {}},
                    {AdamLoop<double, false>, &wide, 4, 15, 13, 0, {}}, n);
  }
  return RunSteps(call, {AdamLoop<float, true>, &narrow, 5, 31, 29, 0, {}},
                  {AdamLoop<double, true>, &wide, 5, 31, 29, 0, {}}, n);
}

}  // namespace

void AppendOptimKernels(KernelList* list) {
  list->push_back({"_sgd_step_", TT_FLOATING, SgdStep});
  list->push_back({"_adam_step_", TT_FLOATING, AdamStep});
}

}  // namespace telensor::cpu::TT_CPU_VARIANT
