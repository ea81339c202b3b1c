// Pooling over (N, C, H, W) or (C, H, W): every plane on its own, planes shared out over the threads.
//
// Windows side by side are taken together, one in each lane of a vector. 16-bit floats are widened once and rounded
// once.
#include <atomic>
#include <climits>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cpu/dense.h"
#include "kernels/cpu/families.h"

namespace telensor::cpu::TT_CPU_VARIANT {

namespace {

// Windows along one dimension.
struct Side {
  int64_t size, places, kernel, stride, pad, dilation;

  int64_t Start(int64_t place) const { return place * stride - pad; }
  // The places [*first, *last) whose tap number `tap` is inside.
  void Inside(int64_t tap, int64_t* first, int64_t* last) const {
    const int64_t start = pad - tap * dilation, end = size + start;
    *first = start <= 0 ? 0 : std::min(places, (start + stride - 1) / stride);
    *last = std::max(*first, end <= 0 ? 0 : std::min(places, (end + stride - 1) / stride));
  }
  // The taps [*first, *last) of a place that are inside.
  void Taps(int64_t place, int64_t* first, int64_t* last) const {
    const int64_t start = Start(place);
    *first = start >= 0 ? 0 : std::min(kernel, (-start + dilation - 1) / dilation);
    *last = std::max(*first, start >= size ? 0 : std::min(kernel, (size - start + dilation - 1) / dilation));
  }
};

struct Planes {
  int64_t count;
  Side h, w;
  int64_t input() const { return h.size * w.size; }
  int64_t output() const { return h.places * w.places; }
  // Planes a thread should take at least.
  int64_t grain() const { return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, input() + output())); }
};

bool Pair(const tt_value& v, int64_t* h, int64_t* w) {
  if (v.kind == 2) {
    *h = *w = v.i;
    return true;
  }
  if (v.kind != 4 || v.count < 1 || v.count > 2) return false;
  *h = v.ints[0];
  *w = v.ints[v.count - 1];
  return true;
}

// `in` is the tensor of pixels, `out` the one of windows. dilation NULL: 1.
int ReadPlanes(tt_call* call, const tt_tensor& in, const tt_tensor& out, const tt_value* kernel, const tt_value* stride,
               const tt_value* padding, const tt_value* dilation, Planes* p) {
  const int r = in.rank;
  bool good = (r == 3 || r == 4) && out.rank == r && std::equal(in.sizes, in.sizes + r - 2, out.sizes);
  if (good) {
    p->count = in.sizes[r - 3] * (r == 4 ? in.sizes[0] : 1);
    p->h = {in.sizes[r - 2], out.sizes[r - 2], 1, 1, 0, 1};
    p->w = {in.sizes[r - 1], out.sizes[r - 1], 1, 1, 0, 1};
  }
  if (good && kernel != nullptr) {
    const bool own = stride->kind == 0 || (stride->kind == 4 && stride->count == 0);
    good = Pair(*kernel, &p->h.kernel, &p->w.kernel) && Pair(own ? *kernel : *stride, &p->h.stride, &p->w.stride) &&
           Pair(*padding, &p->h.pad, &p->w.pad);
    if (dilation != nullptr) good = good && Pair(*dilation, &p->h.dilation, &p->w.dilation);
    // The rows of the gradients take any numbers; these bounds keep sums and products of them in range.
    constexpr int64_t kMost = int64_t{1} << 31;
    for (const Side* s : {&p->h, &p->w}) {
      good = good && std::min({s->kernel, s->stride, s->dilation}) > 0 && s->pad >= 0 &&
             std::max({s->kernel, s->stride, s->dilation, s->pad, s->size, s->places}) <= kMost;
    }
  }
  return good ? TT_OK : Fail(call, TT_INVALID_ARGUMENT, "the sizes of a pooling do not fit");
}

