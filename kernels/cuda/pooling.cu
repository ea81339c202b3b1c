// Pooling over (N, C, H, W) or (C, H, W): one thread an output element, forward and backward. Gradients are gathered,
// not scattered, so that they are summed in a fixed order.
#include <limits>

#include "kernels/cuda/convolution_shape.h"
#include "kernels/cuda/kernel.cuh"

namespace telensor::cuda {
namespace {

// Windows along one dimension.
struct Side {
  int64_t size, places, kernel, stride, pad, dilation;
};
struct Planes {
  int64_t count;
  Side h, w;
  int64_t input() const { return h.size * w.size; }
  int64_t output() const { return h.places * w.places; }
};

// `in` is the tensor of pixels, `out` the one of windows. No kernel: even windows. dilation NULL: 1.
int ReadPlanes(tt_call* call, const tt_tensor& in, const tt_tensor& out, const tt_value* kernel, const tt_value* stride,
               const tt_value* padding, const tt_value* dilation, Planes* p) {
  const int r = in.rank;
  bool good = (r == 3 || r == 4) && out.rank == r;
  for (int d = 0; good && d < r - 2; ++d) good = in.sizes[d] == out.sizes[d];
  if (good) {
    p->count = in.sizes[r - 3] * (r == 4 ? in.sizes[0] : 1);
    p->h = {in.sizes[r - 2], out.sizes[r - 2], 1, 1, 0, 1};
    p->w = {in.sizes[r - 1], out.sizes[r - 1], 1, 1, 0, 1};
  }
  if (good && kernel != nullptr) {
    const bool own = stride->kind == 0 || (stride->kind == 4 && stride->count == 0);
    int64_t k[2], s[2], pad[2], d[2] = {1, 1};
    good = ReadPair(*kernel, k) && ReadPair(own ? *kernel : *stride, s) && ReadPair(*padding, pad) &&
           (dilation == nullptr || ReadPair(*dilation, d));
    if (good) {
      p->h = {p->h.size, p->h.places, k[0], s[0], pad[0], d[0]};
      p->w = {p->w.size, p->w.places, k[1], s[1], pad[1], d[1]};
    }
  }
  // The rows of the gradients take any numbers; these bounds keep sums and products of them in range.
  constexpr int64_t kMost = int64_t{1} << 31;
  for (const Side* s : {&p->h, &p->w}) {
    good = good && s->kernel > 0 && s->stride > 0 && s->dilation > 0 && s->pad >= 0 && s->kernel <= kMost &&
           s->stride <= kMost && s->dilation <= kMost && s->pad <= kMost && s->size <= kMost && s->places <= kMost;
  }
  return good ? TT_OK : Fail(call, TT_INVALID_ARGUMENT, "the sizes of a pooling do not fit");
}

template <typename T>
struct MaxAt {
  Planes p;
  const T* in;
  T* values;
  int64_t* indices;
  ComputeType<T> lowest;
  __device__ void operator()(int64_t i) const {
    using C = ComputeType<T>;
    const int64_t x = i % p.w.places, y = i / p.w.places % p.h.places, plane = i / (p.w.places * p.h.places);
    const T* from = in + plane * p.h.size * p.w.size;
    C best = lowest;
    int64_t index = -1, first = -1;
    for (int64_t ky = 0; ky < p.h.kernel; ++ky) {
      const int64_t row = y * p.h.stride - p.h.pad + ky * p.h.dilation;
      if (row < 0 || row >= p.h.size) continue;
      for (int64_t kx = 0; kx < p.w.kernel; ++kx) {
        const int64_t column = x * p.w.stride - p.w.pad + kx * p.w.dilation;
        if (column < 0 || column >= p.w.size) continue;
        const int64_t at = row * p.w.size + column;
        const C v = Widen(from[at]);
        if (first < 0) first = at;
        // A NaN wins, and the last of several, as in PyTorch.
        if (v > best || v != v) {
          best = v;
          index = at;
        }
      }
    }
    values[i] = static_cast<T>(best);
    indices[i] = index >= 0 ? index : first >= 0 ? first : 0;
  }
};

int MaxPool2d(tt_call* call) {
  const tt_tensor &in = call->inputs[0], &out = call->outputs[0];
  Planes p = {};
  const tt_value* attrs = call->attrs;
  int code = ReadPlanes(call, in, out, &attrs[0], &attrs[1], &attrs[2], &attrs[3], &p);
  if (code != TT_OK || out.numel == 0) return code;
  if (in.numel == 0) return Fail(call, TT_INVALID_ARGUMENT, "max_pool2d of an empty plane");
  const void* pixels = Dense(call, in, &code);
  if (code != TT_OK) return code;
  return DispatchFloating(call, in.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return ForEach(
        call, out.numel,
        MaxAt<T>{p, static_cast<const T*>(pixels), static_cast<T*>(out.data),
                 static_cast<int64_t*>(call->outputs[1].data), -std::numeric_limits<ComputeType<T>>::infinity()});
  });
}

// Nothing but the indices says which windows saw a pixel. A warp takes a plane's windows in order, 32 at a time; where
// several of them name one pixel, the first lane adds them up. The sums of 16-bit floats grow in a plane of floats.
template <typename T, typename A>
__global__ void __launch_bounds__(kThreads) PlaceKernel(int64_t planes, int64_t pixels, int64_t windows, const T* grad,
                                                        const int64_t* indices, A* sums, Report* report) {
  __shared__ A shared[kThreads];
  A* values = shared + threadIdx.x / 32 * 32;
  const int lane = threadIdx.x % 32;
  const int64_t step = int64_t{gridDim.x} * (kThreads / 32);
  for (int64_t plane = int64_t{blockIdx.x} * (kThreads / 32) + threadIdx.x / 32; plane < planes; plane += step) {
    for (int64_t first = 0; first < windows; first += 32) {
      const bool given = first + lane < windows;
      const int64_t from = plane * windows + first + lane;
      int64_t at = given ? indices[from] : -1;
      if (given && (at < 0 || at >= pixels)) {
        ReportError(report, Report::kIndex, at, 0, pixels);
        at = -1;
      }
      values[lane] = given ? static_cast<A>(Widen(grad[from])) : A(0);
      const unsigned same = __match_any_sync(~0u, static_cast<long long>(at));
      __syncwarp();
      if (at >= 0 && __ffs(static_cast<int>(same)) - 1 == lane) {
        A sum = sums[plane * pixels + at];
        for (unsigned rest = same; rest != 0; rest &= rest - 1) sum += values[__ffs(static_cast<int>(rest)) - 1];
        sums[plane * pixels + at] = sum;
      }
      __syncwarp();
    }
  }
}
template <typename T>
struct NarrowAt {
  const ComputeType<T>* from;
  T* to;
  __device__ void operator()(int64_t i) const { to[i] = static_cast<T>(from[i]); }
};

int MaxPool2dBackward(tt_call* call) {
  const tt_tensor &grad = call->inputs[0], &indices = call->inputs[1], &out = call->outputs[0];
  if (!SameSizes(grad, indices) || indices.dtype != TT_INT64 || grad.dtype != out.dtype) {
    return Fail(call, TT_INVALID_ARGUMENT, "gradient and indices of a pooling do not fit");
  }
  Planes p = {};
  int code = ReadPlanes(call, out, grad, nullptr, nullptr, nullptr, nullptr, &p);
  if (code == TT_OK) code = ZeroFill(call, out.data, out.numel * ElementSize(out.dtype));
  if (code != TT_OK || grad.numel == 0) return code;
  const void* from = Dense(call, grad, &code);
  const void* at = code == TT_OK ? Dense(call, indices, &code) : nullptr;
  if (code != TT_OK) return code;
  return DispatchFloating(call, out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = ComputeType<T>;
    A* sums = static_cast<A*>(out.data);
    if constexpr (!std::is_same_v<T, A>) {
      sums = static_cast<A*>(Workspace(call, out.numel * static_cast<int64_t>(sizeof(A)), &code));
      if (sums != nullptr) code = ZeroFill(call, sums, out.numel * static_cast<int64_t>(sizeof(A)));
      if (code != TT_OK) return code;
    }
    const int64_t blocks = (p.count + kThreads / 32 - 1) / (kThreads / 32);
    PlaceKernel<T, A><<<static_cast<unsigned>(blocks < 65535 ? blocks : 65535), kThreads, 0, StreamOf(call)->stream>>>(
        p.count, p.input(), p.output(), static_cast<const T*>(from), static_cast<const int64_t*>(at), sums,
        StreamOf(call)->report);
    code = Launched(call);
    if constexpr (!std::is_same_v<T, A>) {
      if (code == TT_OK) code = ForEach(call, out.numel, NarrowAt<T>{sums, static_cast<T*>(out.data)});
    }
    return code;
  });
}

