// Unary rows of pointwise.toml, and the tests of a value.
#include "kernels/cpu/families.h"
#include "kernels/cpu/loops.h"
#include "kernels/functors.h"

namespace telensor::cpu::TT_CPU_VARIANT {
namespace {

namespace f = functors;


template <typename Fn>
int NumberUnary(tt_call* call) {
  return DispatchNumber(call, call->inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    UnaryLoop<T, T>(call, Fn());
    return TT_OK;
  });
}
template <typename Fn>
int FloatUnary(tt_call* call) {
  return DispatchFloating(call, call->inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    UnaryLoop<T, T>(call, Fn());
    return TT_OK;
  });
}
template <typename Fn>
int AllUnary(tt_call* call) {
  return DispatchAll(call, call->inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    UnaryLoop<T, T>(call, Fn());
    return TT_OK;
  });
}
template <typename Fn>
int IntegerUnary(tt_call* call) {
  if (call->inputs[0].dtype == TT_BOOL) {
    UnaryLoop<bool, bool>(call, Fn());
    return TT_OK;
  }
  return DispatchInteger(call, call->inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    UnaryLoop<T, T>(call, Fn());
    return TT_OK;
  });
}
template <typename Fn>
int Test(tt_call* call) {
  return DispatchAll(call, call->inputs[0].dtype, [&](auto tag) {
    UnaryLoop<bool, typename decltype(tag)::type>(call, Fn());
    return TT_OK;
  });
}

int Gelu(tt_call* call) {
  const bool exact = call->attrs[0].text[0] != 't';
  return DispatchFloating(call, call->inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (exact) {
      UnaryLoop<T, T>(call, [](auto x) {
        using C = decltype(x);
        return x * C(0.5) * (C(1) + std::erf(x * C(0.70710678118654752)));
      });
    } else {
      UnaryLoop<T, T>(call, [](auto x) {
        using C = decltype(x);
        return C(0.5) * x * (C(1) + std::tanh(C(0.79788456080286536) * (x + C(0.044715) * x * x * x)));
      });
    }
    return TT_OK;
  });
}

int LeakyRelu(tt_call* call) {
  const double slope = call->attrs[0].f;
  return DispatchFloating(call, call->inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    UnaryLoop<T, T>(call, [slope](auto x) { return x > 0 ? x : x * static_cast<decltype(x)>(slope); });
    return TT_OK;
  });
}

int Softplus(tt_call* call) {
  const double beta = call->attrs[0].f, threshold = call->attrs[1].f;
  return DispatchFloating(call, call->inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    UnaryLoop<T, T>(call, [beta, threshold](auto x) {
      using C = decltype(x);
      return x * C(beta) > C(threshold) ? x : std::log1p(std::exp(x * C(beta))) / C(beta);
    });
    return TT_OK;
  });
}

int Clamp(tt_call* call) {
  const tt_value &low = call->attrs[0], &high = call->attrs[1];
  return DispatchNumber(call, call->inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const auto limit = [](const tt_value& v) {
      if constexpr (std::is_floating_point_v<C>) return static_cast<C>(v.f);
      return static_cast<C>(v.i);
    };
    const bool has_low = low.kind != 0, has_high = high.kind != 0;
    const C lo = has_low ? limit(low) : C(0), hi = has_high ? limit(high) : C(0);
    UnaryLoop<T, T>(call, [=](C x) {
      if (has_low && x < lo) x = lo;
      if (has_high && x > hi) x = hi;
      return x;
    });
    return TT_OK;
  });
}

}  // namespace

void AppendPointwiseKernels(KernelList* list) {
  constexpr uint32_t kNumber = TT_FLOATING | TT_INTEGER, kIntBool = TT_INTEGER | TT_DTYPE_BIT(TT_BOOL);
#define X(row, fn) list->push_back({row, kNumber, NumberUnary<f::fn>});
  TT_NUMBER_UNARY_OPS(X)
#undef X
#define X(row, fn) list->push_back({row, TT_FLOATING, FloatUnary<f::fn>});
  TT_FLOAT_UNARY_OPS(X)
#undef X
#define X(row, fn) list->push_back({row, TT_ALL_DTYPES, AllUnary<f::fn>});
  TT_ALL_UNARY_OPS(X)
#undef X
#define X(row, fn) list->push_back({row, kIntBool, IntegerUnary<f::fn>});
  TT_INTEGER_UNARY_OPS(X)
#undef X
#define X(row, fn) list->push_back({row, TT_ALL_DTYPES, Test<f::fn>});
  TT_TEST_OPS(X)
#undef X
  list->push_back({"gelu", TT_FLOATING, Gelu});
  list->push_back({"leaky_relu", TT_FLOATING, LeakyRelu});
  list->push_back({"softplus", TT_FLOATING, Softplus});
  list->push_back({"clamp", kNumber, Clamp});
  AppendBinaryKernels(list);
}

}  // namespace telensor::cpu::TT_CPU_VARIANT
