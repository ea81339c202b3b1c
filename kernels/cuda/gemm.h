// Products of batches of matrices: cuBLAS for floats, a kernel of our own for integers.
#pragma once

#include "kernels/cuda/device.h"

namespace telensor::cuda {

// rows x columns, `batch` of them.
struct Matrix {
  const void* data;
  int64_t rows, columns;
  int64_t row_stride, column_stride, batch_stride;
};

// C = beta * C + alpha * A B, in dtype; C is dense. Floats compute in float32 (TF32 off) or wider.
struct Product {
  int dtype;
  int64_t batch;
  Matrix a, b;
  void* c;
  double alpha = 1, beta = 0;
  int64_t whole_alpha = 1, whole_beta = 0;  // for integers
};

int Multiply(tt_call* call, const Product& p);
// gemm_integer.cu
int MultiplyIntegers(tt_call* call, const Product& p);

}  // namespace telensor::cuda