// fn(std::integral_constant<stride>) for the strides that get loops of their own; 0 means any.
template <typename Fn>
void DispatchStride(int64_t stride, const Fn& fn) {
  switch (stride) {
    case 1: return fn(std::integral_constant<int64_t, 1>());
    case 2: return fn(std::integral_constant<int64_t, 2>());
    default: return fn(std::integral_constant<int64_t, 0>());
  }
}

// N neighbouring windows of a row, a lane for each.
template <typename C, int N>
struct Lanes {
  using Int = std::conditional_t<sizeof(C) == 4, int32_t, int64_t>;
  typedef C Values __attribute__((vector_size(N * sizeof(C))));
  typedef Int Indices __attribute__((vector_size(N * sizeof(C))));
  static_assert(N == 4 || N == 8);

  // Reads nothing outside [p, p + (N - 1) * stride].
  template <int64_t kStride>
  static void Load(const C* p, int64_t stride, Values* out) {
    if constexpr (kStride == 1) {
      std::memcpy(out, p, sizeof(*out));
    } else if constexpr (kStride == 2) {
      Values a, b;
      std::memcpy(&a, p, sizeof(a));
      std::memcpy(&b, p + N - 1, sizeof(b));
      if constexpr (N == 8) {
        *out = __builtin_shufflevector(a, b, 0, 2, 4, 6, 9, 11, 13, 15);
      } else {
        *out = __builtin_shufflevector(a, b, 0, 2, 5, 7);
      }
    } else {
      for (int k = 0; k < N; ++k) (*out)[k] = p[k * stride];
    }
  }
};

// block(std::integral_constant<lanes>, x) for groups of windows that are inside from their first column to their last,
// window(x) for the others. The last group of a row overlaps the one before.
template <typename C, typename Block, typename Window>
void ForWindows(const Side& w, const Block& block, const Window& window) {
  const int64_t first = std::min(w.places, (w.pad + w.stride - 1) / w.stride);
  const int64_t room = w.size - 1 - (w.kernel - 1) * w.dilation + w.pad;
  const int64_t last = std::max(first, room < 0 ? 0 : std::min(w.places, room / w.stride + 1));
  const auto blocks = [&](auto lanes) {
    constexpr int64_t kLanes = decltype(lanes)::value;
    for (int64_t x = first; x < last; x += kLanes) block(lanes, std::min(x, last - kLanes));
  };
  for (int64_t x = 0; x < first; ++x) window(x);
  if (sizeof(C) == 4 && last - first >= 8) {
    blocks(std::integral_constant<int, 8>());
  } else if (last - first >= 4) {
    blocks(std::integral_constant<int, 4>());
  } else {
    for (int64_t x = first; x < last; ++x) window(x);
  }
  for (int64_t x = last; x < w.places; ++x) window(x);
}

// ---- max

// The maximum of windows, and where in the plane it is. A window without any number above -inf names its first pixel;
// of several NaN the last one counts, as in PyTorch.
template <typename T>
struct MaxRow {
  using C = ComputeType<T>;
  const Planes& p;
  const C* plane;
  int64_t y, ky0, ky1;
  T* values;
  int64_t* indices;

  void Window(int64_t x) const {
    int64_t kx0, kx1;
    p.w.Taps(x, &kx0, &kx1);
    const int64_t top = std::min(p.h.Start(y) + ky0 * p.h.dilation, p.h.size - 1);
    const int64_t left = std::min(p.w.Start(x) + kx0 * p.w.dilation, p.w.size - 1);
    C best = -std::numeric_limits<C>::infinity();
    int64_t index = top * p.w.size + left;
    for (int64_t ky = ky0; ky < ky1; ++ky) {
      int64_t at = (p.h.Start(y) + ky * p.h.dilation) * p.w.size + p.w.Start(x) + kx0 * p.w.dilation;
      for (int64_t kx = kx0; kx < kx1; ++kx, at += p.w.dilation) {
        const C v = plane[at];
        const bool take = (v > best) | (v != v);
        best = take ? v : best;
        index = take ? at : index;
      }
    }
    values[x] = T(best);
    indices[x] = index;
  }

