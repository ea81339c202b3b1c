#include "proto/core/dims.h"

#include <gtest/gtest.h>

namespace telensor {
namespace {

TEST(Dims, HoldsAsManyAsTheLargestRank) {
  Dims d;
  for (int i = 0; i < kMaxRank; ++i) d.push_back(i);
  EXPECT_EQ(d.size(), kMaxRank);
  EXPECT_EQ(d.back(), kMaxRank - 1);
  EXPECT_DEATH(d.push_back(1), "");
  EXPECT_DEATH(Dims(kMaxRank + 1, 0), "");
}

TEST(Dims, Edits) {
  Dims d{2, 3};
  d.insert(0, 1);
  d.insert(3, 4);
  EXPECT_EQ(d, (Dims{1, 2, 3, 4}));
  d.erase(1);
  EXPECT_EQ(d, (Dims{1, 3, 4}));
  d.pop_back();
  d.resize(4, 7);
  EXPECT_EQ(d, (Dims{1, 3, 7, 7}));
  d.resize(1);
  EXPECT_EQ(d, Dims{1});
  EXPECT_TRUE(d.contains(1));
  EXPECT_FALSE(d.contains(7));
  EXPECT_EQ(Dims(3, 5), (Dims{5, 5, 5}));
  EXPECT_EQ(Dims(std::vector<int64_t>{1, 2}).ToVector(), (std::vector<int64_t>{1, 2}));
}

TEST(Dims, CopiesEveryRank) {
  for (int rank = 0; rank <= kMaxRank; ++rank) {
    Dims d;
    for (int i = 0; i < rank; ++i) d.push_back(100 + i);
    const Dims copy = d;
    EXPECT_EQ(copy, d);
    Dims other{1, 2, 3, 4, 5, 6};
    other = d;
    EXPECT_EQ(other, d);
    const Dims& self = other;
    other = self;
    EXPECT_EQ(other, d);
  }
  EXPECT_NE((Dims{1, 2}), (Dims{1}));
  EXPECT_NE((Dims{1, 2}), (Dims{1, 3}));
}

TEST(Dims, ToString) {
  EXPECT_EQ((Dims{2, 3}).ToString(), "[2, 3]");
  EXPECT_EQ(Dims().ToString(), "[]");
}

TEST(CheckedNumel, BoundsProducts) {
  EXPECT_EQ(CheckedNumel({}), 1);
  EXPECT_EQ(CheckedNumel({2, 3}), 6);
  EXPECT_EQ(CheckedNumel({2, 0}), 0);
  EXPECT_EQ(CheckedNumel({-1}), -1);
  EXPECT_EQ(CheckedNumel({0, -1}), -1);
  EXPECT_EQ(CheckedNumel({int64_t{1} << 59}), int64_t{1} << 59);
  EXPECT_EQ(CheckedNumel({int64_t{1} << 60}), -1);
  EXPECT_EQ(CheckedNumel({int64_t{1} << 31, int64_t{1} << 31}), -1);
  // An empty tensor's strides are made of its other sizes.
  EXPECT_EQ(CheckedNumel({int64_t{1} << 40, 0, int64_t{1} << 40}), -1);
  EXPECT_EQ(CheckedNumel({INT64_MAX, INT64_MAX}), -1);
}

TEST(Strides, Contiguous) {
  EXPECT_EQ(ContiguousStrides({2, 3, 4}), (Dims{12, 4, 1}));
  EXPECT_EQ(ContiguousStrides({2, 0, 4}), (Dims{4, 4, 1}));
  EXPECT_EQ(ContiguousStrides({}), Dims());
  EXPECT_TRUE(IsContiguous({2, 3}, {3, 1}));
  EXPECT_FALSE(IsContiguous({2, 3}, {1, 2}));
  EXPECT_TRUE(IsContiguous({1, 3}, {99, 1}));
  EXPECT_TRUE(IsContiguous({2, 0}, {5, 7}));
  EXPECT_TRUE(IsContiguous({}, {}));
}

TEST(Strides, NonOverlappingAndDense) {
  EXPECT_TRUE(IsNonOverlappingAndDense({2, 3}, {3, 1}));
  EXPECT_TRUE(IsNonOverlappingAndDense({2, 3}, {1, 2}));
  EXPECT_TRUE(IsNonOverlappingAndDense({4, 1, 2}, {1, 50, 4}));
  EXPECT_FALSE(IsNonOverlappingAndDense({2, 3}, {6, 2}));
  EXPECT_FALSE(IsNonOverlappingAndDense({2, 3}, {0, 1}));
  EXPECT_TRUE(IsNonOverlappingAndDense({2, 0}, {0, 0}));
}

}  // namespace
}  // namespace telensor
