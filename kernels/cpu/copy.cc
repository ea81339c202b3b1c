// _copy: any dtype to any dtype, any strides to any strides.
#include <immintrin.h>

#include <cstring>
#include <limits>

#include "kernels/cpu/families.h"
#include "kernels/cpu/loops.h"

namespace telensor::cpu::TT_CPU_VARIANT {
namespace {

// Floats beyond an integer's range give what the processor's own conversion gives, instead of undefined behaviour:
// the small types by way of int32.
template <typename To, typename From>
To Convert(From v) {
  if constexpr (std::is_same_v<To, bool>) {
    return v != From(0);
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    using Wide = std::conditional_t<sizeof(To) == 8, int64_t, int32_t>;
    constexpr From kEnd = static_cast<From>(sizeof(Wide) == 8 ? 9223372036854775808.0 : 2147483648.0);
    constexpr From kBegin =
        std::is_same_v<From, double> && sizeof(Wide) == 4 ? static_cast<From>(-2147483649.0) : -kEnd;
    const bool fits =
        sizeof(Wide) == 8 || std::is_same_v<From, float> ? v >= kBegin && v < kEnd : v > kBegin && v < kEnd;
    if constexpr (sizeof(To) < 4) {
      // Beyond int32, the low bits of int32's least value: none.
      return static_cast<To>(static_cast<Wide>(fits ? v : From(0)));
    } else {
      return static_cast<To>(fits ? static_cast<Wide>(v) : std::numeric_limits<Wide>::min());
    }
  } else {
    return static_cast<To>(v);
  }
}

struct Conversion {
  template <typename To, typename From>
  static void Dense(const void*, void* const* at, unsigned, int64_t n) {
    To* out = static_cast<To*>(at[0]);
    const From* in = static_cast<const From*>(at[1]);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = Convert<To>(in[i]);
  }
};

template <typename From>
DenseFn ConversionTo(int dtype) {
  switch (dtype) {
    case TT_BOOL: return Conversion::Dense<bool, From>;
    case TT_UINT8: return Conversion::Dense<uint8_t, From>;
    case TT_INT8: return Conversion::Dense<int8_t, From>;
    case TT_INT16: return Conversion::Dense<int16_t, From>;
    case TT_INT32: return Conversion::Dense<int32_t, From>;
    case TT_INT64: return Conversion::Dense<int64_t, From>;
    case TT_FLOAT64: return Conversion::Dense<double, From>;
    default: return Conversion::Dense<float, From>;
  }
}

DenseFn ConversionFrom(int from, int to) {
  switch (from) {
    case TT_BOOL:
    case TT_UINT8: return ConversionTo<uint8_t>(to);
    case TT_INT8: return ConversionTo<int8_t>(to);
    case TT_INT16: return ConversionTo<int16_t>(to);
    case TT_INT32: return ConversionTo<int32_t>(to);
    case TT_INT64: return ConversionTo<int64_t>(to);
    case TT_FLOAT64: return ConversionTo<double>(to);
    default: return ConversionTo<float>(to);
  }
}

template <typename T>
void Move(const void*, void* const* at, unsigned standing, int64_t n) {
  if (standing != 0) {
    std::fill_n(static_cast<T*>(at[0]), n, *static_cast<const T*>(at[1]));
  } else if (at[0] != at[1]) {
    std::memcpy(at[0], at[1], static_cast<size_t>(n) * sizeof(T));
  }
}

// A square of elements, the transposed of `in`; steps in elements.
template <typename T, int kSide>
void TransposeSquare(T* out, int64_t out_step, const T* in, int64_t in_step) {
  if constexpr (sizeof(T) == 4) {
    for (int r = 0; r < kSide; r += 4) {
      for (int c = 0; c < kSide; c += 4) {
        __m128 v[4];
        for (int k = 0; k < 4; ++k) v[k] = _mm_loadu_ps(reinterpret_cast<const float*>(in + (c + k) * in_step + r));
        _MM_TRANSPOSE4_PS(v[0], v[1], v[2], v[3]);
        for (int k = 0; k < 4; ++k) _mm_storeu_ps(reinterpret_cast<float*>(out + (r + k) * out_step + c), v[k]);
      }
    }
  } else {
    for (int r = 0; r < kSide; ++r) {
      for (int c = 0; c < kSide; ++c) out[r * out_step + c] = in[c * in_step + r];
    }
  }
}

// Rows of `out` are columns of `in`. Every tile passes through a buffer, so that both memories are touched a whole
// cache line at a time, however far apart their rows are.
template <typename T>
void TransposeBand(T* out, int64_t out_step, const T* in, int64_t in_step, int64_t rows, int64_t columns) {
  constexpr int kTile = sizeof(T) == 8 ? 8 : 16;
  alignas(64) T tile[kTile][kTile];
  for (int64_t c0 = 0; c0 < columns; c0 += kTile) {
    const int64_t width = std::min<int64_t>(kTile, columns - c0);
    for (int64_t r0 = 0; r0 < rows; r0 += kTile) {
      const int64_t height = std::min<int64_t>(kTile, rows - r0);
      const T* from = in + c0 * in_step + r0;
      T* to = out + r0 * out_step + c0;
      if (width == kTile && height == kTile) {
        TransposeSquare<T, kTile>(tile[0], kTile, from, in_step);
        for (int r = 0; r < kTile; ++r) std::memcpy(to + r * out_step, tile[r], sizeof(tile[r]));
      } else {
        for (int64_t r = 0; r < height; ++r) {
          for (int64_t c = 0; c < width; ++c) to[r * out_step + c] = from[c * in_step + r];
        }
      }
    }
  }
}

// The dimension whose elements follow each other in `in` while the last one's do in `out`; -1 where there is none.
int TransposedDim(const tt_tensor& out, const tt_tensor& in) {
  const int last = out.rank - 1;
  if (last < 1 || out.strides[last] != 1 || in.strides[last] <= 1 || out.sizes[last] < 8) return -1;
  for (int d = last - 1; d >= 0; --d) {
    if (in.strides[d] == 1 && out.sizes[d] >= 8) return d;
  }
  return -1;
}

template <typename T>
void Transpose(const tt_tensor& out, const tt_tensor& in, int dim) {
  constexpr int64_t kBand = 64;
  const int last = out.rank - 1;
  const int64_t rows = out.sizes[dim], columns = out.sizes[last], bands = (rows + kBand - 1) / kBand;
  const int64_t jobs = out.numel / (rows * columns) * bands;
  ParallelFor(jobs, std::max<int64_t>(1, kGrain / (std::min(kBand, rows) * columns)), [&](int64_t begin, int64_t end) {
    for (int64_t job = begin; job < end; ++job) {
      const int64_t row = job % bands * kBand;
      T* to = static_cast<T*>(out.data) + row * out.strides[dim];
      const T* from = static_cast<const T*>(in.data) + row;
      int64_t rest = job / bands;
      for (int d = last - 1; d >= 0; --d) {
        if (d == dim) continue;
        to += rest % out.sizes[d] * out.strides[d];
        from += rest % out.sizes[d] * in.strides[d];
        rest /= out.sizes[d];
      }
      TransposeBand(to, out.strides[dim], from, in.strides[last], std::min(kBand, rows - row), columns);
    }
  });
}

int Copy(tt_call* call) {
  const tt_tensor &out = call->outputs[0], &in = call->inputs[0];
  const tt_tensor* const tensors[] = {&out, &in};
  if (out.dtype != in.dtype) {
    const Body body = {ConversionFrom(in.dtype, out.dtype),        nullptr, 2, 2, 1, 0,
                       {FormatFor(out.dtype), FormatFor(in.dtype)}};
    RunLoop(body, tensors, kGrain);
    return TT_OK;
  }
  const Format format = RawFormat(out.dtype);
  if (const int dim = TransposedDim(out, in); dim >= 0 && out.numel > 0) {
    switch (format) {
      case Format::kBytes1: Transpose<uint8_t>(out, in, dim); break;
      case Format::kBytes2: Transpose<uint16_t>(out, in, dim); break;
      case Format::kBytes4: Transpose<uint32_t>(out, in, dim); break;
      default: Transpose<uint64_t>(out, in, dim);
    }
    return TT_OK;
  }
  constexpr DenseFn kMoves[] = {Move<uint8_t>, Move<uint16_t>, Move<uint32_t>, Move<uint64_t>};
  RunLoop({kMoves[static_cast<int>(format)], nullptr, 2, 2, 1, 2, {format, format}}, tensors, kGrain);
  return TT_OK;
}

}  // namespace

void AppendCopyKernels(KernelList* list) { list->push_back({"_copy", TT_ALL_DTYPES, Copy}); }

}  // namespace telensor::cpu::TT_CPU_VARIANT
