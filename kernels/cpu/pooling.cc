// Pooling over (N, C, H, W) or (C, H, W): planes are independent, and shared out to threads.
#include <cmath>
#include <limits>

#include "kernels/cpu/families.h"
#include "kernels/cpu/gemm.h"

namespace telensor::cpu::TT_CPU_VARIANT {
namespace {

struct Window {
  int64_t h, w, oh, ow, kh, kw, sh, sw, ph, pw, dh, dw;
};

int64_t Planes(const tt_tensor& t) {
  int64_t n = 1;
  for (int d = 0; d < t.rank - 2; ++d) n *= t.sizes[d];
  return n;
}

Window MakeWindow(const int64_t* in, const int64_t* out, const tt_value* attrs, bool dilated) {
  const int64_t* kernel = attrs[0].ints;
  const int64_t* stride = attrs[1].kind == 0 ? kernel : attrs[1].ints;
  Window w{in[0], in[1], out[0], out[1], kernel[0], kernel[1], stride[0], stride[1], attrs[2].ints[0], attrs[2].ints[1], 1, 1};
  if (dilated) {
    w.dh = attrs[3].ints[0];
    w.dw = attrs[3].ints[1];
  }
  return w;
}

int MaxPool(tt_call* call) {
  const tt_tensor &in = call->inputs[0], &out = call->outputs[0];
  const Window w = MakeWindow(in.sizes + in.rank - 2, out.sizes + out.rank - 2, call->attrs, true);
  return DispatchFloating(call, in.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const T* data = Dense<T>(call, in);
    if (data == nullptr && in.numel > 0) return static_cast<int>(TT_OUT_OF_MEMORY);
    T* values = static_cast<T*>(out.data);
    int64_t* indices = static_cast<int64_t*>(call->outputs[1].data);
    const int64_t places = w.oh * w.ow;
    ParallelFor(Planes(in), std::max<int64_t>(1, kGrain / (places * 4 + 1)), [&](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) {
        const T* from = data + plane * w.h * w.w;
        for (int64_t oy = 0; oy < w.oh; ++oy) {
          int64_t y0 = oy * w.sh - w.ph;
          const int64_t y1 = std::min(y0 + (w.kh - 1) * w.dh + 1, w.h);
          while (y0 < 0) y0 += w.dh;
          for (int64_t ox = 0; ox < w.ow; ++ox) {
            int64_t x0 = ox * w.sw - w.pw;
            const int64_t x1 = std::min(x0 + (w.kw - 1) * w.dw + 1, w.w);
            while (x0 < 0) x0 += w.dw;
            C best = -std::numeric_limits<C>::infinity();
            int64_t at = y0 * w.w + x0;
            for (int64_t y = y0; y < y1; y += w.dh) {
              for (int64_t x = x0; x < x1; x += w.dw) {
                const C v = static_cast<C>(from[y * w.w + x]);
                if (v > best || v != v) {
                  best = v;
                  at = y * w.w + x;
                }
              }
            }
            const int64_t place = plane * places + oy * w.ow + ox;
            values[place] = static_cast<T>(best);
            indices[place] = at;
          }
        }
      }
    });
    return static_cast<int>(TT_OK);
  });
}

