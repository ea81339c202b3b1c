// Rows of kind random. Element i draws from counter i, in row-major order.
#include <numeric>

#include "kernels/cpu/families.h"
#include "kernels/philox.h"

namespace telensor::cpu::TT_CPU_VARIANT {
namespace {

// Calls fn(i, address) for every element in row-major order, whatever the strides.
template <typename T, typename Fn>
void Fill(const tt_tensor& out, const Fn& fn) {
  ParallelFor(out.numel, kGrain / 8, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t at = i;
      if (!out.contiguous) {
        at = 0;
        int64_t rest = i;
        for (int d = out.rank - 1; d >= 0; --d) {
          at += rest % out.sizes[d] * out.strides[d];
          rest /= out.sizes[d];
        }
      }
      fn(i, static_cast<T*>(out.data) + at);
    }
  });
}

template <typename T>
using Real = std::conditional_t<std::is_same_v<T, double>, double, float>;

int Uniform(tt_call* call, double from, double to) {
  return DispatchFloating(call, call->outputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using R = Real<T>;
    const R low = static_cast<R>(from), range = static_cast<R>(to) - low;
    Fill<T>(call->outputs[0], [&](int64_t i, T* p) {
      *p = static_cast<T>(low + range * PhiloxUniform(Philox(call->seed, call->offset, i), R()));
    });
    return TT_OK;
  });
}
int Normal(tt_call* call, double mean, double std) {
  return DispatchFloating(call, call->outputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    Fill<T>(call->outputs[0], [&](int64_t i, T* p) {
      *p = static_cast<T>(static_cast<Real<T>>(mean + std * PhiloxNormal(Philox(call->seed, call->offset, i))));
    });
    return TT_OK;
  });
}

int Rand(tt_call* call) { return Uniform(call, 0, 1); }
int Randn(tt_call* call) { return Normal(call, 0, 1); }
int UniformInPlace(tt_call* call) {
  if (!(call->attrs[0].f <= call->attrs[1].f)) {
    return Fail(call, TT_INVALID_ARGUMENT, "uniform_ expects to return a [from, to) range, but found from=%g > to=%g",
                call->attrs[0].f, call->attrs[1].f);
  }
  return Uniform(call, call->attrs[0].f, call->attrs[1].f);
}
int NormalInPlace(tt_call* call) {
  if (!(call->attrs[1].f >= 0)) {
    return Fail(call, TT_INVALID_ARGUMENT, "normal expects std >= 0.0, but found std %g", call->attrs[1].f);
  }
  return Normal(call, call->attrs[0].f, call->attrs[1].f);
}

int RandInt(tt_call* call) {
  const uint64_t low = static_cast<uint64_t>(call->attrs[0].i);
  const uint64_t range = static_cast<uint64_t>(call->attrs[1].i) - low;
  return DispatchNumber(call, call->outputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    Fill<T>(call->outputs[0], [&](int64_t i, T* p) {
      // The high half of a product spreads 64 bits over the range without a visible bias.
      const uint64_t bits = PhiloxBits(Philox(call->seed, call->offset, i));
      const uint64_t pick = static_cast<uint64_t>((static_cast<unsigned __int128>(bits) * range) >> 64);
      const int64_t value = static_cast<int64_t>(low + pick);
      *p = static_cast<T>(static_cast<ComputeType<T>>(value));
    });
    return TT_OK;
  });
}

int RandPerm(tt_call* call) {
  // Indices sorted by random keys: the same on every device.
  const int64_t n = call->outputs[0].numel;
  std::vector<std::pair<uint64_t, int64_t>> keys(n);
  for (int64_t i = 0; i < n; ++i) keys[i] = {PhiloxBits(Philox(call->seed, call->offset, i)), i};
  std::sort(keys.begin(), keys.end());
  return DispatchNumber(call, call->outputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t i = 0; i < n; ++i) static_cast<T*>(call->outputs[0].data)[i] = static_cast<T>(static_cast<ComputeType<T>>(keys[i].second));
    return TT_OK;
  });
}

// Reads an input of any strides at the row-major place i.
template <typename T>
T At(const tt_tensor& in, int64_t i) {
  if (in.contiguous) return static_cast<const T*>(in.data)[i];
  int64_t at = 0;
  for (int d = in.rank - 1; d >= 0; --d) {
    at += i % in.sizes[d] * in.strides[d];
    i /= in.sizes[d];
  }
  return static_cast<const T*>(in.data)[at];
}

int Bernoulli(tt_call* call) {
  const tt_tensor& in = call->inputs[0];
  return DispatchFloating(call, in.dtype, [&](auto tag) -> int {
    using T = typename decltype(tag)::type;
    for (int64_t i = 0; i < in.numel; ++i) {
      const double p = static_cast<double>(static_cast<ComputeType<T>>(At<T>(in, i)));
      if (!(p >= 0 && p <= 1)) return Fail(call, TT_INVALID_ARGUMENT, "Expected p_in >= 0 && p_in <= 1 to be true, but got false.");
    }
    Fill<T>(call->outputs[0], [&](int64_t i, T* p) {
      const double u = PhiloxUniform(Philox(call->seed, call->offset, i), double());
      *p = static_cast<T>(static_cast<ComputeType<T>>(u < static_cast<double>(static_cast<ComputeType<T>>(At<T>(in, i)))));
    });
    return TT_OK;
  });
}

int Dropout(tt_call* call) {
  const tt_tensor& in = call->inputs[0];
  const double p = call->attrs[0].f;
  return DispatchFloating(call, in.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const C scale = p < 1 ? static_cast<C>(1.0 / (1.0 - p)) : C(0);
    T* mask = static_cast<T*>(call->outputs[1].data);
    Fill<T>(call->outputs[0], [&](int64_t i, T* out) {
      const bool keep = PhiloxUniform(Philox(call->seed, call->offset, i), float()) >= static_cast<float>(p);
      const C factor = keep ? scale : C(0);
      mask[i] = static_cast<T>(factor);
      *out = keep ? static_cast<T>(static_cast<C>(At<T>(in, i)) * factor) : static_cast<T>(C(0));
    });
    return TT_OK;
  });
}

}  // namespace

void AppendRandomKernels(KernelList* list) {
  list->push_back({"rand", TT_FLOATING, Rand});
  list->push_back({"randn", TT_FLOATING, Randn});
  list->push_back({"randint", TT_FLOATING | TT_INTEGER, RandInt});
  list->push_back({"randperm", TT_FLOATING | TT_INTEGER, RandPerm});
  list->push_back({"uniform_", TT_FLOATING, UniformInPlace});
  list->push_back({"normal_", TT_FLOATING, NormalInPlace});
  list->push_back({"bernoulli", TT_FLOATING, Bernoulli});
  list->push_back({"_dropout", TT_FLOATING, Dropout});
}

}  // namespace telensor::cpu::TT_CPU_VARIANT
