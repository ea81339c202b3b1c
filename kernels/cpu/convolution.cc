// conv2d and its gradients: float32 by oneDNN, other types by columns and a matrix product.
#include <oneapi/dnnl/dnnl.hpp>

#include <list>
#include <map>
#include <mutex>

#include "kernels/cpu/families.h"
#include "kernels/cpu/gemm.h"

namespace telensor::cpu::TT_CPU_VARIANT {
namespace {

enum class Pass { kForward, kInput, kWeight };

// One convolution, whichever of its three passes is asked for.
struct Shape {
  int64_t n, c, h, w;      // input
  int64_t k, kh, kw;       // output channels, kernel
  int64_t oh, ow;
  int64_t sh, sw, ph, pw, dh, dw, groups;

  std::vector<int64_t> Key(Pass pass, bool bias, int threads) const {
    return {n, c, h, w, k, kh, kw, oh, ow, sh, sw, ph, pw, dh, dw, groups, static_cast<int64_t>(pass), bias, threads};
  }
};

Shape MakeShape(const int64_t* input, const int64_t* weight, const int64_t* output, const tt_value* attrs) {
  return {input[0], input[1], input[2], input[3], weight[0], weight[2], weight[3], output[2], output[3],
          attrs[0].ints[0], attrs[0].ints[1], attrs[1].ints[0], attrs[1].ints[1], attrs[2].ints[0], attrs[2].ints[1], attrs[3].i};
}

// A oneDNN primitive with the layouts it wants. Making one is slow, so the last ones used are kept.
struct Primitive {
  dnnl::primitive primitive;
  dnnl::memory::desc src, weights, dst, scratchpad;
};

dnnl::engine& Engine() {
  static auto* const engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

class PrimitiveCache {
 public:
  static PrimitiveCache& Get() {
    static auto* const cache = new PrimitiveCache();
    return *cache;
  }
  std::shared_ptr<const Primitive> Find(const Shape& s, Pass pass, bool bias) {
    const std::vector<int64_t> key = s.Key(pass, bias, omp_get_max_threads());
    std::lock_guard<std::mutex> lock(mu_);
    auto found = entries_.find(key);
    if (found != entries_.end()) {
      order_.splice(order_.begin(), order_, found->second.second);
      return found->second.first;
    }
    auto made = std::make_shared<const Primitive>(Make(s, pass, bias));
    order_.push_front(key);
    entries_[key] = {made, order_.begin()};
    if (entries_.size() > kMost) {
      entries_.erase(order_.back());
      order_.pop_back();
    }
    return made;
  }

 private:
  static constexpr size_t kMost = 256;

  static Primitive Make(const Shape& s, Pass pass, bool bias) {
    using M = dnnl::memory;
    using tag = M::format_tag;
    const auto any = [](M::dims dims) { return M::desc(dims, M::data_type::f32, tag::any); };
    const M::dims weight_dims = s.groups > 1 ? M::dims{s.groups, s.k / s.groups, s.c / s.groups, s.kh, s.kw}
                                             : M::dims{s.k, s.c, s.kh, s.kw};
    const M::desc src = any({s.n, s.c, s.h, s.w}), weights = any(weight_dims), dst = any({s.n, s.k, s.oh, s.ow});
    const M::desc bias_desc({s.k}, M::data_type::f32, tag::x);
    const M::dims strides{s.sh, s.sw}, dilations{s.dh - 1, s.dw - 1}, left{s.ph, s.pw};
    // What the last window reaches past the input may be less than the padding, or more: the output's size says.
    const M::dims right{(s.oh - 1) * s.sh + (s.kh - 1) * s.dh + 1 - s.h - s.ph, (s.ow - 1) * s.sw + (s.kw - 1) * s.dw + 1 - s.w - s.pw};
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const auto algorithm = dnnl::algorithm::convolution_direct;
    const auto forward_desc =
        bias ? dnnl::convolution_forward::desc(dnnl::prop_kind::forward_training, algorithm, src, weights, bias_desc, dst, strides, dilations, left, right)
             : dnnl::convolution_forward::desc(dnnl::prop_kind::forward_training, algorithm, src, weights, dst, strides, dilations, left, right);
    const dnnl::convolution_forward::primitive_desc forward(forward_desc, attr, Engine());
    if (pass == Pass::kForward) {
      return {dnnl::convolution_forward(forward), forward.src_desc(), forward.weights_desc(), forward.dst_desc(), forward.scratchpad_desc()};
    }
    if (pass == Pass::kInput) {
      const dnnl::convolution_backward_data::primitive_desc pd(
          dnnl::convolution_backward_data::desc(algorithm, src, weights, dst, strides, dilations, left, right), attr, Engine(), forward);
      return {dnnl::convolution_backward_data(pd), pd.diff_src_desc(), pd.weights_desc(), pd.diff_dst_desc(), pd.scratchpad_desc()};
    }
    const dnnl::convolution_backward_weights::primitive_desc pd(
        dnnl::convolution_backward_weights::desc(algorithm, src, weights, dst, strides, dilations, left, right), attr, Engine(), forward);
    return {dnnl::convolution_backward_weights(pd), pd.src_desc(), pd.diff_weights_desc(), pd.diff_dst_desc(), pd.scratchpad_desc()};
  }

  std::mutex mu_;
  std::list<std::vector<int64_t>> order_;
  std::map<std::vector<int64_t>, std::pair<std::shared_ptr<const Primitive>, std::list<std::vector<int64_t>>::iterator>> entries_;
};

// Runs one pass on plain row-major data; reorders to and from the layouts the primitive wants.
int RunDnnl(tt_call* call, const Shape& s, Pass pass, const float* src, const float* weights, const float* bias, const float* dst) {
  try {
    const std::shared_ptr<const Primitive> p = PrimitiveCache::Get().Find(s, pass, bias != nullptr);
    thread_local dnnl::stream stream(Engine());
    using M = dnnl::memory;
    using tag = M::format_tag;
    const M::desc plain_src({s.n, s.c, s.h, s.w}, M::data_type::f32, tag::nchw);
    const M::desc plain_dst({s.n, s.k, s.oh, s.ow}, M::data_type::f32, tag::nchw);
    const M::desc plain_weights = s.groups > 1 ? M::desc({s.groups, s.k / s.groups, s.c / s.groups, s.kh, s.kw}, M::data_type::f32, tag::goihw)
                                               : M::desc({s.k, s.c, s.kh, s.kw}, M::data_type::f32, tag::oihw);
    bool memory = true;
    // The data in the layout wanted; a result is reordered back afterwards.
    const auto operand = [&](const M::desc& plain, const M::desc& want, const float* data, bool result) {
      M given(plain, Engine(), const_cast<float*>(data));
      if (want == plain) return given;
      void* buffer = call->workspace(call, want.get_size());
      memory = memory && buffer != nullptr;
      M wanted(want, Engine(), buffer);
      if (!result && buffer != nullptr) dnnl::reorder(given, wanted).execute(stream, given, wanted);
      return wanted;
    };
    const M m_src = operand(plain_src, p->src, src, pass == Pass::kInput);
    const M m_weights = operand(plain_weights, p->weights, weights, pass == Pass::kWeight);
    const M m_dst = operand(plain_dst, p->dst, dst, pass == Pass::kForward);
    void* scratch = p->scratchpad.get_size() > 0 ? call->workspace(call, p->scratchpad.get_size()) : nullptr;
    if (!memory || (p->scratchpad.get_size() > 0 && scratch == nullptr)) return TT_OUT_OF_MEMORY;
    std::unordered_map<int, M> args = {{DNNL_ARG_SCRATCHPAD, M(p->scratchpad, Engine(), scratch)}};
    args[pass == Pass::kInput ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC] = m_src;
    args[pass == Pass::kWeight ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS] = m_weights;
    args[pass == Pass::kForward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST] = m_dst;
    if (bias != nullptr) args[DNNL_ARG_BIAS] = M(M::desc({s.k}, M::data_type::f32, tag::x), Engine(), const_cast<float*>(bias));
    p->primitive.execute(stream, args);
    const M* result = pass == Pass::kForward ? &m_dst : pass == Pass::kInput ? &m_src : &m_weights;
    const M::desc& plain = pass == Pass::kForward ? plain_dst : pass == Pass::kInput ? plain_src : plain_weights;
    const float* out = pass == Pass::kForward ? dst : pass == Pass::kInput ? src : weights;
    if (!(result->get_desc() == plain)) {
      M back(plain, Engine(), const_cast<float*>(out));
      M from = *result;
      dnnl::reorder(from, back).execute(stream, from, back);
    }
    stream.wait();
    return TT_OK;
  } catch (const dnnl::error& error) {
    return Fail(call, TT_INTERNAL, "oneDNN: %s", error.what());
  } catch (const std::exception& error) {
    return Fail(call, TT_OUT_OF_MEMORY, "convolution: %s", error.what());
  }
}

// The window contents of one image and group, a column for each output place; or their sums back into the image.
template <typename C, bool kBack>
void Columns(const Shape& s, C* image, C* columns) {
  const int64_t channels = s.c / s.groups;
  for (int64_t ch = 0; ch < channels; ++ch) {
    for (int64_t y = 0; y < s.kh; ++y) {
      for (int64_t x = 0; x < s.kw; ++x) {
        C* row = columns + ((ch * s.kh + y) * s.kw + x) * s.oh * s.ow;
        for (int64_t oy = 0; oy < s.oh; ++oy) {
          const int64_t iy = oy * s.sh - s.ph + y * s.dh;
          for (int64_t ox = 0; ox < s.ow; ++ox) {
            const int64_t ix = ox * s.sw - s.pw + x * s.dw;
            const bool inside = iy >= 0 && iy < s.h && ix >= 0 && ix < s.w;
            C* place = image + (ch * s.h + iy) * s.w + ix;
            if constexpr (kBack) {
              if (inside) *place += row[oy * s.ow + ox];
            } else {
              row[oy * s.ow + ox] = inside ? *place : C(0);
            }
          }
        }
      }
    }
  }
}

template <typename C>
int RunColumns(tt_call* call, const Shape& s, Pass pass, C* src, C* weights, const C* bias, C* dst) {
  const int64_t channels = s.c / s.groups, outputs = s.k / s.groups, rows = channels * s.kh * s.kw, places = s.oh * s.ow;
  C* columns = static_cast<C*>(call->workspace(call, std::max<size_t>(1, static_cast<size_t>(rows * places)) * sizeof(C)));
  if (columns == nullptr) return TT_OUT_OF_MEMORY;
  if (pass == Pass::kInput) std::fill_n(src, s.n * s.c * s.h * s.w, C(0));
  if (pass == Pass::kWeight) std::fill_n(weights, s.k * rows, C(0));
  for (int64_t i = 0; i < s.n; ++i) {
    for (int64_t g = 0; g < s.groups; ++g) {
      C* image = src + (i * s.c + g * channels) * s.h * s.w;
      C* w = weights + g * outputs * rows;
      C* out = dst + (i * s.k + g * outputs) * places;
      const Matrix weight{w, outputs, rows, rows, 1}, weight_t{w, rows, outputs, 1, rows};
      const Matrix grad{out, outputs, places, places, 1};
      if (pass == Pass::kInput) {
        Gemm(weight_t, grad, columns, C(1), C(0));
        Columns<C, true>(s, image, columns);
        continue;
      }
      Columns<C, false>(s, image, columns);
      if (pass == Pass::kWeight) {
        Gemm(grad, Matrix{columns, places, rows, 1, places}, w, C(1), C(1));
        continue;
      }
      if (bias != nullptr) {
        for (int64_t k = 0; k < outputs; ++k) std::fill_n(out + k * places, places, bias[g * outputs + k]);
      }
      Gemm(weight, Matrix{columns, rows, places, places, 1}, out, C(1), bias != nullptr ? C(1) : C(0));
    }
  }
  return TT_OK;
}

// Operands dense and in the type computed in; the result goes back to its own type.
template <typename T>
int Run(tt_call* call, const Shape& s, Pass pass, const tt_tensor& src, const tt_tensor& weights, const tt_tensor* bias, const tt_tensor& dst) {
  using C = ComputeType<T>;
  const tt_tensor& result = pass == Pass::kForward ? dst : pass == Pass::kInput ? src : weights;
  const auto dense = [&](const tt_tensor& t) -> C* {
    if (std::is_same_v<T, C> && t.contiguous) return static_cast<C*>(t.data);
    C* copy = static_cast<C*>(call->workspace(call, std::max<size_t>(1, static_cast<size_t>(t.numel)) * sizeof(C)));
    if (copy != nullptr && &t != &result) CopyDense<C, T>(t, copy);
    return copy;
  };
  C *x = dense(src), *w = dense(weights), *y = dense(dst);
  C* b = bias != nullptr ? dense(*bias) : nullptr;
  if (x == nullptr || w == nullptr || y == nullptr || (bias != nullptr && b == nullptr)) return TT_OUT_OF_MEMORY;
  int code;
  if constexpr (std::is_same_v<C, float>) {
    code = RunDnnl(call, s, pass, x, w, b, y);
  } else {
    code = RunColumns<C>(call, s, pass, x, w, b, y);
  }
  if (code == TT_OK && !std::is_same_v<T, C>) {
    const C* from = pass == Pass::kForward ? y : pass == Pass::kInput ? x : w;
    T* to = static_cast<T*>(result.data);
    for (int64_t i = 0; i < result.numel; ++i) to[i] = static_cast<T>(from[i]);
  }
  return code;
}

int Zero(const tt_tensor& out, tt_call* call) {
  return DispatchFloating(call, out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::fill_n(static_cast<T*>(out.data), out.numel, T());
    return static_cast<int>(TT_OK);
  });
}

int Conv2d(tt_call* call) {
  const tt_tensor &input = call->inputs[0], &weight = call->inputs[1], &bias = call->inputs[2], &out = call->outputs[0];
  if (out.numel == 0) return TT_OK;
  const Shape s = MakeShape(input.sizes, weight.sizes, out.sizes, call->attrs);
  return DispatchFloating(call, input.dtype, [&](auto tag) {
    return Run<typename decltype(tag)::type>(call, s, Pass::kForward, input, weight, bias.dtype != 0 ? &bias : nullptr, out);
  });
}

// A peer can name any input size: it must be one whose convolution has the gradient's size.
int CheckSizes(tt_call* call, const int64_t* input, const int64_t* weight, const int64_t* grad) {
  const tt_value* attrs = call->attrs + 1;
  bool ok = attrs[3].i > 0 && input[1] == weight[1] * attrs[3].i && grad[1] == weight[0] && grad[0] == input[0] && weight[0] % attrs[3].i == 0;
  for (int d = 0; d < 2 && ok; ++d) {
    const int64_t stride = attrs[0].ints[d], padding = attrs[1].ints[d], dilation = attrs[2].ints[d];
    constexpr int64_t kMost = int64_t{1} << 31;
    ok = stride > 0 && padding >= 0 && dilation > 0 && stride < kMost && padding < kMost && dilation < kMost &&
         weight[2 + d] > 0 && weight[2 + d] < kMost && input[2 + d] < kMost;
    ok = ok && (input[2 + d] + 2 * padding - dilation * (weight[2 + d] - 1) - 1) / stride + 1 == grad[2 + d];
  }
  return ok ? TT_OK : Fail(call, TT_INVALID_ARGUMENT, "convolution backward: the sizes do not belong together");
}

int InputBackward(tt_call* call) {
  const tt_tensor &grad = call->inputs[0], &weight = call->inputs[1], &out = call->outputs[0];
  if (grad.rank != 4 || weight.rank != 4 || out.rank != 4) return Fail(call, TT_INVALID_ARGUMENT, "convolution backward: 4-D tensors only");
  if (grad.numel == 0 || out.numel == 0) return Zero(out, call);
  if (const int code = CheckSizes(call, out.sizes, weight.sizes, grad.sizes); code != TT_OK) return code;
  const Shape s = MakeShape(out.sizes, weight.sizes, grad.sizes, call->attrs + 1);
  return DispatchFloating(call, grad.dtype, [&](auto tag) {
    return Run<typename decltype(tag)::type>(call, s, Pass::kInput, out, weight, nullptr, grad);
  });
}

int WeightBackward(tt_call* call) {
  const tt_tensor &grad = call->inputs[0], &input = call->inputs[1], &out = call->outputs[0];
  if (grad.rank != 4 || input.rank != 4 || out.rank != 4) return Fail(call, TT_INVALID_ARGUMENT, "convolution backward: 4-D tensors only");
  if (grad.numel == 0 || out.numel == 0) return Zero(out, call);
  if (const int code = CheckSizes(call, input.sizes, out.sizes, grad.sizes); code != TT_OK) return code;
  const Shape s = MakeShape(input.sizes, out.sizes, grad.sizes, call->attrs + 1);
  return DispatchFloating(call, grad.dtype, [&](auto tag) {
    return Run<typename decltype(tag)::type>(call, s, Pass::kWeight, input, out, nullptr, grad);
  });
}

}  // namespace

void AppendConvolutionKernels(KernelList* list) {
  list->push_back({"conv2d", TT_FLOATING, Conv2d});
  list->push_back({"_conv2d_input_backward", TT_FLOATING, InputBackward});
  list->push_back({"_conv2d_weight_backward", TT_FLOATING, WeightBackward});
}

}  // namespace telensor::cpu::TT_CPU_VARIANT
