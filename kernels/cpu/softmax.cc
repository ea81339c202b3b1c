// softmax, log_softmax and nll_loss with their gradients.
//
// Along the last dimension a row is taken in vectors; along another one, vectors run across the rows, so that memory
// is read in order. exp is a polynomial here because the compiler can inline and vectorise it.
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cpu/dense.h"
#include "kernels/cpu/families.h"

namespace telensor::cpu::TT_CPU_VARIANT {

namespace {

inline float MulAdd(float a, float b, float c) {
#ifdef __FMA__
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}
inline double MulAdd(double a, double b, double c) {
#ifdef __FMA__
  return __builtin_fma(a, b, c);
#else
  return a * b + c;
#endif
}

// What Exp needs to know of a floating type: integers of its size, the place of the exponent in its bits, and its bias.
template <typename C>
struct FloatBits;
template <>
struct FloatBits<float> {
  using Int = uint32_t;
  static constexpr int kMantissa = 23;
  static constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer, in the low bits
  static constexpr int kBias = 127, kTerms = 7;
  static constexpr float kLow = -104.0f;  // exp is 0 from there down
  static constexpr float kLn2 = 0.693145751953125f, kLn2Rest = 1.42860682e-06f;
};
template <>
struct FloatBits<double> {
  using Int = uint64_t;
  static constexpr int kMantissa = 52;
  static constexpr double kRound = 6755399441055744.0;
  static constexpr int kBias = 1023, kTerms = 13;
  static constexpr double kLow = -746.0;
  static constexpr double kLn2 = 0.69314718036912381649, kLn2Rest = 1.9082149292705877e-10;
};

// 1 / k!
constexpr double kSeries[] = {1, 1, 0.5, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320,
                              1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800.0};

// exp(x) for x <= 0, and NaN: what differences from a maximum are. exp(x) = 2^n * exp(r) with |r| <= ln(2) / 2, where
// the series of exp is short; ln(2) is in two parts, of which n times the first is exact. 2^n is made by shifting n
// into an exponent, together with a constant power that keeps it normal and is taken back at the end, so that subnormal
// results come out right. Error: about one ulp.
template <typename C>
inline C ExpNegative(C x) {
  using F = FloatBits<C>;
  constexpr int kShift = F::kMantissa + 2;
  constexpr C kMagic = F::kRound + (F::kBias + kShift);
  x = x < F::kLow ? F::kLow : x;  // written so that NaN stays
  const C shifted = MulAdd(x, C(1.4426950408889634), kMagic);
  const C n = shifted - kMagic;
  const C r = MulAdd(n, -F::kLn2Rest, x - n * F::kLn2);
  C p = C(kSeries[F::kTerms]);
#pragma GCC unroll 16
  for (int k = F::kTerms - 1; k >= 2; --k) p = MulAdd(p, r, C(kSeries[k]));
  p = MulAdd(p * r, r, r) + C(1);
  typename F::Int bits;
  std::memcpy(&bits, &shifted, sizeof(bits));
  bits <<= F::kMantissa;
  C power;
  std::memcpy(&power, &bits, sizeof(bits));
  return p * power * (C(1) / C(uint64_t{1} << kShift));
}

// The largest of a run; NaN is passed over.
template <typename C>
C MaxOf(const C* v, int64_t n, C most) {
  constexpr int kLanes = 16;
  int64_t i = 0;
  if (n >= kLanes) {
    C lanes[kLanes];
    for (int k = 0; k < kLanes; ++k) lanes[k] = most;
    for (; i + kLanes <= n; i += kLanes) {
      for (int k = 0; k < kLanes; ++k) lanes[k] = v[i + k] > lanes[k] ? v[i + k] : lanes[k];
    }
    for (int k = 0; k < kLanes; ++k) most = lanes[k] > most ? lanes[k] : most;
  }
  for (; i < n; ++i) most = v[i] > most ? v[i] : most;
  return most;
}

// dx[i] = grad[i] - exp(result[i]) * sum(i), for a log_softmax `result`, which is not positive if it is one.
template <typename C, typename Sum>
void LogBackwardRun(const C* grad, const C* result, int64_t n, const Sum& sum, C* dx) {
  if (MaxOf<C>(result, n, -std::numeric_limits<C>::infinity()) <= 0) {
    for (int64_t i = 0; i < n; ++i) dx[i] = grad[i] - ExpNegative(result[i]) * sum(i);
  } else {
    for (int64_t i = 0; i < n; ++i) dx[i] = grad[i] - std::exp(result[i]) * sum(i);
  }
}

// ---- softmax

// A dense tensor as (outer, size, inner) around one dimension.
struct Around {
  int64_t outer = 1, size = 1, inner = 1;
};

int ReadAround(tt_call* call, const tt_tensor& t, int64_t dim, Around* a) {
  if (dim < -std::max(t.rank, 1) || dim >= std::max(t.rank, 1)) {
    return Fail(call, TT_OUT_OF_RANGE, "Dimension out of range (expected to be in range of [%d, %d], but got %lld)",
                -std::max(t.rank, 1), std::max(t.rank, 1) - 1, static_cast<long long>(dim));
  }
  if (t.rank == 0) return TT_OK;
  const int d = WrapDim(dim, t.rank);
  for (int i = 0; i < d; ++i) a->outer *= t.sizes[i];
  a->size = t.sizes[d];
  for (int i = d + 1; i < t.rank; ++i) a->inner *= t.sizes[i];
  return TT_OK;
}

// fn(i, n) over runs of a row.
template <typename Fn>
void ForRow(int64_t size, const Fn& fn) {
  for (int64_t i = 0; i < size; i += kRun) fn(i, std::min(kRun, size - i));
}

template <bool kLog, typename T>
void SoftmaxRow(const T* x, int64_t size, T* y) {
  using C = ComputeType<T>;
  RunBuffer<T> in, out;
  alignas(64) C powers[kLog ? kRun : 1];
  C most = -std::numeric_limits<C>::infinity();
  ForRow(size, [&](int64_t at, int64_t n) { most = MaxOf<C>(LoadRun<T>(x + at, n, in.data), n, most); });
  double total = 0;
  ForRow(size, [&](int64_t at, int64_t n) {
    const C* v = LoadRun<T>(x + at, n, in.data);
    C* to = kLog ? powers : RunTarget<T>(y + at, out.data);
    for (int64_t i = 0; i < n; ++i) to[i] = ExpNegative(v[i] - most);
    total += static_cast<double>(SumOf<C>(n, [to](int64_t i) { return to[i]; }));
  });
  const C scale = static_cast<C>(1 / total), log_total = static_cast<C>(std::log(total));
  ForRow(size, [&](int64_t at, int64_t n) {
    C* to = RunTarget<T>(y + at, out.data);
    if (!kLog && !kIs16Bit<T>) {
      for (int64_t i = 0; i < n; ++i) to[i] *= scale;
      return;
    }
    const C* v = LoadRun<T>(x + at, n, in.data);
    if (kLog) {
      for (int64_t i = 0; i < n; ++i) to[i] = v[i] - most - log_total;
    } else {
      for (int64_t i = 0; i < n; ++i) to[i] = ExpNegative(v[i] - most) * scale;
    }
    StoreRun<T>(to, n, y + at);
  });
}

template <bool kLog, typename T>
void SoftmaxBackwardRow(const T* grad, const T* result, int64_t size, T* dx) {
  using C = ComputeType<T>;
  RunBuffer<T> g_buffer, y_buffer, out;
  double total = 0;
  ForRow(size, [&](int64_t at, int64_t n) {
    const C* g = LoadRun<T>(grad + at, n, g_buffer.data);
    if (kLog) {
      total += static_cast<double>(SumOf<C>(n, [g](int64_t i) { return g[i]; }));
    } else {
      const C* y = LoadRun<T>(result + at, n, y_buffer.data);
      total += static_cast<double>(SumOf<C>(n, [g, y](int64_t i) { return g[i] * y[i]; }));
    }
  });
  const C sum = static_cast<C>(total);
  ForRow(size, [&](int64_t at, int64_t n) {
    const C* g = LoadRun<T>(grad + at, n, g_buffer.data);
    const C* y = LoadRun<T>(result + at, n, y_buffer.data);
    C* to = RunTarget<T>(dx + at, out.data);
    if (kLog) {
      LogBackwardRun<C>(g, y, n, [sum](int64_t) { return sum; }, to);
    } else {
      for (int64_t i = 0; i < n; ++i) to[i] = y[i] * (g[i] - sum);
    }
    StoreRun<T>(to, n, dx + at);
  });
}

// Columns taken together where the dimension is not the last.
constexpr int64_t kColumns = 128;

template <bool kLog, typename T>
void SoftmaxColumns(const T* x, int64_t size, int64_t inner, int64_t n, T* y) {
  using C = ComputeType<T>;
  RunBuffer<T> in, out;
  C most[kColumns], log_total[kColumns];
  double total[kColumns];
  std::fill(most, most + n, -std::numeric_limits<C>::infinity());
  std::fill(total, total + n, 0.0);
  for (int64_t d = 0; d < size; ++d) {
    const C* v = LoadRun<T>(x + d * inner, n, in.data);
    for (int64_t i = 0; i < n; ++i) most[i] = v[i] > most[i] ? v[i] : most[i];
  }
  for (int64_t d = 0; d < size; ++d) {
    const C* v = LoadRun<T>(x + d * inner, n, in.data);
    for (int64_t i = 0; i < n; ++i) total[i] += static_cast<double>(ExpNegative(v[i] - most[i]));
  }
  for (int64_t i = 0; i < n; ++i) log_total[i] = static_cast<C>(kLog ? std::log(total[i]) : 1 / total[i]);
  for (int64_t d = 0; d < size; ++d) {
    const C* v = LoadRun<T>(x + d * inner, n, in.data);
    C* to = RunTarget<T>(y + d * inner, out.data);
    for (int64_t i = 0; i < n; ++i) {
      const C shifted = v[i] - most[i];
      to[i] = kLog ? shifted - log_total[i] : ExpNegative(shifted) * log_total[i];
    }
    StoreRun<T>(to, n, y + d * inner);
  }
}

template <bool kLog, typename T>
void SoftmaxBackwardColumns(const T* grad, const T* result, int64_t size, int64_t inner, int64_t n, T* dx) {
  using C = ComputeType<T>;
  RunBuffer<T> g_buffer, y_buffer, out;
  double total[kColumns];
  C sum[kColumns];
  std::fill(total, total + n, 0.0);
  for (int64_t d = 0; d < size; ++d) {
    const C* g = LoadRun<T>(grad + d * inner, n, g_buffer.data);
    const C* y = LoadRun<T>(result + d * inner, n, y_buffer.data);
    for (int64_t i = 0; i < n; ++i) total[i] += static_cast<double>(kLog ? g[i] : g[i] * y[i]);
  }
  for (int64_t i = 0; i < n; ++i) sum[i] = static_cast<C>(total[i]);
  for (int64_t d = 0; d < size; ++d) {
    const C* g = LoadRun<T>(grad + d * inner, n, g_buffer.data);
    const C* y = LoadRun<T>(result + d * inner, n, y_buffer.data);
    C* to = RunTarget<T>(dx + d * inner, out.data);
    if (kLog) {
      LogBackwardRun<C>(g, y, n, [&sum](int64_t i) { return sum[i]; }, to);
    } else {
      for (int64_t i = 0; i < n; ++i) to[i] = y[i] * (g[i] - sum[i]);
    }
    StoreRun<T>(to, n, dx + d * inner);
  }
}

// rows(offset) for every row, or columns(offset, n) for every block of columns, on the threads. An exponential is
// worth several plain operations.
template <typename Rows, typename Columns>
void ForLines(const Around& a, const Rows& rows, const Columns& columns) {
  constexpr int64_t kWork = kGrain / 8;
  if (a.inner == 1) {
    ParallelFor(a.outer, std::max<int64_t>(1, kWork / std::max<int64_t>(1, a.size)), [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) rows(o * a.size);
    });
    return;
  }
  const int64_t blocks = (a.inner + kColumns - 1) / kColumns, each = a.size * std::min(kColumns, a.inner);
  const int64_t grain = std::max<int64_t>(1, kWork / std::max<int64_t>(1, each));
  ParallelFor(a.outer * blocks, grain, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const int64_t first = k % blocks * kColumns;
      columns(k / blocks * a.size * a.inner + first, std::min(kColumns, a.inner - first));
    }
  });
}

