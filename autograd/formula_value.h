// FormulaValue: what an expression of a formula stands for while it is evaluated.
#pragma once

#include <vector>

#include "kernels/tensor.h"
#include "proto/core/value.h"

namespace telensor::rt {

struct FormulaValue {
  enum Kind { kNone, kTensor, kTensors, kMeta, kMetas, kValue } kind = kNone;

  Tensor tensor;
  std::vector<Tensor> tensors;                 // null where absent
  std::vector<const TensorMeta*> metas;        // one for kMeta
  Value value;

  FormulaValue() = default;
  FormulaValue(Tensor t) : kind(t ? kTensor : kNone), tensor(std::move(t)) {}
  FormulaValue(std::vector<Tensor> t) : kind(kTensors), tensors(std::move(t)) {}
  FormulaValue(Value v) : kind(v.none() ? kNone : kValue), value(std::move(v)) {}
  static FormulaValue Meta(const TensorMeta* meta) {
    FormulaValue v;
    v.kind = meta != nullptr ? kMeta : kNone;
    v.metas = {meta};
    return v;
  }
  static FormulaValue Metas(std::vector<const TensorMeta*> metas) {
    FormulaValue v;
    v.kind = kMetas;
    v.metas = std::move(metas);
    return v;
  }

  bool none() const { return kind == kNone; }
  // The metadata of a tensor, or of one of which only metadata is kept; null for anything else.
  const TensorMeta* meta() const {
    return kind == kTensor ? &tensor->meta() : kind == kMeta ? metas[0] : nullptr;
  }
};

}  // namespace telensor::rt
