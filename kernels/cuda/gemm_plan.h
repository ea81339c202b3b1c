// How a matrix of any strides is handed to cuBLAS, which knows columns only. Host logic without CUDA.
#pragma once

#include <cstdint>

namespace telensor::cuda {

// A row-major matrix is a column-major one transposed, so C = A B is computed as C' = B' A' with the operands swapped.
struct MatrixPlan {
  bool copy = false;        // neither dimension is dense: make it row-major first
  bool transposed = false;  // columns are dense, not rows
  int64_t ld = 1;           // distance of one row, or column, to the next
};

inline MatrixPlan PlanMatrix(int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride) {
  MatrixPlan p;
  // The stride of a dimension of one element says nothing.
  const bool one_row = rows <= 1, one_column = columns <= 1;
  if ((column_stride == 1 || one_column) && (row_stride >= (columns > 1 ? columns : 1) || one_row)) {
    p.ld = one_row ? (columns > 1 ? columns : 1) : row_stride;
    return p;
  }
  if ((row_stride == 1 || one_row) && (column_stride >= (rows > 1 ? rows : 1) || one_column)) {
    p.transposed = true;
    p.ld = one_column ? (rows > 1 ? rows : 1) : column_stride;
    return p;
  }
  p.copy = true;
  p.ld = columns > 1 ? columns : 1;
  return p;
}

}  // namespace telensor::cuda
