// Loops over the elements of an elementwise call. A functor is inlined into four of them, no more: dense operands, a
// standing first or second operand, and any strides.
#pragma once

#include "kernels/cpu/kernel.h"

namespace telensor::cpu::TT_CPU_VARIANT {

// Walks all but the last dimension of up to N tensors; fn(pointers, count, steps) sees one row, in bytes.
template <int N, typename Fn>
void ForEachRow(const tt_tensor* const (&tensors)[N], const int64_t (&item)[N], const Fn& fn) {
  const tt_tensor& first = *tensors[0];
  if (first.numel == 0) return;
  int64_t steps[N];
  const int inner = first.rank - 1;
  const int64_t count = inner < 0 ? 1 : first.sizes[inner];
  for (int k = 0; k < N; ++k) steps[k] = inner < 0 ? 0 : tensors[k]->strides[inner] * item[k];
  const int64_t rows = first.numel / count;
  const auto run = [&](int64_t begin, int64_t end) {
    int64_t at[TT_MAX_RANK] = {};
    char* p[N];
    for (int k = 0; k < N; ++k) p[k] = static_cast<char*>(tensors[k]->data);
    int64_t rest = begin;
    for (int d = inner - 1; d >= 0; --d) {
      at[d] = rest % first.sizes[d];
      rest /= first.sizes[d];
      for (int k = 0; k < N; ++k) p[k] += at[d] * tensors[k]->strides[d] * item[k];
    }
    for (int64_t row = begin; row < end; ++row) {
      fn(p, count, steps);
      for (int d = inner - 1; d >= 0; --d) {
        if (++at[d] < first.sizes[d]) {
          for (int k = 0; k < N; ++k) p[k] += tensors[k]->strides[d] * item[k];
          break;
        }
        for (int k = 0; k < N; ++k) p[k] -= (first.sizes[d] - 1) * tensors[k]->strides[d] * item[k];
        at[d] = 0;
      }
    }
  };
  if (rows == 1 && count > kGrain) {
    // One long row is cut itself.
    ParallelFor(count, kGrain, [&](int64_t begin, int64_t end) {
      char* p[N];
      for (int k = 0; k < N; ++k) p[k] = static_cast<char*>(tensors[k]->data) + begin * steps[k];
      fn(p, end - begin, steps);
    });
  } else {
    ParallelFor(rows, std::max<int64_t>(1, kGrain / count), run);
  }
}

// 16-bit floats are computed in float, everything else in its own type.
template <typename Out, typename T, typename Fn>
void UnaryLoop(tt_call* call, const Fn& fn) {
  const tt_tensor* const tensors[2] = {&call->outputs[0], &call->inputs[0]};
  ForEachRow<2>(tensors, {sizeof(Out), sizeof(T)}, [&fn](char* const* p, int64_t n, const int64_t* step) {
    using C = ComputeType<T>;
    if (step[0] == sizeof(Out) && step[1] == sizeof(T)) {
      Out* out = reinterpret_cast<Out*>(p[0]);
      const T* in = reinterpret_cast<const T*>(p[1]);
      for (int64_t i = 0; i < n; ++i) out[i] = static_cast<Out>(fn(static_cast<C>(in[i])));
    } else {
      for (int64_t i = 0; i < n; ++i) {
        *reinterpret_cast<Out*>(p[0] + i * step[0]) =
            static_cast<Out>(fn(static_cast<C>(*reinterpret_cast<const T*>(p[1] + i * step[1]))));
      }
    }
  });
}

template <typename Out, typename T, typename Fn>
void BinaryLoop(tt_call* call, const Fn& fn) {
  const tt_tensor* const tensors[3] = {&call->outputs[0], &call->inputs[0], &call->inputs[1]};
  ForEachRow<3>(tensors, {sizeof(Out), sizeof(T), sizeof(T)}, [&fn](char* const* p, int64_t n, const int64_t* step) {
    using C = ComputeType<T>;
    Out* out = reinterpret_cast<Out*>(p[0]);
    const T* a = reinterpret_cast<const T*>(p[1]);
    const T* b = reinterpret_cast<const T*>(p[2]);
    const bool dense_a = step[1] == sizeof(T), dense_b = step[2] == sizeof(T);
    if (step[0] == sizeof(Out) && dense_a && dense_b) {
      for (int64_t i = 0; i < n; ++i) out[i] = static_cast<Out>(fn(static_cast<C>(a[i]), static_cast<C>(b[i])));
    } else if (step[0] == sizeof(Out) && dense_a && step[2] == 0) {
      const C y = static_cast<C>(*b);
      for (int64_t i = 0; i < n; ++i) out[i] = static_cast<Out>(fn(static_cast<C>(a[i]), y));
    } else if (step[0] == sizeof(Out) && step[1] == 0 && dense_b) {
      const C x = static_cast<C>(*a);
      for (int64_t i = 0; i < n; ++i) out[i] = static_cast<Out>(fn(x, static_cast<C>(b[i])));
    } else {
      for (int64_t i = 0; i < n; ++i) {
        *reinterpret_cast<Out*>(p[0] + i * step[0]) =
            static_cast<Out>(fn(static_cast<C>(*reinterpret_cast<const T*>(p[1] + i * step[1])),
                                static_cast<C>(*reinterpret_cast<const T*>(p[2] + i * step[2]))));
      }
    }
  });
}

}  // namespace telensor::cpu::TT_CPU_VARIANT
