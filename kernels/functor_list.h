// Which functor of kernels/functors.h computes which row: every backend instantiates these lists.
// lint: ops listed here, a row's name and its functor meet in this file alone
#pragma once

// The lists. TT_*_OPS(X): X(row, functor).
#define TT_NUMBER_UNARY_OPS(X) X("neg", Neg) X("square", Square) X("abs", Abs) X("floor", Floor) X("ceil", Ceil) X("trunc", Trunc) X("round", Round) X("relu", Relu)
#define TT_FLOAT_UNARY_OPS(X) X("exp", Exp) X("expm1", Expm1) X("log", Log) X("log2", Log2) X("log10", Log10) X("log1p", Log1p) \
  X("sqrt", Sqrt) X("rsqrt", Rsqrt) X("reciprocal", Reciprocal) X("sin", Sin) X("cos", Cos) X("tan", Tan) X("sinh", Sinh) \
  X("cosh", Cosh) X("asin", Asin) X("acos", Acos) X("atan", Atan) X("tanh", Tanh) X("sigmoid", Sigmoid) X("erf", Erf) \
  X("silu", Silu) X("logsigmoid", LogSigmoid)
#define TT_ALL_UNARY_OPS(X) X("sign", Sign)
#define TT_INTEGER_UNARY_OPS(X) X("bitwise_not", BitwiseNot)
#define TT_ALL_BINARY_OPS(X) X("mul", Mul) X("maximum", Maximum) X("minimum", Minimum)
#define TT_NUMBER_BINARY_OPS(X) X("pow", Pow)
#define TT_DIVIDING_OPS(X) X("floor_divide", FloorDivide) X("_trunc_divide", TruncDivide) X("remainder", Remainder) X("fmod", Fmod)
#define TT_FLOAT_BINARY_OPS(X) X("div", Div) X("atan2", Atan2) X("_relu_backward", ReluBackward) X("_tanh_backward", TanhBackward) \
  X("_sigmoid_backward", SigmoidBackward) X("_silu_backward", SiluBackward)
#define TT_INTEGER_BINARY_OPS(X) X("bitwise_and", BitwiseAnd) X("bitwise_or", BitwiseOr) X("bitwise_xor", BitwiseXor)
#define TT_COMPARISON_OPS(X) X("eq", Eq) X("ne", Ne) X("lt", Lt) X("le", Le) X("gt", Gt) X("ge", Ge) \
  X("logical_and", LogicalAnd) X("logical_or", LogicalOr) X("logical_xor", LogicalXor)
#define TT_TEST_OPS(X) X("isnan", IsNanOp) X("isinf", IsInf) X("isfinite", IsFinite) X("logical_not", LogicalNot)