struct Divisor {
  bool count_padding;
  int64_t fixed;  // 0: the size of the window
};

// Of the window at (y, x); 0 where it is empty, and its mean 0 by definition.
__device__ double DivisorAt(const Planes& p, const Divisor& d, int64_t y, int64_t x) {
  const auto part = [](const Side& s, int64_t place, int64_t* padded) {
    const int64_t start = place * s.stride - s.pad;
    const int64_t end = min(start + s.kernel, s.size + s.pad);
    *padded = end - start;
    return max(int64_t{0}, min(end, s.size) - max(start, int64_t{0}));
  };
  int64_t padded_h, padded_w;
  const int64_t inside = part(p.h, y, &padded_h) * part(p.w, x, &padded_w);
  if (inside == 0) return 0;
  return static_cast<double>(d.fixed != 0 ? d.fixed : d.count_padding ? padded_h * padded_w : inside);
}

template <typename T>
struct AverageAt {
  Planes p;
  Divisor divisor;
  const T* in;
  T* out;
  __device__ void operator()(int64_t i) const {
    using C = ComputeType<T>;
    const int64_t x = i % p.w.places, y = i / p.w.places % p.h.places, plane = i / (p.w.places * p.h.places);
    const T* from = in + plane * p.h.size * p.w.size;
    const int64_t y0 = y * p.h.stride - p.h.pad, x0 = x * p.w.stride - p.w.pad;
    C sum = 0;
    for (int64_t row = max(y0, int64_t{0}); row < min(y0 + p.h.kernel, p.h.size); ++row) {
      for (int64_t column = max(x0, int64_t{0}); column < min(x0 + p.w.kernel, p.w.size); ++column) {
        sum += Widen(from[row * p.w.size + column]);
      }
    }
    const C d = static_cast<C>(DivisorAt(p, divisor, y, x));
    out[i] = static_cast<T>(d == C(0) ? C(0) : sum / d);
  }
};

