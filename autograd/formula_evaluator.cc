#include "autograd/formula_evaluator.h"

#include <cmath>

#include "autograd/recorder.h"

namespace telensor::rt {
namespace {

absl::Status BadFormula(const char* what) { return absl::InternalError(absl::StrCat("op table formula: ", what)); }

absl::StatusOr<int64_t> AsInt(const FormulaValue& v) {
  if (v.kind != FormulaValue::kValue || !v.value.is_number()) return BadFormula("a number was expected");
  return v.value.i();
}

}  // namespace

absl::StatusOr<std::vector<Tensor>> FormulaEvaluator::Evaluate(const Formula& formula) {
  lets_.clear();
  for (int i = 0; i < formula.num_lets; ++i) {
    TD_ASSIGN_OR_RETURN(FormulaValue v, Eval(formula.lets[i]));
    lets_.push_back(std::move(v));
  }
  const Expr& root = table_.expr(formula.root);
  std::vector<Tensor> results;
  if (root.kind == ExprKind::kTuple) {
    for (int i = 0; i < root.count; ++i) {
      TD_ASSIGN_OR_RETURN(FormulaValue v, Eval(table_.arg(root, i)));
      results.push_back(std::move(v.tensor));
    }
    return results;
  }
  if (root.kind == ExprKind::kCall && table_.at(root.a).num_outputs != 1) {
    TD_ASSIGN_OR_RETURN(TensorList list, CallOp(root));
    for (Tensor& t : list) results.push_back(std::move(t));
    return results;
  }
  TD_ASSIGN_OR_RETURN(FormulaValue v, Eval(formula.root));
  if (v.kind == FormulaValue::kTensors) return std::move(v.tensors);
  if (v.kind != FormulaValue::kTensor) return BadFormula("the result is no tensor");
  results.push_back(std::move(v.tensor));
  return results;
}

absl::StatusOr<bool> FormulaEvaluator::Truth(int index) {
  TD_ASSIGN_OR_RETURN(FormulaValue v, Eval(index));
  if (v.none()) return false;
  if (v.kind != FormulaValue::kValue) return BadFormula("a tensor has no truth value here");
  return v.value.b() || (v.value.kind() == Value::Kind::kFloat && v.value.f() != 0);
}

absl::StatusOr<FormulaValue> FormulaEvaluator::Eval(int index) {
  const Expr& e = table_.expr(index);
  switch (e.kind) {
    case ExprKind::kInput: return scope_.Input(e.a);
    case ExprKind::kOutput: return scope_.Output(e.a);
    case ExprKind::kGrad: return scope_.Grad(e.a);
    case ExprKind::kAttr: return FormulaValue(scope_.Attr(e.a));
    case ExprKind::kLet: return lets_[e.a];
    case ExprKind::kLiteral: return FormulaValue(table_.literal(e.a));
    case ExprKind::kList: {
      std::vector<FormulaValue> items;
      bool tensors = false;
      for (int i = 0; i < e.count; ++i) {
        TD_ASSIGN_OR_RETURN(FormulaValue v, Eval(table_.arg(e, i)));
        tensors |= v.kind == FormulaValue::kTensor;
        items.push_back(std::move(v));
      }
      if (tensors) {
        std::vector<Tensor> list;
        for (FormulaValue& v : items) list.push_back(std::move(v.tensor));
        return FormulaValue(std::move(list));
      }
      std::vector<int64_t> ints;
      for (const FormulaValue& v : items) {
        TD_ASSIGN_OR_RETURN(const int64_t i, AsInt(v));
        ints.push_back(i);
      }
      return FormulaValue(Value::Ints(std::move(ints)));
    }
    case ExprKind::kTuple: return BadFormula("a tuple can only be the result");
    case ExprKind::kCall: return EvalCall(e);
    case ExprKind::kItem: {
      TD_ASSIGN_OR_RETURN(TensorList list, CallOp(table_.expr(table_.arg(e, 0))));
      return FormulaValue(std::move(list[e.a]));
    }
    case ExprKind::kHelper: return EvalHelper(e);
    case ExprKind::kNot: {
      TD_ASSIGN_OR_RETURN(const bool b, Truth(table_.arg(e, 0)));
      return FormulaValue(Value::Bool(!b));
    }
    case ExprKind::kAnd:
    case ExprKind::kOr: {
      TD_ASSIGN_OR_RETURN(bool b, Truth(table_.arg(e, 0)));
      if (b == (e.kind == ExprKind::kAnd)) {
        TD_ASSIGN_OR_RETURN(b, Truth(table_.arg(e, 1)));
      }
      return FormulaValue(Value::Bool(b));
    }
    case ExprKind::kCondition: {
      TD_ASSIGN_OR_RETURN(const bool b, Truth(table_.arg(e, 0)));
      return Eval(table_.arg(e, b ? 1 : 2));
    }
    case ExprKind::kNegate:
    case ExprKind::kAdd:
    case ExprKind::kSubtract:
    case ExprKind::kMultiply:
    case ExprKind::kDivide:
    case ExprKind::kFloorDivide: return EvalArithmetic(e);
    default: return EvalComparison(e);
  }
}

absl::StatusOr<FormulaValue> FormulaEvaluator::EvalArithmetic(const Expr& e) {
  TD_ASSIGN_OR_RETURN(FormulaValue a, Eval(table_.arg(e, 0)));
  if (a.kind != FormulaValue::kValue) return BadFormula("arithmetic takes plain values");
  if (e.kind == ExprKind::kNegate) {
    return a.value.kind() == Value::Kind::kFloat ? Value::Float(-a.value.f())
                                                 : Value::Int(static_cast<int64_t>(0 - static_cast<uint64_t>(a.value.i())));
  }
  TD_ASSIGN_OR_RETURN(FormulaValue b, Eval(table_.arg(e, 1)));
  if (b.kind != FormulaValue::kValue) return BadFormula("arithmetic takes plain values");
  if (a.value.kind() == Value::Kind::kInts && b.value.kind() == Value::Kind::kInts && e.kind == ExprKind::kAdd) {
    std::vector<int64_t> joined = a.value.ints();
    joined.insert(joined.end(), b.value.ints().begin(), b.value.ints().end());
    return FormulaValue(Value::Ints(std::move(joined)));
  }
  if (!a.value.is_number() || !b.value.is_number()) return BadFormula("arithmetic takes numbers");
  const bool real = a.value.kind() == Value::Kind::kFloat || b.value.kind() == Value::Kind::kFloat;
  if (e.kind == ExprKind::kDivide || real) {
    const double x = a.value.f(), y = b.value.f();
    switch (e.kind) {
      case ExprKind::kAdd: return FormulaValue(Value::Float(x + y));
      case ExprKind::kSubtract: return FormulaValue(Value::Float(x - y));
      case ExprKind::kMultiply: return FormulaValue(Value::Float(x * y));
      case ExprKind::kDivide: return FormulaValue(Value::Float(x / y));  // IEEE: a count of zero gives inf or NaN
      default: return FormulaValue(Value::Float(std::floor(x / y)));
    }
  }
  const int64_t x = a.value.i(), y = b.value.i();
  // Attributes may be as large as a peer likes: wrap instead of overflowing.
  const auto wrap = [](uint64_t v) { return FormulaValue(Value::Int(static_cast<int64_t>(v))); };
  switch (e.kind) {
    case ExprKind::kAdd: return wrap(static_cast<uint64_t>(x) + static_cast<uint64_t>(y));
    case ExprKind::kSubtract: return wrap(static_cast<uint64_t>(x) - static_cast<uint64_t>(y));
    case ExprKind::kMultiply: return wrap(static_cast<uint64_t>(x) * static_cast<uint64_t>(y));
    default:
      if (y == 0 || (y == -1 && x == INT64_MIN)) return InvalidArgument("division by zero");
      return FormulaValue(Value::Int(x / y - ((x % y != 0) && ((x < 0) != (y < 0)))));
  }
}

absl::StatusOr<FormulaValue> FormulaEvaluator::EvalComparison(const Expr& e) {
  TD_ASSIGN_OR_RETURN(const FormulaValue a, Eval(table_.arg(e, 0)));
  TD_ASSIGN_OR_RETURN(const FormulaValue b, Eval(table_.arg(e, 1)));
  bool result = false;
  if (e.kind == ExprKind::kEqual || e.kind == ExprKind::kNotEqual) {
    bool equal;
    if (a.none() || b.none()) {
      equal = a.none() && b.none();
    } else if (a.kind != FormulaValue::kValue || b.kind != FormulaValue::kValue) {
      equal = false;
    } else if (a.value.is_number() && b.value.is_number()) {
      equal = a.value.f() == b.value.f();
    } else {
      equal = a.value == b.value;
    }
    result = equal == (e.kind == ExprKind::kEqual);
  } else {
    if (a.kind != FormulaValue::kValue || b.kind != FormulaValue::kValue || !a.value.is_number() || !b.value.is_number()) {
      return BadFormula("only numbers have an order");
    }
    const double x = a.value.f(), y = b.value.f();
    result = e.kind == ExprKind::kLess        ? x < y
             : e.kind == ExprKind::kLessEqual ? x <= y
             : e.kind == ExprKind::kGreater   ? x > y
                                              : x >= y;
  }
  return FormulaValue(Value::Bool(result));
}

absl::StatusOr<FormulaValue> FormulaEvaluator::EvalCall(const Expr& e) {
  TD_ASSIGN_OR_RETURN(TensorList list, CallOp(e));
  if (!table_.at(e.a).returns_list) return FormulaValue(std::move(list[0]));
  return FormulaValue(std::vector<Tensor>(list.begin(), list.end()));
}

absl::StatusOr<TensorList> FormulaEvaluator::CallOp(const Expr& e) {
  const OpSchema& schema = table_.at(e.a);
  absl::InlinedVector<Operand, 4> operands;
  absl::InlinedVector<Tensor, 4> keep;  // operands are bare pointers
  absl::InlinedVector<Value, 4> attrs;
  for (int i = 0; i < schema.num_params; ++i) {
    const Param& param = schema.params[i];
    TD_ASSIGN_OR_RETURN(FormulaValue v, Eval(table_.arg(e, i)));
    if (!IsTensorType(param.type)) {
      if (v.none()) {
        attrs.emplace_back();
      } else if (v.kind != FormulaValue::kValue) {
        return BadFormula("an attribute cannot be a tensor");
      } else if (param.type == ParamType::kInts && v.value.is_number()) {
        attrs.push_back(Value::Ints(std::vector<int64_t>(std::max<int>(param.length, 1), v.value.i())));
      } else if (param.type == ParamType::kFloat && v.value.kind() != Value::Kind::kFloat) {
        attrs.push_back(Value::Float(v.value.f()));
      } else if (param.type == ParamType::kDType && v.value.kind() != Value::Kind::kDType) {
        return BadFormula("a dtype was expected");
      } else {
        attrs.push_back(std::move(v.value));
      }
      continue;
    }
    if (param.type == ParamType::kTensorList) {
      if (v.kind != FormulaValue::kTensors) return BadFormula("a list of tensors was expected");
      for (Tensor& t : v.tensors) {
        operands.push_back({t.get(), {}});
        keep.push_back(std::move(t));
      }
    } else if (v.kind == FormulaValue::kTensor) {
      operands.push_back({v.tensor.get(), {}});
      keep.push_back(std::move(v.tensor));
    } else if (v.none()) {
      operands.push_back({});
    } else if (v.kind == FormulaValue::kValue && param.type == ParamType::kTensorOrScalar) {
      operands.push_back({nullptr, v.value.scalar()});
    } else {
      return BadFormula("a tensor was expected");
    }
  }
  absl::InlinedVector<const Value*, 4> attr_pointers;
  for (const Value& v : attrs) attr_pointers.push_back(&v);
  return recorder_.Call(schema, operands, attr_pointers, schema.inplace_only);
}

absl::StatusOr<FormulaValue> FormulaEvaluator::EvalHelper(const Expr& e) {
  std::vector<FormulaValue> args;
  for (int i = 0; i < e.count; ++i) {
    TD_ASSIGN_OR_RETURN(FormulaValue v, Eval(table_.arg(e, i)));
    args.push_back(std::move(v));
  }
  const Helper helper = static_cast<Helper>(e.a);
  if (helper != Helper::kValueOf) {
    TD_ASSIGN_OR_RETURN(Value v, EvalMetadataHelper(helper, args));
    return FormulaValue(std::move(v));
  }
  // The one point where a formula waits for the device.
  if (args[0].kind != FormulaValue::kTensor) return BadFormula("value_of takes a tensor");
  Dispatcher& dispatcher = recorder_.dispatcher();
  TD_ASSIGN_OR_RETURN(Tensor on_host, dispatcher.Converted(args[0].tensor.get(), DType::kInt64, 0));
  if (on_host->meta().numel() != 1) return InvalidArgument("only a one-element tensor has a value");
  TD_ASSIGN_OR_RETURN(Stream* stream, dispatcher.context().stream(0));
  TD_RETURN_IF_ERROR(stream->Synchronize());
  int64_t value;
  std::memcpy(&value, on_host->data(), sizeof(value));
  return FormulaValue(Value::Int(value));
}

}  // namespace telensor::rt