template <bool kLog>
int Softmax(tt_call* call) {
  const tt_tensor& in = call->inputs[0];
  Around a;
  if (const int code = ReadAround(call, in, call->attrs[0].i, &a); code != TT_OK) return code;
  if (in.numel == 0) return TT_OK;
  return DispatchFloating(call, in.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = Dense<T>(call, in);
    if (x == nullptr) return FailMemory(call);
    T* y = static_cast<T*>(call->outputs[0].data);
    ForLines(
        a, [&](int64_t at) { SoftmaxRow<kLog, T>(x + at, a.size, y + at); },
        [&](int64_t at, int64_t n) { SoftmaxColumns<kLog, T>(x + at, a.size, a.inner, n, y + at); });
    return static_cast<int>(TT_OK);
  });
}

template <bool kLog>
int SoftmaxBackward(tt_call* call) {
  const tt_tensor &grad = call->inputs[0], &result = call->inputs[1];
  if (!SameSizes(grad, result) || grad.dtype != result.dtype) {
    return Fail(call, TT_INVALID_ARGUMENT, "softmax backward: sizes or dtypes do not fit");
  }
  Around a;
  if (const int code = ReadAround(call, result, call->attrs[0].i, &a); code != TT_OK) return code;
  if (result.numel == 0) return TT_OK;
  return DispatchFloating(call, result.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *g = Dense<T>(call, grad), *y = Dense<T>(call, result);
    if (g == nullptr || y == nullptr) return FailMemory(call);
    T* dx = static_cast<T*>(call->outputs[0].data);
    ForLines(
        a, [&](int64_t at) { SoftmaxBackwardRow<kLog, T>(g + at, y + at, a.size, dx + at); },
        [&](int64_t at, int64_t n) {
          SoftmaxBackwardColumns<kLog, T>(g + at, y + at, a.size, a.inner, n, dx + at);
        });
    return static_cast<int>(TT_OK);
  });
}

