// Sums and what is made of them: sum, mean, _prod, any, all, _var, _std, _norm.
#include "kernels/cuda/reduction.cuh"

namespace telensor::cuda {
namespace {

template <typename T>
struct SumOf {
  using In = T;
  using Acc = std::conditional_t<kIsFloating<T>, double, uint64_t>;
  T* out;
  double divisor;
  __device__ Acc Identity() const { return Acc(0); }
  __device__ void Step(Acc& a, In v, int64_t) const { a += static_cast<Acc>(Widen(v)); }
  __device__ void Combine(Acc& a, const Acc& b) const { a += b; }
  __device__ void Store(int64_t i, const Acc& a) const {
    if constexpr (kIsFloating<T>) {
      out[i] = Narrow<T>(a / divisor);
    } else {
      out[i] = Narrow<T>(a);
    }
  }
};

template <typename T>
struct ProductOf {
  using In = T;
  using Acc = std::conditional_t<kIsFloating<T>, double, uint64_t>;
  T* out;
  __device__ Acc Identity() const { return Acc(1); }
  __device__ void Step(Acc& a, In v, int64_t) const { a *= static_cast<Acc>(Widen(v)); }
  __device__ void Combine(Acc& a, const Acc& b) const { a *= b; }
  __device__ void Store(int64_t i, const Acc& a) const { out[i] = Narrow<T>(a); }
};

template <typename T>
struct TruthOf {
  using In = T;
  using Acc = int;
  bool* out;
  bool all;
  __device__ Acc Identity() const { return all ? 1 : 0; }
  __device__ void Step(Acc& a, In v, int64_t) const {
    const int truth = Widen(v) != ComputeType<T>(0);
    a = all ? a & truth : a | truth;
  }
  __device__ void Combine(Acc& a, const Acc& b) const { a = all ? a & b : a | b; }
  __device__ void Store(int64_t i, const Acc& a) const { out[i] = a != 0; }
};

// Mean and squared distances from it, as they grow and join (Welford, Chan).
struct Moments {
  double n, mean, squares;
};
template <typename T>
struct VarianceOf {
  using In = T;
  using Acc = Moments;
  T* out;
  double correction;
  bool root;
  __device__ Acc Identity() const { return {0, 0, 0}; }
  __device__ void Step(Acc& a, In value, int64_t) const {
    const double v = static_cast<double>(Widen(value));
    a.n += 1;
    const double d = v - a.mean;
    a.mean += d / a.n;
    a.squares += d * (v - a.mean);
  }
  __device__ void Combine(Acc& a, const Acc& b) const {
    if (b.n == 0) return;
    if (a.n == 0) {
      a = b;
      return;
    }
    const double n = a.n + b.n, d = b.mean - a.mean;
    a.mean += d * (b.n / n);
    a.squares += b.squares + d * d * (a.n * (b.n / n));
    a.n = n;
  }
  __device__ void Store(int64_t i, const Acc& a) const {
    const double variance = a.squares / fmax(0.0, a.n - correction);
    out[i] = Narrow<T>(root ? sqrt(variance) : variance);
  }
};

template <typename T>
struct NormOf {
  enum Kind { kNonzero, kOne, kTwo, kMost, kLeast, kAny };
  using In = T;
  using Acc = double;
  T* out;
  Kind kind;
  double p;
  __device__ Acc Identity() const { return kind == kLeast ? HUGE_VAL : 0.0; }
  __device__ void Step(Acc& a, In value, int64_t) const {
    const double v = fabs(static_cast<double>(Widen(value)));
    switch (kind) {
      case kNonzero: a += v != 0 ? 1.0 : 0.0; break;
      case kOne: a += v; break;
      case kTwo: a += v * v; break;
      case kAny: a += pow(v, p); break;
      default: Combine(a, v);
    }
  }
  __device__ void Combine(Acc& a, const Acc& b) const {
    if (kind == kMost) {
      a = a != a || a > b ? a : b;
    } else if (kind == kLeast) {
      a = a != a || a < b ? a : b;
    } else {
      a += b;
    }
  }
  __device__ void Store(int64_t i, const Acc& a) const {
    out[i] = Narrow<T>(kind == kTwo ? sqrt(a) : kind == kAny ? pow(a, 1.0 / p) : a);
  }
};

int SameType(tt_call* call) {
  return call->inputs[0].dtype == call->outputs[0].dtype
             ? TT_OK
             : Fail(call, TT_INTERNAL, "a reduction's input was not converted");
}

int AddUp(tt_call* call, bool mean) {
  const tt_tensor &in = call->inputs[0], &out = call->outputs[0];
  if (const int code = SameType(call); code != TT_OK) return code;
  const uint32_t mask = DimMask(call->attrs[0], in.rank);
  double count = 1;
  for (int d = 0; d < in.rank; ++d) count *= mask >> d & 1 ? static_cast<double>(in.sizes[d]) : 1.0;
  return DispatchAll(call, in.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return Reduce(call, SumOf<T>{static_cast<T*>(out.data), mean ? count : 1.0}, in, mask, false);
  });
}
int Sum(tt_call* call) { return AddUp(call, false); }
int Mean(tt_call* call) { return AddUp(call, true); }

int Product(tt_call* call) {
  const tt_tensor &in = call->inputs[0], &out = call->outputs[0];
  if (const int code = SameType(call); code != TT_OK) return code;
  return DispatchAll(call, in.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return Reduce(call, ProductOf<T>{static_cast<T*>(out.data)}, in, DimMask(call->attrs[0], in.rank), false);
  });
}

