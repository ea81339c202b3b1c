// Binary rows of floating point dtypes: division, angles and the backward kernels of two operands.
#include "kernels/cuda/elementwise.cuh"
#include "kernels/functors.h"

namespace telensor::cuda {
namespace {

namespace f = functors;

template <typename F>
int With(tt_call* call, const F& fn) {
  return DispatchFloating(call, call->inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return Binary<T, T>(call, fn);
  });
}
template <typename F>
int FloatBinary(tt_call* call) {
  return With(call, F());
}

struct ClampGradient {
  double low, high;
  template <typename C>
  __device__ C operator()(C g, C x) const {
    return x < static_cast<C>(low) || x > static_cast<C>(high) ? C(0) : g;
  }
};
struct LeakyReluGradient {
  double slope;
  template <typename C>
  __device__ C operator()(C g, C x) const {
    return x > C(0) ? g : g * static_cast<C>(slope);
  }
};
struct SoftplusGradient {
  double beta, threshold;
  template <typename C>
  __device__ C operator()(C g, C x) const {
    const C z = x * static_cast<C>(beta);
    return z > static_cast<C>(threshold) ? g : g / (C(1) + std::exp(-z));
  }
};
struct GeluErfGradient {
  template <typename C>
  __device__ C operator()(C g, C x) const {
    const C cdf = C(0.5) * (C(1) + std::erf(x * C(0.70710678118654752)));
    return g * (cdf + x * std::exp(x * x * C(-0.5)) * C(0.39894228040143268));
  }
};
struct GeluTanhGradient {
  template <typename C>
  __device__ C operator()(C g, C x) const {
    const C t = std::tanh(C(0.79788456080286536) * (x + C(0.044715) * x * x * x));
    const C dt = (C(1) - t * t) * C(0.79788456080286536) * (C(1) + C(0.134145) * x * x);
    return g * C(0.5) * (C(1) + t + x * dt);
  }
};

int ClampBackward(tt_call* call) {
  const tt_value &low = call->attrs[0], &high = call->attrs[1];
  return With(call, ClampGradient{low.kind != 0 ? low.f : -HUGE_VAL, high.kind != 0 ? high.f : HUGE_VAL});
}
int LeakyReluBackward(tt_call* call) { return With(call, LeakyReluGradient{call->attrs[0].f}); }
int SoftplusBackward(tt_call* call) { return With(call, SoftplusGradient{call->attrs[0].f, call->attrs[1].f}); }
int GeluBackward(tt_call* call) {
  return call->attrs[0].text[0] == 't' ? With(call, GeluTanhGradient()) : With(call, GeluErfGradient());
}

}  // namespace

void AppendFloatBinaryKernels(KernelList* list) {
#define X(row, fn) list->push_back({row, TT_FLOATING, OnDevice<FloatBinary<f::fn>>});
  TT_FLOAT_BINARY_OPS(X)
#undef X
  list->push_back({"_clamp_backward", TT_FLOATING, OnDevice<ClampBackward>});
  list->push_back({"_leaky_relu_backward", TT_FLOATING, OnDevice<LeakyReluBackward>});
  list->push_back({"_softplus_backward", TT_FLOATING, OnDevice<SoftplusBackward>});
  list->push_back({"_gelu_backward", TT_FLOATING, OnDevice<GeluBackward>});
}

}  // namespace telensor::cuda