  template <int N, int64_t kStride>
  void Block(int64_t x) const {
    using L = Lanes<C, N>;
    typename L::Values best = {};
    typename L::Indices index = {}, steps;
    for (int k = 0; k < N; ++k) steps[k] = static_cast<typename L::Int>(k * p.w.stride);
    bool started = false;
    for (int64_t ky = ky0; ky < ky1; ++ky) {
      int64_t at = (p.h.Start(y) + ky * p.h.dilation) * p.w.size + p.w.Start(x);
      for (int64_t kx = 0; kx < p.w.kernel; ++kx, at += p.w.dilation) {
        typename L::Values v;
        L::template Load<kStride>(plane + at, p.w.stride, &v);
        const typename L::Indices here = steps + static_cast<typename L::Int>(at);
        const typename L::Indices take = (v > best) | (v != v);
        best = started ? (take ? v : best) : v;
        index = started ? (take ? here : index) : here;
        started = true;
      }
    }
    StoreLanes<N>(best, index, x);
  }

 private:
  template <int N>
  void StoreLanes(const typename Lanes<C, N>::Values& best, const typename Lanes<C, N>::Indices& index,
                  int64_t x) const {
    if constexpr (kIs16Bit<T>) {
      StoreRun<T>(reinterpret_cast<const C*>(&best), N, values + x);
    } else {
      std::memcpy(values + x, &best, sizeof(best));
    }
    for (int k = 0; k < N; ++k) indices[x + k] = index[k];
  }
};

template <typename T>
void MaxPlanes(const Planes& p, const ComputeType<T>* in, T* values, int64_t* indices) {
  using C = ComputeType<T>;
  // Lanes count pixels in integers of the size of C. Windows without rows are left to the code for single windows.
  const bool lanes = sizeof(C) == 8 || p.input() <= INT_MAX;
  ParallelFor(p.count, p.grain(), [&](int64_t begin, int64_t end) {
    DispatchStride(p.w.stride, [&](auto stride) {
      for (int64_t plane = begin; plane < end; ++plane) {
        for (int64_t y = 0; y < p.h.places; ++y) {
          const int64_t to = (plane * p.h.places + y) * p.w.places;
          MaxRow<T> row = {p, in + plane * p.input(), y, 0, 0, values + to, indices + to};
          p.h.Taps(y, &row.ky0, &row.ky1);
          const auto window = [&row](int64_t x) { row.Window(x); };
          if (lanes && row.ky0 < row.ky1) {
            ForWindows<C>(
                p.w,
                [&row](auto count, int64_t x) {
                  row.template Block<decltype(count)::value, decltype(stride)::value>(x);
                },
                window);
          } else {
            for (int64_t x = 0; x < p.w.places; ++x) window(x);
          }
        }
      }
    });
  });
}

int MaxPool2d(tt_call* call) {
  const tt_tensor &in = call->inputs[0], &out = call->outputs[0];
  Planes p;
  const tt_value* attrs = call->attrs;
  const int code = ReadPlanes(call, in, out, &attrs[0], &attrs[1], &attrs[2], &attrs[3], &p);
  if (code != TT_OK || out.numel == 0) return code;
  if (in.numel == 0) return Fail(call, TT_INVALID_ARGUMENT, "max_pool2d of an empty plane");
  return DispatchFloating(call, in.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto* pixels = Dense<T, ComputeType<T>>(call, in);
    if (pixels == nullptr) return FailMemory(call);
    T* values = static_cast<T*>(out.data);
    int64_t* indices = static_cast<int64_t*>(call->outputs[1].data);
    MaxPlanes<T>(p, pixels, values, indices);
    return static_cast<int>(TT_OK);
  });
}

