// conv2d and its two gradients.
//
// float32 and bfloat16 run on oneDNN, in the layout that is fastest for the shape, with reorders inside the call;
// float16 as float32, rounded once. float64, and what oneDNN would only do by its reference code, unfolds the image
// into columns and multiplies matrices.
#include <cblas.h>

#include <climits>
#include <cstring>

#include "kernels/cpu/dense.h"
#include "kernels/cpu/dnnl_cache.h"
#include "kernels/cpu/families.h"

namespace telensor::cpu::TT_CPU_VARIANT {

namespace {

enum Direction : int64_t { kForward = 2, kInputGradient, kWeightGradient };  // 1 is matmul's, in the keys

// The words of a DnnlKey are the members of this, in order.
struct Shape {
  int64_t direction, dtype, batch, in, out, groups;
  int64_t height, width, kernel_h, kernel_w, out_h, out_w;
  int64_t stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
  int64_t has_bias;

  int64_t group_in() const { return in / groups; }
  int64_t group_out() const { return out / groups; }
  int64_t positions() const { return out_h * out_w; }
  int64_t taps() const { return group_in() * kernel_h * kernel_w; }
};
static_assert(sizeof(Shape) <= sizeof(DnnlKey));

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

// The rules have checked the sizes; here it is whether the libraries can count them.
int ReadShape(tt_call* call, Direction direction, const tt_value* attrs, const int64_t* input, const int64_t* weight,
              const int64_t* out, Shape* s) {
  *s = {};
  s->direction = direction;
  s->batch = input[0];
  s->in = input[1];
  s->height = input[2];
  s->width = input[3];
  s->out = weight[0];
  s->kernel_h = weight[2];
  s->kernel_w = weight[3];
  s->out_h = out[2];
  s->out_w = out[3];
  s->groups = attrs[3].i;
  constexpr int64_t kMost = INT_MAX;
  bool good = Pair(attrs[0], &s->stride_h, &s->stride_w) && Pair(attrs[1], &s->pad_h, &s->pad_w) &&
              Pair(attrs[2], &s->dilation_h, &s->dilation_w);
  good = good && s->groups > 0 && std::min({s->stride_h, s->stride_w, s->dilation_h, s->dilation_w}) > 0 &&
         std::min(s->pad_h, s->pad_w) >= 0 && std::min(s->kernel_h, s->kernel_w) > 0;
  good = good && std::max({s->stride_h, s->stride_w, s->dilation_h, s->dilation_w, s->pad_h, s->pad_w, s->kernel_h,
                           s->kernel_w, s->height, s->width, s->batch, s->in, s->out, s->out_h, s->out_w}) <= kMost;
  good = good && out[0] == s->batch && out[1] == s->out && s->out % s->groups == 0 && s->in % s->groups == 0 &&
         weight[1] == s->in / s->groups;
  const auto fits = [](int64_t size, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation, int64_t places) {
    const int64_t room = size + 2 * pad - dilation * (kernel - 1) - 1;
    return room >= 0 && room / stride + 1 == places;
  };
  good = good && fits(s->height, s->kernel_h, s->stride_h, s->pad_h, s->dilation_h, s->out_h) &&
         fits(s->width, s->kernel_w, s->stride_w, s->pad_w, s->dilation_w, s->out_w);
  return good ? TT_OK : Fail(call, TT_INVALID_ARGUMENT, "the sizes of a convolution do not fit");
}

// ---- oneDNN

using dnnl::memory;
using Tag = memory::format_tag;

// Plain rows of pixels beat blocks of 16 channels where there is nothing to gain from blocks: no window to reuse (a
// matrix product does it), or so few input channels that most of a block would be padding.
bool PlainLayout(const Shape& s) {
  if (s.groups != 1) return false;
  const bool one_tap = s.kernel_h * s.kernel_w == 1;
  if (one_tap && s.stride_h * s.stride_w == 1 && s.pad_h + s.pad_w == 0) return true;
  if (s.direction == kForward) return s.in == 1 && s.out >= 16 && s.kernel_h * s.kernel_w <= 16;
  return s.direction == kInputGradient && s.in < 4;
}

// The reference code is slower than columns by far.
bool IsReference(const char* implementation) { return std::strncmp(implementation, "ref", 3) == 0; }

void MakePlan(const DnnlKey& key, DnnlPlan* plan) {
  Shape s;
  std::memcpy(&s, key.data(), sizeof(s));
  const auto type = s.dtype == TT_BFLOAT16 ? memory::data_type::bf16 : memory::data_type::f32;
  const memory::dims src_sizes = {s.batch, s.in, s.height, s.width}, dst_sizes = {s.batch, s.out, s.out_h, s.out_w};
  memory::dims weight_sizes = {s.out, s.group_in(), s.kernel_h, s.kernel_w};
  if (s.groups > 1) weight_sizes = {s.groups, s.group_out(), s.group_in(), s.kernel_h, s.kernel_w};
  const memory::desc src(src_sizes, type, Tag::nchw), dst(dst_sizes, type, Tag::nchw);
  const memory::desc weight(weight_sizes, type, s.groups > 1 ? Tag::goihw : Tag::oihw), bias({s.out}, type, Tag::x);
  const memory::dims strides = {s.stride_h, s.stride_w}, pad = {s.pad_h, s.pad_w};
  const memory::dims dilation = {s.dilation_h - 1, s.dilation_w - 1};
  const Tag images = PlainLayout(s) ? Tag::nchw : Tag::any;
  const memory::desc any_src(src_sizes, type, images), any_dst(dst_sizes, type, images);
  const memory::desc any_weight(weight_sizes, type, Tag::any);
  const auto direct = dnnl::algorithm::convolution_direct;
  const auto& engine = DnnlEngine();
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  using Forward = dnnl::convolution_forward;
  const auto training = dnnl::prop_kind::forward_training;
  const auto forward_desc =
      s.has_bias
          ? Forward::desc(training, direct, any_src, any_weight, bias, any_dst, strides, dilation, pad, pad)
          : Forward::desc(training, direct, any_src, any_weight, any_dst, strides, dilation, pad, pad);
  const Forward::primitive_desc forward(forward_desc, attr, engine);
  if (s.direction == kForward) {
    if (IsReference(forward.impl_info_str())) return;
    plan->AddInput(DNNL_ARG_SRC, src, forward.src_desc());
    plan->AddInput(DNNL_ARG_WEIGHTS, weight, forward.weights_desc());
    plan->AddOutput(DNNL_ARG_DST, dst, forward.dst_desc());
    if (s.has_bias) plan->AddInput(DNNL_ARG_BIAS, bias, bias);
    plan->Finish(Forward(forward), forward.scratchpad_desc());
  } else if (s.direction == kInputGradient) {
    using Backward = dnnl::convolution_backward_data;
    const Backward::primitive_desc pd(
        Backward::desc(direct, any_src, any_weight, any_dst, strides, dilation, pad, pad), attr, engine, forward);
    if (IsReference(pd.impl_info_str())) return;
    plan->AddInput(DNNL_ARG_DIFF_DST, dst, pd.diff_dst_desc());
    plan->AddInput(DNNL_ARG_WEIGHTS, weight, pd.weights_desc());
    plan->AddOutput(DNNL_ARG_DIFF_SRC, src, pd.diff_src_desc());
    plan->Finish(Backward(pd), pd.scratchpad_desc());
  } else {
    using Backward = dnnl::convolution_backward_weights;
    const Backward::primitive_desc pd(
        Backward::desc(direct, any_src, any_weight, any_dst, strides, dilation, pad, pad), attr, engine, forward);
    if (IsReference(pd.impl_info_str())) return;
    plan->AddInput(DNNL_ARG_DIFF_DST, dst, pd.diff_dst_desc());
    plan->AddInput(DNNL_ARG_SRC, src, pd.src_desc());
    plan->AddOutput(DNNL_ARG_DIFF_WEIGHTS, weight, pd.diff_weights_desc());
    plan->Finish(Backward(pd), pd.scratchpad_desc());
  }
}

std::shared_ptr<const DnnlPlan> FindPlan(Shape s, int dtype) {
  s.dtype = dtype;
  DnnlKey key{};
  std::memcpy(key.data(), &s, sizeof(s));
  return FindDnnlPlan(key, MakePlan);
}

// ---- columns and products

void Gemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int64_t m, int64_t n, int64_t k, const float* a, int64_t lda,
          const float* b, int64_t ldb, float beta, float* c, int64_t ldc) {
  cblas_sgemm(CblasRowMajor, ta, tb, static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), 1.0f, a,
              static_cast<int>(lda), b, static_cast<int>(ldb), beta, c, static_cast<int>(ldc));
}
void Gemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int64_t m, int64_t n, int64_t k, const double* a, int64_t lda,
          const double* b, int64_t ldb, double beta, double* c, int64_t ldc) {
  cblas_dgemm(CblasRowMajor, ta, tb, static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), 1.0, a,
              static_cast<int>(lda), b, static_cast<int>(ldb), beta, c, static_cast<int>(ldc));
}

