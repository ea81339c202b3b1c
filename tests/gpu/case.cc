#include "tests/gpu/case.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace telensor::conformance {
namespace {

const char* Word(Layout l) {
  return l == Layout::kDense        ? "dense"
         : l == Layout::kTransposed ? "transposed"
         : l == Layout::kStepped    ? "stepped"
                                    : "expanded";
}

DType TypeNamed(const std::string& word, DType under_test) {
  if (word == "T") return under_test;
  if (word == "b") return DType::kBool;
  if (word == "u8") return DType::kUInt8;
  if (word == "i8") return DType::kInt8;
  if (word == "i16") return DType::kInt16;
  if (word == "i32") return DType::kInt32;
  if (word == "i64") return DType::kInt64;
  if (word == "f16") return DType::kFloat16;
  if (word == "bf16") return DType::kBFloat16;
  if (word == "f32" || word == "float32") return DType::kFloat32;
  if (word == "f64" || word == "float64") return DType::kFloat64;
  // The type sums and statistics of the one under test have.
  if (word == "A") return under_test == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  return DType::kNone;
}

// Another dtype of the same kind; narrower where there is one, so that reading it as `t` reads beyond its end.
DType Another(DType t) {
  switch (t) {
    case DType::kBool: return DType::kInt64;
    case DType::kUInt8: return DType::kInt16;
    case DType::kInt8: return DType::kUInt8;
    case DType::kInt16: return DType::kInt8;
    case DType::kInt32: return DType::kInt16;
    case DType::kInt64: return DType::kInt32;
    case DType::kFloat16: return DType::kBFloat16;
    case DType::kBFloat16: return DType::kFloat32;
    case DType::kFloat32: return DType::kFloat16;
    default: return DType::kFloat32;
  }
}

constexpr int64_t kMostElements = 1000000;

bool Floating(DType t) { return t >= DType::kFloat16; }

// Several sizes that stay different, equal where they were equal, and 1 where they were 1.
int64_t Large(int64_t size) { return size <= 1 ? size : size * 13 + size % 3; }

}  // namespace

std::string Describe(const Variation& v) {
  std::string s = Word(v.layout);
  if (v.sizes == Sizes::kLarge) s += " large";
  if (v.sizes == Sizes::kEmpty) s += " empty";
  if (v.special) s += " special";
  if (v.in_place) s += " in-place";
  if (v.mixed) s += " mixed";
  return s;
}

HostTensor* Case::Dense(const TensorMeta& meta) {
  auto t = std::make_unique<HostTensor>();
  t->meta = meta;
  t->meta.offset = 0;
  int64_t last = 0;
  for (int d = 0; d < meta.rank(); ++d) last += meta.sizes[d] > 0 ? (meta.sizes[d] - 1) * meta.strides[d] : 0;
  t->bytes.assign(static_cast<size_t>((last + 1) * static_cast<int64_t>(ItemSize(meta.dtype))),
                  static_cast<char>(0x5a));
  tensors_.push_back(std::move(t));
  return tensors_.back().get();
}

