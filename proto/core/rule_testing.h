// For tests of rules: calls InferMeta as a client would, and writes what comes of it as one line of text.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/core/op_args.h"
#include "proto/core/shape_util.h"

namespace telensor::testing {

inline TensorMeta Meta(DType dtype, const Dims& sizes) {
  TensorMeta m;
  m.dtype = dtype;
  SetContiguous(&m, sizes);
  return m;
}
inline TensorMeta B(const Dims& sizes) { return Meta(DType::kBool, sizes); }
inline TensorMeta U(const Dims& sizes) { return Meta(DType::kUInt8, sizes); }
inline TensorMeta W(const Dims& sizes) { return Meta(DType::kInt32, sizes); }
inline TensorMeta I(const Dims& sizes) { return Meta(DType::kInt64, sizes); }
inline TensorMeta H(const Dims& sizes) { return Meta(DType::kFloat16, sizes); }
inline TensorMeta F(const Dims& sizes) { return Meta(DType::kFloat32, sizes); }
inline TensorMeta D(const Dims& sizes) { return Meta(DType::kFloat64, sizes); }
inline TensorMeta Strided(TensorMeta m, const Dims& strides, int64_t offset = 0) {
  m.strides = strides;
  m.offset = offset;
  return m;
}
inline TensorMeta On(DeviceIndex device, TensorMeta m) {
  m.device = device;
  return m;
}

struct NoneType {};
inline constexpr NoneType None;
using Ints = std::vector<int64_t>;
using List = std::vector<TensorMeta>;

// One argument of a call, in the order of the signature.
struct Arg {
  Arg(TensorMeta m) : kind(kTensor), list{std::move(m)} {}
  Arg(List l) : kind(kList), list(std::move(l)) {}
  Arg(Ints v) : kind(kValue), value(Value::Ints(std::move(v))) {}
  Arg(bool v) : kind(kValue), value(Value::Bool(v)) {}
  Arg(int v) : Arg(static_cast<int64_t>(v)) {}
  Arg(int64_t v) : kind(kValue), value(Value::Int(v)) {}
  Arg(double v) : kind(kValue), value(Value::Float(v)) {}
  Arg(const char* v) : kind(kValue), value(Value::String(v)) {}
  Arg(DType v) : kind(kValue), value(Value::Type(v)) {}
  Arg(NoneType) : kind(kValue) {}

  enum { kTensor, kList, kValue } kind;
  List list;
  Value value;
};
using Args = std::vector<Arg>;

inline absl::StatusOr<OpMetas> Infer(const char* name, const Args& args) {
  const OpSchema* schema = OpTable::Get().Find(name);
  if (schema == nullptr) return absl::NotFoundError(name);
  std::vector<const TensorMeta*> inputs;
  std::vector<Scalar> scalars;
  std::vector<Value> own;
  own.reserve(args.size());
  std::vector<const Value*> attrs;
  for (int i = 0; i < schema->num_params; ++i) {
    const Param& param = schema->params[i];
    const bool given = i < static_cast<int>(args.size());
    if (IsTensorType(param.type)) {
      if (given && args[i].kind == Arg::kList) {
        // In a list, a meta without a dtype stands for None.
        for (const TensorMeta& m : args[i].list) inputs.push_back(m.dtype == DType::kNone ? nullptr : &m);
        scalars.resize(inputs.size());
        continue;
      }
      if (param.type == ParamType::kTensorList) continue;  // an empty one
      inputs.push_back(given && args[i].kind == Arg::kTensor ? &args[i].list[0] : nullptr);
      scalars.push_back(given && args[i].kind == Arg::kValue ? args[i].value.scalar() : Scalar());
    } else if (given) {
      Value v = args[i].value;
      // As the bindings do: one number for several, an integer for a float.
      if (param.type == ParamType::kInts && v.is_number()) v = Value::Ints(Ints(std::max<int>(param.length, 1), v.i()));
      if (param.type == ParamType::kFloat && v.is_number()) v = Value::Float(v.f());
      own.push_back(std::move(v));
      attrs.push_back(&own.back());
    } else {
      if (param.default_literal < 0) return absl::InternalError(absl::StrCat(name, ": too few arguments"));
      attrs.push_back(&OpTable::Get().literal(param.default_literal));
    }
  }
  OpArgs call;
  call.schema = schema;
  call.inputs = inputs.data();
  call.scalars = scalars.data();
  call.num_inputs = static_cast<int>(inputs.size());
  call.attrs = attrs.data();
  TD_RETURN_IF_ERROR(CheckAttributes(*schema, attrs.data()));
  OpMetas out;
  TD_RETURN_IF_ERROR(InferMeta(call, &out));
  return out;
}

inline std::string ToText(const TensorMeta& m) {
  std::string text = absl::StrCat(std::string(DTypeName(m.dtype)), m.sizes.ToString());
  if (m.strides != ContiguousStrides(m.sizes)) absl::StrAppend(&text, " by ", m.strides.ToString());
  if (m.offset != 0) absl::StrAppend(&text, " at ", m.offset);
  return text;
}

// "float32[2, 3]", with " by [1, 2]" where strides are not row-major, " at 4" where there is an offset; several
// results are joined by "; ". Or "RuntimeError: ..." or "IndexError: ...", as Python would see it.
inline std::string Result(const char* name, const Args& args) {
  const absl::StatusOr<OpMetas> metas = Infer(name, args);
  if (!metas.ok()) {
    return absl::StrCat(absl::IsOutOfRange(metas.status()) ? "IndexError: " : "RuntimeError: ",
                        metas.status().message());
  }
  std::string text;
  for (const TensorMeta& m : metas->outputs) absl::StrAppend(&text, text.empty() ? "" : "; ", ToText(m));
  return text;
}

struct Case {
  const char* op;
  Args args;
  const char* want;
};

}  // namespace telensor::testing