// The places [*first, *last) along one dimension whose tap `offset` (dilation applied, padding not) is inside.
void Inside(int64_t offset, int64_t pad, int64_t stride, int64_t size, int64_t places, int64_t* first, int64_t* last) {
  const int64_t start = pad - offset, end = size + start;
  *first = start <= 0 ? 0 : std::min(places, (start + stride - 1) / stride);
  *last = std::max(*first, end <= 0 ? 0 : std::min(places, (end + stride - 1) / stride));
}

// columns[tap][place] = image[channel][pixel under the tap], for the rows [y0, y1) of places; or its opposite, which
// adds into the image.
template <bool kUnfold, typename C, typename Image>
void Unfold(const Shape& s, Image* image, int64_t y0, int64_t y1, C* columns) {
  const int64_t block = (y1 - y0) * s.out_w;
  for (int64_t tap = 0; tap < s.taps(); ++tap) {
    const int64_t kx = tap % s.kernel_w, ky = tap / s.kernel_w % s.kernel_h, channel = tap / (s.kernel_w * s.kernel_h);
    Image* plane = image + channel * s.height * s.width;
    C* to = columns + tap * block;
    int64_t first, last;
    Inside(kx * s.dilation_w, s.pad_w, s.stride_w, s.width, s.out_w, &first, &last);
    for (int64_t y = y0; y < y1; ++y, to += s.out_w) {
      const int64_t row = y * s.stride_h - s.pad_h + ky * s.dilation_h;
      if (row < 0 || row >= s.height || first == last) {
        if (kUnfold) std::fill(to, to + s.out_w, C(0));
        continue;
      }
      Image* pixels = plane + (row * s.width + kx * s.dilation_w - s.pad_w);
      if constexpr (kUnfold) {
        std::fill(to, to + first, C(0));
        for (int64_t x = first; x < last; ++x) to[x] = pixels[x * s.stride_w];
        std::fill(to + last, to + s.out_w, C(0));
      } else {
        for (int64_t x = first; x < last; ++x) pixels[x * s.stride_w] += to[x];
      }
    }
  }
}

