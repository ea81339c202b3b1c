// Rows of kind random. Element i draws from counter i, in row-major order: the same numbers as on the CPU.
#include "kernels/cuda/kernel.cuh"
#include "kernels/cuda/sort.h"
#include "kernels/philox.h"

template <>
struct telensor::PhiloxDigits<__half> : std::integral_constant<int, 11> {};
template <>
struct telensor::PhiloxDigits<__nv_bfloat16> : std::integral_constant<int, 8> {};

namespace telensor::cuda {
namespace {

struct Draw {
  uint64_t seed, offset;
  __device__ PhiloxBlock operator()(int64_t i) const { return Philox(seed, offset, static_cast<uint64_t>(i)); }
};
Draw DrawOf(const tt_call* call) { return {call->seed, call->offset}; }

template <typename T>
struct UniformAt {
  Draw draw;
  Locator places;
  T* out;
  ComputeType<T> low, high, range;
  __device__ void operator()(int64_t i) const {
    using R = ComputeType<T>;
    // Not contracted to a fused product: the CPU rounds both steps.
    const R u = PhiloxUniformFor<T>(draw(i));
    R v;
    if constexpr (std::is_same_v<R, float>) {
      v = __fadd_rn(low, __fmul_rn(range, u));
    } else {
      v = __dadd_rn(low, __dmul_rn(range, u));
    }
    // The sum, or what is kept of it, may have been rounded up to the bound.
    out[places(i)] = static_cast<T>(Widen(static_cast<T>(v)) < high ? v : low);
  }
};
int Uniform(tt_call* call, double from, double to) {
  const tt_tensor& out = call->outputs[0];
  return DispatchFloating(call, out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using R = ComputeType<T>;
    const R low = static_cast<R>(from), high = static_cast<R>(to);
    return ForEach(call, out.numel,
                   UniformAt<T>{DrawOf(call), Locator(out), static_cast<T*>(out.data), low, high, high - low});
  });
}

template <typename T>
struct NormalAt {
  Draw draw;
  Locator places;
  T* out;
  double mean, std;
  __device__ void operator()(int64_t i) const {
    out[places(i)] = Narrow<T>(__dadd_rn(mean, __dmul_rn(std, PhiloxNormal(draw(i)))));
  }
};
int Normal(tt_call* call, double mean, double std) {
  const tt_tensor& out = call->outputs[0];
  return DispatchFloating(call, out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return ForEach(call, out.numel, NormalAt<T>{DrawOf(call), Locator(out), static_cast<T*>(out.data), mean, std});
  });
}

int Rand(tt_call* call) { return Uniform(call, 0, 1); }
int Randn(tt_call* call) { return Normal(call, 0, 1); }
int UniformInPlace(tt_call* call) { return Uniform(call, call->attrs[0].f, call->attrs[1].f); }
int NormalInPlace(tt_call* call) {
  if (!(call->attrs[1].f >= 0)) {
    return Fail(call, TT_INVALID_ARGUMENT, "normal expects std >= 0.0, but found std %g", call->attrs[1].f);
  }
  return Normal(call, call->attrs[0].f, call->attrs[1].f);
}

template <typename T>
struct RandIntAt {
  Draw draw;
  Locator places;
  T* out;
  uint64_t low, range;
  __device__ void operator()(int64_t i) const {
    const int64_t value = static_cast<int64_t>(low + __umul64hi(PhiloxBits(draw(i)), range));
    out[places(i)] = static_cast<T>(static_cast<ComputeType<T>>(value));
  }
};
int RandInt(tt_call* call) {
  const tt_tensor& out = call->outputs[0];
  const uint64_t low = static_cast<uint64_t>(call->attrs[0].i);
  return DispatchNumber(call, out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return ForEach(call, out.numel,
                   RandIntAt<T>{DrawOf(call), Locator(out), static_cast<T*>(out.data), low,
                                static_cast<uint64_t>(call->attrs[1].i) - low});
  });
}