// Gradients are summed in the compute type: in the output itself, or for 16-bit floats in a plane of floats that
// belongs to a part of the planes. fn(plane, sums) fills `sums`, which start as zeros.
template <typename T, typename Fn>
int ScatterPlanes(tt_call* call, const Planes& p, T* out, const Fn& fn) {
  using C = ComputeType<T>;
  const int64_t parts = std::max<int64_t>(1, std::min<int64_t>(p.count / p.grain(), omp_get_max_threads()));
  C* scratch = nullptr;
  if constexpr (kIs16Bit<T>) {
    scratch = Workspace<C>(call, parts * p.input());
    if (scratch == nullptr) return FailMemory(call);
  }
  ParallelFor(parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      for (int64_t plane = p.count * part / parts; plane < p.count * (part + 1) / parts; ++plane) {
        T* to = out + plane * p.input();
        C* sums = scratch + part * p.input();
        if constexpr (!kIs16Bit<T>) sums = to;
        std::fill(sums, sums + p.input(), C(0));
        fn(plane, sums);
        StoreRun<T>(sums, p.input(), to);
      }
    }
  });
  return TT_OK;
}

int MaxPool2dBackward(tt_call* call) {
  const tt_tensor &grad = call->inputs[0], &indices = call->inputs[1], &out = call->outputs[0];
  if (!SameSizes(grad, indices) || indices.dtype != TT_INT64 || grad.dtype != out.dtype) {
    return Fail(call, TT_INVALID_ARGUMENT, "gradient and indices of a pooling do not fit");
  }
  Planes p;
  if (const int code = ReadPlanes(call, out, grad, nullptr, nullptr, nullptr, nullptr, &p); code != TT_OK) return code;
  if (grad.numel == 0 || out.numel == 0) {
    if (grad.numel > 0) return Fail(call, TT_OUT_OF_RANGE, "an index is out of bounds for an empty plane");
    if (out.numel > 0) std::memset(out.data, 0, static_cast<size_t>(out.numel * ElementSize(out.dtype)));
    return TT_OK;
  }
  return DispatchFloating(call, out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = Dense<T>(call, grad);
    const int64_t* at = Dense<int64_t>(call, indices);
    if (from == nullptr || at == nullptr) return FailMemory(call);
    const int64_t pixels = p.input(), windows = p.output();
    std::atomic<int64_t> bad{-1};
    const int code = ScatterPlanes<T>(call, p, static_cast<T*>(out.data), [&](int64_t plane, ComputeType<T>* sums) {
      const T* g = from + plane * windows;
      const int64_t* index = at + plane * windows;
      for (int64_t i = 0; i < windows; ++i) {
        if (static_cast<uint64_t>(index[i]) >= static_cast<uint64_t>(pixels)) {
          bad.store(plane * windows + i, std::memory_order_relaxed);
          return;
        }
        sums[index[i]] += static_cast<ComputeType<T>>(g[i]);
      }
    });
    if (const int64_t where = bad.load(); where >= 0) {
      return Fail(call, TT_OUT_OF_RANGE, "index %lld is out of bounds for a plane of %lld pixels",
                  static_cast<long long>(at[where]), static_cast<long long>(pixels));
    }
    return code;
  });
}

// ---- mean

struct Divisor {
  bool count_padding = true;
  int64_t fixed = 0;  // 0: the size of the window

  // Of the windows at (y, x); 0 where a window is empty, and its mean 0 by definition.
  double At(const Planes& p, int64_t y, int64_t x) const {
    int64_t inside = 1, padded = 1;
    for (const auto& [side, place] : {std::pair<const Side&, int64_t>{p.h, y}, {p.w, x}}) {
      const int64_t start = side.Start(place), end = std::min(start + side.kernel, side.size + side.pad);
      inside *= std::max<int64_t>(0, std::min(end, side.size) - std::max<int64_t>(start, 0));
      padded *= end - start;
    }
    if (inside == 0) return 0;
    return static_cast<double>(fixed != 0 ? fixed : count_padding ? padded : inside);
  }
};

