// The host logic of the CUDA plug-in, which needs no GPU.
#include "kernels/cuda/layout.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "kernels/cuda/convolution_shape.h"
#include "kernels/cuda/gemm_plan.h"
#include "kernels/cuda/scan_plan.h"

namespace telensor::cuda {
namespace {

TEST(FastDivisor, DividesExactly) {
  std::mt19937 random(1);
  std::vector<uint32_t> divisors = {1,   2,     3,     5,       7,          10,         255,        256,
                                    257, 65535, 65536, 1000003, 0x3fffffff, 0x40000000, 0x7ffffffe, 0x7fffffff};
  for (int i = 0; i < 200; ++i) divisors.push_back(random() % 0x7fffffff + 1);
  for (const uint32_t d : divisors) {
    const FastDivisor fast(d);
    std::vector<uint32_t> numbers = {0, 1, d - 1, d, 0x7fffffff, 0x7ffffffe};
    for (int i = 0; i < 200; ++i) numbers.push_back(random() & 0x7fffffff);
    for (const uint32_t n : numbers) ASSERT_EQ(fast.Divide(n), n / d) << n << " / " << d;
  }
}

TEST(Dims, JoinsDimensions) {
  Dims<2> dense;
  dense.Add(2, {12, 12});
  dense.Add(1, {7, 9});
  dense.Add(3, {4, 4});
  dense.Add(4, {1, 1});
  EXPECT_EQ(dense.rank, 1);
  EXPECT_EQ(dense.sizes[0], 24);
  Dims<2> transposed;
  transposed.Add(2, {3, 1});
  transposed.Add(3, {1, 2});
  EXPECT_EQ(transposed.rank, 2);
  Dims<2> number;
  number.Add(1, {5, 5});
  EXPECT_EQ(number.rank, 0);
  EXPECT_EQ(number.numel(), 1);
}

TEST(Layout, FindsEveryElement) {
  Dims<2> dims;
  dims.Add(3, {20, 1});
  dims.Add(4, {5, 0});
  dims.Add(5, {1, -3});
  const Layout<2> layout = dims.ForDevice();
  const Locators<2> locators(dims);
  uint32_t i = 0;
  for (int a = 0; a < 3; ++a) {
    for (int b = 0; b < 4; ++b) {
      for (int c = 0; c < 5; ++c, ++i) {
        int64_t at[2], again[2];
        layout.Find(i, at);
        locators.Find(i, again);
        EXPECT_EQ(at[0], a * 20 + b * 5 + c);
        EXPECT_EQ(at[1], a - 3 * c);
        EXPECT_EQ(again[1], at[1]);
      }
    }
  }
}

TEST(Locator, WorksBeyond32Bits) {
  Dims<1> dims;
  dims.Add(3, {int64_t{1} << 40});
  dims.Add(int64_t{1} << 31, {2});
  const Locator where(dims);
  EXPECT_TRUE(where.places.wide);
  EXPECT_EQ(where((int64_t{1} << 31) + 5), (int64_t{1} << 40) + 10);
  EXPECT_EQ(where((int64_t{1} << 32) + 7), (int64_t{2} << 40) + 14);
}

TEST(ForEachPart, CoversEachElementOnce) {
  Dims<1> dims;
  dims.Add(7, {100});
  dims.Add(9, {3});
  std::vector<int> seen(1000);
  const int64_t start[1] = {0};
  const int code = ForEachPart(dims, 10, start, [&](const Dims<1>& part, const int64_t(&offsets)[1]) {
    EXPECT_LE(part.numel(), 10);
    const Locator where(part);
    for (int64_t i = 0; i < part.numel(); ++i) ++seen[offsets[0] + where(i)];
    return 0;
  });
  EXPECT_EQ(code, 0);
  for (int a = 0; a < 7; ++a) {
    for (int b = 0; b < 9; ++b) EXPECT_EQ(seen[a * 100 + b * 3], 1);
  }
  EXPECT_EQ(ForEachPart(dims, 10, start, [](const Dims<1>&, const int64_t(&)[1]) { return 7; }), 7);
}

TEST(Reduction, MasksAndSplitsDimensions) {
  tt_value none = {}, one = {}, list = {};
  one.kind = 2;
  one.i = -1;
  const int64_t dims[] = {0, -1};
  list.kind = 4;
  list.count = 2;
  list.ints = dims;
  EXPECT_EQ(DimMask(none, 3), 7u);
  EXPECT_EQ(DimMask(one, 3), 4u);
  EXPECT_EQ(DimMask(list, 3), 5u);
  EXPECT_EQ(DimMask(one, 0), 0u);
  const int64_t sizes[] = {2, 3, 4}, strides[] = {1, 2, 6};
  tt_tensor t = {};
  t.rank = 3;
  t.sizes = sizes;
  t.strides = strides;
  const ReductionDims ordered = SplitReduction(t, 5, true), sorted = SplitReduction(t, 5, false);
  EXPECT_EQ(ordered.kept.numel(), 3);
  EXPECT_EQ(ordered.reduced.strides[0][0], 1);
  EXPECT_EQ(sorted.reduced.strides[0][sorted.reduced.rank - 1], 1);
}

TEST(Reduction, PlansCoverEveryElement) {
  for (const int64_t outputs : {1, 3, 100, 5000, 1000000}) {
    for (const int64_t count : {0, 1, 7, 100, 4097, 1000000, 100000000}) {
      for (const bool fast : {false, true}) {
        const ReductionPlan p = PlanReduction(outputs, count, fast, 132);
        EXPECT_GE(p.splits * p.each, count);
        EXPECT_LT((p.splits - 1) * p.each, std::max<int64_t>(count, 1));
        EXPECT_LE(p.splits, 1024);
        EXPECT_LE(p.across * p.along, 1024);
        EXPECT_EQ(p.across * p.along % 32, 0);
        EXPECT_EQ(p.along & (p.along - 1), 0);
      }
    }
  }
  EXPECT_GT(PlanReduction(1, 100000000, false, 132).splits, 132);
  EXPECT_EQ(PlanReduction(100000, 64, false, 132).splits, 1);
}

TEST(GemmPlan, TellsLayoutsApart) {
  EXPECT_FALSE(PlanMatrix(2, 3, 3, 1).copy);
  EXPECT_EQ(PlanMatrix(2, 3, 3, 1).ld, 3);
  EXPECT_EQ(PlanMatrix(2, 3, 8, 1).ld, 8);
  EXPECT_TRUE(PlanMatrix(2, 3, 1, 2).transposed);
  EXPECT_EQ(PlanMatrix(2, 3, 1, 5).ld, 5);
  EXPECT_TRUE(PlanMatrix(2, 3, 6, 2).copy);
  EXPECT_TRUE(PlanMatrix(2, 3, 0, 1).copy);   // expanded
  EXPECT_TRUE(PlanMatrix(2, 3, 2, 1).copy);   // rows that overlap
  EXPECT_FALSE(PlanMatrix(1, 3, 0, 1).copy);  // one row: its stride says nothing
  EXPECT_GE(PlanMatrix(1, 3, 0, 1).ld, 3);
  EXPECT_FALSE(PlanMatrix(3, 1, 7, 99).copy);
  EXPECT_GE(PlanMatrix(0, 0, 0, 1).ld, 1);
}

TEST(Convolution, ChecksSizes) {
  const int64_t in_sizes[] = {2, 4, 7, 7}, w_sizes[] = {6, 2, 3, 2}, out_sizes[] = {2, 6, 4, 3}, padding[] = {1, 0};
  tt_tensor in = {}, weight = {}, out = {};
  in.rank = weight.rank = out.rank = 4;
  in.sizes = in_sizes;
  weight.sizes = w_sizes;
  out.sizes = out_sizes;
  tt_value attrs[4] = {};
  attrs[0].kind = attrs[2].kind = attrs[3].kind = 2;
  attrs[0].i = 2;
  attrs[1].kind = 4;
  attrs[1].count = 2;
  attrs[1].ints = padding;
  attrs[2].i = 1;
  attrs[3].i = 2;
  ConvolutionShape s;
  ASSERT_TRUE(ReadConvolution(in, weight, out, attrs, &s));
  EXPECT_EQ(s.padding[0], 1);
  EXPECT_EQ(s.padding[1], 0);
  attrs[3].i = 3;
  EXPECT_FALSE(ReadConvolution(in, weight, out, attrs, &s));
  attrs[3].i = 2;
  attrs[0].i = 0;
  EXPECT_FALSE(ReadConvolution(in, weight, out, attrs, &s));
  attrs[0].i = 1;
  EXPECT_FALSE(ReadConvolution(in, weight, out, attrs, &s));
}

TEST(ScanPlan, CoversEveryLineOnce) {
  for (const int64_t lines : {int64_t{1}, int64_t{2}, int64_t{31}, int64_t{32}, int64_t{1000}, int64_t{1} << 33}) {
    for (const int64_t length : {int64_t{1}, int64_t{32}, int64_t{33}, int64_t{4095}, int64_t{8192}, int64_t{1000003},
                                 int64_t{1} << 34}) {
      for (const bool neighbours : {false, true}) {
        const ScanPlan p = PlanScan(lines, length, neighbours, 132);
        EXPECT_GE(p.parts, 1);
        EXPECT_LE(p.parts, 1024);
        EXPECT_GE(p.parts * p.each, length);
        EXPECT_LT((p.parts - 1) * p.each, length);
        EXPECT_EQ(p.columns, length <= 32 || (neighbours && lines >= 32));
        // A block of its own for each part of a first pass must fit in a grid.
        if (p.parts > 1) {
          EXPECT_LT(lines * p.parts, INT32_MAX);
        }
      }
    }
  }
  EXPECT_GT(PlanScan(1, 1 << 20, false, 132).parts, 100);
  EXPECT_EQ(PlanScan(1, 4000, false, 132).parts, 1);
  EXPECT_EQ(PlanScan(100000, 4000, false, 132).parts, 1);
}

TEST(AlgorithmCache, ForgetsBeforeItGrowsTooLarge) {
  AlgorithmCache<int> cache;
  std::array<int64_t, 17> key = {};
  for (int i = 0; i < 3000; ++i) {
    key[0] = i;
    EXPECT_EQ(cache.Find(key), nullptr);
    cache.Add(key, i);
    ASSERT_NE(cache.Find(key), nullptr);
    EXPECT_EQ(*cache.Find(key), i);
    EXPECT_LE(cache.size(), AlgorithmCache<int>::kMost);
  }
}

}  // namespace
}  // namespace telensor::cuda