template <bool kAll>
int Truth(tt_call* call) {
  const tt_tensor& in = call->inputs[0];
  return DispatchAll(call, in.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return Reduce(call, TruthOf<T>{static_cast<bool*>(call->outputs[0].data), kAll}, in,
                  DimMask(call->attrs[0], in.rank), false);
  });
}

template <bool kRoot>
int Variance(tt_call* call) {
  const tt_tensor& in = call->inputs[0];
  return DispatchFloating(call, in.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const double correction = static_cast<double>(call->attrs[1].i);
    return Reduce(call, VarianceOf<T>{static_cast<T*>(call->outputs[0].data), correction, kRoot}, in, DimMask(call->attrs[0], in.rank), false);
  });
}

int Norm(tt_call* call) {
  const tt_tensor& in = call->inputs[0];
  const double p = call->attrs[0].f;
  return DispatchFloating(call, in.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using N = NormOf<T>;
    const auto kind = p == 2           ? N::kTwo
                      : p == 1         ? N::kOne
                      : p == 0         ? N::kNonzero
                      : p == HUGE_VAL  ? N::kMost
                      : p == -HUGE_VAL ? N::kLeast
                                       : N::kAny;
    return Reduce(call, N{static_cast<T*>(call->outputs[0].data), kind, p}, in, DimMask(call->attrs[1], in.rank),
                  false);
  });
}

}  // namespace

void AppendReductionKernels(KernelList* list) {
  list->push_back({"sum", TT_ALL_DTYPES, OnDevice<Sum>});
  list->push_back({"mean", TT_FLOATING, OnDevice<Mean>});
  list->push_back({"_prod", TT_ALL_DTYPES, OnDevice<Product>});
  list->push_back({"any", TT_ALL_DTYPES, OnDevice<Truth<false>>});
  list->push_back({"all", TT_ALL_DTYPES, OnDevice<Truth<true>>});
  list->push_back({"_var", TT_FLOATING, OnDevice<Variance<false>>});
  list->push_back({"_std", TT_FLOATING, OnDevice<Variance<true>>});
  list->push_back({"_norm", TT_FLOATING, OnDevice<Norm>});
}

}  // namespace telensor::cuda
