// Rows of creation.toml that compute their values.
#include <cstring>

#include "kernels/cpu/families.h"

namespace telensor::cpu::TT_CPU_VARIANT {
namespace {

template <typename T>
T NumberAs(const tt_value& v) {
  if constexpr (std::is_same_v<T, bool>) return v.kind == 3 ? v.f != 0 : v.i != 0;
  if constexpr (std::is_integral_v<T>) {
    if (v.kind != 3) return static_cast<T>(v.i);
    return v.f > -9.2e18 && v.f < 9.2e18 ? static_cast<T>(static_cast<int64_t>(v.f)) : T(0);
  }
  return static_cast<T>(static_cast<ComputeType<T>>(v.f));
}

int Full(tt_call* call) {
  const tt_tensor& out = call->outputs[0];
  return DispatchAll(call, out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T value = NumberAs<T>(call->attrs[1]);
    ParallelFor(out.numel, kGrain, [&](int64_t begin, int64_t end) {
      std::fill(static_cast<T*>(out.data) + begin, static_cast<T*>(out.data) + end, value);
    });
    return TT_OK;
  });
}

int Arange(tt_call* call) {
  const tt_tensor& out = call->outputs[0];
  const tt_value &start = call->attrs[0], &step = call->attrs[2];
  return DispatchNumber(call, out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* data = static_cast<T*>(out.data);
    ParallelFor(out.numel, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        if constexpr (std::is_integral_v<T>) {
          // Integer limits stay exact; fractional ones are cut first, as PyTorch does.
          const uint64_t a = static_cast<uint64_t>(NumberAs<int64_t>(start)),
                         s = static_cast<uint64_t>(NumberAs<int64_t>(step));
          data[i] = static_cast<T>(a + s * static_cast<uint64_t>(i));
        } else {
          data[i] = static_cast<T>(static_cast<ComputeType<T>>(start.f + step.f * static_cast<double>(i)));
        }
      }
    });
    return TT_OK;
  });
}

int Linspace(tt_call* call) {
  const tt_tensor& out = call->outputs[0];
  const double start = call->attrs[0].f, end_value = call->attrs[1].f;
  const int64_t n = out.numel;
  const double step = n > 1 ? (end_value - start) / static_cast<double>(n - 1) : 0;
  return DispatchNumber(call, out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* data = static_cast<T*>(out.data);
    ParallelFor(n, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        // From both ends to the middle, so that the last value is exact.
        tt_value value = {};
        value.kind = 3;
        value.f = i < n / 2 || n == 1 ? start + step * static_cast<double>(i)
                                      : end_value - step * static_cast<double>(n - 1 - i);
        data[i] = NumberAs<T>(value);
      }
    });
    return TT_OK;
  });
}

int Eye(tt_call* call) {
  const tt_tensor& out = call->outputs[0];
  return DispatchAll(call, out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* data = static_cast<T*>(out.data);
    std::fill_n(data, out.numel, T());
    const T one = static_cast<T>(ComputeType<T>(1));
    for (int64_t i = 0; i < std::min(out.sizes[0], out.sizes[1]); ++i) data[i * out.sizes[1] + i] = one;
    return TT_OK;
  });
}

}  // namespace

void AppendCreationKernels(KernelList* list) {
  list->push_back({"full", TT_ALL_DTYPES, Full});
  list->push_back({"arange", TT_FLOATING | TT_INTEGER, Arange});
  list->push_back({"linspace", TT_FLOATING | TT_INTEGER, Linspace});
  list->push_back({"eye", TT_ALL_DTYPES, Eye});
}

}  // namespace telensor::cpu::TT_CPU_VARIANT
