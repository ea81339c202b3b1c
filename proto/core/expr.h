// Formulas of the op table, compiled by the generator into flat arrays: composite ops and gradients.
#pragma once

#include <cstdint>

namespace telensor {

enum class ExprKind : uint8_t {
  kInput,    // a: parameter's input slot
  kAttr,     // a: attribute slot
  kGrad,     // a: index of the incoming gradient; -1 for all of them, as a list
  kOutput,   // a: index of the op's output
  kLet,      // a: index of an earlier `name = expression` line
  kLiteral,  // a: index into OpTable's literals
  kList,     // args
  kTuple,    // args
  kCall,     // a: op id; args: one for every parameter, in the order of its signature
  kHelper,   // a: Helper
  kItem,     // args[0] is a call; a: which of its outputs
  kNegate,
  kNot,
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kAnd,
  kOr,
  kCondition,  // args: test, then, else; only the chosen one is evaluated
};

// What a formula may ask of metadata. The generator turns `reduced_count` into Helper::kReducedCount.
enum class Helper : uint8_t {
  kSizes,
  kSize,
  kDim,
  kNumel,
  kDtype,
  kDevice,
  kStrides,
  kOffset,
  kLen,
  kProduct,
  kIsTensor,
  kIsFloating,
  kIsContiguous,
  kIsAlready,
  kViewable,
  kInferSize,
  kFlattenSizes,
  kUnflattenSizes,
  kInversePermutation,
  kWrapDim,
  kWrapIndex,
  kReducedCount,
  kFoldRows,
  kMatmulSizes,
  kMatmulBatch,
  kRepeatInterleaved,
  kRepeatExpanded,
  kRepeatSizes,
  kSizesAlong,
  kBroadcastSizes,
  kChannelDims,
  kChannelShape,
  kLastDims,
  kLeadingDims,
  kChannelLast,
  kNllRows,
  kLn,
  kValueOf,  // reads a one-element tensor's value: waits for the device
};

struct Expr {
  ExprKind kind;
  int16_t a;
  int16_t first;  // into the table's expression arguments, which index expressions
  int16_t count;
};

struct Formula {
  const int16_t* lets = nullptr;  // expressions of the `name = expression` lines
  int16_t num_lets = 0;
  int16_t root = -1;

  bool given() const { return root >= 0; }
};

}  // namespace telensor
