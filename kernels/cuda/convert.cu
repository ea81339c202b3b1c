// _copy: any dtype to any dtype, any strides to any strides.
#include "kernels/cuda/elementwise.cuh"

namespace telensor::cuda {
namespace {

// Floats beyond an integer's range give what an x86 processor's conversion gives, as on the CPU.
template <typename To, typename From>
struct Converted {
  __device__ To operator()(From value) const {
    const auto v = Widen(value);
    if constexpr (std::is_same_v<To, bool>) {
      return v != ComputeType<From>(0);
    } else if constexpr (std::is_integral_v<To> && kIsFloating<From>) {
      const double d = static_cast<double>(v);
      if constexpr (sizeof(To) == 8) {
        const bool fits = d >= -9223372036854775808.0 && d < 9223372036854775808.0;
        return fits ? static_cast<To>(d) : static_cast<To>(INT64_MIN);
      } else {
        // The small types by way of int32: beyond it, the low bits of its least value.
        const bool fits = d > -2147483649.0 && d < 2147483648.0;
        return static_cast<To>(fits ? static_cast<int32_t>(d) : INT32_MIN);
      }
    } else {
      return static_cast<To>(static_cast<ComputeType<To>>(v));
    }
  }
};

template <typename U>
struct Same {
  __device__ U operator()(U v) const { return v; }
};

int Copy(tt_call* call) {
  const tt_tensor &out = call->outputs[0], &in = call->inputs[0];
  if (out.dtype == in.dtype) {
    return DispatchSize(ElementSize(out.dtype), [&](auto tag) {
      using U = typename decltype(tag)::type;
      return Elementwise<U, U>(call, Same<U>(), out, {&in});
    });
  }
  return DispatchAll(call, in.dtype, [&](auto from) {
    using From = typename decltype(from)::type;
    return DispatchAll(call, out.dtype, [&](auto to) {
      using To = typename decltype(to)::type;
      return Elementwise<To, From>(call, Converted<To, From>(), out, {&in});
    });
  });
}

}  // namespace

void AppendCopyKernels(KernelList* list) { list->push_back({"_copy", TT_ALL_DTYPES, OnDevice<Copy>}); }

}  // namespace telensor::cuda
