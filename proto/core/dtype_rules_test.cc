// Results and errors, as PyTorch 1.13 gives them for the same calls.
#include <cmath>

#include <gtest/gtest.h>

#include "proto/core/rule_testing.h"

namespace telensor::testing {
namespace {

TEST(DtypeRules, Promotion) {
  const Case cases[] = {
      {"add", {I({2}), F({})}, "float32[2]"},
      {"add", {F({2}), D({})}, "float32[2]"},
      {"add", {I({2}), 1.5}, "float32[2]"},
      {"add", {I({2}), true}, "int64[2]"},
      {"add", {U({2}), 300}, "uint8[2]"},
      {"add", {U({2}), -1}, "uint8[2]"},
      {"add", {B({2}), 1}, "int64[2]"},
      {"add", {B({2}), B({2})}, "bool[2]"},
      {"add", {B({2}), 2.5}, "float32[2]"},
      {"add", {H({2}), 1.5}, "float16[2]"},
      {"add", {H({2}), F({})}, "float16[2]"},
      {"add", {H({2}), F({1})}, "float32[2]"},
      {"add", {W({2}), I({})}, "int32[2]"},
      {"add", {W({}), I({2})}, "int64[2]"},
      {"mul", {B({2}), true}, "bool[2]"},
      {"add", {I({}), 1.5}, "float32[]"},
      {"add", {F({}), 1}, "float32[]"},
      {"add", {1, F({2})}, "float32[2]"},
      {"add", {D({}), F({2})}, "float32[2]"},
      {"add", {B({}), I({})}, "int64[]"},
      {"add", {I({2}), I({2}), 2}, "int64[2]"},
      {"div", {I({2}), I({2})}, "float32[2]"},
      {"div", {I({2}), 2}, "float32[2]"},
      {"div", {B({2}), B({2})}, "float32[2]"},
      {"div", {I({2}), 2.5}, "float32[2]"},
      {"div", {H({2}), I({2})}, "float16[2]"},
      {"div", {I({2}), D({})}, "float64[2]"},
      {"div.rounding_mode", {I({2}), 2, "floor"}, "int64[2]"},
      {"div.rounding_mode", {I({2}), 2, None}, "float32[2]"},
      {"floor_divide", {I({2}), 2}, "int64[2]"},
      {"floor_divide", {I({2}), 2.5}, "float32[2]"},
      {"sub", {I({2}), 1}, "int64[2]"},
      {"sub", {F({2}), I({2})}, "float32[2]"},
      {"atan2", {I({2}), I({2})}, "float32[2]"},
      {"maximum", {B({2}), B({2})}, "bool[2]"},
      {"maximum", {I({2}), F({2})}, "float32[2]"},
      {"pow", {B({2}), 2}, "int64[2]"},
      {"pow", {I({2}), I({2})}, "int64[2]"},
      {"pow", {2, I({2})}, "int64[2]"},
      {"pow", {2, B({2})}, "int64[2]"},
      {"pow", {2.5, I({2})}, "float32[2]"},
      {"pow", {I({2}), -1.0}, "float32[2]"},
      {"pow", {F({2}), -1}, "float32[2]"},
      {"pow", {I({2}), 0.5}, "float32[2]"},
      {"where", {B({2}), F({2}), D({2})}, "float64[2]"},
      {"where", {B({2}), 1, I({2})}, "int64[2]"},
      {"where", {B({2}), 1.5, I({2})}, "float32[2]"},
      {"where", {B({2}), 1.5, 2}, "float32[2]"},
      {"where", {U({2}), F({}), D({2})}, "float64[2]"},
      {"clamp", {B({2}), 0, 1}, "int64[2]"},
      {"clamp", {I({2}), 0.5, 1}, "float32[2]"},
      {"clamp", {U({2}), -1, 1}, "uint8[2]"},
      {"clamp", {F({2}), 0, None}, "float32[2]"},
      {"clamp", {F({2}), 0, std::nan("")}, "float32[2]"},
      {"eq", {B({2}), 1.5}, "bool[2]"},
      {"eq", {F({2}), I({2})}, "bool[2]"},
      {"lt", {I({2}), D({})}, "bool[2]"},
      {"logical_and", {F({2}), I({2})}, "bool[2]"},
      {"isnan", {I({2})}, "bool[2]"},
      {"bitwise_and", {I({2}), B({2})}, "int64[2]"},
      {"bitwise_and", {B({2}), 1}, "int64[2]"},
      {"bitwise_and", {B({2}), B({2})}, "bool[2]"},
      {"bitwise_not", {U({2})}, "uint8[2]"},
      {"lerp", {F({2}), F({2}), 0.5}, "float32[2]"},
      {"addcmul", {F({2}), I({2}), F({2})}, "float32[2]"},
      {"addcdiv", {F({2}), F({2}), D({2})}, "float64[2]"},
      {"clamp.Tensor", {F({2}), I({2})}, "float32[2]"},
  };
  for (const Case& c : cases) EXPECT_EQ(Result(c.op, c.args), c.want) << c.op << " of case " << &c - cases;
}

TEST(DtypeRules, Unary) {
  const Case cases[] = {
      {"exp", {I({2})}, "float32[2]"},  {"exp", {B({2})}, "float32[2]"}, {"exp", {H({2})}, "float16[2]"},
      {"sqrt", {U({2})}, "float32[2]"}, {"neg", {U({2})}, "uint8[2]"},   {"square", {B({2})}, "int64[2]"},
      {"square", {I({2})}, "int64[2]"}, {"abs", {I({2})}, "int64[2]"},   {"sign", {B({2})}, "bool[2]"},
      {"floor", {I({2})}, "int64[2]"},  {"relu", {I({2})}, "int64[2]"},
  };
  for (const Case& c : cases) EXPECT_EQ(Result(c.op, c.args), c.want) << c.op << " of case " << &c - cases;
}

TEST(DtypeRules, Reductions) {
  const Case cases[] = {
      {"sum", {B({2})}, "int64[]"},
      {"sum", {U({2})}, "int64[]"},
      {"sum", {U({2}), None, false, DType::kFloat16}, "float16[]"},
      {"sum", {F({2}), None, false, DType::kBool}, "bool[]"},
      {"sum", {H({2})}, "float16[]"},
      {"mean", {I({2}), None, false, DType::kFloat32}, "float32[]"},
      {"mean", {H({2})}, "float16[]"},
      {"any", {U({2})}, "uint8[]"},
      {"all", {U({2})}, "uint8[]"},
      {"all", {I({2})}, "bool[]"},
      {"argmax", {H({2})}, "int64[]"},
      {"argmax", {I({2})}, "int64[]"},
      {"cumsum", {B({2}), 0}, "int64[2]"},
      {"prod", {B({2})}, "int64[]"},
      {"max.dim", {B({2}), 0}, "bool[]; int64[]"},
      {"amax", {B({2})}, "bool[]"},
      {"sort", {B({2})}, "bool[2]; int64[2]"},
      {"logsumexp", {I({2}), Ints{0}}, "float32[]"},
  };
  for (const Case& c : cases) EXPECT_EQ(Result(c.op, c.args), c.want) << c.op << " of case " << &c - cases;
}

TEST(DtypeRules, Errors) {
  const Case cases[] = {
      {"sub",
       {B({2}), B({2})},
       "RuntimeError: Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
       "`logical_xor()` operator instead."},
      {"sub",
       {B({2}), true},
       "RuntimeError: Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
       "`logical_xor()` operator instead."},
      {"sub",
       {B({2}), 1},
       "RuntimeError: Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to "
       "invert a mask, use the `~` or `logical_not()` operator instead."},
      {"sub",
       {1, B({2})},
       "RuntimeError: Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to "
       "invert a mask, use the `~` or `logical_not()` operator instead."},
      {"sub",
       {B({2}), F({2})},
       "RuntimeError: Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to "
       "invert a mask, use the `~` or `logical_not()` operator instead."},
      {"sub",
       {F({2}), B({2})},
       "RuntimeError: Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to "
       "invert a mask, use the `~` or `logical_not()` operator instead."},
      {"sub",
       {F({2}), true},
       "RuntimeError: Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to "
       "invert a mask, use the `~` or `logical_not()` operator instead."},
      {"floor_divide", {B({2}), true}, "RuntimeError: \"div_floor_cpu\" not implemented for 'Bool'"},
      {"remainder", {B({2}), true}, "RuntimeError: \"remainder_cpu\" not implemented for 'Bool'"},
      {"fmod", {B({2}), true}, "RuntimeError: \"fmod_cpu\" not implemented for 'Bool'"},
      {"div.rounding_mode", {B({2}), true, "trunc"}, "RuntimeError: \"div_trunc_cpu\" not implemented for 'Bool'"},
      {"div.rounding_mode", {B({2}), true, "floor"}, "RuntimeError: \"div_floor_cpu\" not implemented for 'Bool'"},
      {"div.rounding_mode",
       {I({2}), 2, "bad"},
       "RuntimeError: div expected rounding_mode to be one of None, 'trunc', or 'floor' but found 'bad'"},
      {"pow", {B({2}), true}, "RuntimeError: \"pow\" not implemented for 'Bool'"},
      {"pow", {I({2}), -1}, "RuntimeError: Integers to negative integer powers are not allowed."},
      {"pow", {B({2}), -1}, "RuntimeError: Integers to negative integer powers are not allowed."},
      {"pow", {true, B({2})}, "RuntimeError: \"pow\" not implemented for 'Bool'"},
      {"neg",
       {B({2})},
       "RuntimeError: Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a "
       "mask, use the `~` or `logical_not()` operator instead."},
      {"abs", {B({2})}, "RuntimeError: \"abs_cpu\" not implemented for 'Bool'"},
      {"relu", {B({2})}, "RuntimeError: Boolean inputs not supported for relu"},
      {"floor", {B({2})}, "RuntimeError: \"floor_cpu\" not implemented for 'Bool'"},
      {"clamp", {B({2}), false, true}, "RuntimeError: \"clamp_scalar_cpu\" not implemented for 'Bool'"},
      {"clamp", {I({2}), None, None}, "RuntimeError: torch.clamp: At least one of 'min' or 'max' must not be None"},
      {"where",
       {F({2}), F({2}), F({2})},
       "RuntimeError: where expected condition to be a boolean tensor, but got a tensor with dtype Float"},
      {"where",
       {I({2}), F({2}), F({2})},
       "RuntimeError: where expected condition to be a boolean tensor, but got a tensor with dtype Long"},
      {"bitwise_and", {F({2}), F({2})}, "RuntimeError: \"bitwise_and_cpu\" not implemented for 'Float'"},
      {"bitwise_and", {B({2}), 1.5}, "RuntimeError: \"bitwise_and_cpu\" not implemented for 'Float'"},
      {"bitwise_or", {I({2}), 1.5}, "RuntimeError: \"bitwise_or_cpu\" not implemented for 'Float'"},
      {"bitwise_not", {F({2})}, "RuntimeError: \"bitwise_not_cpu\" not implemented for 'Float'"},
      {"add",
       {I({2}), I({2}), 1.5},
       "RuntimeError: For integral input tensors, argument alpha must not be a floating point number."},
      {"add", {I({2}), I({2}), true}, "RuntimeError: Boolean alpha only supported for Boolean results."},
      {"add",
       {B({2}), B({2}), 1.5},
       "RuntimeError: For integral input tensors, argument alpha must not be a floating point number."},
      {"lerp", {F({2}), D({2}), 0.5}, "RuntimeError: expected dtype float for `end` but got dtype double"},
      {"lerp", {I({2}), I({2}), 0.5}, "RuntimeError: \"lerp_cpu\" not implemented for 'Long'"},
      {"mean",
       {I({2})},
       "RuntimeError: mean(): could not infer output dtype. Input dtype must be either a floating point or complex "
       "dtype. Got: Long"},
      {"mean",
       {B({2})},
       "RuntimeError: mean(): could not infer output dtype. Input dtype must be either a floating point or complex "
       "dtype. Got: Bool"},
      {"mean",
       {F({2}), None, false, DType::kInt64},
       "RuntimeError: mean(): could not infer output dtype. Optional dtype must be either a floating point or "
       "complex dtype. Got: Long"},
      {"mean",
       {I({2}), None, false, DType::kInt64},
       "RuntimeError: mean(): could not infer output dtype. Optional dtype must be either a floating point or "
       "complex dtype. Got: Long"},
      {"var", {I({2})}, "RuntimeError: std and var only support floating point and complex dtypes"},
      {"std", {I({2})}, "RuntimeError: std and var only support floating point and complex dtypes"},
      {"norm",
       {I({2})},
       "RuntimeError: norm(): input dtype should be either floating point or complex. Got Long instead."},
      {"argmax", {B({2})}, "RuntimeError: \"argmax_cpu\" not implemented for 'Bool'"},
      {"uniform_", {I({2})}, "RuntimeError: \"uniform__cpu\" not implemented for 'Long'"},
      {"uniform_", {F({2}), 1.0, 0.0},
       "RuntimeError: uniform_ expects to return a [from, to) range, but found from=1 > to=0"},
      {"uniform_", {H({2}), 0.0, 1e5}, "RuntimeError: to is out of bounds for c10::Half"},
      {"randperm", {257, DType::kUInt8}, "RuntimeError: value cannot be converted to type uint8_t without overflow"},
      {"randperm", {2050, DType::kFloat16}, "RuntimeError: n cannot be greater than 2049 for Half type."},
  };
  for (const Case& c : cases) EXPECT_EQ(Result(c.op, c.args), c.want) << c.op << " of case " << &c - cases;
}

TEST(DtypeRules, StatisticsOfAnyFloatingDtype) {
  const Case cases[] = {
      {"batch_norm", {H({2, 3}), F({3}), D({3}), H({3}), F({3})}, "float16[2, 3]"},
      {"batch_norm",
       {F({2, 3}), B({3}), F({3})},
       "RuntimeError: batch_norm(): expected a floating point tensor for running_mean, but got Bool"},
      {"_batch_norm",
       {F({2, 3}), F({3}), I({3}), None, None, true, 0.1, 1e-5},
       "RuntimeError: batch_norm(): expected a floating point tensor for running_var, but got Long"},
      {"layer_norm",
       {F({2, 3}), Ints{3}, F({3}), W({3})},
       "RuntimeError: layer_norm(): expected a floating point tensor for bias, but got Int"},
      {"_pow_backward_self", {F({2}), I({2}), F({2})}, "float32[2]"},
      {"_pow_backward_self", {F({2}), F({2}), D({2})}, "RuntimeError: expected scalar type Double but found Float"},
      {"_pow_backward_exponent",
       {F({2}), F({2}), F({2}), H({2})},
       "RuntimeError: expected scalar type Float but found Half"},
      {"binary_cross_entropy", {F({2}), F({2}), D({2})}, "float64[]"},
      {"binary_cross_entropy",
       {I({2}), H({2})},
       "RuntimeError: \"binary_cross_entropy_cpu\" not implemented for 'Long'"},
      {"_layer_norm",
       {F({2, 3}), Ints{3}, B({3}), None, 1e-5},
       "RuntimeError: layer_norm(): expected a floating point tensor for weight, but got Bool"},
  };
  for (const Case& c : cases) EXPECT_EQ(Result(c.op, c.args), c.want) << c.op << " of case " << &c - cases;
}

}  // namespace
}  // namespace telensor::testing
