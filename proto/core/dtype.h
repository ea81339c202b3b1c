// DType: the element type of a tensor, and PyTorch's rules for mixing them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace telensor {

// The values travel on the wire and through the plug-in ABI: append, never renumber.
enum class DType : uint8_t {
  kNone = 0,
  kBool = 1,
  kUInt8 = 2,
  kInt8 = 3,
  kInt16 = 4,
  kInt32 = 5,
  kInt64 = 6,
  kFloat16 = 7,
  kBFloat16 = 8,
  kFloat32 = 9,
  kFloat64 = 10,
};
inline constexpr int kNumDTypes = 11;

inline bool IsValid(DType t) { return t > DType::kNone && static_cast<int>(t) < kNumDTypes; }
inline bool IsFloating(DType t) { return t >= DType::kFloat16; }
inline bool IsInteger(DType t) { return t >= DType::kUInt8 && t <= DType::kInt64; }

inline size_t ItemSize(DType t) {
  constexpr uint8_t kSizes[kNumDTypes] = {0, 1, 1, 1, 2, 4, 8, 2, 2, 4, 8};
  return kSizes[static_cast<int>(t)];
}

// "float32", as in `torch.float32`.
absl::string_view DTypeName(DType t);
// "Float", as PyTorch's error messages call it.
absl::string_view DTypeTitle(DType t);
// "unsigned char": what C++ calls the type, and some of PyTorch's messages do.
absl::string_view DTypeCppName(DType t);
// kNone for an unknown name.
DType DTypeFromName(absl::string_view name);

// The dtype of `a op b` for two tensors of at least one dimension.
DType PromoteTypes(DType a, DType b);

// PyTorch ranks an operand first by what it is, then by its dtype: a Python number or a 0-dim tensor
// changes the result's dtype only where it is of a higher category (bool < integer < floating).
class TypePromoter {
 public:
  void AddTensor(DType t, int rank) {
    DType& slot = rank > 0 ? dim_ : zero_dim_;
    slot = slot == DType::kNone ? t : PromoteTypes(slot, t);
  }
  // t is kBool, kInt64 or kFloat64: the kind of the number. A float becomes `default_float`.
  void AddNumber(DType t) { number_ = number_ == DType::kNone ? t : PromoteTypes(number_, t); }
  DType Result(DType default_float = DType::kFloat32) const;

 private:
  DType dim_ = DType::kNone;
  DType zero_dim_ = DType::kNone;
  DType number_ = DType::kNone;
};

}  // namespace telensor