// Rows of places whose columns stay in the second-level cache until the product reads them.
int64_t RowsAtOnce(const Shape& s) {
  constexpr int64_t kElements = int64_t{1} << 17;
  return std::min(s.out_h, std::max<int64_t>(1, kElements / std::max<int64_t>(1, s.taps() * s.out_w)));
}

// `a` and `b` are the inputs of the call, dense; `result` its output.
template <typename C>
class ByColumns {
 public:
  ByColumns(const Shape& s, const C* a, const C* b, const C* bias, C* result)
      : s_(s), a_(a), b_(b), bias_(bias), result_(result), taps_(s.taps()), places_(s.positions()),
        channels_(s.group_out()), pixels_(s.group_in() * s.height * s.width), rows_(RowsAtOnce(s)) {}

  int Run(tt_call* call) {
    if (std::max({taps_, places_, channels_, rows_ * s_.out_w}) > INT_MAX) {
      return Fail(call, TT_UNIMPLEMENTED, "a convolution of this size is not supported");
    }
    // One image of one group is a task. Weight gradients are sums over them, so threads share one product at a time.
    const bool sums = s_.direction == kWeightGradient;
    const int64_t tasks = s_.batch * s_.groups, size = taps_ * rows_ * s_.out_w;
    const double work = static_cast<double>(channels_ * taps_) * static_cast<double>(places_ * tasks);
    const int threads = omp_in_parallel() ? 1 : omp_get_max_threads();
    const int64_t parts = !sums && tasks >= threads && work > 16 * kGrain ? threads : 1;
    C* columns = size < INT64_MAX / parts ? Workspace<C>(call, parts * size) : nullptr;
    if (columns == nullptr) return FailMemory(call);
    if (sums) std::fill(result_, result_ + s_.out * taps_, C(0));
    ParallelFor(parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) {
        for (int64_t task = tasks * part / parts; task < tasks * (part + 1) / parts; ++task) {
          Task(task, columns + part * size);
        }
      }
    });
    return TT_OK;
  }

 private:
  void Task(int64_t task, C* columns) const {
    const int64_t group = task % s_.groups;
    const int64_t in = task * pixels_, out = task * channels_ * places_, weight = group * channels_ * taps_;
    if (s_.direction == kInputGradient) std::fill(result_ + in, result_ + in + pixels_, C(0));
    for (int64_t y = 0; y < s_.out_h; y += rows_) {
      const int64_t end = std::min(s_.out_h, y + rows_), n = (end - y) * s_.out_w, at = out + y * s_.out_w;
      switch (s_.direction) {
        case kForward:
          for (int64_t o = 0; bias_ != nullptr && o < channels_; ++o) {
            std::fill_n(result_ + at + o * places_, n, bias_[group * channels_ + o]);
          }
          Unfold<true, C, const C>(s_, a_ + in, y, end, columns);
          Gemm(CblasNoTrans, CblasNoTrans, channels_, n, taps_, b_ + weight, taps_, columns, n, C(bias_ != nullptr),
               result_ + at, places_);
          break;
        case kInputGradient:
          Gemm(CblasTrans, CblasNoTrans, taps_, n, channels_, b_ + weight, taps_, a_ + at, places_, C(0), columns, n);
          Unfold<false, C, C>(s_, result_ + in, y, end, columns);
          break;
        default:
          Unfold<true, C, const C>(s_, b_ + in, y, end, columns);
          Gemm(CblasNoTrans, CblasTrans, channels_, taps_, n, a_ + at, places_, columns, n, C(1), result_ + weight,
               taps_);
      }
    }
  }

  const Shape& s_;
  const C *a_, *b_, *bias_;
  C* result_;
  int64_t taps_, places_, channels_, pixels_, rows_;
};

