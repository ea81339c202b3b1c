// Fused optimizer steps: many parameters in one launch, each element by torch.optim's own sequence of operations.
#include <cmath>

#include "kernels/cuda/kernel.cuh"

namespace telensor::cuda {
namespace {

constexpr int kMostLists = 5;
constexpr int kMostTensors = 40;  // what a kernel's parameters have room for
constexpr int kPerThread = 4;

// Some tensors of every list, dense, cut into blocks of elements.
struct Batch {
  int count = 0;
  void* data[kMostLists][kMostTensors];
  int64_t sizes[kMostTensors];
  unsigned first_block[kMostTensors + 1] = {};
};

// step(lists' elements as T*) for every element.
template <typename T, typename Step>
__global__ void __launch_bounds__(kThreads) BatchKernel(const __grid_constant__ Batch batch, Step step) {
  int k = 0;
  while (k + 1 < batch.count && blockIdx.x >= batch.first_block[k + 1]) ++k;
  const int64_t begin = int64_t{blockIdx.x - batch.first_block[k]} * kThreads * kPerThread;
  for (int u = 0; u < kPerThread; ++u) {
    const int64_t i = begin + u * kThreads + threadIdx.x;
    if (i >= batch.sizes[k]) return;
    T* at[kMostLists];
    for (int l = 0; l < Step::kLists; ++l) at[l] = static_cast<T*>(batch.data[l][k]) + i;
    step.template Run<T>(at);
  }
}

template <typename T, typename Step>
struct StridedStep {
  Locators<kMostLists> where;
  T* data[kMostLists];
  Step step;
  __device__ void operator()(int64_t i) const {
    int64_t offsets[kMostLists];
    where.Find(i, offsets);
    T* at[kMostLists];
    for (int l = 0; l < Step::kLists; ++l) at[l] = data[l] + offsets[l];
    step.template Run<T>(at);
  }
};

// `groups` lists of n tensors stand one after the other among the inputs; the step uses the first kLists of them.
template <typename Step>
int RunSteps(tt_call* call, int64_t groups, const Step& step) {
  const int64_t n = call->num_inputs / groups;
  for (const int dtype : {TT_FLOAT32, TT_FLOAT64, TT_FLOAT16, TT_BFLOAT16}) {
    const int done = DispatchFloating(call, dtype, [&](auto tag) -> int {
      using T = typename decltype(tag)::type;
      Batch batch;
      const auto flush = [&]() -> int {
        if (batch.count == 0) return TT_OK;
        BatchKernel<T, Step><<<batch.first_block[batch.count], kThreads, 0, StreamOf(call)->stream>>>(batch, step);
        batch.count = 0;
        return Launched(call);
      };
      for (int64_t k = 0; k < n; ++k) {
        const tt_tensor& param = call->inputs[k];
        if (param.dtype != dtype || param.numel == 0) continue;
        bool dense = true;
        Dims<kMostLists> dims;
        for (int l = 0; l < Step::kLists; ++l) {
          const tt_tensor& t = call->inputs[l * n + k];
          if (t.dtype != dtype || !SameSizes(t, param)) {
            return Fail(call, TT_INVALID_ARGUMENT, "the tensors of an optimizer step do not belong together");
          }
          dense = dense && t.contiguous;
        }
        if (!dense || param.numel > (int64_t{1} << 38)) {
          for (int d = 0; d < param.rank; ++d) {
            int64_t strides[kMostLists] = {};
            for (int l = 0; l < Step::kLists; ++l) strides[l] = call->inputs[l * n + k].strides[d];
            dims.Add(param.sizes[d], strides);
          }
          StridedStep<T, Step> strided = {Locators<kMostLists>(dims), {}, step};
          for (int l = 0; l < Step::kLists; ++l) strided.data[l] = static_cast<T*>(call->inputs[l * n + k].data);
          if (const int code = ForEach(call, param.numel, strided); code != TT_OK) return code;
          continue;
        }
        const int64_t blocks = (param.numel + kThreads * kPerThread - 1) / (kThreads * kPerThread);
        const bool full = batch.count == kMostTensors || batch.first_block[batch.count] + blocks > INT32_MAX;
        if (full) {
          if (const int code = flush(); code != TT_OK) return code;
        }
        const int at = batch.count++;
        for (int l = 0; l < Step::kLists; ++l) batch.data[l][at] = call->inputs[l * n + k].data;
        batch.sizes[at] = param.numel;
        batch.first_block[at + 1] = batch.first_block[at] + static_cast<unsigned>(blocks);
      }
      return flush();
    });
    if (done != TT_OK) return done;
  }
  return TT_OK;
}

template <bool kMomentum>
struct SgdStep {
  static constexpr int kLists = kMomentum ? 3 : 2;
  double lr, momentum, dampening, decay;
  bool nesterov, maximize, first;
  template <typename T>
  __device__ void Run(T* const* at) const {
    using C = ComputeType<T>;
    C g = Widen(*at[1]);
    const C w = Widen(*at[0]);
    if (maximize) g = -g;
    if (decay != 0) g = g + static_cast<C>(decay) * w;
    if constexpr (kMomentum) {
      const C mu = static_cast<C>(momentum);
      const C v = first ? g : Widen(*at[2]) * mu + g * static_cast<C>(1 - dampening);
      *at[2] = static_cast<T>(v);
      g = nesterov ? g + mu * v : v;
    }
    *at[0] = static_cast<T>(w + static_cast<C>(-lr) * g);
  }
};

int Sgd(tt_call* call) {
  const int64_t groups = call->attrs[0].i;
  const double momentum = call->attrs[2].f;
  if (groups < (momentum != 0 ? 3 : 2))
    return Fail(call, TT_INVALID_ARGUMENT, "_sgd_step_: momentum needs its buffers");
  const auto run = [&](auto step) {
    step.lr = call->attrs[1].f;
    step.momentum = momentum;
    step.dampening = call->attrs[3].f;
    step.decay = call->attrs[4].f;
    step.nesterov = call->attrs[5].i != 0;
    step.maximize = call->attrs[6].i != 0;
    step.first = call->attrs[7].i != 0;
    return RunSteps(call, groups, step);
  };
  return momentum != 0 ? run(SgdStep<true>()) : run(SgdStep<false>());
}

template <bool kMost>
struct AdamStep {
  static constexpr int kLists = kMost ? 5 : 4;
  double lr, beta1, beta2, eps, decay, step_size, root;
  bool decoupled, maximize;
  template <typename T>
  __device__ void Run(T* const* at) const {
    using C = ComputeType<T>;
    C g = Widen(*at[1]);
    C value = Widen(*at[0]);
    if (maximize) g = -g;
    if (decoupled) {
      value = value * static_cast<C>(1 - lr * decay);
    } else if (decay != 0) {
      g = g + static_cast<C>(decay) * value;
    }
    const C first = Widen(*at[2]) * static_cast<C>(beta1) + static_cast<C>(1 - beta1) * g;
    const C second = Widen(*at[3]) * static_cast<C>(beta2) + static_cast<C>(1 - beta2) * g * g;
    *at[2] = static_cast<T>(first);
    *at[3] = static_cast<T>(second);
    C spread = second;
    if constexpr (kMost) {
      const C most = Widen(*at[4]);
      spread = most < second ? second : most;
      *at[4] = static_cast<T>(spread);
    }
    *at[0] = static_cast<T>(value + static_cast<C>(-step_size) *
                                        (first / (std::sqrt(spread) / static_cast<C>(root) + static_cast<C>(eps))));
  }
};

int Adam(tt_call* call) {
  const int64_t groups = call->attrs[0].i;
  const bool amsgrad = call->attrs[7].i != 0;
  const double count = static_cast<double>(call->attrs[9].i);
  if (groups < (amsgrad ? 5 : 4) || !(count >= 1)) {
    return Fail(call, TT_INVALID_ARGUMENT, "_adam_step_: a group or the step is missing");
  }
  const auto run = [&](auto step) {
    step.lr = call->attrs[1].f;
    step.beta1 = call->attrs[2].f;
    step.beta2 = call->attrs[3].f;
    step.eps = call->attrs[4].f;
    step.decay = call->attrs[5].f;
    step.decoupled = call->attrs[6].i != 0;
    step.maximize = call->attrs[8].i != 0;
    step.step_size = step.lr / (1 - std::pow(step.beta1, count));
    step.root = std::sqrt(1 - std::pow(step.beta2, count));
    return RunSteps(call, groups, step);
  };
  return amsgrad ? run(AdamStep<true>()) : run(AdamStep<false>());
}

}  // namespace

void AppendOptimKernels(KernelList* list) {
  list->push_back({"_sgd_step_", TT_FLOATING, OnDevice<Sgd>});
  list->push_back({"_adam_step_", TT_FLOATING, OnDevice<Adam>});
}

}  // namespace telensor::cuda