// ---- nll_loss

enum class Reduction { kNone, kMean, kSum };

// Targets of (N, C) rows with the weight of each, all checked.
struct Targets {
  int64_t rows, classes;
  const int64_t* target;
  int64_t target_stride;
  const tt_tensor* weight;
  int64_t ignored;
  Reduction reduction;

  int64_t At(int64_t i) const { return target[i * target_stride]; }
  template <typename T>
  ComputeType<T> Weight(int64_t t) const {
    if (!Present(*weight)) return 1;
    return static_cast<const T*>(weight->data)[t * weight->strides[0]];
  }
  // In double: counts of rows stay exact.
  template <typename T>
  double TotalWeight() const {
    double total = 0;
    for (int64_t i = 0; i < rows; ++i) {
      if (At(i) != ignored) total += static_cast<double>(Weight<T>(At(i)));
    }
    return total;
  }
};

int ReadTargets(tt_call* call, const int64_t* sizes, int rank, int dtype, const tt_tensor& target,
                const tt_tensor& weight, const tt_value& ignored, const tt_value& reduction, Targets* t) {
  bool good = rank == 2 && target.rank == 1 && target.dtype == TT_INT64 && target.sizes[0] == sizes[0];
  good = good && (!Present(weight) || (weight.rank == 1 && weight.sizes[0] == sizes[1] && weight.dtype == dtype));
  good = good && reduction.text != nullptr;
  if (!good) return Fail(call, TT_INVALID_ARGUMENT, "nll_loss: sizes or dtypes do not fit");
  const Reduction how = std::strcmp(reduction.text, "mean") == 0  ? Reduction::kMean
                        : std::strcmp(reduction.text, "sum") == 0 ? Reduction::kSum
                                                                  : Reduction::kNone;
  *t = {sizes[0], sizes[1], static_cast<const int64_t*>(target.data), target.strides[0], &weight, ignored.i, how};
  for (int64_t i = 0; i < t->rows; ++i) {
    const int64_t k = t->At(i);
    if (k != t->ignored && (k < 0 || k >= t->classes)) {
      return Fail(call, TT_OUT_OF_RANGE, "Target %lld is out of bounds.", static_cast<long long>(k));
    }
  }
  return TT_OK;
}

