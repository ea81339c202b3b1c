// TensorMeta: all that is known of a tensor without its data. Client and server compute it by the same rules.
#pragma once

#include <cstdint>

#include "proto/core/dims.h"
#include "proto/core/dtype.h"

namespace telensor {

// A device of one server: 0 is its CPU, 1.. its accelerators in the order OpenSession lists them.
using DeviceIndex = uint8_t;

struct TensorMeta {
  TensorMeta() {}  // see Dims()

  DType dtype = DType::kNone;
  DeviceIndex device = 0;
  Dims sizes;
  Dims strides;        // in elements
  int64_t offset = 0;  // in elements, from the start of the storage

  int rank() const { return sizes.size(); }
  int64_t numel() const {
    int64_t n = 1;
    for (int64_t s : sizes) n *= s;
    return n;
  }
  int64_t bytes() const { return numel() * static_cast<int64_t>(ItemSize(dtype)); }
  bool contiguous() const { return IsContiguous(sizes, strides); }
};

// How the gradient that backward leaves in a tensor is laid out: as a leaf is, where that has no holes; else row-major.
inline Dims GradientStrides(const TensorMeta& tensor, bool leaf = true) {
  return leaf && IsNonOverlappingAndDense(tensor.sizes, tensor.strides) ? tensor.strides : ContiguousStrides(tensor.sizes);
}

}  // namespace telensor
