// Gemm: row-major matrix products over OpenBLAS, for contiguous-enough operands; Dense: an operand made dense.
#pragma once

#include "kernels/cpu/kernel.h"

namespace telensor::cpu::TT_CPU_VARIANT {

// A matrix as BLAS takes it: one of its two strides is 1.
struct Matrix {
  const void* data;
  int64_t rows, columns;
  int64_t row_stride, column_stride;
  bool Fits() const {
    return (column_stride == 1 && row_stride >= std::max<int64_t>(1, columns)) ||
           (row_stride == 1 && column_stride >= std::max<int64_t>(1, rows));
  }
};

// c = alpha * a @ b + beta * c; c is dense row-major. float and double.
void Gemm(const Matrix& a, const Matrix& b, float* c, float alpha, float beta);
void Gemm(const Matrix& a, const Matrix& b, double* c, double alpha, double beta);

// Copies elements of any strides into dense row-major order, converting with static_cast through ComputeType.
template <typename To, typename From>
void CopyDense(const tt_tensor& t, To* out) {
  if (t.contiguous) {
    const From* in = static_cast<const From*>(t.data);
    ParallelFor(t.numel, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) out[i] = static_cast<To>(static_cast<ComputeType<From>>(in[i]));
    });
    return;
  }
  int64_t at[TT_MAX_RANK] = {};
  int64_t offset = 0;
  for (int64_t i = 0; i < t.numel; ++i) {
    out[i] = static_cast<To>(static_cast<ComputeType<From>>(static_cast<const From*>(t.data)[offset]));
    for (int d = t.rank - 1; d >= 0; --d) {
      offset += t.strides[d];
      if (++at[d] < t.sizes[d]) break;
      offset -= t.sizes[d] * t.strides[d];
      at[d] = 0;
    }
  }
}

// The tensor's elements, dense: itself or a copy in workspace; null where there is no memory.
template <typename T>
const T* Dense(tt_call* call, const tt_tensor& t) {
  if (t.contiguous || t.numel == 0) return static_cast<const T*>(t.data);
  T* copy = static_cast<T*>(call->workspace(call, static_cast<size_t>(t.numel) * sizeof(T)));
  if (copy != nullptr) CopyDense<T, T>(t, copy);
  return copy;
}

}  // namespace telensor::cpu::TT_CPU_VARIANT