// ---- the kernels

// In C, which is T or what T is converted to.
template <typename T, typename C>
int Convolve(tt_call* call, const Shape& s, const std::shared_ptr<const DnnlPlan>& plan) {
  const C* a = Dense<T, C>(call, call->inputs[0]);
  const C* b = Dense<T, C>(call, call->inputs[1]);
  const C* bias = s.has_bias ? Dense<T, C>(call, call->inputs[2]) : nullptr;
  if (a == nullptr || b == nullptr || (s.has_bias && bias == nullptr)) return FailMemory(call);
  const tt_tensor& out = call->outputs[0];
  C* result = std::is_same_v<T, C> ? static_cast<C*>(out.data) : Workspace<C>(call, out.numel);
  if (result == nullptr) return FailMemory(call);
  int code;
  if (plan != nullptr && plan->supported()) {
    void* data[] = {const_cast<C*>(a), const_cast<C*>(b), result, const_cast<C*>(bias)};
    code = plan->Run(call, data);
  } else if constexpr (std::is_floating_point_v<C>) {
    code = ByColumns<C>(s, a, b, bias, result).Run(call);
  } else {
    code = Fail(call, TT_INTERNAL, "no plan for a convolution of 16-bit floats");
  }
  if constexpr (!std::is_same_v<T, C>) {
    if (code == TT_OK) StoreAll<T>(result, out.numel, static_cast<T*>(out.data));
  }
  return code;
}