int NllLoss(tt_call* call) {
  const tt_tensor& input = call->inputs[0];
  Targets t = {};
  const int code = ReadTargets(call, input.sizes, input.rank, input.dtype, call->inputs[1], call->inputs[2],
                               call->attrs[0], call->attrs[1], &t);
  if (code != TT_OK) return code;
  return DispatchFloating(call, input.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const T* x = static_cast<const T*>(input.data);
    const int64_t row = input.strides[0], column = input.strides[1];
    T *out = static_cast<T*>(call->outputs[0].data), *total = static_cast<T*>(call->outputs[1].data);
    if (t.reduction == Reduction::kNone) {
      for (int64_t i = 0; i < t.rows; ++i) {
        const int64_t k = t.At(i);
        out[i] = k == t.ignored ? T(C(0)) : T(-t.Weight<T>(k) * static_cast<C>(x[i * row + k * column]));
      }
      *total = T(C(0));
      return static_cast<int>(TT_OK);
    }
    double sum = 0;
    for (int64_t i = 0; i < t.rows; ++i) {
      const int64_t k = t.At(i);
      if (k != t.ignored) sum -= static_cast<double>(t.Weight<T>(k) * static_cast<C>(x[i * row + k * column]));
    }
    const double weights = t.TotalWeight<T>();
    *out = T(static_cast<C>(t.reduction == Reduction::kMean ? sum / weights : sum));
    *total = T(static_cast<C>(weights));
    return static_cast<int>(TT_OK);
  });
}