int ReadDivisor(tt_call* call, const tt_value& count_padding, const tt_value& fixed, Divisor* d) {
  d->count_padding = count_padding.i != 0;
  d->fixed = fixed.kind == 0 ? 0 : fixed.i;
  return fixed.kind != 0 && d->fixed == 0 ? Fail(call, TT_INVALID_ARGUMENT, "divisor must be not zero") : TT_OK;
}

constexpr int64_t kWindows = 256;  // of one row at a time

// The divisors of one row of windows; they are the same in all planes, and in most rows.
template <typename C>
void DivisorRow(const Planes& p, const Divisor& divisor, int64_t y, int64_t x0, int64_t n, C* out) {
  const Side& w = p.w;
  C common = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t start = w.Start(x0 + i);
    const bool inner = start >= 0 && start + w.kernel <= w.size;
    if (!inner) {
      out[i] = static_cast<C>(divisor.At(p, y, x0 + i));
    } else {
      if (common == 0) common = static_cast<C>(divisor.At(p, y, x0 + i));
      out[i] = common;
    }
  }
}

// fn(pixel row, tap, first, last) for every tap of the windows [x0, x1) of row y.
template <typename Fn>
void ForTaps(const Planes& p, int64_t y, int64_t x0, int64_t x1, const Fn& fn) {
  int64_t ky0, ky1, kx0, kx1, other;
  p.h.Taps(y, &ky0, &ky1);
  // A window may be much larger than what it lies on: the last of them has the first tap inside, the first the last.
  p.w.Taps(x1 - 1, &kx0, &other);
  p.w.Taps(x0, &other, &kx1);
  for (int64_t ky = ky0; ky < ky1; ++ky) {
    const int64_t row = (p.h.Start(y) + ky) * p.w.size;
    for (int64_t kx = kx0; kx < kx1; ++kx) {
      int64_t first, last;
      p.w.Inside(kx, &first, &last);
      first = std::max(first, x0) - x0;
      last = std::min(last, x1) - x0;
      if (first < last) fn(row + p.w.Start(x0) + kx, first, last);
    }
  }
}

template <typename T>
struct MeanRow {
  using C = ComputeType<T>;
  const Planes& p;
  const Divisor& divisor;
  const C* plane;
  int64_t y, ky0, ky1;
  T* values;

  void Window(int64_t x) const {
    int64_t kx0, kx1;
    p.w.Taps(x, &kx0, &kx1);
    C sum = 0;
    for (int64_t ky = ky0; ky < ky1; ++ky) {
      const C* row = plane + ((p.h.Start(y) + ky) * p.w.size + p.w.Start(x));
      for (int64_t kx = kx0; kx < kx1; ++kx) sum += row[kx];
    }
    const C d = static_cast<C>(divisor.At(p, y, x));
    values[x] = T(d == 0 ? C(0) : sum / d);
  }

  template <int N, int64_t kStride>
  void Block(int64_t x) const {
    using L = Lanes<C, N>;
    typename L::Values sum = {};
    for (int64_t ky = ky0; ky < ky1; ++ky) {
      const C* row = plane + ((p.h.Start(y) + ky) * p.w.size + p.w.Start(x));
      for (int64_t kx = 0; kx < p.w.kernel; ++kx) {
        typename L::Values v;
        L::template Load<kStride>(row + kx, p.w.stride, &v);
        sum += v;
      }
    }
    const C d = static_cast<C>(divisor.At(p, y, x));
    if (d != 0) sum /= d;
    if constexpr (kIs16Bit<T>) {
      StoreRun<T>(reinterpret_cast<const C*>(&sum), N, values + x);
    } else {
      std::memcpy(values + x, &sum, sizeof(sum));
    }
  }
};

