// Rows of creation.toml that compute their values. Outputs are dense.
#include "kernels/cuda/kernel.cuh"

namespace telensor::cuda {
namespace {

template <typename T>
struct FullAt {
  T* out;
  T value;
  __device__ void operator()(int64_t i) const { out[i] = value; }
};

int Full(tt_call* call) {
  const tt_tensor& out = call->outputs[0];
  return DispatchAll(call, out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return ForEach(call, out.numel, FullAt<T>{static_cast<T*>(out.data), NumberAs<T>(call->attrs[1])});
  });
}

template <typename T>
struct ArangeAt {
  T* out;
  double start, step;
  uint64_t whole_start, whole_step;
  __device__ void operator()(int64_t i) const {
    if constexpr (std::is_integral_v<T>) {
      // Integer limits stay exact; fractional ones are cut first, as PyTorch does.
      out[i] = static_cast<T>(whole_start + whole_step * static_cast<uint64_t>(i));
    } else {
      out[i] = Narrow<T>(start + step * static_cast<double>(i));
    }
  }
};

int Arange(tt_call* call) {
  const tt_tensor& out = call->outputs[0];
  const tt_value &start = call->attrs[0], &step = call->attrs[2];
  return DispatchNumber(call, out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return ForEach(
        call, out.numel,
        ArangeAt<T>{static_cast<T*>(out.data), start.f, step.f, static_cast<uint64_t>(NumberAs<int64_t>(start)),
                    static_cast<uint64_t>(NumberAs<int64_t>(step))});
  });
}

template <typename T>
struct LinspaceAt {
  T* out;
  ComputeType<T> first, last, step;
  int64_t n;
  __device__ void operator()(int64_t i) const {
    using C = ComputeType<T>;
    // From both ends to the middle, so that the last value is exact.
    out[i] = static_cast<T>(i < n / 2 || n == 1 ? first + step * static_cast<C>(i)
                                                : last - step * static_cast<C>(n - 1 - i));
  }
};

int Linspace(tt_call* call) {
  const tt_tensor& out = call->outputs[0];
  return DispatchFloating(call, out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const C a = static_cast<C>(call->attrs[0].f), b = static_cast<C>(call->attrs[1].f);
    const C step = out.numel > 1 ? (b - a) / static_cast<C>(out.numel - 1) : C(0);
    return ForEach(call, out.numel, LinspaceAt<T>{static_cast<T*>(out.data), a, b, step, out.numel});
  });
}

template <typename T>
struct EyeAt {
  T* out;
  int64_t columns;
  __device__ void operator()(int64_t i) const {
    out[i] = static_cast<T>(static_cast<ComputeType<T>>(i / columns == i % columns ? 1 : 0));
  }
};

int Eye(tt_call* call) {
  const tt_tensor& out = call->outputs[0];
  return DispatchAll(call, out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return ForEach(call, out.numel, EyeAt<T>{static_cast<T*>(out.data), out.sizes[1]});
  });
}

}  // namespace

void AppendCreationKernels(KernelList* list) {
  list->push_back({"full", TT_ALL_DTYPES, OnDevice<Full>});
  list->push_back({"arange", TT_FLOATING | TT_INTEGER, OnDevice<Arange>});
  list->push_back({"linspace", TT_FLOATING, OnDevice<Linspace>});
  list->push_back({"eye", TT_ALL_DTYPES, OnDevice<Eye>});
}

}  // namespace telensor::cuda