// The windows that saw a pixel are those that start at most a kernel's length before it.
template <typename T>
struct AverageBackwardAt {
  Planes p;
  Divisor divisor;
  const T* grad;
  T* out;
  __device__ void operator()(int64_t i) const {
    using C = ComputeType<T>;
    const int64_t x = i % p.w.size, y = i / p.w.size % p.h.size, plane = i / (p.w.size * p.h.size);
    const T* from = grad + plane * p.h.places * p.w.places;
    const auto first = [](const Side& s, int64_t at) {
      const int64_t from = at + s.pad - s.kernel + 1;
      return from <= 0 ? int64_t{0} : (from + s.stride - 1) / s.stride;
    };
    const auto last = [](const Side& s, int64_t at) { return min((at + s.pad) / s.stride, s.places - 1); };
    C sum = 0;
    for (int64_t wy = first(p.h, y); wy <= last(p.h, y); ++wy) {
      for (int64_t wx = first(p.w, x); wx <= last(p.w, x); ++wx) {
        const C d = static_cast<C>(DivisorAt(p, divisor, wy, wx));
        if (d != C(0)) sum += Widen(from[wy * p.w.places + wx]) / d;
      }
    }
    out[i] = static_cast<T>(sum);
  }
};

int ReadDivisor(tt_call* call, const tt_value& count_padding, const tt_value& fixed, Divisor* d) {
  d->count_padding = count_padding.i != 0;
  d->fixed = fixed.kind == 0 ? 0 : fixed.i;
  return fixed.kind != 0 && d->fixed == 0 ? Fail(call, TT_INVALID_ARGUMENT, "divisor must be not zero") : TT_OK;
}

int AvgPool2d(tt_call* call) {
  const tt_tensor &in = call->inputs[0], &out = call->outputs[0];
  const tt_value* attrs = call->attrs;
  Planes p = {};
  Divisor divisor;
  int code = ReadPlanes(call, in, out, &attrs[0], &attrs[1], &attrs[2], nullptr, &p);
  if (code == TT_OK) code = ReadDivisor(call, attrs[4], attrs[5], &divisor);
  if (code != TT_OK || out.numel == 0) return code;
  const void* pixels = Dense(call, in, &code);
  if (code != TT_OK) return code;
  return DispatchFloating(call, in.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return ForEach(call, out.numel, AverageAt<T>{p, divisor, static_cast<const T*>(pixels), static_cast<T*>(out.data)});
  });
}

int AvgPool2dBackward(tt_call* call) {
  const tt_tensor &grad = call->inputs[0], &out = call->outputs[0];
  const tt_value* attrs = call->attrs;
  Planes p = {};
  Divisor divisor;
  int code = ReadPlanes(call, out, grad, &attrs[1], &attrs[2], &attrs[3], nullptr, &p);
  if (code == TT_OK) code = ReadDivisor(call, attrs[5], attrs[6], &divisor);
  if (code != TT_OK || out.numel == 0) return code;
  const void* from = Dense(call, grad, &code);
  if (code != TT_OK) return code;
  return DispatchFloating(call, out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return ForEach(call, out.numel,
                   AverageBackwardAt<T>{p, divisor, static_cast<const T*>(from), static_cast<T*>(out.data)});
  });
}