int AvgPool2d(tt_call* call) {
  const tt_tensor &in = call->inputs[0], &out = call->outputs[0];
  const tt_value* attrs = call->attrs;
  Planes p;
  Divisor divisor;
  int code = ReadPlanes(call, in, out, &attrs[0], &attrs[1], &attrs[2], nullptr, &p);
  if (code == TT_OK) code = ReadDivisor(call, attrs[4], attrs[5], &divisor);
  if (code != TT_OK || out.numel == 0) return code;
  return DispatchFloating(call, in.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const C* pixels = Dense<T, C>(call, in);
    if (pixels == nullptr) return FailMemory(call);
    T* to = static_cast<T*>(out.data);
    ParallelFor(p.count, p.grain(), [&](int64_t begin, int64_t end) {
      DispatchStride(p.w.stride, [&](auto stride) {
        for (int64_t plane = begin; plane < end; ++plane) {
          for (int64_t y = 0; y < p.h.places; ++y) {
            MeanRow<T> row = {p, divisor, pixels + plane * p.input(), y, 0, 0,
                              to + (plane * p.h.places + y) * p.w.places};
            p.h.Taps(y, &row.ky0, &row.ky1);
            ForWindows<C>(
                p.w,
                [&row](auto count, int64_t x) {
                  row.template Block<decltype(count)::value, decltype(stride)::value>(x);
                },
                [&row](int64_t x) { row.Window(x); });
          }
        }
      });
    });
    return static_cast<int>(TT_OK);
  });
}

int AvgPool2dBackward(tt_call* call) {
  const tt_tensor &grad = call->inputs[0], &out = call->outputs[0];
  const tt_value* attrs = call->attrs;
  Planes p;
  Divisor divisor;
  int code = ReadPlanes(call, out, grad, &attrs[1], &attrs[2], &attrs[3], nullptr, &p);
  if (code == TT_OK) code = ReadDivisor(call, attrs[5], attrs[6], &divisor);
  if (code != TT_OK || out.numel == 0) return code;
  return DispatchFloating(call, out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const C* from = Dense<T, C>(call, grad);
    C* divisors = Workspace<C>(call, p.output());
    if (from == nullptr || divisors == nullptr) return FailMemory(call);
    for (int64_t y = 0; y < p.h.places; ++y) DivisorRow<C>(p, divisor, y, 0, p.w.places, divisors + y * p.w.places);
    return ScatterPlanes<T>(call, p, static_cast<T*>(out.data), [&](int64_t plane, C* sums) {
      DispatchStride(p.w.stride, [&](auto constant) {
        const int64_t stride = decltype(constant)::value == 0 ? p.w.stride : decltype(constant)::value;
        C shares[kWindows];
        for (int64_t y = 0; y < p.h.places; ++y) {
          for (int64_t x = 0; x < p.w.places; x += kWindows) {
            const int64_t n = std::min(kWindows, p.w.places - x);
            const C* d = divisors + y * p.w.places + x;
            const C* g = from + plane * p.output() + y * p.w.places + x;
            for (int64_t i = 0; i < n; ++i) shares[i] = d[i] == 0 ? C(0) : g[i] / d[i];
            ForTaps(p, y, x, x + n, [&](int64_t at, int64_t first, int64_t last) {
              C* row = sums + at;
              for (int64_t i = first; i < last; ++i) row[i * stride] += shares[i];
            });
          }
        }
      });
    });
  });
}

// Even windows: place i covers [i * size / places, ceil((i + 1) * size / places)).
int64_t EvenStart(const Side& s, int64_t place) { return place * s.size / s.places; }
int64_t EvenEnd(const Side& s, int64_t place) { return ((place + 1) * s.size + s.places - 1) / s.places; }

int CheckEven(tt_call* call, const Planes& p) {
  const int64_t most = int64_t{1} << 31;
  if (std::max({p.h.size, p.h.places, p.w.size, p.w.places}) <= most) return TT_OK;
  return Fail(call, TT_INVALID_ARGUMENT, "a pooling of this size is not supported");
}

