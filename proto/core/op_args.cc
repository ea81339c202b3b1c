#include "proto/core/op_args.h"

#include <algorithm>
#include <cctype>

#include "proto/core/meta_rules.h"

namespace telensor {
namespace {

// Keeps every product of sizes, every reach of strides and every view's offset far from overflow in the rules.
bool Sound(const TensorMeta& t) {
  constexpr int64_t kMostStride = int64_t{1} << 60, kMostNumel = int64_t{1} << 59, kMostReach = int64_t{1} << 61;
  int64_t numel = 1, reach = t.offset;
  for (int i = 0; i < t.rank(); ++i) {
    const int64_t size = t.sizes[i], stride = t.strides[i];
    int64_t span;
    if (size < 0 || stride < 0 || stride > kMostStride) return false;
    if (__builtin_mul_overflow(numel, size > 1 ? size : 1, &numel)) return false;
    if (__builtin_mul_overflow(size > 1 ? size - 1 : 0, stride, &span) || __builtin_add_overflow(reach, span, &reach)) {
      return false;
    }
  }
  return t.strides.size() == t.rank() && numel <= kMostNumel && t.offset >= 0 && reach <= kMostReach &&
         IsValid(t.dtype);
}

// A tensor's place may be empty where its parameter is optional, or takes a number and was given one.
absl::Status CheckAbsent(const OpArgs& call, int input) {
  const OpSchema& schema = *call.schema;
  int slot = input;
  if (schema.list_slot >= 0 && input >= schema.list_slot) {
    slot = std::max(static_cast<int>(schema.list_slot), input - call.list_size() + 1);
  }
  const Param& param = *schema.input_params[slot];
  if (param.optional) return absl::OkStatus();
  if (param.type == ParamType::kTensorOrScalar && call.scalars != nullptr && call.scalars[input].given()) {
    return absl::OkStatus();
  }
  return InvalidArgument(schema.base_name, "(): argument '", param.name, "' must be a Tensor");
}

bool IsNumberLike(const TensorMeta& t) { return t.rank() == 0 && t.device == 0; }

std::string DeviceTitle(DeviceIndex device) {
  return device == 0 ? "cpu" : absl::StrCat("device ", static_cast<int>(device));
}

// For tensors on several devices: the one that the op runs on.
absl::Status CommonDevice(const OpArgs& call, DeviceIndex* device) {
  const OpSchema& schema = *call.schema;
  // Copies cross devices; that is what they are for.
  if (schema.kernel != nullptr && std::string_view(schema.kernel) == "_copy") return absl::OkStatus();
  const MetaRule shape = schema.shape_rules[0].fn;
  const bool mixes = schema.elementwise || shape == rules::ShapeBroadcast || shape == rules::ShapeBroadcastGrad ||
                     shape == rules::ShapeGeluBackward;
  const TensorMeta* anchor = nullptr;
  for (int i = 0; i < call.num_inputs && anchor == nullptr; ++i) {
    const TensorMeta* t = call.inputs[i];
    if (t != nullptr && !IsNumberLike(*t)) anchor = t;
  }
  for (int i = 0; i < call.num_inputs; ++i) {
    const TensorMeta* t = call.inputs[i];
    if (t == nullptr || t->device == anchor->device || (mixes && IsNumberLike(*t))) continue;
    return InvalidArgument("Expected all tensors to be on the same device, but found at least two devices, ",
                           DeviceTitle(anchor->device), " and ", DeviceTitle(t->device), "!");
  }
  *device = anchor->device;
  return absl::OkStatus();
}

// Whether the inputs are what the schema takes, and the device of the outputs.
absl::Status CheckInputs(const OpArgs& call, DeviceIndex* device) {
  const OpSchema& schema = *call.schema;
  if (schema.list_slot >= 0 ? call.list_size() < 0 : call.num_inputs != schema.num_inputs) {
    return InvalidArgument(schema.base_name, "() takes ", static_cast<int>(schema.num_inputs), " tensors, not ",
                           call.num_inputs);
  }
  const TensorMeta* first = nullptr;
  bool several = false;
  for (int i = 0; i < call.num_inputs; ++i) {
    const TensorMeta* t = call.inputs[i];
    if (t == nullptr) {
      TD_RETURN_IF_ERROR(CheckAbsent(call, i));
      continue;
    }
    if (!Sound(*t))
      return InvalidArgument(schema.base_name, "(): a tensor of size ", t->sizes.ToString(), " is too large");
    if (first == nullptr) {
      first = t;
    } else {
      several |= t->device != first->device;
    }
  }
  if (first != nullptr) *device = first->device;
  if (several) TD_RETURN_IF_ERROR(CommonDevice(call, device));
  for (int i = 0; i < schema.num_attrs; ++i) {
    const Param& param = *schema.attr_params[i];
    const Value& v = *call.attrs[i];
    if (param.type == ParamType::kDevice && v.kind() == Value::Kind::kDevice) *device = static_cast<DeviceIndex>(v.i());
    if (param.length > 0 && !v.none() && v.ints().size() != static_cast<size_t>(param.length)) {
      return InvalidArgument(schema.base_name, "(): argument '", param.name, "' must have ",
                             static_cast<int>(param.length), " elements, not ", v.ints().size());
    }
  }
  return absl::OkStatus();
}

// No op has use for a longer list; the longest are split's sizes.
constexpr size_t kMaxInts = 1 << 20;

bool Fits(ParamType type, const Value& v) {
  switch (type) {
    case ParamType::kInt: return v.kind() == Value::Kind::kInt;
    case ParamType::kBool: return v.kind() == Value::Kind::kBool;
    case ParamType::kFloat: return v.kind() == Value::Kind::kFloat;
    case ParamType::kScalar: return v.is_number();
    case ParamType::kInts: return v.kind() == Value::Kind::kInts;
    case ParamType::kDType: return v.kind() == Value::Kind::kDType && IsValid(v.dtype());
    case ParamType::kDevice: return v.kind() == Value::Kind::kDevice && v.i() >= 0 && v.i() < 256;
    case ParamType::kString: return v.kind() == Value::Kind::kString;
    default: return false;
  }
}

}  // namespace

std::string OpSchema::BackwardName() const {
  std::string out;
  bool upper = true;
  for (const char* c = base_name; *c != '\0'; ++c) {
    if (*c == '_') {
      upper = true;
    } else {
      out += upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(*c))) : *c;
      upper = false;
    }
  }
  return out + "Backward0";
}