int MaxPoolBackward(tt_call* call) {
  const tt_tensor &grad = call->inputs[0], &index = call->inputs[1], &out = call->outputs[0];
  const int64_t planes = out.rank >= 2 ? Planes(out) : 0;
  if (out.rank < 3 || grad.numel != index.numel || grad.rank != out.rank || Planes(grad) != planes) {
    return Fail(call, TT_INVALID_ARGUMENT, "max_pool2d backward: the sizes do not belong together");
  }
  const int64_t size = out.sizes[out.rank - 2] * out.sizes[out.rank - 1];
  const int64_t places = planes > 0 ? grad.numel / planes : 0;
  return DispatchFloating(call, grad.dtype, [&](auto tag) -> int {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const T* g = Dense<T>(call, grad);
    const int64_t* at = Dense<int64_t>(call, index);
    if ((g == nullptr || at == nullptr) && grad.numel > 0) return TT_OUT_OF_MEMORY;
    for (int64_t i = 0; i < grad.numel; ++i) {
      if (at[i] < 0 || at[i] >= size) return Fail(call, TT_OUT_OF_RANGE, "max_pool2d backward: index %lld is out of bounds", static_cast<long long>(at[i]));
    }
    T* result = static_cast<T*>(out.data);
    ParallelFor(planes, std::max<int64_t>(1, kGrain / (size + 1)), [&](int64_t begin, int64_t end) {
      std::fill(result + begin * size, result + end * size, T());
      for (int64_t plane = begin; plane < end; ++plane) {
        T* to = result + plane * size;
        for (int64_t i = plane * places; i < (plane + 1) * places; ++i) {
          to[at[i]] = static_cast<T>(static_cast<C>(to[at[i]]) + static_cast<C>(g[i]));
        }
      }
    });
    return TT_OK;
  });
}

// The places of one window and what their sum is divided by.
struct Average {
  int64_t y0, y1, x0, x1, divisor;
};
Average AverageAt(const Window& w, int64_t oy, int64_t ox, bool count_padding, const tt_value& override_value) {
  const int64_t y0 = oy * w.sh - w.ph, x0 = ox * w.sw - w.pw;
  const int64_t y1 = std::min(y0 + w.kh, w.h + w.ph), x1 = std::min(x0 + w.kw, w.w + w.pw);
  Average a{std::max<int64_t>(y0, 0), std::min(y1, w.h), std::max<int64_t>(x0, 0), std::min(x1, w.w), 1};
  a.divisor = override_value.kind != 0 ? override_value.i : count_padding ? (y1 - y0) * (x1 - x0) : (a.y1 - a.y0) * (a.x1 - a.x0);
  return a;
}

template <bool kBack>
int AveragePool(tt_call* call) {
  const tt_tensor& given = call->inputs[0];
  const tt_tensor& out = call->outputs[0];
  const tt_tensor &image = kBack ? out : given, &windows = kBack ? given : out;
  const tt_value* attrs = call->attrs + (kBack ? 1 : 0);
  if (image.rank < 3 || windows.rank != image.rank || Planes(image) != Planes(windows)) {
    return Fail(call, TT_INVALID_ARGUMENT, "avg_pool2d: the sizes do not belong together");
  }
  const Window w = MakeWindow(image.sizes + image.rank - 2, windows.sizes + windows.rank - 2, attrs, false);
  if (w.kh <= 0 || w.kw <= 0 || w.sh <= 0 || w.sw <= 0 || (attrs[5].kind != 0 && attrs[5].i == 0)) {
    return Fail(call, TT_INVALID_ARGUMENT, "divisor must be not zero");
  }
  return DispatchFloating(call, given.dtype, [&](auto tag) -> int {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const T* from = Dense<T>(call, given);
    if (from == nullptr && given.numel > 0) return TT_OUT_OF_MEMORY;
    T* to = static_cast<T*>(out.data);
    ParallelFor(Planes(image), std::max<int64_t>(1, kGrain / (w.h * w.w + 1)), [&](int64_t begin, int64_t end) {
      std::vector<C> sums(kBack ? w.h * w.w : 0);
      for (int64_t plane = begin; plane < end; ++plane) {
        std::fill(sums.begin(), sums.end(), C(0));
        for (int64_t oy = 0; oy < w.oh; ++oy) {
          for (int64_t ox = 0; ox < w.ow; ++ox) {
            const Average a = AverageAt(w, oy, ox, attrs[4].i != 0, attrs[5]);
            const int64_t place = (plane * w.oh + oy) * w.ow + ox;
            C sum = 0;
            const C share = kBack ? static_cast<C>(from[place]) / static_cast<C>(a.divisor) : C(0);
            for (int64_t y = a.y0; y < a.y1; ++y) {
              for (int64_t x = a.x0; x < a.x1; ++x) {
                if constexpr (kBack) {
                  sums[y * w.w + x] += share;
                } else {
                  sum += static_cast<C>(from[(plane * w.h + y) * w.w + x]);
                }
              }
            }
            if constexpr (!kBack) to[place] = static_cast<T>(sum / static_cast<C>(a.divisor));
          }
        }
        for (size_t i = 0; i < sums.size(); ++i) to[plane * w.h * w.w + static_cast<int64_t>(i)] = static_cast<T>(sums[i]);
      }
    });
    return TT_OK;
  });
}