int AdaptiveAvgPool2d(tt_call* call) {
  const tt_tensor &in = call->inputs[0], &out = call->outputs[0];
  Planes p;
  int code = ReadPlanes(call, in, out, nullptr, nullptr, nullptr, nullptr, &p);
  if (code == TT_OK) code = CheckEven(call, p);
  if (code != TT_OK || out.numel == 0) return code;
  return DispatchFloating(call, in.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const C* pixels = Dense<T, C>(call, in);
    if (pixels == nullptr) return FailMemory(call);
    T* to = static_cast<T*>(out.data);
    ParallelFor(p.count, p.grain(), [&](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) {
        const C* from = pixels + plane * p.input();
        for (int64_t y = 0; y < p.h.places; ++y) {
          const int64_t y0 = EvenStart(p.h, y), y1 = EvenEnd(p.h, y);
          for (int64_t x = 0; x < p.w.places; ++x) {
            const int64_t x0 = EvenStart(p.w, x), n = EvenEnd(p.w, x) - x0;
            C sum = 0;
            if (n == p.w.size) {  // rows follow each other
              const C* run = from + y0 * n;
              sum = SumOf<C>((y1 - y0) * n, [run](int64_t i) { return run[i]; });
            } else {
              for (int64_t row = y0; row < y1; ++row) {
                const C* run = from + row * p.w.size + x0;
                for (int64_t i = 0; i < n; ++i) sum += run[i];
              }
            }
            to[(plane * p.h.places + y) * p.w.places + x] = static_cast<T>(sum / static_cast<C>((y1 - y0) * n));
          }
        }
      }
    });
    return static_cast<int>(TT_OK);
  });
}

int AdaptiveAvgPool2dBackward(tt_call* call) {
  const tt_tensor &grad = call->inputs[0], &out = call->outputs[0];
  Planes p;
  int code = ReadPlanes(call, out, grad, nullptr, nullptr, nullptr, nullptr, &p);
  if (code == TT_OK) code = CheckEven(call, p);
  if (code != TT_OK || out.numel == 0) return code;
  return DispatchFloating(call, out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const C* from = Dense<T, C>(call, grad);
    if (from == nullptr) return FailMemory(call);
    return ScatterPlanes<T>(call, p, static_cast<T*>(out.data), [&](int64_t plane, C* sums) {
      for (int64_t y = 0; y < p.h.places; ++y) {
        const int64_t y0 = EvenStart(p.h, y), y1 = EvenEnd(p.h, y);
        for (int64_t x = 0; x < p.w.places; ++x) {
          const int64_t x0 = EvenStart(p.w, x), x1 = EvenEnd(p.w, x);
          const C share = from[plane * p.output() + y * p.w.places + x] / static_cast<C>((y1 - y0) * (x1 - x0));
          for (int64_t row = y0; row < y1; ++row) {
            for (int64_t i = x0; i < x1; ++i) sums[row * p.w.size + i] += share;
          }
        }
      }
    });
  });
}

}  // namespace

void AppendPoolingKernels(KernelList* list) {
  list->push_back({"_max_pool2d", TT_FLOATING, MaxPool2d});
  list->push_back({"_max_pool2d_backward", TT_FLOATING, MaxPool2dBackward});
  list->push_back({"avg_pool2d", TT_FLOATING, AvgPool2d});
  list->push_back({"_avg_pool2d_backward", TT_FLOATING, AvgPool2dBackward});
  list->push_back({"adaptive_avg_pool2d", TT_FLOATING, AdaptiveAvgPool2d});
  list->push_back({"_adaptive_avg_pool2d_backward", TT_FLOATING, AdaptiveAvgPool2dBackward});
}

}  // namespace telensor::cpu::TT_CPU_VARIANT
