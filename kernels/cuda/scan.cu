// Running sums along lines: cumsum, and _nonzero, which numbers the elements that are not zero.
//
// A scanner has Sum and Begin(line), whose result has Load(at) and Store(at, value, sum): `sum` is that of the line's
// elements up to `at`. The order of adding is fixed by the sizes and the device.
#include "kernels/cuda/block_sum.cuh"
#include "kernels/cuda/scan_plan.h"

namespace telensor::cuda {
namespace {

constexpr int kEach = 4;  // elements of a thread, of a block's tile

struct ScanShape {
  int64_t lines, length, parts, each;

  __device__ int64_t Lines(int64_t item) const { return item % lines; }
  __device__ int64_t From(int64_t item) const { return item / lines * each; }
  __device__ int64_t To(int64_t item) const { return min(length, (item / lines + 1) * each); }
};

// Item i is part i / lines of line i % lines; sums[i] is what it adds up to.
template <typename S>
struct SumColumn {
  S scan;
  ScanShape shape;
  typename S::Sum* sums;
  __device__ void operator()(int64_t item) const {
    const auto& line = scan.Begin(shape.Lines(item));
    const int64_t to = shape.To(item);
    typename S::Sum sum = 0;
    for (int64_t at = shape.From(item); at < to; ++at) sum += line.Load(at);
    sums[item] = sum;
  }
};
template <typename S>
__global__ void __launch_bounds__(kThreads)
    SumRowsKernel(const __grid_constant__ S scan, ScanShape shape, typename S::Sum* sums) {
  __shared__ typename S::Sum shared[33];
  for (int64_t item = blockIdx.x; item < shape.lines * shape.parts; item += gridDim.x) {
    const auto& line = scan.Begin(shape.Lines(item));
    const int64_t to = shape.To(item);
    typename S::Sum sum = 0;
    for (int64_t at = shape.From(item) + threadIdx.x; at < to; at += kThreads) sum += line.Load(at);
    sum = BlockSum(sum, shared);
    if (threadIdx.x == 0) sums[item] = sum;
  }
}

// `before` holds the sums of each line's parts up to each one; NULL where a line is one part.
template <typename S>
__device__ typename S::Sum SumBefore(const typename S::Sum* before, const ScanShape& shape, int64_t item) {
  return item < shape.lines ? typename S::Sum(0) : before[item - shape.lines];
}
template <typename S>
struct ScanColumn {
  S scan;
  ScanShape shape;
  const typename S::Sum* before;
  __device__ void operator()(int64_t item) const {
    const auto& line = scan.Begin(shape.Lines(item));
    const int64_t to = shape.To(item);
    typename S::Sum sum = SumBefore<S>(before, shape, item);
    for (int64_t at = shape.From(item); at < to; ++at) {
      const typename S::Sum value = line.Load(at);
      sum += value;
      line.Store(at, value, sum);
    }
  }
};
template <typename S>
__global__ void __launch_bounds__(kThreads)
    ScanRowsKernel(const __grid_constant__ S scan, ScanShape shape, const typename S::Sum* before) {
  using Sum = typename S::Sum;
  __shared__ Sum shared[kThreads / 32];
  for (int64_t item = blockIdx.x; item < shape.lines * shape.parts; item += gridDim.x) {
    const auto& line = scan.Begin(shape.Lines(item));
    const int64_t to = shape.To(item);
    Sum carried = SumBefore<S>(before, shape, item);
    for (int64_t tile = shape.From(item); tile < to; tile += kThreads * kEach) {
      const int64_t first = tile + int64_t{threadIdx.x} * kEach;
      Sum values[kEach], own = 0, all;
#pragma unroll
      for (int k = 0; k < kEach; ++k) {
        values[k] = first + k < to ? line.Load(first + k) : Sum(0);
        own += values[k];
      }
      Sum sum = carried + BlockPrefix(own, shared, &all);
#pragma unroll
      for (int k = 0; k < kEach; ++k) {
        sum += values[k];
        if (first + k < to) line.Store(first + k, values[k], sum);
      }
      carried += all;
    }
  }
}

// The sums of parts, made into the sums up to each part, in place.
template <typename A>
struct PartialSums {
  using Sum = A;
  struct Line {
    A* sums;
    int64_t lines;
    __device__ A Load(int64_t at) const { return sums[at * lines]; }
    __device__ void Store(int64_t at, A, A sum) const { sums[at * lines] = sum; }
  };
  A* sums;
  int64_t lines;
  __device__ Line Begin(int64_t line) const { return {sums + line, lines}; }
};

template <typename S>
int ScanRows(tt_call* call, const S& scan, const ScanShape& shape, const typename S::Sum* before) {
  const int64_t most = int64_t{ComputeUnits(call->device)} * 32, items = shape.lines * shape.parts;
  ScanRowsKernel<S><<<static_cast<unsigned>(items < most ? items : most), kThreads, 0, StreamOf(call)->stream>>>(
      scan, shape, before);
  return Launched(call);
}

template <typename S>
int Scan(tt_call* call, const S& scan, int64_t lines, int64_t length, bool lines_are_neighbours) {
  using Sum = typename S::Sum;
  if (lines == 0 || length == 0) return TT_OK;
  const ScanPlan plan = PlanScan(lines, length, lines_are_neighbours, ComputeUnits(call->device));
  const ScanShape shape = {lines, length, plan.parts, plan.each};
  const int64_t items = lines * plan.parts;
  Sum* sums = nullptr;
  int code = TT_OK;
  if (plan.parts > 1) {
    sums = static_cast<Sum*>(Workspace(call, items * static_cast<int64_t>(sizeof(Sum)), &code));
    if (sums == nullptr) return code;
    if (plan.columns) {
      code = ForEach(call, items, SumColumn<S>{scan, shape, sums});
    } else {
      // A part is long, so there are few of them.
      SumRowsKernel<S><<<static_cast<unsigned>(items), kThreads, 0, StreamOf(call)->stream>>>(scan, shape, sums);
      code = Launched(call);
    }
    if (code == TT_OK) {
      code = ScanRows(call, PartialSums<Sum>{sums, lines}, ScanShape{lines, plan.parts, 1, plan.parts}, nullptr);
    }
    if (code != TT_OK) return code;
  }
  return plan.columns ? ForEach(call, items, ScanColumn<S>{scan, shape, sums}) : ScanRows(call, scan, shape, sums);
}

// Running sums are held in doubles, or in unsigned integers because they wrap around.
template <typename T>
struct RunningSum {
  using Sum = std::conditional_t<kIsFloating<T>, double, uint64_t>;
  struct Line {
    const T* in;
    T* out;
    int64_t in_stride, out_stride;
    __device__ Sum Load(int64_t at) const { return static_cast<Sum>(Widen(in[at * in_stride])); }
    __device__ void Store(int64_t at, Sum, Sum sum) const { out[at * out_stride] = Narrow<T>(sum); }
  };
  Locators<2> starts;
  const T* in;
  T* out;
  int64_t in_stride, out_stride;
  __device__ Line Begin(int64_t line) const {
    int64_t at[2];
    starts.Find(line, at);
    return {in + at[0], out + at[1], in_stride, out_stride};
  }
};

int CumSum(tt_call* call) {
  const tt_tensor &in = call->inputs[0], &out = call->outputs[0];
  if (in.dtype != out.dtype) return Fail(call, TT_INTERNAL, "cumsum's input was not converted");
  if (out.numel == 0) return TT_OK;
  const int dim = WrapDim(call->attrs[0].i, out.rank);
  int64_t length = 1, in_stride = 1, out_stride = 1;
  Dims<2> starts;
  for (int d = 0; d < out.rank; ++d) {
    if (d != dim) {
      starts.Add(out.sizes[d], {in.strides[d], out.strides[d]});
      continue;
    }
    length = out.sizes[d];
    in_stride = in.strides[d];
    out_stride = out.strides[d];
  }
  const bool neighbours = starts.rank > 0 && starts.strides[0][starts.rank - 1] < in_stride;
  return DispatchAll(call, out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return Scan(call,
                RunningSum<T>{Locators<2>(starts), static_cast<const T*>(in.data), static_cast<T*>(out.data), in_stride,
                              out_stride},
                starts.numel(), length, neighbours);
  });
}

// The coordinates of the elements that are not zero. How many they are was counted before the output was made; where
// that no longer holds, the tensor was written to meanwhile.
template <typename U>
struct Coordinates {
  using Sum = int64_t;
  const U* in;
  Locator places;
  U counts;  // the bits that tell an element from zero: not the sign of a floating-point one
  int64_t* out;
  int64_t length, wanted;
  int64_t sizes[TT_MAX_RANK];
  int rank;
  Report* report;
  __device__ const Coordinates& Begin(int64_t) const { return *this; }
  __device__ int64_t Load(int64_t at) const { return (in[places(at)] & counts) != 0 ? 1 : 0; }
  __device__ void Store(int64_t at, int64_t value, int64_t sum) const {
    if (at == length - 1 && sum != wanted) ReportError(report, Report::kCount, sum, 0, wanted);
    if (value == 0 || sum > wanted) return;
    for (int d = rank - 1; d >= 0; --d) {
      out[(sum - 1) * rank + d] = at % sizes[d];
      at /= sizes[d];
    }
  }
};

int Nonzero(tt_call* call) {
  const tt_tensor &in = call->inputs[0], &out = call->outputs[0];
  const int64_t wanted = out.sizes[0];
  if (in.numel == 0) {
    return wanted == 0 ? static_cast<int>(TT_OK)
                       : Fail(call, TT_INVALID_ARGUMENT, "fewer elements are not zero than were counted");
  }
  return DispatchSize(ElementSize(in.dtype), [&](auto tag) {
    using U = typename decltype(tag)::type;
    U counts = static_cast<U>(~U(0));
    if (in.dtype >= TT_FLOAT16) counts = static_cast<U>(counts >> 1);
    Coordinates<U> scan = {static_cast<const U*>(in.data),
                           Locator(in),
                           counts,
                           static_cast<int64_t*>(out.data),
                           in.numel,
                           wanted,
                           {},
                           in.rank,
                           StreamOf(call)->report};
    for (int d = 0; d < in.rank; ++d) scan.sizes[d] = in.sizes[d];
    return Scan(call, scan, 1, in.numel, false);
  });
}

}  // namespace

void AppendScanKernels(KernelList* list) {
  list->push_back({"cumsum", TT_ALL_DTYPES, OnDevice<CumSum>});
  list->push_back({"_nonzero", TT_ALL_DTYPES, OnDevice<Nonzero>});
}

}  // namespace telensor::cuda
