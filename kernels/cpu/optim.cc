// Fused optimizer steps: all parameters in one call, each element by torch.optim's own sequence of operations.
#include <cmath>

#include "kernels/cpu/families.h"
#include "kernels/cpu/loops.h"

namespace telensor::cpu::TT_CPU_VARIANT {
namespace {

int Sgd(tt_call* call) {
  const int64_t groups = call->attrs[0].i, n = call->num_inputs / groups;
  const double lr = call->attrs[1].f, momentum = call->attrs[2].f, dampening = call->attrs[3].f, decay = call->attrs[4].f;
  const bool nesterov = call->attrs[5].i != 0, maximize = call->attrs[6].i != 0, first = call->attrs[7].i != 0;
  if (momentum != 0 && groups < 3) return Fail(call, TT_INVALID_ARGUMENT, "_sgd_step_: momentum needs its buffers");
  for (int64_t k = 0; k < n; ++k) {
    const tt_tensor &param = call->inputs[k], &grad = call->inputs[n + k];
    const tt_tensor& buffer = momentum != 0 ? call->inputs[2 * n + k] : param;
    const int code = DispatchFloating(call, param.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      using C = ComputeType<T>;
      const C step = static_cast<C>(-lr), mu = static_cast<C>(momentum), damp = static_cast<C>(1 - dampening), wd = static_cast<C>(decay);
      const tt_tensor* const tensors[3] = {&param, &grad, &buffer};
      ForEachRow<3>(tensors, {sizeof(T), sizeof(T), sizeof(T)}, [=](char* const* p, int64_t count, const int64_t* s) {
        for (int64_t i = 0; i < count; ++i) {
          T* w = reinterpret_cast<T*>(p[0] + i * s[0]);
          C g = static_cast<C>(*reinterpret_cast<const T*>(p[1] + i * s[1]));
          if (maximize) g = -g;
          if (wd != C(0)) g = g + wd * static_cast<C>(*w);
          if (mu != C(0)) {
            T* b = reinterpret_cast<T*>(p[2] + i * s[2]);
            const C v = first ? g : static_cast<C>(*b) * mu + g * damp;
            *b = static_cast<T>(v);
            g = nesterov ? g + mu * v : v;
          }
          *w = static_cast<T>(static_cast<C>(*w) + step * g);
        }
      });
      return TT_OK;
    });
    if (code != TT_OK) return code;
  }
  return TT_OK;
}

int Adam(tt_call* call) {
  const int64_t groups = call->attrs[0].i, n = call->num_inputs / groups;
  const double lr = call->attrs[1].f, beta1 = call->attrs[2].f, beta2 = call->attrs[3].f, eps = call->attrs[4].f, decay = call->attrs[5].f;
  const bool decoupled = call->attrs[6].i != 0, amsgrad = call->attrs[7].i != 0, maximize = call->attrs[8].i != 0;
  const double step = static_cast<double>(call->attrs[9].i);
  if (groups < (amsgrad ? 5 : 4) || !(step >= 1)) return Fail(call, TT_INVALID_ARGUMENT, "_adam_step_: a group or the step is missing");
  const double step_size = lr / (1 - std::pow(beta1, step));
  const double root = std::sqrt(1 - std::pow(beta2, step));
  for (int64_t k = 0; k < n; ++k) {
    const tt_tensor &param = call->inputs[k], &grad = call->inputs[n + k];
    const tt_tensor &m = call->inputs[2 * n + k], &v = call->inputs[3 * n + k];
    const tt_tensor& most = amsgrad ? call->inputs[4 * n + k] : v;
    const int code = DispatchFloating(call, param.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      using C = ComputeType<T>;
      const tt_tensor* const tensors[5] = {&param, &grad, &m, &v, &most};
      const C b1 = static_cast<C>(beta1), b2 = static_cast<C>(beta2), c1 = static_cast<C>(1 - beta1), c2 = static_cast<C>(1 - beta2);
      const C e = static_cast<C>(eps), wd = static_cast<C>(decay), shrink = static_cast<C>(1 - lr * decay);
      const C size = static_cast<C>(-step_size), bias = static_cast<C>(root);
      ForEachRow<5>(tensors, {sizeof(T), sizeof(T), sizeof(T), sizeof(T), sizeof(T)}, [=](char* const* p, int64_t count, const int64_t* s) {
        for (int64_t i = 0; i < count; ++i) {
          T* w = reinterpret_cast<T*>(p[0] + i * s[0]);
          T* pm = reinterpret_cast<T*>(p[2] + i * s[2]);
          T* pv = reinterpret_cast<T*>(p[3] + i * s[3]);
          C g = static_cast<C>(*reinterpret_cast<const T*>(p[1] + i * s[1]));
          C value = static_cast<C>(*w);
          if (maximize) g = -g;
          if (decoupled) {
            value = value * shrink;
          } else if (wd != C(0)) {
            g = g + wd * value;
          }
          const C first = static_cast<C>(*pm) * b1 + c1 * g;
          const C second = static_cast<C>(*pv) * b2 + c2 * g * g;
          *pm = static_cast<T>(first);
          *pv = static_cast<T>(second);
          C spread = second;
          if (amsgrad) {
            T* pmost = reinterpret_cast<T*>(p[4] + i * s[4]);
            spread = std::max(static_cast<C>(*pmost), second);
            *pmost = static_cast<T>(spread);
          }
          *w = static_cast<T>(value + size * (first / (std::sqrt(spread) / bias + e)));
        }
      });
      return TT_OK;
    });
    if (code != TT_OK) return code;
  }
  return TT_OK;
}

}  // namespace

void AppendOptimKernels(KernelList* list) {
  list->push_back({"_sgd_step_", TT_FLOATING, Sgd});
  list->push_back({"_adam_step_", TT_FLOATING, Adam});
}

}  // namespace telensor::cpu::TT_CPU_VARIANT
