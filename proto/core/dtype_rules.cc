// Dtype rules: PyTorch's type promotion, and which dtypes a row takes.
// lint: ops listed here, PyTorch words its refusals op by op
#include <limits>

#include "absl/strings/string_view.h"
#include "proto/core/meta_rules.h"

namespace telensor::rules {

absl::Status NotImplemented(absl::string_view kernel, DType t) {
  return InvalidArgument("\"", kernel, "\" not implemented for '", DTypeTitle(t), "'");
}

namespace {

absl::string_view PublicName(const RuleArgs& args) {
  absl::string_view name = args.name();
  return name.empty() || name[0] != '_' ? name : name.substr(1);
}

// PyTorch names the kernel, which it usually calls after the op.
absl::Status RowNotImplemented(const RuleArgs& args, DType t) {
  const absl::string_view name = PublicName(args);
  if (name == "relu") return InvalidArgument("Boolean inputs not supported for relu");
  if (name == "floor_divide") return NotImplemented("div_floor_cpu", t);
  if (name == "trunc_divide") return NotImplemented("div_trunc_cpu", t);
  if (name == "mm" || name == "bmm" || name == "addmm" || name == "baddbmm" || name == "matmul" || name == "mv") {
    return NotImplemented("addmm_impl_cpu_", t);
  }
  return NotImplemented(absl::StrCat(name, "_cpu"), t);
}

// What a row says of its dtypes: "all", "number" (not bool), "float", "int_bool"; empty: its kernel knows.
absl::Status CheckRowDTypes(const RuleArgs& args, DType t) {
  const char row = args.call().schema->dtypes[0];
  if ((row == 'f' && !IsFloating(t)) || (row == 'n' && t == DType::kBool)) return RowNotImplemented(args, t);
  return absl::OkStatus();
}

uint32_t Bit(const RuleArgs& args, int k) { return uint32_t{1} << args.Slot(k); }

// The dtype that arguments from `first` on promote to, and the slots of those that are inputs. Numbers among the
// attributes take part as well: clamp's limits.
DType Promoted(const RuleArgs& args, int first, uint32_t* cast) {
  TypePromoter promoter;
  for (int k = first; k < args.size(); ++k) {
    if (const TensorMeta* t = args.Tensor(k)) {
      promoter.AddTensor(t->dtype, t->rank());
    } else {
      const Scalar number = args.Number(k);
      if (!number.given()) continue;
      promoter.AddNumber(number.kind);
    }
    if (args.IsInput(k)) *cast |= Bit(args, k);
  }
  return promoter.Result(args.call().default_float);
}

void SetComputed(OpMetas* out, int output, DType dtype, uint32_t cast) {
  out->outputs[output].dtype = dtype;
  out->compute = dtype;
  out->cast = cast;
}

// alpha of add, value of addcmul: a float would change the dtype of an integer result.
absl::Status CheckFactors(const RuleArgs& args, DType result) {
  if (IsFloating(result)) return absl::OkStatus();
  const OpArgs& call = args.call();
  for (int i = 0; i < call.schema->num_attrs; ++i) {
    if (call.schema->attr_params[i]->type != ParamType::kScalar) continue;
    const Value& v = *call.attrs[i];
    if (v.kind() == Value::Kind::kFloat) {
      return InvalidArgument("For integral input tensors, argument ", call.schema->attr_params[i]->name,
                             " must not be a floating point number.");
    }
    if (v.kind() == Value::Kind::kBool && result != DType::kBool) {
      return InvalidArgument("Boolean ", call.schema->attr_params[i]->name, " only supported for Boolean results.");
    }
  }
  return absl::OkStatus();
}

// Two tensors of one dtype, of one dimension at least or of none both: nothing to promote. The hot case.
bool AlikePair(const RuleArgs& args) {
  if (args.size() != 2) return false;
  const TensorMeta *a = args.Tensor(0), *b = args.Tensor(1);
  return a != nullptr && b != nullptr && a->dtype == b->dtype;
}

absl::Status CheckTarget(DType target) {
  if (target == DType::kInt64) return absl::OkStatus();
  return InvalidArgument("expected scalar type Long but found ", DTypeTitle(target));
}

DType GivenOr(const Value& dtype, DType otherwise) { return dtype.none() ? otherwise : dtype.dtype(); }

}  // namespace

#define TD_RULE(name) absl::Status name(const RuleArgs& args, int output, OpMetas* out)

// (fill_value, dtype)
TD_RULE(DTypeFull) {
  DType dtype = GivenOr(args.Attr(1), args.Attr(0).scalar().kind);
  if (args.Attr(1).none() && dtype == DType::kFloat64) dtype = args.call().default_float;
  out->outputs[output].dtype = dtype;
  return absl::OkStatus();
}

TD_RULE(DTypeDefault) {
  out->outputs[output].dtype = GivenOr(args.Attr(0), args.call().default_float);
  return absl::OkStatus();
}

TD_RULE(DTypeDefaultFloat) {
  const DType dtype = GivenOr(args.Attr(0), args.call().default_float);
  if (!IsFloating(dtype)) {
    return NotImplemented(PublicName(args) == "rand" ? "check_uniform_bounds" : "normal_kernel_cpu", dtype);
  }
  out->outputs[output].dtype = dtype;
  return absl::OkStatus();
}

// (self, dtype)
TD_RULE(DTypeLike) {
  const DType dtype = GivenOr(args.Attr(1), args.Tensor(0)->dtype);
  TD_RETURN_IF_ERROR(CheckRowDTypes(args, dtype));
  out->outputs[output].dtype = dtype;
  return absl::OkStatus();
}

// (start, end, step, dtype)
TD_RULE(DTypeArange) {
  DType dtype = args.Attr(3).dtype();
  if (args.Attr(3).none()) {
    dtype = DType::kInt64;
    for (int k = 0; k < 3; ++k) {
      if (args.Attr(k).kind() == Value::Kind::kFloat) dtype = args.call().default_float;
    }
  }
  if (dtype == DType::kBool) return NotImplemented("arange_cpu", dtype);
  out->outputs[output].dtype = dtype;
  return absl::OkStatus();
}

TD_RULE(DTypeInt64) {
  out->outputs[output].dtype = DType::kInt64;
  return absl::OkStatus();
}

TD_RULE(DTypeSame) {
  const DType dtype = args.Tensor(0)->dtype;
  TD_RETURN_IF_ERROR(CheckRowDTypes(args, dtype));
  out->outputs[output].dtype = dtype;
  return absl::OkStatus();
}

TD_RULE(DTypeSameFloat) {
  const DType dtype = args.Tensor(0)->dtype;
  if (!IsFloating(dtype)) return RowNotImplemented(args, dtype);
  out->outputs[output].dtype = dtype;
  return absl::OkStatus();
}

// Tensors that are not promoted: products, convolutions, lerp. Absent ones and numbers have no say.
TD_RULE(DTypeSameDtype) {
  const DType dtype = args.Tensor(0)->dtype;
  const absl::string_view name = PublicName(args);
  for (int k = 1; k < args.size(); ++k) {
    const TensorMeta* t = args.Tensor(k);
    if (t == nullptr || t->dtype == dtype) continue;
    if (name == "conv2d" || name == "conv1d") {
      if (k == 2) {
        return InvalidArgument("Input type (", DTypeCppName(dtype), ") and bias type (", DTypeCppName(t->dtype),
                               ") should be the same");
      }
      return InvalidArgument("Input type (torch.", DTypeTitle(dtype), "Tensor) and weight type (torch.",
                             DTypeTitle(t->dtype), "Tensor) should be the same");
    }
    if (name == "dot") {
      return InvalidArgument("dot : expected both vectors to have same dtype, but found ", DTypeTitle(dtype), " and ",
                             DTypeTitle(t->dtype));
    }
    if (name == "lerp") {
      return InvalidArgument("expected dtype ", DTypeCppName(dtype), " for `", k == 1 ? "end" : "weight",
                             "` but got dtype ", DTypeCppName(t->dtype));
    }
    if (name == "addmm" || name == "baddbmm" || k == 2)
      return InvalidArgument("self and mat2 must have the same dtype");
    return InvalidArgument("expected m1 and m2 to have the same dtype, but got: ", DTypeCppName(dtype),
                           " != ", DTypeCppName(t->dtype));
  }
  TD_RETURN_IF_ERROR(CheckRowDTypes(args, dtype));
  out->outputs[output].dtype = dtype;
  return absl::OkStatus();
}

// (self, dtype)
TD_RULE(DTypeConvert) {
  out->outputs[output].dtype = GivenOr(args.Attr(1), args.Tensor(0)->dtype);
  return absl::OkStatus();
}

// (self, dtype): softmax
TD_RULE(DTypeConvertFloat) {
  const DType dtype = GivenOr(args.Attr(1), args.Tensor(0)->dtype);
  if (!IsFloating(dtype)) return NotImplemented(absl::StrCat(PublicName(args), "_lastdim_kernel_impl"), dtype);
  out->outputs[output].dtype = dtype;
  return absl::OkStatus();
}

TD_RULE(DTypePromote) {
  if (AlikePair(args) && IsFloating(args.Tensor(0)->dtype)) {
    SetComputed(out, output, args.Tensor(0)->dtype, Bit(args, 0) | Bit(args, 1));
    return absl::OkStatus();
  }
  uint32_t cast = 0;
  const DType dtype = Promoted(args, 0, &cast);
  TD_RETURN_IF_ERROR(CheckRowDTypes(args, dtype));
  TD_RETURN_IF_ERROR(CheckFactors(args, dtype));
  SetComputed(out, output, dtype, cast);
  return absl::OkStatus();
}

// promote, for the ops that have no meaning on truth values
TD_RULE(DTypePromoteArithmetic) {
  if (AlikePair(args) && IsFloating(args.Tensor(0)->dtype)) {
    SetComputed(out, output, args.Tensor(0)->dtype, Bit(args, 0) | Bit(args, 1));
    return absl::OkStatus();
  }
  uint32_t cast = 0;
  const DType dtype = Promoted(args, 0, &cast);
  if (absl::string_view(args.name()) == "sub") {
    int bools = 0;
    for (int k = 0; k < args.size(); ++k) {
      const TensorMeta* t = args.Tensor(k);
      bools += (t != nullptr ? t->dtype : args.Number(k).kind) == DType::kBool;
    }
    if (bools == args.size()) {
      return InvalidArgument(
          "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
          "`logical_xor()` operator instead.");
    }
    if (bools > 0) {
      return InvalidArgument(
          "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to "
          "invert a mask, use the `~` or `logical_not()` operator instead.");
    }
  }
  if (dtype == DType::kBool) return RowNotImplemented(args, dtype);
  TD_RETURN_IF_ERROR(CheckFactors(args, dtype));
  SetComputed(out, output, dtype, cast);
  return absl::OkStatus();
}

TD_RULE(DTypePromoteFloat) {
  uint32_t cast = 0;
  const DType dtype = Promoted(args, 0, &cast);
  SetComputed(out, output, IsFloating(dtype) ? dtype : args.call().default_float, cast);
  return absl::OkStatus();
}

TD_RULE(DTypePromoteList) {
  TypePromoter promoter;
  for (const TensorMeta* t : args.List(0)) promoter.AddTensor(t->dtype, t->rank());
  SetComputed(out, output, promoter.Result(), Bit(args, 0));
  return absl::OkStatus();
}

// (self, other, rounding_mode)
TD_RULE(DTypeDivMode) {
  uint32_t cast = 0;
  DType dtype = Promoted(args, 0, &cast);
  if (args.Attr(2).none()) {
    if (!IsFloating(dtype)) dtype = args.call().default_float;
  } else {
    const std::string& mode = args.Attr(2).text();
    if (mode != "floor" && mode != "trunc") {
      return InvalidArgument("div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '", mode,
                             "'");
    }
    if (dtype == DType::kBool) return NotImplemented(absl::StrCat("div_", mode, "_cpu"), dtype);
  }
  SetComputed(out, output, dtype, cast);
  return absl::OkStatus();
}

// (self, exponent)
TD_RULE(DTypePower) {
  uint32_t cast = 0;
  const DType dtype = Promoted(args, 0, &cast);
  if (!IsFloating(dtype)) {
    const Scalar exponent = args.Tensor(1) == nullptr ? args.Number(1) : Scalar();
    if (exponent.given() && exponent.i < 0)
      return InvalidArgument("Integers to negative integer powers are not allowed.");
    if (dtype == DType::kBool) return NotImplemented("pow", dtype);
  }
  SetComputed(out, output, dtype, cast);
  return absl::OkStatus();
}

// (grad, self, exponent, result): grad and result are of the power's dtype.
TD_RULE(DTypePowerGrad) {
  uint32_t cast = 0;
  const DType dtype = Promoted(args, 1, &cast);
  TD_RETURN_IF_ERROR(CheckRowDTypes(args, dtype));
  for (int k = 0; k < args.size(); k += 3) {
    const DType t = args.Tensor(k)->dtype;
    if (t != dtype) return InvalidArgument("expected scalar type ", DTypeTitle(dtype), " but found ", DTypeTitle(t));
  }
  out->outputs[output].dtype = dtype;
  return absl::OkStatus();
}

// (condition, self, other)
TD_RULE(DTypeWhere) {
  const DType condition = args.Tensor(0)->dtype;
  if (condition != DType::kBool && condition != DType::kUInt8) {
    return InvalidArgument("where expected condition to be a boolean tensor, but got a tensor with dtype ",
                           DTypeTitle(condition));
  }
  uint32_t cast = 0;
  const DType dtype = Promoted(args, 1, &cast);
  SetComputed(out, output, dtype, cast);
  return absl::OkStatus();
}

// (self, min, max)
TD_RULE(DTypeClamp) {
  if (args.Attr(1).none() && args.Attr(2).none()) {
    return InvalidArgument("torch.clamp: At least one of 'min' or 'max' must not be None");
  }
  uint32_t cast = 0;
  const DType dtype = Promoted(args, 0, &cast);
  if (dtype == DType::kBool) return NotImplemented("clamp_scalar_cpu", dtype);
  SetComputed(out, output, dtype, cast);
  return absl::OkStatus();
}

TD_RULE(DTypeFloat) {
  const DType dtype = args.Tensor(0)->dtype;
  SetComputed(out, output, IsFloating(dtype) ? dtype : args.call().default_float, Bit(args, 0));
  return absl::OkStatus();
}

TD_RULE(DTypeArithmetic) {
  const DType dtype = args.Tensor(0)->dtype;
  if (dtype == DType::kBool) {
    return InvalidArgument(
        "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a "
        "mask, use the `~` or `logical_not()` operator instead.");
  }
  out->outputs[output].dtype = dtype;
  return absl::OkStatus();
}

// pow(self, 2): truth values become integers.
TD_RULE(DTypeSquare) {
  const DType dtype = args.Tensor(0)->dtype;
  SetComputed(out, output, dtype == DType::kBool ? DType::kInt64 : dtype, Bit(args, 0));
  return absl::OkStatus();
}

TD_RULE(DTypeCompare) {
  uint32_t cast = 0;
  const DType dtype = Promoted(args, 0, &cast);
  SetComputed(out, output, dtype, cast);
  out->outputs[output].dtype = DType::kBool;
  return absl::OkStatus();
}

TD_RULE(DTypeBitwise) {
  uint32_t cast = 0;
  const DType dtype = Promoted(args, 0, &cast);
  if (IsFloating(dtype)) return RowNotImplemented(args, dtype);
  SetComputed(out, output, dtype, cast);
  return absl::OkStatus();
}

// (self, dtype)
TD_RULE(DTypeSum) {
  const DType self = args.Tensor(0)->dtype;
  SetComputed(out, output, GivenOr(args.Attr(1), IsFloating(self) ? self : DType::kInt64), Bit(args, 0));
  return absl::OkStatus();
}

// (self, dtype): mean, var, std, norm
TD_RULE(DTypeMean) {
  const bool given = !args.Attr(1).none();
  const DType dtype = given ? args.Attr(1).dtype() : args.Tensor(0)->dtype;
  if (!IsFloating(dtype)) {
    const absl::string_view name = PublicName(args);
    if (name == "var" || name == "std")
      return InvalidArgument("std and var only support floating point and complex dtypes");
    if (name == "norm") {
      return InvalidArgument("norm(): input dtype should be either floating point or complex. Got ", DTypeTitle(dtype),
                             " instead.");
    }
    return InvalidArgument(name, "(): could not infer output dtype. ", given ? "Optional" : "Input",
                           " dtype must be either a floating point or complex dtype. Got: ", DTypeTitle(dtype));
  }
  SetComputed(out, output, dtype, Bit(args, 0));
  return absl::OkStatus();
}

// any, all: bool, but uint8 stays, for the masks of old.
TD_RULE(DTypeTruth) {
  out->outputs[output].dtype = args.Tensor(0)->dtype == DType::kUInt8 ? DType::kUInt8 : DType::kBool;
  return absl::OkStatus();
}

TD_RULE(DTypeIndexOf) {
  if (args.Tensor(0)->dtype == DType::kBool) return RowNotImplemented(args, DType::kBool);
  out->outputs[output].dtype = DType::kInt64;
  return absl::OkStatus();
}

// (self, index)
TD_RULE(DTypeIndexed) {
  const DType index = args.Tensor(1)->dtype;
  const absl::string_view name = PublicName(args);
  if (name == "embedding" || name == "embedding_backward") {
    if (index != DType::kInt64 && index != DType::kInt32) {
      return InvalidArgument(
          "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; "
          "but got torch.",
          DTypeTitle(index), "Tensor instead (while checking arguments for embedding)");
    }
  } else if (index != DType::kInt64) {
    return InvalidArgument(name, "(): Expected dtype int64 for index");
  }
  return DTypeSame(args, output, out);
}

// (self, indices)
TD_RULE(DTypeIndexedList) {
  for (const TensorMeta* t : args.List(1)) {
    if (t != nullptr && t->dtype != DType::kInt64) {
      return IndexError("tensors used as indices must be long, byte or bool tensors");
    }
  }
  out->outputs[output].dtype = args.Tensor(0)->dtype;
  return absl::OkStatus();
}

// (self, index, src): src may be None
TD_RULE(DTypeScattered) {
  const DType self = args.Tensor(0)->dtype, index = args.Tensor(1)->dtype;
  const TensorMeta* src = args.Tensor(2);
  const bool add = absl::string_view(args.name()) == "index_add";
  if (index != DType::kInt64) {
    if (add) return InvalidArgument("index_add_(): Expected dtype int32/int64 for index but got: ", DTypeTitle(index));
    return InvalidArgument("scatter(): Expected dtype int64 for index");
  }
  if (src != nullptr && src->dtype != self) {
    if (!add) return InvalidArgument("scatter(): Expected self.dtype to be equal to src.dtype");
    return InvalidArgument("index_add_(): self (", DTypeTitle(self), ") and source (", DTypeTitle(src->dtype),
                           ") must have the same scalar type");
  }
  if (add) TD_RETURN_IF_ERROR(CheckFactors(args, self));
  out->outputs[output].dtype = self;
  return absl::OkStatus();
}

// (self, indices, values)
TD_RULE(DTypeIndexPut) {
  TD_RETURN_IF_ERROR(DTypeIndexedList(args, output, out));
  const DType self = args.Tensor(0)->dtype, values = args.Tensor(2)->dtype;
  if (self != values) {
    return InvalidArgument("Index put requires the source and destination dtypes match, got ", DTypeTitle(self),
                           " for the destination and ", DTypeTitle(values), " for the source.");
  }
  return absl::OkStatus();
}

// (self, mask, value)
TD_RULE(DTypeMaskedFill) {
  const TensorMeta* value = args.Tensor(2);
  if (args.Tensor(1)->dtype != DType::kBool) {
    return InvalidArgument("masked_fill only supports boolean masks, but got mask with dtype ",
                           DTypeCppName(args.Tensor(1)->dtype));
  }
  if (value != nullptr && value->rank() > 0) {
    return InvalidArgument("masked_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
                           value->rank(), " dimension(s).");
  }
  SetComputed(out, output, args.Tensor(0)->dtype, Bit(args, 2));
  return absl::OkStatus();
}

// Statistics of 16-bit floats are kept in float32.
TD_RULE(DTypeAccumulate) {
  const DType dtype = args.Tensor(0)->dtype;
  TD_RETURN_IF_ERROR(CheckRowDTypes(args, dtype));
  out->outputs[output].dtype = dtype == DType::kFloat16 || dtype == DType::kBFloat16 ? DType::kFloat32 : dtype;
  return absl::OkStatus();
}

// (input, ...): statistics and parameters may be of another floating dtype than the input.
TD_RULE(DTypeNorm) {
  TD_RETURN_IF_ERROR(DTypeSame(args, output, out));
  for (int k = 1; k < args.size(); ++k) {
    const TensorMeta* t = args.Tensor(k);
    if (t == nullptr || IsFloating(t->dtype)) continue;
    return InvalidArgument(PublicName(args), "(): expected a floating point tensor for ",
                           args.call().schema->input_params[args.Slot(k)]->name, ", but got ", DTypeTitle(t->dtype));
  }
  return absl::OkStatus();
}

// (input, grad, ...)
TD_RULE(DTypeNormBackward) {
  const DType input = args.Tensor(0)->dtype, grad = args.Tensor(1)->dtype;
  if (grad != input)
    return InvalidArgument("expected scalar type ", DTypeTitle(input), " but found ", DTypeTitle(grad));
  return DTypeNorm(args, output, out);
}

// (self, target, weights...): the logarithm of self is of its dtype only where that is floating.
TD_RULE(DTypeLoss) {
  TD_RETURN_IF_ERROR(CheckRowDTypes(args, args.Tensor(0)->dtype));
  return DTypePromote(args, output, out);
}

// (input, target, weight)
TD_RULE(DTypeNll) {
  const DType input = args.Tensor(0)->dtype;
  if (!IsFloating(input)) return NotImplemented("nll_loss_out_frame", input);
  TD_RETURN_IF_ERROR(CheckTarget(args.Tensor(1)->dtype));
  if (const TensorMeta* weight = args.Tensor(2); weight != nullptr && weight->dtype != input) {
    return InvalidArgument("expected scalar type ", DTypeTitle(input), " but found ", DTypeTitle(weight->dtype));
  }
  out->outputs[output].dtype = input;
  return absl::OkStatus();
}

// (input, target, weight): target is class indices, or probabilities in the input's shape
TD_RULE(DTypeCrossEntropy) {
  const TensorMeta &input = *args.Tensor(0), &target = *args.Tensor(1);
  if (input.sizes != target.sizes) return DTypeNll(args, output, out);
  if (!IsFloating(input.dtype)) return NotImplemented("log_softmax_lastdim_kernel_impl", input.dtype);
  if (!IsFloating(target.dtype)) {
    return InvalidArgument("Expected floating point type for target with class probabilities, got ",
                           DTypeTitle(target.dtype));
  }
  uint32_t cast = 0;
  const DType dtype = Promoted(args, 0, &cast);
  out->outputs[output].dtype = dtype;
  return absl::OkStatus();
}

// (input, p, training)
TD_RULE(DTypeDropout) {
  const DType dtype = args.Tensor(0)->dtype;
  const double p = args.Attr(1).f();
  if (!(p >= 0 && p <= 1)) return InvalidArgument("dropout probability has to be between 0 and 1, but got ", p);
  if (args.Bool(2) && p != 0 && !IsFloating(dtype)) {
    return InvalidArgument("result type ", DTypeTitle(args.call().default_float),
                           " can't be cast to the desired output type ", DTypeTitle(dtype));
  }
  out->outputs[output].dtype = dtype;
  return absl::OkStatus();
}

// The shape rule has checked the tensors; the row has no output.
TD_RULE(DTypeFusedStep) {
  out->outputs[output].dtype = args.List(0).empty() ? DType::kNone : args.List(0)[0]->dtype;
  return absl::OkStatus();
}

#undef TD_RULE

}  // namespace telensor::rules