const OpSchema* OpTable::Find(std::string_view name) const {
  // Rows stand in the order of their names.
  const auto it = std::lower_bound(schemas_.begin(), schemas_.end(), name,
                                   [](const OpSchema& row, std::string_view n) { return row.name < n; });
  return it != schemas_.end() && it->name == name ? &*it : nullptr;
}

absl::InlinedVector<const Value*, 6> OpTable::WithDefaults(const OpSchema& schema, absl::Span<const Value> given) const {
  absl::InlinedVector<const Value*, 6> attrs;
  for (const Value& v : given) attrs.push_back(&v);
  for (int i = static_cast<int>(given.size()); i < schema.num_attrs; ++i) {
    attrs.push_back(&literal(schema.attr_params[i]->default_literal));
  }
  return attrs;
}

Scalar RuleArgs::Number(int k) const {
  const RuleArg& arg = rule_.args[k];
  if (arg.kind == RuleArg::kInput) {
    return call_.scalars != nullptr ? call_.scalars[call_.InputIndex(arg.index)] : Scalar();
  }
  return Attr(k).scalar();
}

absl::Status InferMeta(const OpArgs& call, OpMetas* out) {
  const OpSchema& schema = *call.schema;
  out->compute = DType::kNone;
  out->cast = 0;
  out->dynamic = out->identity = out->aliases = false;
  DeviceIndex device = 0;
  TD_RETURN_IF_ERROR(CheckInputs(call, &device));
  // A row without outputs still has its rules checked, on a result nobody keeps.
  const int count = std::max<int>(schema.num_outputs, 1);
  out->outputs.resize(count);
  for (int i = 0; i < count; ++i) {
    const Rule& shape = schema.shape_rules[schema.num_shape_rules > 1 ? i : 0];
    TD_RETURN_IF_ERROR(shape.fn(RuleArgs(call, shape), i, out));
    if (schema.returns_list) break;  // all its views at once, perhaps none
    const Rule& dtype = schema.dtype_rules[schema.num_dtype_rules > 1 ? i : 0];
    TD_RETURN_IF_ERROR(dtype.fn(RuleArgs(call, dtype), i, out));
  }
  for (TensorMeta& meta : out->outputs) meta.device = device;
  if (schema.returns_list) {
    for (TensorMeta& meta : out->outputs) meta.dtype = call.inputs[0]->dtype;
  }
  if (schema.num_outputs == 0) out->outputs.clear();
  return absl::OkStatus();
}

absl::Status CheckAttributes(const OpSchema& schema, const Value* const* attrs) {
  for (int i = 0; i < schema.num_attrs; ++i) {
    const Param& param = *schema.attr_params[i];
    const Value& v = *attrs[i];
    if (v.none() && param.optional) continue;
    if (!Fits(param.type, v)) {
      return InvalidArgument(schema.base_name, "(): argument '", param.name, "' is of the wrong kind");
    }
    if (v.ints().size() > kMaxInts)
      return InvalidArgument(schema.base_name, "(): argument '", param.name, "' is too long");
  }
  return absl::OkStatus();
}

}  // namespace telensor