HostTensor* Case::Converted(const HostTensor& from, DType dtype) {
  TensorMeta meta = from.meta;
  meta.dtype = dtype;
  meta.strides = ContiguousStrides(meta.sizes);
  // The layout stays what is tested: a conversion keeps the strides where nothing overlaps.
  const bool keep = from.meta.offset == 0 && IsNonOverlappingAndDense(from.meta.sizes, from.meta.strides);
  if (keep) meta.strides = from.meta.strides;
  const std::vector<double> values = Elements(from);
  HostTensor* t = Dense(meta);
  const int64_t size = static_cast<int64_t>(ItemSize(dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    int64_t rest = static_cast<int64_t>(i), at = 0;
    for (int d = meta.rank() - 1; d >= 0; --d) {
      at += rest % meta.sizes[d] * meta.strides[d];
      rest /= meta.sizes[d];
    }
    double v = values[i];
    if (!Floating(dtype)) v = std::isfinite(v) ? std::min(std::max(v, -9e18), 9e18) : 0;
    StoreElement(dtype, v, t->bytes.data() + at * size);
  }
  return t;
}

// A step of a linear congruential generator, its high half scrambled.
uint32_t Case::Random() {
  random_ = random_ * 6364136223846793005u + 1442695040888963407u;
  const uint32_t high = static_cast<uint32_t>(random_ >> 32);
  return high ^ (high >> 15);
}

HostTensor* Case::NewTensor(const TensorSpec& spec) {
  auto t = std::make_unique<HostTensor>();
  TensorMeta& m = t->meta;
  m.dtype = TypeNamed(spec.type, dtype_);
  if (variation_.mixed && !tensors_.empty() && spec.type == "T") m.dtype = Another(dtype_);
  if (m.dtype == DType::kNone) {
    tensors_.push_back(std::move(t));
    return tensors_.back().get();
  }
  std::vector<int64_t> sizes = spec.sizes;
  for (int64_t& s : sizes) s = variation_.sizes == Sizes::kLarge ? Large(s) : s;
  if (variation_.sizes == Sizes::kEmpty && !sizes.empty()) sizes[0] = 0;
  m.sizes = Dims(sizes);
  m.strides = ContiguousStrides(m.sizes);
  const int r = m.rank();
  int64_t elements = m.numel();
  if (variation_.layout == Layout::kTransposed && r >= 2) {
    int64_t step = 1;
    for (int d = 0; d < r; ++d) {
      m.strides[d] = step;
      step *= m.sizes[d];
    }
  } else if (variation_.layout == Layout::kStepped && r >= 1) {
    for (int d = 0; d < r; ++d) m.strides[d] *= 2;
    m.offset = 1;
    elements = elements * 2 + 1;
  } else if (variation_.layout == Layout::kExpanded && r >= 1) {
    m.strides[0] = 0;
    elements = m.sizes[0] > 0 ? elements / m.sizes[0] : 0;
  }
  if (spec.transposed && r == 2) {
    std::swap(m.sizes[0], m.sizes[1]);
    std::swap(m.strides[0], m.strides[1]);
  }
  // A call too large to be worth its time is dropped by Infer; its data is not made.
  elements_ += elements;
  if (elements_ > kMostElements) elements = 0;
  const int64_t size = static_cast<int64_t>(ItemSize(m.dtype));
  t->bytes.resize(static_cast<size_t>(std::max<int64_t>(elements, 1) * size));
  for (int64_t i = 0; i < std::max<int64_t>(elements, 1); ++i) {
    const double u = static_cast<double>(Random()) * 0x1p-32;
    double v = 0;
    switch (spec.range) {
      case TensorSpec::kAny:
        v = Floating(m.dtype)          ? u * 4 - 2
            : m.dtype == DType::kBool  ? u > 0.5
            : m.dtype == DType::kUInt8 ? std::floor(u * 10)
                                       : std::floor(u * 19) - 9;
        break;
      case TensorSpec::kPositive: v = Floating(m.dtype) ? 0.25 + u * 3 : 1 + std::floor(u * 7); break;
      case TensorSpec::kWithinOne:
        v = Floating(m.dtype) ? u * 1.8 - 0.9 : std::floor(u * 3) - (m.dtype == DType::kUInt8 ? 0 : 1);
        break;
      case TensorSpec::kWithinUnit: v = Floating(m.dtype) ? 0.05 + u * 0.9 : u > 0.5; break;
      case TensorSpec::kBelow: v = std::floor(u * static_cast<double>(spec.limit)); break;
      case TensorSpec::kEqual: v = static_cast<double>(spec.limit); break;
    }
    if (variation_.special && spec.range == TensorSpec::kAny) {
      constexpr double inf = std::numeric_limits<double>::infinity();
      const double floats[] = {inf, -inf, std::nan(""), 0.0, -0.0, 1.0, -1.0, 0.5, 1e30, -1e30, 1e-30, 3.5, 2.5};
      if (Floating(m.dtype)) v = floats[Random() % 13];
    }
    StoreElement(m.dtype, v, t->bytes.data() + i * size);
    if (variation_.special && spec.range == TensorSpec::kAny && !Floating(m.dtype) && m.dtype != DType::kBool &&
        Random() % 2 == 0) {
      // The smallest and the largest of the dtype.
      const bool most = Random() % 2 == 0, is_signed = m.dtype != DType::kUInt8;
      for (int64_t b = 0; b < size; ++b) {
        const bool top = b == size - 1;
        t->bytes[static_cast<size_t>(i * size + b)] =
            static_cast<char>(most ? (top && is_signed ? 0x7f : 0xff) : (top && is_signed ? 0x80 : 0));
      }
    }
  }
  tensors_.push_back(std::move(t));
  return tensors_.back().get();
}

bool Case::BindOne(const Param& param, const Argument& a, std::string* error) {
  const auto wrong = [&] {
    *error = std::string("argument '") + param.name + "' has the wrong kind";
    return false;
  };
  const size_t slot = static_cast<size_t>(param.slot);
  if (IsTensorType(param.type)) {
    std::vector<CallInput>& list = inputs_[slot];
    const auto add = [&](const Argument& one) {
      CallInput in;
      if (one.kind == Argument::kTensor) in.tensor = NewTensor(one.tensor);
      list.push_back(in);
      return one.kind != Argument::kTensor || in.tensor->meta.dtype != DType::kNone;
    };
    if (param.type == ParamType::kTensorList) {
      if (a.kind != Argument::kList) return wrong();
      for (const Argument& one : a.list) {
        if (!add(one)) return wrong();
      }
      return true;
    }
    if (!add(a)) return wrong();
    const bool number = a.kind == Argument::kInt || a.kind == Argument::kFloat || a.kind == Argument::kBool;
    if (number && param.type != ParamType::kTensorOrScalar) return wrong();
    if (a.kind == Argument::kInt) scalars_[slot] = Scalar(a.i);
    if (a.kind == Argument::kFloat) scalars_[slot] = Scalar(a.f);
    if (a.kind == Argument::kBool) scalars_[slot] = Scalar(a.i);
    return true;
  }
  Value& v = values_[slot];
  if (a.kind == Argument::kNone) {
    v = Value();
    return true;
  }
  switch (param.type) {
    case ParamType::kInt: v = Value::Int(a.i); break;
    case ParamType::kFloat: v = Value::Float(a.f); break;
    case ParamType::kBool: v = Value::Bool(a.i != 0); break;
    case ParamType::kScalar:
      v = a.kind == Argument::kFloat  ? Value::Float(a.f)
          : a.kind == Argument::kBool ? Value::Bool(a.i != 0)
                                      : Value::Int(a.i);
      break;
    case ParamType::kInts: {
      std::vector<int64_t> ints;
      for (const Argument& one : a.list) ints.push_back(one.i);
      if (a.kind == Argument::kInt) ints.assign(static_cast<size_t>(std::max<int>(1, param.length)), a.i);
      v = Value::Ints(ints);
      break;
    }
    case ParamType::kDType: v = Value::Type(TypeNamed(a.text, dtype_)); break;
    case ParamType::kString: v = Value::String(a.text); break;
    default: return wrong();
  }
  return true;
}

bool Case::Bind(const std::vector<Argument>& arguments, std::string* error) {
  const OpSchema& s = *schema_;
  inputs_.resize(static_cast<size_t>(s.num_inputs));
  scalars_.resize(static_cast<size_t>(s.num_inputs));
  values_.resize(static_cast<size_t>(s.num_attrs));
  std::vector<bool> given(static_cast<size_t>(s.num_params), false);
  int next = 0;
  for (size_t k = 0; k < arguments.size(); ++k) {
    const Argument& a = arguments[k];
    int at = -1;
    if (a.name.empty()) {
      at = next++;
      if (at >= s.num_params || s.params[at].keyword_only) return *error = "too many arguments", false;
      if (s.params[at].variadic && a.kind == Argument::kInt) {
        Argument all;
        all.kind = Argument::kList;
        for (; k < arguments.size() && arguments[k].name.empty() && arguments[k].kind == Argument::kInt; ++k)
          all.list.push_back(arguments[k]);
        --k;
        if (!BindOne(s.params[at], all, error)) return false;
        given[static_cast<size_t>(at)] = true;
        continue;
      }
    } else {
      for (int p = 0; p < s.num_params; ++p) at = a.name == s.params[p].name ? p : at;
      if (at < 0) return *error = "no argument '" + a.name + "'", false;
    }
    if (!BindOne(s.params[at], a, error)) return false;
    given[static_cast<size_t>(at)] = true;
  }
  for (int p = 0; p < s.num_params; ++p) {
    if (given[static_cast<size_t>(p)]) continue;
    const Param& param = s.params[p];
    // What a creation row makes is the dtype under test.
    if (param.type == ParamType::kDType && s.num_inputs == 0) {
      values_[static_cast<size_t>(param.slot)] = Value::Type(dtype_);
      continue;
    }
    if (param.default_literal < 0) return *error = std::string("argument '") + param.name + "' is missing", false;
    const Value& v = OpTable::Get().literal(param.default_literal);
    if (!IsTensorType(param.type)) {
      values_[static_cast<size_t>(param.slot)] = v;
      continue;
    }
    inputs_[static_cast<size_t>(param.slot)].push_back({});
    if (v.is_number()) scalars_[static_cast<size_t>(param.slot)] = v.scalar();
  }
  return true;
}

bool Case::Infer() {
  if (elements_ > kMostElements) return false;
  const OpSchema& s = *schema_;
  std::vector<const TensorMeta*> metas;
  std::vector<Scalar> scalars;
  std::vector<const Value*> attrs;
  std::vector<int> slots;
  for (int slot = 0; slot < s.num_inputs; ++slot) {
    for (CallInput& in : inputs_[static_cast<size_t>(slot)]) {
      metas.push_back(in.tensor != nullptr ? &in.tensor->meta : nullptr);
      scalars.push_back(scalars_[static_cast<size_t>(slot)]);
      slots.push_back(slot);
      call_.inputs.push_back(in);
    }
  }
  for (const Value& v : values_) attrs.push_back(&v);
  OpArgs args;
  args.schema = schema_;
  args.inputs = metas.data();
  args.scalars = scalars.data();
  args.num_inputs = static_cast<int>(metas.size());
  args.attrs = attrs.data();
  OpMetas out;
  if (!InferMeta(args, &out).ok() || out.dynamic || out.identity || out.aliases) return false;

  const std::string kernel = s.kernel;
  const bool is_copy = kernel == "_copy";
  const size_t first = s.inplace_only ? 1 : 0;
  if (s.inplace_only) {
    if (call_.inputs.empty() || call_.inputs[0].tensor == nullptr || variation_.layout == Layout::kExpanded)
      return false;
    call_.outputs.push_back(call_.inputs[0].tensor);
  } else if (variation_.in_place) {
    const HostTensor* self = call_.inputs.empty() ? nullptr : call_.inputs[0].tensor;
    if (self == nullptr || !s.has_inplace || !s.elementwise || variation_.layout == Layout::kExpanded) return false;
    if (out.outputs[0].dtype != self->meta.dtype || out.outputs[0].sizes != self->meta.sizes) return false;
    if (out.compute != DType::kNone && out.compute != self->meta.dtype) return false;
    call_.outputs.push_back(call_.inputs[0].tensor);
  } else {
    int64_t numel = 0;
    for (const TensorMeta& meta : out.outputs) numel += meta.numel();
    if (numel > kMostElements) return false;
    for (const TensorMeta& meta : out.outputs) call_.outputs.push_back(Dense(meta));
  }
  for (size_t i = first; i < call_.inputs.size(); ++i) {
    CallInput& in = call_.inputs[i];
    const bool cast = out.compute != DType::kNone && !is_copy && (out.cast >> slots[i] & 1) != 0;
    if (in.tensor == nullptr) {
      if (!scalars[i].given()) continue;
      in.scalar_dtype = cast ? out.compute : call_.outputs[0]->meta.dtype;
      in.scalar.resize(ItemSize(in.scalar_dtype));
      StoreElement(in.scalar_dtype, scalars[i].f, in.scalar.data());
    } else if (cast && in.tensor->meta.dtype != out.compute) {
      in.tensor = Converted(*in.tensor, out.compute);
    }
    if (cast && key_ == DType::kNone) key_ = out.compute;
  }
  const auto dtype_of_first = [&] {
    return call_.inputs.size() > first && call_.inputs[first].tensor != nullptr ? call_.inputs[first].tensor->meta.dtype
                                                                                : DType::kNone;
  };
  if (key_ == DType::kNone) {
    key_ = is_copy && dtype_of_first() != DType::kNone ? dtype_of_first()
           : out.compute != DType::kNone               ? out.compute
           : dtype_of_first() != DType::kNone          ? dtype_of_first()
                                                       : call_.outputs[0]->meta.dtype;
  }
  call_.inputs.erase(call_.inputs.begin(), call_.inputs.begin() + static_cast<std::ptrdiff_t>(first));
  call_.elementwise = s.elementwise;
  for (const Value& v : values_) {
    tt_value a = {};
    a.kind = static_cast<int32_t>(v.kind());
    a.i = v.i();
    a.f = v.f();
    a.ints = v.ints().data();
    a.floats = v.floats().data();
    a.count = static_cast<int32_t>(v.kind() == Value::Kind::kFloats ? v.floats().size() : v.ints().size());
    a.text = v.text().c_str();
    call_.attrs.push_back(a);
  }
  return true;
}

std::unique_ptr<Case> Case::Make(const OpSchema& schema, const std::vector<Argument>& arguments, DType dtype,
                                 const Variation& variation, uint32_t seed, std::string* error) {
  auto c = std::make_unique<Case>();
  c->schema_ = &schema;
  c->dtype_ = dtype;
  c->variation_ = variation;
  c->random_ = seed;
  if (!c->Bind(arguments, error) || !c->Infer()) return nullptr;
  for (const auto& t : c->tensors_) c->original_.push_back(t->bytes);
  return c;
}

void Case::Reset() {
  for (size_t i = 0; i < tensors_.size(); ++i) tensors_[i]->bytes = original_[i];
}

}  // namespace telensor::conformance
