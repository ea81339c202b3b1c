// Arithmetic on shapes that shape rules and formulas share. Errors are PyTorch's.
#pragma once

#include <string_view>

#include "absl/types/span.h"
#include "proto/core/status.h"
#include "proto/core/tensor_meta.h"

namespace telensor {

// dim in [-rank, rank), negative counting from the end; a 0-dim tensor takes 0 and -1.
absl::StatusOr<int> WrapDim(int64_t dim, int rank);
// A bit for every dimension reduced; None or empty means all.
absl::StatusOr<uint32_t> ReducedDims(absl::Span<const int64_t> dims, int rank);
absl::StatusOr<Dims> BroadcastSizes(const Dims& a, const Dims& b);
// Whether `from` can be seen with the sizes `to`, by broadcasting it alone.
absl::Status CheckExpands(const Dims& from, const Dims& to);
// Sizes from a peer or a user: rank and element count bounded, none negative.
absl::StatusOr<Dims> CheckedSizes(const std::vector<int64_t>& sizes);
// `shape` with its -1 worked out for `numel` elements.
absl::StatusOr<Dims> InferSize(const std::vector<int64_t>& shape, int64_t numel);
// The strides by which a tensor can be seen with other sizes; false where only a copy can.
bool ViewStrides(const TensorMeta& from, const Dims& sizes, Dims* strides);

absl::StatusOr<Dims> FlattenSizes(const Dims& sizes, int64_t start_dim, int64_t end_dim);
absl::StatusOr<Dims> UnflattenSizes(const Dims& sizes, int64_t dim, const std::vector<int64_t>& parts);
absl::StatusOr<Dims> MatmulBatch(const Dims& a, const Dims& b);
absl::StatusOr<Dims> MatmulSizes(const Dims& a, const Dims& b);
// Whether an operand, named by `what`, has the sizes that the others say.
absl::Status CheckSizesAre(const char* op, const char* what, const Dims& sizes, const Dims& want);
// One output length of a convolution or pooling window.
int64_t ConvolvedSize(int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation);

// Sets a dense row-major output.
void SetContiguous(TensorMeta* meta, const Dims& sizes);

}  // namespace telensor
