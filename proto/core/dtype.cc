#include "proto/core/dtype.h"

namespace telensor {
namespace {

struct Names {
  absl::string_view name;
  absl::string_view title;
};
constexpr Names kNames[kNumDTypes] = {
    {"none", "Undefined"}, {"bool", "Bool"},    {"uint8", "Byte"},   {"int8", "Char"},
    {"int16", "Short"},    {"int32", "Int"},    {"int64", "Long"},   {"float16", "Half"},
    {"bfloat16", "BFloat16"}, {"float32", "Float"}, {"float64", "Double"},
};

int Category(DType t) { return IsFloating(t) ? 3 : IsInteger(t) ? 2 : t == DType::kBool ? 1 : 0; }

// `low` wins over `high` only where it is of a higher category.
DType Combine(DType high, DType low) {
  if (high == DType::kNone) return low;
  if (low == DType::kNone) return high;
  return Category(low) > Category(high) ? PromoteTypes(high, low) : high;
}

}  // namespace

absl::string_view DTypeName(DType t) { return kNames[static_cast<int>(t) < kNumDTypes ? static_cast<int>(t) : 0].name; }
absl::string_view DTypeCppName(DType t) {
  static constexpr absl::string_view kNames[kNumDTypes] = {"none", "bool",      "unsigned char", "signed char", "short", "int",
                                                   "long", "c10::Half", "c10::BFloat16", "float",       "double"};
  return kNames[static_cast<int>(t)];
}

absl::string_view DTypeTitle(DType t) {
  return kNames[static_cast<int>(t) < kNumDTypes ? static_cast<int>(t) : 0].title;
}

DType DTypeFromName(absl::string_view name) {
  for (int i = 1; i < kNumDTypes; ++i) {
    if (kNames[i].name == name) return static_cast<DType>(i);
  }
  return DType::kNone;
}

DType PromoteTypes(DType a, DType b) {
  if (a == b) return a;
  if (a > b) return PromoteTypes(b, a);
  // From here a < b in the enum's order, which is by category, then by width.
  if (IsFloating(b)) {
    if (a == DType::kFloat16 && b == DType::kBFloat16) return DType::kFloat32;
    return b;
  }
  // No signed type of the same width holds every uint8.
  if (a == DType::kUInt8 && b == DType::kInt8) return DType::kInt16;
  return b;
}

DType TypePromoter::Result(DType default_float) const {
  DType number = number_ == DType::kFloat64 ? default_float : number_;
  return Combine(Combine(dim_, zero_dim_), number);
}

}  // namespace telensor