// Even windows: place i covers [i * size / places, ceil((i + 1) * size / places)).
__device__ int64_t EvenStart(const Side& s, int64_t place) { return place * s.size / s.places; }
__device__ int64_t EvenEnd(const Side& s, int64_t place) { return ((place + 1) * s.size + s.places - 1) / s.places; }

template <typename T>
struct AdaptiveAt {
  Planes p;
  const T* in;
  T* out;
  __device__ void operator()(int64_t i) const {
    using C = ComputeType<T>;
    const int64_t x = i % p.w.places, y = i / p.w.places % p.h.places, plane = i / (p.w.places * p.h.places);
    const T* from = in + plane * p.h.size * p.w.size;
    const int64_t y0 = EvenStart(p.h, y), y1 = EvenEnd(p.h, y), x0 = EvenStart(p.w, x), x1 = EvenEnd(p.w, x);
    C sum = 0;
    for (int64_t row = y0; row < y1; ++row) {
      // Rows are summed apart: the sum of a whole plane would be one long chain.
      C part = 0;
      for (int64_t column = x0; column < x1; ++column) part += Widen(from[row * p.w.size + column]);
      sum += part;
    }
    out[i] = static_cast<T>(sum / static_cast<C>((y1 - y0) * (x1 - x0)));
  }
};

template <typename T>
struct AdaptiveBackwardAt {
  Planes p;
  const T* grad;
  T* out;
  __device__ void operator()(int64_t i) const {
    using C = ComputeType<T>;
    const int64_t x = i % p.w.size, y = i / p.w.size % p.h.size, plane = i / (p.w.size * p.h.size);
    const T* from = grad + plane * p.h.places * p.w.places;
    C sum = 0;
    // The first window that ends beyond the pixel, and on until one starts beyond it.
    for (int64_t wy = y * p.h.places / p.h.size; wy < p.h.places && EvenStart(p.h, wy) <= y; ++wy) {
      for (int64_t wx = x * p.w.places / p.w.size; wx < p.w.places && EvenStart(p.w, wx) <= x; ++wx) {
        const int64_t area = (EvenEnd(p.h, wy) - EvenStart(p.h, wy)) * (EvenEnd(p.w, wx) - EvenStart(p.w, wx));
        sum += Widen(from[wy * p.w.places + wx]) / static_cast<C>(area);
      }
    }
    out[i] = static_cast<T>(sum);
  }
};

int Adaptive(tt_call* call) {
  const tt_tensor &in = call->inputs[0], &out = call->outputs[0];
  Planes p = {};
  int code = ReadPlanes(call, in, out, nullptr, nullptr, nullptr, nullptr, &p);
  if (code != TT_OK || out.numel == 0) return code;
  const void* pixels = Dense(call, in, &code);
  if (code != TT_OK) return code;
  return DispatchFloating(call, in.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return ForEach(call, out.numel, AdaptiveAt<T>{p, static_cast<const T*>(pixels), static_cast<T*>(out.data)});
  });
}

int AdaptiveBackward(tt_call* call) {
  const tt_tensor &grad = call->inputs[0], &out = call->outputs[0];
  Planes p = {};
  int code = ReadPlanes(call, out, grad, nullptr, nullptr, nullptr, nullptr, &p);
  if (code != TT_OK || out.numel == 0) return code;
  if (grad.numel == 0) return ZeroFill(call, out.data, out.numel * ElementSize(out.dtype));
  const void* from = Dense(call, grad, &code);
  if (code != TT_OK) return code;
  return DispatchFloating(call, out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return ForEach(call, out.numel, AdaptiveBackwardAt<T>{p, static_cast<const T*>(from), static_cast<T*>(out.data)});
  });
}

}  // namespace

void AppendPoolingKernels(KernelList* list) {
  list->push_back({"_max_pool2d", TT_FLOATING, OnDevice<MaxPool2d>});
  list->push_back({"_max_pool2d_backward", TT_FLOATING, OnDevice<MaxPool2dBackward>});
  list->push_back({"avg_pool2d", TT_FLOATING, OnDevice<AvgPool2d>});
  list->push_back({"_avg_pool2d_backward", TT_FLOATING, OnDevice<AvgPool2dBackward>});
  list->push_back({"adaptive_avg_pool2d", TT_FLOATING, OnDevice<Adaptive>});
  list->push_back({"_adaptive_avg_pool2d_backward", TT_FLOATING, OnDevice<AdaptiveBackward>});
}

}  // namespace telensor::cuda