template <bool kBack>
int AdaptivePool(tt_call* call) {
  const tt_tensor& given = call->inputs[0];
  const tt_tensor& out = call->outputs[0];
  const tt_tensor &image = kBack ? out : given, &windows = kBack ? given : out;
  if (image.rank < 3 || windows.rank != image.rank || Planes(image) != Planes(windows)) {
    return Fail(call, TT_INVALID_ARGUMENT, "adaptive_avg_pool2d: the sizes do not belong together");
  }
  const int64_t h = image.sizes[image.rank - 2], w = image.sizes[image.rank - 1];
  const int64_t oh = windows.sizes[windows.rank - 2], ow = windows.sizes[windows.rank - 1];
  return DispatchFloating(call, given.dtype, [&](auto tag) -> int {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const T* from = Dense<T>(call, given);
    if (from == nullptr && given.numel > 0) return TT_OUT_OF_MEMORY;
    T* to = static_cast<T*>(out.data);
    ParallelFor(Planes(image), std::max<int64_t>(1, kGrain / (h * w + 1)), [&](int64_t begin, int64_t end) {
      std::vector<C> sums(kBack ? h * w : 0);
      for (int64_t plane = begin; plane < end; ++plane) {
        std::fill(sums.begin(), sums.end(), C(0));
        for (int64_t oy = 0; oy < oh; ++oy) {
          const int64_t y0 = oy * h / oh, y1 = ((oy + 1) * h + oh - 1) / oh;
          for (int64_t ox = 0; ox < ow; ++ox) {
            const int64_t x0 = ox * w / ow, x1 = ((ox + 1) * w + ow - 1) / ow;
            const C count = static_cast<C>((y1 - y0) * (x1 - x0));
            const int64_t place = (plane * oh + oy) * ow + ox;
            C sum = 0;
            for (int64_t y = y0; y < y1; ++y) {
              for (int64_t x = x0; x < x1; ++x) {
                if constexpr (kBack) {
                  sums[y * w + x] += static_cast<C>(from[place]) / count;
                } else {
                  sum += static_cast<C>(from[(plane * h + y) * w + x]);
                }
              }
            }
            if constexpr (!kBack) to[place] = static_cast<T>(sum / count);
          }
        }
        for (size_t i = 0; i < sums.size(); ++i) to[plane * h * w + static_cast<int64_t>(i)] = static_cast<T>(sums[i]);
      }
    });
    return TT_OK;
  });
}

}  // namespace

void AppendPoolingKernels(KernelList* list) {
  list->push_back({"_max_pool2d", TT_FLOATING, MaxPool});
  list->push_back({"_max_pool2d_backward", TT_FLOATING, MaxPoolBackward});
  list->push_back({"avg_pool2d", TT_FLOATING, AveragePool<false>});
  list->push_back({"_avg_pool2d_backward", TT_FLOATING, AveragePool<true>});
  list->push_back({"adaptive_avg_pool2d", TT_FLOATING, AdaptivePool<false>});
  list->push_back({"_adaptive_avg_pool2d_backward", TT_FLOATING, AdaptivePool<true>});
}

}  // namespace telensor::cpu::TT_CPU_VARIANT
