// Unary rows of floating point dtypes.
#include "kernels/cuda/elementwise.cuh"
#include "kernels/functors.h"

namespace telensor::cuda {
namespace {

namespace f = functors;

template <typename F>
int FloatUnary(tt_call* call) {
  return DispatchFloating(call, call->inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return Unary<T, T>(call, F());
  });
}

struct GeluErf {
  template <typename C>
  __device__ C operator()(C x) const {
    return x * C(0.5) * (C(1) + std::erf(x * C(0.70710678118654752)));
  }
};
struct GeluTanh {
  template <typename C>
  __device__ C operator()(C x) const {
    return C(0.5) * x * (C(1) + std::tanh(C(0.79788456080286536) * (x + C(0.044715) * x * x * x)));
  }
};
struct LeakyReluOf {
  double slope;
  template <typename C>
  __device__ C operator()(C x) const {
    return x > C(0) ? x : x * static_cast<C>(slope);
  }
};
struct SoftplusOf {
  double beta, threshold;
  template <typename C>
  __device__ C operator()(C x) const {
    const C b = static_cast<C>(beta);
    return x * b > static_cast<C>(threshold) ? x : std::log1p(std::exp(x * b)) / b;
  }
};

template <typename F>
int With(tt_call* call, const F& fn) {
  return DispatchFloating(call, call->inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return Unary<T, T>(call, fn);
  });
}
int Gelu(tt_call* call) { return call->attrs[0].text[0] == 't' ? With(call, GeluTanh()) : With(call, GeluErf()); }
int LeakyRelu(tt_call* call) { return With(call, LeakyReluOf{call->attrs[0].f}); }
int Softplus(tt_call* call) { return With(call, SoftplusOf{call->attrs[0].f, call->attrs[1].f}); }

}  // namespace

void AppendFloatUnaryKernels(KernelList* list) {
#define X(row, fn) list->push_back({row, TT_FLOATING, OnDevice<FloatUnary<f::fn>>});
  TT_FLOAT_UNARY_OPS(X)
#undef X
  list->push_back({"gelu", TT_FLOATING, OnDevice<Gelu>});
  list->push_back({"leaky_relu", TT_FLOATING, OnDevice<LeakyRelu>});
  list->push_back({"softplus", TT_FLOATING, OnDevice<Softplus>});
}

}  // namespace telensor::cuda
