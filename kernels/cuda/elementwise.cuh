// Elementwise kernels: a dense path that moves 16 bytes at a time, and one for any strides.
#pragma once

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/cuda/kernel.cuh"

namespace telensor::cuda {

template <typename T, int V>
struct alignas(sizeof(T) * V) Pack {
  T v[V];
};

// An operand: memory, or a number by value where `data` is NULL. Standing operands are one element for all.
template <typename T>
struct Operand {
  const T* data;
  T value;
  bool standing;

  __device__ __forceinline__ T One(int64_t offset) const { return data == nullptr ? value : data[offset]; }
  template <int V>
  __device__ __forceinline__ Pack<T, V> Many(int64_t i) const {
    if (!standing) return *reinterpret_cast<const Pack<T, V>*>(data + i);
    Pack<T, V> p;
    const T same = One(0);
#pragma unroll
    for (int k = 0; k < V; ++k) p.v[k] = same;
    return p;
  }
};

template <int V, typename Out, typename Fn, typename... In>
__device__ __forceinline__ void ApplyMany(const Fn& fn, Out* out, const Pack<In, V>&... in) {
  Pack<Out, V> result;
#pragma unroll
  for (int k = 0; k < V; ++k) result.v[k] = fn(in.v[k]...);
  *reinterpret_cast<Pack<Out, V>*>(out) = result;
}

template <int V, typename Out, typename Fn, typename... In>
__global__ void __launch_bounds__(kThreads) FlatKernel(int64_t n, Out* out, Fn fn, Operand<In>... in) {
  const int64_t i = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * V;
  if (i + V <= n) {
    ApplyMany<V, Out, Fn, In...>(fn, out + i, in.template Many<V>(i)...);
  } else {
    for (int64_t k = i; k < n; ++k) out[k] = fn(in.One(in.standing ? 0 : k)...);
  }
}

template <typename Out, typename Fn, typename... In, size_t... K>
__device__ __forceinline__ void ApplyOne(std::index_sequence<K...>, const Fn& fn, Out* out, const int64_t* offsets,
                                         const Operand<In>&... in) {
  out[offsets[0]] = fn(in.One(offsets[K + 1])...);
}

template <typename Out, typename Fn, typename... In>
__global__ void __launch_bounds__(kThreads)
    StridedKernel(uint32_t n, const __grid_constant__ Layout<1 + sizeof...(In)> layout, Out* out, Fn fn,
                  Operand<In>... in) {
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= n) return;
  int64_t offsets[1 + sizeof...(In)];
  layout.Find(i, offsets);
  ApplyOne<Out>(std::index_sequence_for<In...>(), fn, out, offsets, in...);
}

template <typename T>
Operand<T> MakeOperand(const tt_tensor& t) {
  Operand<T> o = {static_cast<const T*>(t.data), T(), t.on_host != 0};
  if (t.on_host != 0) {
    std::memcpy(static_cast<void*>(&o.value), t.data, sizeof(T));
    o.data = nullptr;
  }
  bool still = true;
  for (int d = 0; d < t.rank; ++d) still = still && (t.strides[d] == 0 || t.sizes[d] == 1);
  o.standing = o.standing || still;
  return o;
}

template <int V>
bool Aligned(const void* p, size_t size) {
  return reinterpret_cast<uintptr_t>(p) % (size * V) == 0;
}

template <typename Out, typename... In, typename Fn, size_t... K>
int ElementwiseImpl(tt_call* call, const Fn& fn, const tt_tensor& out, const tt_tensor* const* in,
                    std::index_sequence<K...>) {
  constexpr int N = 1 + sizeof...(In);
  // Packs of 16 bytes of the widest type, 8 elements at most.
  constexpr size_t kWidest = std::max({sizeof(Out), sizeof(In)...});
  constexpr int V = kWidest >= 8 ? 2 : kWidest == 4 ? 4 : 8;
  if (out.numel == 0) return TT_OK;
  const cudaStream_t stream = StreamOf(call)->stream;
  bool flat = out.contiguous && Aligned<V>(out.data, sizeof(Out));
  const bool fits[] = {
      (MakeOperand<In>(*in[K]).standing || (in[K]->contiguous && Aligned<V>(in[K]->data, sizeof(In))))...};
  for (bool fit : fits) flat = flat && fit;
  if (flat) {
    FlatKernel<V, Out, Fn, In...><<<Blocks(out.numel, int64_t{kThreads} * V), kThreads, 0, stream>>>(
        out.numel, static_cast<Out*>(out.data), fn, MakeOperand<In>(*in[K])...);
    return Launched(call);
  }
  Dims<N> dims;
  for (int d = 0; d < out.rank; ++d) {
    dims.Add(out.sizes[d], {out.strides[d], (in[K]->on_host ? 0 : in[K]->strides[d])...});
  }
  return ForEachPart<N>(dims, kMostPerLaunch, {}, [&](const Dims<N>& part, const int64_t(&offsets)[N]) {
    const auto moved = [](auto operand, int64_t offset) {
      if (operand.data != nullptr) operand.data += offset;
      return operand;
    };
    const int64_t n = part.numel();
    StridedKernel<Out, Fn, In...><<<Blocks(n), kThreads, 0, stream>>>(
        static_cast<uint32_t>(n), part.ForDevice(), static_cast<Out*>(out.data) + offsets[0], fn,
        moved(MakeOperand<In>(*in[K]), offsets[K + 1])...);
    return Launched(call);
  });
}

// out = fn(inputs...), all of the same sizes.
template <typename Out, typename... In, typename Fn>
int Elementwise(tt_call* call, const Fn& fn, const tt_tensor& out, const tt_tensor* const (&in)[sizeof...(In)]) {
  return ElementwiseImpl<Out, In...>(call, fn, out, in, std::index_sequence_for<In...>());
}

// A functor of compute types, on elements.
template <typename Out, typename T, typename F>
struct OnElements {
  F f;
  __device__ __forceinline__ Out operator()(T a) const { return static_cast<Out>(f(Widen(a))); }
  __device__ __forceinline__ Out operator()(T a, T b) const { return static_cast<Out>(f(Widen(a), Widen(b))); }
};

template <typename Out, typename T, typename F>
int Unary(tt_call* call, const F& f) {
  return Elementwise<Out, T>(call, OnElements<Out, T, F>{f}, call->outputs[0], {&call->inputs[0]});
}
template <typename Out, typename T, typename F>
int Binary(tt_call* call, const F& f) {
  return Elementwise<Out, T, T>(call, OnElements<Out, T, F>{f}, call->outputs[0], {&call->inputs[0], &call->inputs[1]});
}

}  // namespace telensor::cuda
