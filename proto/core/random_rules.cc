// Dtype rules of random rows: which numbers a dtype can hold.
#include <cmath>
#include <limits>

#include "absl/strings/string_view.h"
#include "proto/core/meta_rules.h"

namespace telensor::rules {

#define TD_RULE(name) absl::Status name(const RuleArgs& args, int output, OpMetas* out)

namespace {

// Whether a dtype holds the integers in [low, high).
absl::Status CheckRange(int64_t low, int64_t high, DType dtype) {
  if (low >= high) {
    return InvalidArgument("random_ expects 'from' to be less than 'to', but got from=", low, " >= to=", high);
  }
  int64_t least = std::numeric_limits<int64_t>::min(), most = std::numeric_limits<int64_t>::max();
  switch (dtype) {
    case DType::kBool: least = 0, most = 1; break;
    case DType::kUInt8: least = 0, most = 255; break;
    case DType::kInt8: least = -128, most = 127; break;
    case DType::kInt16: least = -32768, most = 32767; break;
    case DType::kInt32: least = std::numeric_limits<int32_t>::min(), most = std::numeric_limits<int32_t>::max(); break;
    case DType::kFloat16: least = -65504, most = 65504; break;
    default: break;
  }
  if (low < least || low > most) return InvalidArgument("from is out of bounds for ", DTypeCppName(dtype));
  if (high - 1 > most) return InvalidArgument("to - 1 is out of bounds for ", DTypeCppName(dtype));
  return absl::OkStatus();
}

}  // namespace

// (low, high, dtype)
TD_RULE(DTypeRandint) {
  const DType dtype = args.Attr(2).none() ? DType::kInt64 : args.Attr(2).dtype();
  TD_RETURN_IF_ERROR(CheckRange(args.Int(0), args.Int(1), dtype));
  out->outputs[output].dtype = dtype;
  return absl::OkStatus();
}

// (self, low, high, dtype)
TD_RULE(DTypeRandintLike) {
  const DType dtype = args.Attr(3).none() ? args.Tensor(0)->dtype : args.Attr(3).dtype();
  TD_RETURN_IF_ERROR(CheckRange(args.Int(1), args.Int(2), dtype));
  out->outputs[output].dtype = dtype;
  return absl::OkStatus();
}

// (n, dtype)
TD_RULE(DTypeRandperm) {
  const int64_t n = args.Int(0);
  const DType dtype = args.Attr(1).none() ? DType::kInt64 : args.Attr(1).dtype();
  int64_t most = std::numeric_limits<int64_t>::max();  // how many integers from zero on it tells apart
  switch (dtype) {
    case DType::kBool: return NotImplemented(args.name(), dtype);
    case DType::kUInt8: most = 256; break;
    case DType::kInt8: most = 128; break;
    case DType::kInt16: most = 32768; break;
    case DType::kInt32: most = int64_t{1} << 31; break;
    case DType::kBFloat16: most = (1 << 8) + 1; break;
    case DType::kFloat16: most = (1 << 11) + 1; break;
    case DType::kFloat32: most = (1 << 24) + 1; break;
    case DType::kFloat64: most = (int64_t{1} << 53) + 1; break;
    default: break;
  }
  if (n > most && IsFloating(dtype)) {
    return InvalidArgument("n cannot be greater than ", most, " for ", DTypeTitle(dtype), " type.");
  }
  if (n > most) return InvalidArgument("value cannot be converted to type ", DTypeName(dtype), "_t without overflow");
  out->outputs[output].dtype = dtype;
  return absl::OkStatus();
}

// (self, from, to)
TD_RULE(DTypeUniform) {
  const DType dtype = args.Tensor(0)->dtype;
  if (!IsFloating(dtype)) return NotImplemented(absl::StrCat(args.name(), "_cpu"), dtype);
  const double from = args.Attr(1).f(), to = args.Attr(2).f();
  double most = std::numeric_limits<double>::max();
  switch (dtype) {
    case DType::kFloat16: most = 65504; break;
    case DType::kBFloat16: most = 3.3895313892515355e38; break;
    case DType::kFloat32: most = std::numeric_limits<float>::max(); break;
    default: break;
  }
  if (!(std::abs(from) <= most)) return InvalidArgument("from is out of bounds for ", DTypeCppName(dtype));
  if (!(std::abs(to) <= most)) return InvalidArgument("to is out of bounds for ", DTypeCppName(dtype));
  if (!(from <= to)) {
    return InvalidArgument("uniform_ expects to return a [from, to) range, but found from=", from, " > to=", to);
  }
  if (!(to - from <= most)) {
    return InvalidArgument("uniform_ expects to-from <= std::numeric_limits<", DTypeTitle(dtype),
                           ">::max(), but found to=", to, " and from=", from,
                           " which result in to-from to exceed the limit");
  }
  out->outputs[output].dtype = dtype;
  return absl::OkStatus();
}

}  // namespace telensor::rules