int NllLossBackward(tt_call* call) {
  const tt_tensor &grad = call->inputs[0], &out = call->outputs[0];
  Targets t = {};
  const int code = ReadTargets(call, out.sizes, out.rank, out.dtype, call->inputs[1], call->inputs[2], call->attrs[1],
                               call->attrs[2], &t);
  if (code != TT_OK) return code;
  const bool each = t.reduction == Reduction::kNone;
  if (grad.dtype != out.dtype || (each ? grad.rank != 1 || grad.sizes[0] != t.rows : grad.numel != 1)) {
    return Fail(call, TT_INVALID_ARGUMENT, "nll_loss backward: sizes or dtypes do not fit");
  }
  Zero(out.data, out.numel * ElementSize(out.dtype));
  return DispatchFloating(call, out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const T* g = static_cast<const T*>(grad.data);
    T* dx = static_cast<T*>(out.data);
    // Summed again: the total that the forward pass gave is rounded to T.
    const double total = t.reduction == Reduction::kMean ? t.TotalWeight<T>() : 1;
    for (int64_t i = 0; i < t.rows; ++i) {
      const int64_t k = t.At(i);
      if (k == t.ignored) continue;
      const C share = static_cast<C>(g[each ? i * grad.strides[0] : 0]) / static_cast<C>(total);
      dx[i * t.classes + k] = T(-t.Weight<T>(k) * share);
    }
    return static_cast<int>(TT_OK);
  });
}

}  // namespace

void AppendSoftmaxKernels(KernelList* list) {
  list->push_back({"_softmax", TT_FLOATING, Softmax<false>});
  list->push_back({"_log_softmax", TT_FLOATING, Softmax<true>});
  list->push_back({"_softmax_backward", TT_FLOATING, SoftmaxBackward<false>});
  list->push_back({"_log_softmax_backward", TT_FLOATING, SoftmaxBackward<true>});
  list->push_back({"_nll_loss", TT_FLOATING, NllLoss});
  list->push_back({"_nll_loss_backward", TT_FLOATING, NllLossBackward});
}

}  // namespace telensor::cpu::TT_CPU_VARIANT
