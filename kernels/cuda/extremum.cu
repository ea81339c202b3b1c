// The largest and smallest elements, and where they are. NaN is beyond every number; of equals the first counts.
#include <limits>

#include "kernels/cuda/reduction.cuh"

namespace telensor::cuda {
namespace {

template <typename C>
__device__ bool IsNan(C v) {
  if constexpr (std::is_floating_point_v<C>) return v != v;
  return false;
}

// What every element is at least as extreme as.
template <typename C>
C Mildest(bool max) {
  using Limits = std::numeric_limits<C>;
  if constexpr (std::is_floating_point_v<C>) return max ? -Limits::infinity() : Limits::infinity();
  return max ? Limits::lowest() : Limits::max();
}

template <typename T>
struct ExtremeOf {
  using In = T;
  using Acc = ComputeType<T>;
  T* out;
  Acc mildest;
  bool max;
  __device__ Acc Identity() const { return mildest; }
  __device__ void Step(Acc& a, In v, int64_t) const { Combine(a, Widen(v)); }
  __device__ void Combine(Acc& a, const Acc& b) const { a = IsNan(a) || (max ? a > b : a < b) ? a : b; }
  __device__ void Store(int64_t i, const Acc& a) const { out[i] = static_cast<T>(a); }
};

template <typename C>
struct Found {
  C value;
  int64_t index;  // -1: nothing yet
};
template <typename T>
struct FindExtreme {
  using C = ComputeType<T>;
  using In = T;
  using Acc = Found<C>;
  T* values;  // may be NULL
  int64_t* indices;
  bool max;
  __device__ Acc Identity() const { return {C(0), -1}; }
  __device__ void Step(Acc& a, In v, int64_t i) const { Combine(a, {Widen(v), i}); }
  __device__ void Combine(Acc& a, const Acc& b) const {
    if (b.index < 0) return;
    const bool nan_a = IsNan(a.value), nan_b = IsNan(b.value);
    const bool equal = nan_a ? nan_b : a.value == b.value;
    const bool beyond = nan_a ? false : nan_b || (max ? b.value > a.value : b.value < a.value);
    if (a.index < 0 || beyond || (equal && b.index < a.index)) a = b;
  }
  __device__ void Store(int64_t i, const Acc& a) const {
    if (values != nullptr) values[i] = static_cast<T>(a.value);
    indices[i] = a.index;
  }
};

template <bool kMax>
int Extremum(tt_call* call) {
  const tt_tensor& in = call->inputs[0];
  return DispatchAll(call, in.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return Reduce(call, ExtremeOf<T>{static_cast<T*>(call->outputs[0].data), Mildest<ComputeType<T>>(kMax), kMax}, in,
                  DimMask(call->attrs[0], in.rank), false);
  });
}

template <bool kMax, bool kValues>
int ArgExtremum(tt_call* call) {
  const tt_tensor& in = call->inputs[0];
  const uint32_t mask = DimMask(call->attrs[0], in.rank);
  if (call->outputs[0].numel != 0 && in.numel == 0) {
    return Fail(call, TT_INVALID_ARGUMENT, "cannot find an extremum along a dimension of size 0");
  }
  return DispatchAll(call, in.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* values = kValues ? static_cast<T*>(call->outputs[0].data) : nullptr;
    auto* indices = static_cast<int64_t*>(call->outputs[kValues ? 1 : 0].data);
    return Reduce(call, FindExtreme<T>{values, indices, kMax}, in, mask, true);
  });
}

}  // namespace

void AppendExtremumKernels(KernelList* list) {
  list->push_back({"amax", TT_ALL_DTYPES, OnDevice<Extremum<true>>});
  list->push_back({"amin", TT_ALL_DTYPES, OnDevice<Extremum<false>>});
  list->push_back({"max.dim", TT_ALL_DTYPES, OnDevice<ArgExtremum<true, true>>});
  list->push_back({"min.dim", TT_ALL_DTYPES, OnDevice<ArgExtremum<false, true>>});
  list->push_back({"argmax", TT_FLOATING | TT_INTEGER, OnDevice<ArgExtremum<true, false>>});
  list->push_back({"argmin", TT_FLOATING | TT_INTEGER, OnDevice<ArgExtremum<false, false>>});
}

}  // namespace telensor::cuda
