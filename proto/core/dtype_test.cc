#include "proto/core/dtype.h"

#include <gtest/gtest.h>

namespace telensor {
namespace {

constexpr DType b1 = DType::kBool, u1 = DType::kUInt8, i1 = DType::kInt8, i2 = DType::kInt16, i4 = DType::kInt32,
                i8 = DType::kInt64, f2 = DType::kFloat16, bf = DType::kBFloat16, f4 = DType::kFloat32,
                f8 = DType::kFloat64;
constexpr DType kAll[10] = {b1, u1, i1, i2, i4, i8, f2, bf, f4, f8};
constexpr DType kKinds[3] = {b1, i8, f8};

// As torch.promote_types and torch.result_type say: rows are the first operand, columns the second. kZeroDim: the
// second has no dimensions; kNumbers: it is True, 1 or 1.5, and the first has one dimension or none.
constexpr DType kTensors[10][10] = {
    {b1, u1, i1, i2, i4, i8, f2, bf, f4, f8},  // bool
    {u1, u1, i2, i2, i4, i8, f2, bf, f4, f8},  // uint8
    {i1, i2, i1, i2, i4, i8, f2, bf, f4, f8},  // int8
    {i2, i2, i2, i2, i4, i8, f2, bf, f4, f8},  // int16
    {i4, i4, i4, i4, i4, i8, f2, bf, f4, f8},  // int32
    {i8, i8, i8, i8, i8, i8, f2, bf, f4, f8},  // int64
    {f2, f2, f2, f2, f2, f2, f2, f4, f4, f8},  // float16
    {bf, bf, bf, bf, bf, bf, f4, bf, f4, f8},  // bfloat16
    {f4, f4, f4, f4, f4, f4, f4, f4, f4, f8},  // float32
    {f8, f8, f8, f8, f8, f8, f8, f8, f8, f8},  // float64
};
constexpr DType kZeroDim[10][10] = {
    {b1, u1, i1, i2, i4, i8, f2, bf, f4, f8},  // bool
    {u1, u1, u1, u1, u1, u1, f2, bf, f4, f8},  // uint8
    {i1, i1, i1, i1, i1, i1, f2, bf, f4, f8},  // int8
    {i2, i2, i2, i2, i2, i2, f2, bf, f4, f8},  // int16
    {i4, i4, i4, i4, i4, i4, f2, bf, f4, f8},  // int32
    {i8, i8, i8, i8, i8, i8, f2, bf, f4, f8},  // int64
    {f2, f2, f2, f2, f2, f2, f2, f2, f2, f2},  // float16
    {bf, bf, bf, bf, bf, bf, bf, bf, bf, bf},  // bfloat16
    {f4, f4, f4, f4, f4, f4, f4, f4, f4, f4},  // float32
    {f8, f8, f8, f8, f8, f8, f8, f8, f8, f8},  // float64
};
constexpr DType kNumbers[10][3] = {
    {b1, i8, f4},  // bool
    {u1, u1, f4},  // uint8
    {i1, i1, f4},  // int8
    {i2, i2, f4},  // int16
    {i4, i4, f4},  // int32
    {i8, i8, f4},  // int64
    {f2, f2, f2},  // float16
    {bf, bf, bf},  // bfloat16
    {f4, f4, f4},  // float32
    {f8, f8, f8},  // float64
};
constexpr DType kZeroDimNumbers[10][3] = {
    {b1, i8, f4},  // bool
    {u1, u1, f4},  // uint8
    {i1, i1, f4},  // int8
    {i2, i2, f4},  // int16
    {i4, i4, f4},  // int32
    {i8, i8, f4},  // int64
    {f2, f2, f2},  // float16
    {bf, bf, bf},  // bfloat16
    {f4, f4, f4},  // float32
    {f8, f8, f8},  // float64
};

TEST(DType, PromotesTensors) {
  for (int a = 0; a < 10; ++a) {
    for (int b = 0; b < 10; ++b) {
      EXPECT_EQ(PromoteTypes(kAll[a], kAll[b]), kTensors[a][b]) << DTypeName(kAll[a]) << " " << DTypeName(kAll[b]);
      TypePromoter both;
      both.AddTensor(kAll[a], 2);
      both.AddTensor(kAll[b], 1);
      EXPECT_EQ(both.Result(), kTensors[a][b]);
      TypePromoter none;
      none.AddTensor(kAll[a], 0);
      none.AddTensor(kAll[b], 0);
      EXPECT_EQ(none.Result(), kTensors[a][b]);
    }
  }
}

TEST(DType, PromotesZeroDim) {
  for (int a = 0; a < 10; ++a) {
    for (int b = 0; b < 10; ++b) {
      TypePromoter p;
      p.AddTensor(kAll[b], 0);
      p.AddTensor(kAll[a], 1);
      EXPECT_EQ(p.Result(), kZeroDim[a][b]) << DTypeName(kAll[a]) << " " << DTypeName(kAll[b]);
    }
  }
}

TEST(DType, PromotesNumbers) {
  for (int a = 0; a < 10; ++a) {
    for (int k = 0; k < 3; ++k) {
      TypePromoter p, zero_dim;
      p.AddTensor(kAll[a], 1);
      p.AddNumber(kKinds[k]);
      EXPECT_EQ(p.Result(), kNumbers[a][k]) << DTypeName(kAll[a]) << " " << k;
      zero_dim.AddTensor(kAll[a], 0);
      zero_dim.AddNumber(kKinds[k]);
      EXPECT_EQ(zero_dim.Result(), kZeroDimNumbers[a][k]) << DTypeName(kAll[a]) << " " << k;
    }
  }
  TypePromoter p;
  p.AddTensor(i8, 1);
  p.AddNumber(f8);
  EXPECT_EQ(p.Result(f8), f8);
  EXPECT_EQ(p.Result(f2), f2);
}

TEST(DType, Names) {
  for (DType t : kAll) {
    EXPECT_TRUE(IsValid(t));
    EXPECT_EQ(DTypeFromName(DTypeName(t)), t);
  }
  EXPECT_EQ(DTypeName(f4), "float32");
  EXPECT_EQ(DTypeTitle(i8), "Long");
  EXPECT_EQ(DTypeFromName("float33"), DType::kNone);
  EXPECT_FALSE(IsValid(DType::kNone));
  EXPECT_FALSE(IsValid(static_cast<DType>(11)));
  EXPECT_EQ(DTypeName(static_cast<DType>(200)), "none");
}

TEST(DType, Kinds) {
  const size_t sizes[10] = {1, 1, 1, 2, 4, 8, 2, 2, 4, 8};
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(ItemSize(kAll[i]), sizes[i]);
    EXPECT_EQ(IsFloating(kAll[i]), i >= 6);
    EXPECT_EQ(IsInteger(kAll[i]), i >= 1 && i < 6);
  }
}

}  // namespace
}  // namespace telensor