struct KeyAt {
  Draw draw;
  uint64_t* keys;
  int64_t* values;
  __device__ void operator()(int64_t i) const {
    keys[i] = PhiloxBits(draw(i));
    values[i] = i;
  }
};
template <typename T>
struct StoreAt {
  const int64_t* values;
  T* out;
  __device__ void operator()(int64_t i) const { out[i] = static_cast<T>(static_cast<ComputeType<T>>(values[i])); }
};
int RandPerm(tt_call* call) {
  // Indices sorted by random keys; a stable sort breaks ties as the CPU does, by index.
  const tt_tensor& out = call->outputs[0];
  const int64_t n = out.numel;
  if (n == 0) return TT_OK;
  int code = TT_OK;
  auto* space = static_cast<uint64_t*>(Workspace(call, n * 4 * 8, &code));
  if (space == nullptr) return code;
  auto* values = reinterpret_cast<int64_t*>(space + 2 * n);
  code = ForEach(call, n, KeyAt{DrawOf(call), space, values});
  if (code == TT_OK) code = SortPairs(call, n, space, space + n, values, values + n, 64);
  if (code != TT_OK) return code;
  return DispatchNumber(call, out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return ForEach(call, n, StoreAt<T>{values + n, static_cast<T*>(out.data)});
  });
}

template <typename T>
struct BernoulliAt {
  Draw draw;
  Locator in_places, out_places;
  const T* in;
  T* out;
  Report* report;
  __device__ void operator()(int64_t i) const {
    const double p = static_cast<double>(Widen(in[in_places(i)]));
    if (!(p >= 0 && p <= 1)) ReportError(report, Report::kProbability, i, 0, 0);
    const double u = PhiloxUniform(draw(i), double());
    out[out_places(i)] = static_cast<T>(static_cast<ComputeType<T>>(u < p ? 1 : 0));
  }
};
int Bernoulli(tt_call* call) {
  const tt_tensor &in = call->inputs[0], &out = call->outputs[0];
  return DispatchFloating(call, in.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return ForEach(call, in.numel,
                   BernoulliAt<T>{DrawOf(call), Locator(in), Locator(out), static_cast<const T*>(in.data),
                                  static_cast<T*>(out.data), StreamOf(call)->report});
  });
}

template <typename T>
struct DropoutAt {
  Draw draw;
  Locator in_places, out_places;
  const T* in;
  T *out, *mask;
  float p;
  ComputeType<T> scale;
  __device__ void operator()(int64_t i) const {
    using C = ComputeType<T>;
    const bool keep = PhiloxUniform(draw(i), float()) >= p;
    mask[i] = static_cast<T>(keep ? scale : C(0));
    out[out_places(i)] = static_cast<T>(keep ? Widen(in[in_places(i)]) * scale : C(0));
  }
};
int Dropout(tt_call* call) {
  const tt_tensor &in = call->inputs[0], &out = call->outputs[0];
  const double p = call->attrs[0].f;
  return DispatchFloating(call, in.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    return ForEach(call, in.numel,
                   DropoutAt<T>{DrawOf(call), Locator(in), Locator(out), static_cast<const T*>(in.data),
                                static_cast<T*>(out.data), static_cast<T*>(call->outputs[1].data),
                                static_cast<float>(p), p < 1 ? static_cast<C>(1.0 / (1.0 - p)) : C(0)});
  });
}

}  // namespace

void AppendRandomKernels(KernelList* list) {
  list->push_back({"rand", TT_FLOATING, OnDevice<Rand>});
  list->push_back({"randn", TT_FLOATING, OnDevice<Randn>});
  list->push_back({"randint", TT_FLOATING | TT_INTEGER, OnDevice<RandInt>});
  list->push_back({"randperm", TT_FLOATING | TT_INTEGER, OnDevice<RandPerm>});
  list->push_back({"uniform_", TT_FLOATING, OnDevice<UniformInPlace>});
  list->push_back({"normal_", TT_FLOATING, OnDevice<NormalInPlace>});
  list->push_back({"bernoulli", TT_FLOATING, OnDevice<Bernoulli>});
  list->push_back({"_dropout", TT_FLOATING, OnDevice<Dropout>});
}

}  // namespace telensor::cuda
