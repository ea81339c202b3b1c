#include "kernels/elementwise.h"

#include <algorithm>

namespace telensor::rt {
namespace {

bool SameDense(const TensorMeta& first, const TensorMeta& other) {
  return other.sizes == first.sizes && other.contiguous();
}

}  // namespace

void ElementwiseShape::Apply(absl::Span<const TensorMeta* const> metas, tt_tensor* const* tensors) {
  const TensorMeta& first = *metas[0];
  const int n = static_cast<int>(metas.size());
  const int64_t numel = first.numel();
  int rank = 0;

  bool flat = first.contiguous();
  for (int k = 1; k < n && flat; ++k) flat = metas[k] == nullptr || metas[k]->numel() == 1 || SameDense(first, *metas[k]);
  if (flat) {
    // The usual case: one dimension, numbers standing still.
    rank = numel == 1 ? 0 : 1;
    sizes_[0] = numel;
    for (int k = 0; k < n; ++k) {
      strides_[k][0] = metas[k] != nullptr && (k == 0 || metas[k]->numel() != 1 || numel == 1) ? 1 : 0;
    }
  } else {
    // Dimensions by falling stride of the first tensor, so that the last one is its fastest.
    int order[kMaxRank];
    int dims = 0;
    for (int d = 0; d < first.rank(); ++d) {
      if (first.sizes[d] != 1) order[dims++] = d;
    }
    std::stable_sort(order, order + dims, [&](int a, int b) { return first.strides[a] > first.strides[b]; });
    for (int i = 0; i < dims; ++i) {
      int64_t step[kMaxOperands];
      for (int k = 0; k < n; ++k) {
        step[k] = 0;
        if (metas[k] == nullptr) continue;
        const int d = order[i] - (first.rank() - metas[k]->rank());
        if (d >= 0 && metas[k]->sizes[d] != 1) step[k] = metas[k]->strides[d];
      }
      const int64_t size = first.sizes[order[i]];
      // The dimension before joins this one where every tensor steps over it as if they were one.
      bool merge = rank > 0;
      for (int k = 0; k < n && merge; ++k) merge = strides_[k][rank - 1] == step[k] * size;
      if (merge) {
        sizes_[rank - 1] *= size;
      } else {
        sizes_[rank++] = size;
      }
      for (int k = 0; k < n; ++k) strides_[k][rank - 1] = step[k];
    }
  }
  for (int k = 0; k < n; ++k) {
    tt_tensor& t = *tensors[k];
    t.sizes = sizes_;
    t.strides = strides_[k];
    t.rank = rank;
    t.numel = numel;
    t.contiguous = rank == 0 || (rank == 1 && strides_[k][0] == 1);
  }
}

}  // namespace telensor::rt
