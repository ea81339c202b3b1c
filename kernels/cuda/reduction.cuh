// Reductions by a functor, in a fixed order whatever the device does.
//
// A reducer has In, Acc, Identity(), Step(acc, value, index), Combine(acc, other) and Store(output, acc); `index` is
// the row-major number of the element among the reduced ones. Combine is associative up to rounding.
#pragma once

#include "kernels/cuda/kernel.cuh"

namespace telensor::cuda {

struct ReductionShape {
  Locator kept, reduced;
  int64_t outputs, count;
  ReductionPlan plan;
  bool kept_is_fast;
};

template <typename R>
__global__ void ReduceKernel(const __grid_constant__ ReductionShape shape, R reducer, const typename R::In* in,
                             typename R::Acc* partial) {
  using Acc = typename R::Acc;
  extern __shared__ double memory[];  // of doubles: aligned for every Acc
  Acc* shared = reinterpret_cast<Acc*>(memory);
  const int across = shape.plan.across, along = shape.plan.along;
  // Neighbouring threads take what is next to each other in memory.
  const int x = shape.kept_is_fast ? threadIdx.x % across : threadIdx.x / along;
  const int y = shape.kept_is_fast ? threadIdx.x / across : threadIdx.x % along;
  const int64_t output = int64_t{blockIdx.x} * across + x;
  Acc acc = reducer.Identity();
  if (output < shape.outputs) {
    const typename R::In* row = in + shape.kept(output);
    const int64_t begin = blockIdx.y * shape.plan.each, rest = shape.count - begin;
    const int64_t end = begin + (rest < shape.plan.each ? rest : shape.plan.each);
    int64_t i = begin + y;
    // Four loads on their way at once.
    for (; i + 3 * along < end; i += 4 * along) {
      typename R::In v[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) v[k] = row[shape.reduced(i + k * along)];
#pragma unroll
      for (int k = 0; k < 4; ++k) reducer.Step(acc, v[k], i + k * along);
    }
    for (; i < end; i += along) reducer.Step(acc, row[shape.reduced(i)], i);
  }
  shared[y * across + x] = acc;
  for (int half = along / 2; half > 0; half /= 2) {
    __syncthreads();
    if (y < half) reducer.Combine(shared[y * across + x], shared[(y + half) * across + x]);
  }
  if (y == 0 && output < shape.outputs) {
    const Acc result = shared[x];
    if (partial != nullptr) {
      partial[blockIdx.y * shape.outputs + output] = result;
    } else {
      reducer.Store(output, result);
    }
  }
}

// A warp combines an output's parts.
template <typename R>
__global__ void __launch_bounds__(kThreads)
    FinishKernel(int64_t outputs, int64_t splits, R reducer, const typename R::Acc* partial) {
  using Acc = typename R::Acc;
  extern __shared__ double memory[];  // of doubles: aligned for every Acc
  Acc* shared = reinterpret_cast<Acc*>(memory) + threadIdx.x / 32 * 32;
  const int64_t output = int64_t{blockIdx.x} * (kThreads / 32) + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  Acc acc = reducer.Identity();
  if (output < outputs) {
    for (int64_t s = lane; s < splits; s += 32) reducer.Combine(acc, partial[s * outputs + output]);
  }
  shared[lane] = acc;
  for (int half = 16; half > 0; half /= 2) {
    __syncwarp();
    if (lane < half) reducer.Combine(shared[lane], shared[lane + half]);
  }
  if (lane == 0 && output < outputs) reducer.Store(output, shared[0]);
}

template <typename R>
int Reduce(tt_call* call, const R& reducer, const tt_tensor& in, uint32_t mask, bool ordered) {
  const ReductionDims dims = SplitReduction(in, mask, ordered);
  const int64_t outputs = dims.kept.numel(), count = dims.reduced.numel();
  if (outputs == 0) return TT_OK;
  const auto last = [](const Dims<1>& d) {
    return d.rank > 0 ? Dims<1>::Magnitude(d.strides[0][d.rank - 1]) : INT64_MAX;
  };
  const bool kept_is_fast = outputs >= 8 && last(dims.kept) < last(dims.reduced);
  const ReductionPlan plan = PlanReduction(outputs, count, kept_is_fast, ComputeUnits(call->device));
  const ReductionShape shape = {Locator(dims.kept), Locator(dims.reduced), outputs, count, plan, kept_is_fast};
  using Acc = typename R::Acc;
  const cudaStream_t stream = StreamOf(call)->stream;
  const int64_t blocks = (outputs + plan.across - 1) / plan.across;
  if (blocks > INT32_MAX) return Fail(call, TT_UNIMPLEMENTED, "a reduction to more than 2^31 blocks of outputs");
  Acc* partial = nullptr;
  if (plan.splits > 1) {
    int code = TT_OK;
    partial = static_cast<Acc*>(Workspace(call, plan.splits * outputs * static_cast<int64_t>(sizeof(Acc)), &code));
    if (partial == nullptr) return code;
  }
  const unsigned threads = static_cast<unsigned>(plan.across * plan.along);
  ReduceKernel<R>
      <<<dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(plan.splits)), threads, threads * sizeof(Acc),
         stream>>>(shape, reducer, static_cast<const typename R::In*>(in.data), partial);
  int code = Launched(call);
  if (code != TT_OK || partial == nullptr) return code;
  FinishKernel<R><<<Blocks(outputs, kThreads / 32), kThreads, kThreads * sizeof(Acc), stream>>>(outputs, plan.splits,
                                                                                                reducer, partial);
  return Launched(call);
}

}  // namespace telensor::cuda