// The bias, or zeros: what sums of nothing leave.
int FillBias(tt_call* call, const Shape& s) {
  const tt_tensor& out = call->outputs[0];
  std::memset(out.data, 0, static_cast<size_t>(out.numel * ElementSize(out.dtype)));
  if (!s.has_bias) return TT_OK;
  return DispatchFloating(call, out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* bias = Dense<T>(call, call->inputs[2]);
    if (bias == nullptr) return FailMemory(call);
    T* to = static_cast<T*>(out.data);
    for (int64_t i = 0; i < out.numel; ++i) to[i] = bias[i / s.positions() % s.out];
    return static_cast<int>(TT_OK);
  });
}

int RunConvolution(tt_call* call, const Shape& s) {
  const tt_tensor& out = call->outputs[0];
  if (out.numel == 0) return TT_OK;
  const int dtype = out.dtype;
  for (int i = 0; i < call->num_inputs; ++i) {
    if (Present(call->inputs[i]) && call->inputs[i].dtype != dtype) return Fail(call, TT_INTERNAL, "dtypes differ");
  }
  if (call->inputs[0].numel == 0 || call->inputs[1].numel == 0) return FillBias(call, s);
  switch (dtype) {
    case TT_FLOAT64: return Convolve<double, double>(call, s, nullptr);
    case TT_FLOAT32: return Convolve<float, float>(call, s, FindPlan(s, dtype));
    case TT_FLOAT16: return Convolve<Half, float>(call, s, FindPlan(s, TT_FLOAT32));
    case TT_BFLOAT16: {
      const auto plan = FindPlan(s, dtype);
      if (plan != nullptr && plan->supported()) return Convolve<BFloat16, BFloat16>(call, s, plan);
      return Convolve<BFloat16, float>(call, s, FindPlan(s, TT_FLOAT32));
    }
    default: return Fail(call, TT_INTERNAL, "unexpected dtype %d", dtype);
  }
}

// `image`, `weight` and `out` are those of the forward pass, or their gradients.
int Start(tt_call* call, Direction direction, const tt_value* attrs, const tt_tensor& image, const tt_tensor& weight,
          const tt_tensor& out) {
  if (image.rank != 4 || weight.rank != 4 || out.rank != 4) {
    return Fail(call, TT_INVALID_ARGUMENT, "a convolution takes tensors of 4 dimensions");
  }
  Shape s;
  const int code = ReadShape(call, direction, attrs, image.sizes, weight.sizes, out.sizes, &s);
  if (code != TT_OK) return code;
  s.has_bias = direction == kForward && Present(call->inputs[2]);
  return RunConvolution(call, s);
}

int Conv2d(tt_call* call) {
  return Start(call, kForward, call->attrs, call->inputs[0], call->inputs[1], call->outputs[0]);
}

int Conv2dInputBackward(tt_call* call) {
  return Start(call, kInputGradient, call->attrs + 1, call->outputs[0], call->inputs[1], call->inputs[0]);
}

int Conv2dWeightBackward(tt_call* call) {
  return Start(call, kWeightGradient, call->attrs + 1, call->inputs[1], call->outputs[0], call->inputs[0]);
}

}  // namespace

void AppendConvolutionKernels(KernelList* list) {
  list->push_back({"conv2d", TT_FLOATING, Conv2d});
  list->push_back({"_conv2d_input_backward", TT_FLOATING, Conv2dInputBackward});
  list->push_back({"_conv2d_weight_backward", TT_FLOATING, Conv2dWeightBackward});
}

}  // namespace telensor::cpu::TT_CPU_VARIANT
