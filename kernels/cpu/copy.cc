// _copy: any dtype to any dtype, any strides to any strides.
#include <cstring>

#include "kernels/cpu/families.h"
#include "kernels/cpu/loops.h"

namespace telensor::cpu::TT_CPU_VARIANT {
namespace {

// Floats beyond an integer's range give what the processor's own conversion gives, instead of undefined behaviour.
template <typename To, typename From>
To Convert(From v) {
  if constexpr (std::is_same_v<To, bool>) {
    return static_cast<ComputeType<From>>(v) != ComputeType<From>(0);
  } else if constexpr (std::is_integral_v<To> && !std::is_integral_v<From>) {
    const double d = static_cast<double>(static_cast<ComputeType<From>>(v));
    const int64_t wide = d >= -9223372036854775808.0 && d < 9223372036854775808.0 ? static_cast<int64_t>(d) : INT64_MIN;
    if constexpr (sizeof(To) == 4) {
      return d > -2147483649.0 && d < 2147483648.0 ? static_cast<To>(wide) : static_cast<To>(INT32_MIN);
    }
    return static_cast<To>(wide);
  } else if constexpr (std::is_same_v<To, Half> || std::is_same_v<To, BFloat16>) {
    return To(static_cast<float>(static_cast<ComputeType<From>>(v)));
  } else {
    return static_cast<To>(static_cast<ComputeType<From>>(v));
  }
}

template <typename To, typename From>
void ConvertLoop(tt_call* call) {
  const tt_tensor* const tensors[2] = {&call->outputs[0], &call->inputs[0]};
  ForEachRow<2>(tensors, {sizeof(To), sizeof(From)}, [](char* const* p, int64_t n, const int64_t* step) {
    if (step[0] == sizeof(To) && step[1] == sizeof(From)) {
      To* out = reinterpret_cast<To*>(p[0]);
      const From* in = reinterpret_cast<const From*>(p[1]);
      for (int64_t i = 0; i < n; ++i) out[i] = Convert<To>(in[i]);
    } else {
      for (int64_t i = 0; i < n; ++i) {
        *reinterpret_cast<To*>(p[0] + i * step[0]) = Convert<To>(*reinterpret_cast<const From*>(p[1] + i * step[1]));
      }
    }
  });
}

template <typename T>
void Move(const tt_tensor& out, const tt_tensor& in) {
  // A transposed matrix goes by tiles, so that both sides stay in cache lines.
  const int r = out.rank;
  if (r >= 2 && out.strides[r - 1] == 1 && in.strides[r - 2] == 1 && in.strides[r - 1] > 1) {
    constexpr int64_t kTile = 32;
    const int64_t rows = out.sizes[r - 2], columns = out.sizes[r - 1];
    int64_t outer = 1;
    for (int d = 0; d < r - 2; ++d) outer *= out.sizes[d];
    const int64_t bands = (rows + kTile - 1) / kTile;
    ParallelFor(outer * bands, std::max<int64_t>(1, kGrain / (kTile * columns)), [&](int64_t begin, int64_t end) {
      for (int64_t job = begin; job < end; ++job) {
        T* to = static_cast<T*>(out.data);
        const T* from = static_cast<const T*>(in.data);
        int64_t rest = job / bands;
        for (int d = r - 3; d >= 0; --d) {
          to += rest % out.sizes[d] * out.strides[d];
          from += rest % out.sizes[d] * in.strides[d];
          rest /= out.sizes[d];
        }
        const int64_t row0 = job % bands * kTile, row1 = std::min(rows, row0 + kTile);
        for (int64_t c0 = 0; c0 < columns; c0 += kTile) {
          const int64_t c1 = std::min(columns, c0 + kTile);
          for (int64_t i = row0; i < row1; ++i) {
            for (int64_t c = c0; c < c1; ++c) to[i * out.strides[r - 2] + c] = from[i + c * in.strides[r - 1]];
          }
        }
      }
    });
    return;
  }
  const tt_tensor* const tensors[2] = {&out, &in};
  ForEachRow<2>(tensors, {sizeof(T), sizeof(T)}, [](char* const* p, int64_t n, const int64_t* step) {
    if (step[0] == sizeof(T) && step[1] == sizeof(T)) {
      std::memcpy(p[0], p[1], static_cast<size_t>(n) * sizeof(T));
    } else if (step[0] == sizeof(T) && step[1] == 0) {
      std::fill_n(reinterpret_cast<T*>(p[0]), n, *reinterpret_cast<const T*>(p[1]));
    } else {
      for (int64_t i = 0; i < n; ++i) {
        *reinterpret_cast<T*>(p[0] + i * step[0]) = *reinterpret_cast<const T*>(p[1] + i * step[1]);
      }
    }
  });
}

int Copy(tt_call* call) {
  const tt_tensor &out = call->outputs[0], &in = call->inputs[0];
  if (out.dtype == in.dtype) {
    switch (out.dtype) {
      case TT_BOOL:
      case TT_UINT8:
      case TT_INT8: Move<uint8_t>(out, in); break;
      case TT_INT16:
      case TT_FLOAT16:
      case TT_BFLOAT16: Move<uint16_t>(out, in); break;
      case TT_INT32:
      case TT_FLOAT32: Move<uint32_t>(out, in); break;
      default: Move<uint64_t>(out, in);
    }
    return TT_OK;
  }
  return DispatchAll(call, in.dtype, [&](auto from) {
    using From = typename decltype(from)::type;
    return DispatchAll(call, out.dtype, [&](auto to) {
      ConvertLoop<typename decltype(to)::type, From>(call);
      return TT_OK;
    });
  });
}

}  // namespace

void AppendCopyKernels(KernelList* list) { list->push_back({"_copy", TT_ALL_DTYPES, Copy}); }

}  // namespace telensor::cpu::TT_CPU_VARIANT
