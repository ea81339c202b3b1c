// Results and errors, as PyTorch 1.13 gives them for the same calls.
#include <cmath>

#include <gtest/gtest.h>

#include "proto/core/rule_testing.h"

namespace telensor::testing {
namespace {

TEST(ShapeRules, Creation) {
  const Case cases[] = {
      {"full", {Ints{2, 3}, 7}, "int64[2, 3]"},
      {"full", {Ints{}, 1.5}, "float32[]"},
      {"full", {Ints{0, 2}, true}, "bool[0, 2]"},
      {"full", {Ints{2}, 1.5, DType::kInt64}, "int64[2]"},
      {"zeros", {Ints{2, 3}}, "float32[2, 3]"},
      {"zeros", {Ints{}, DType::kInt64}, "int64[]"},
      {"full_like", {F({2, 3}), 3}, "float32[2, 3]"},
      {"full_like", {F({2, 3}), 3, DType::kBool}, "bool[2, 3]"},
      {"arange", {0, 5}, "int64[5]"},
      {"arange", {1, 10, 3}, "int64[3]"},
      {"arange", {0.5, 3.0, 0.25}, "float32[10]"},
      {"arange", {5, 0, -2}, "int64[3]"},
      {"arange", {0, 0}, "int64[0]"},
      {"arange", {0, 5.5, 1.5, DType::kInt64}, "int64[5]"},
      {"arange", {0, 5.5, 1.5, DType::kInt32}, "int32[4]"},
      {"arange", {0, 5.5, 1.5, DType::kFloat32}, "float32[4]"},
      {"arange", {0, 5, 0.5, DType::kInt64}, "RuntimeError: step must be nonzero"},
      {"arange", {0, 5, 1, DType::kFloat16}, "float16[5]"},
      {"arange.end", {5}, "int64[5]"},
      {"arange.end", {4.5}, "float32[5]"},
      {"arange", {9007199254740993, 9007199254740995}, "int64[2]"},
      {"linspace", {-1, 1, 7}, "float32[7]"},
      {"linspace", {0, 1, 0}, "float32[0]"},
      {"eye", {3}, "float32[3, 3]"},
      {"eye", {2, 4}, "float32[2, 4]"},
      {"eye", {0}, "float32[0, 0]"},
      {"rand", {Ints{2, 3}}, "float32[2, 3]"},
      {"randn", {Ints{2}, DType::kFloat64}, "float64[2]"},
      {"randint", {0, 10, Ints{2, 3}}, "int64[2, 3]"},
      {"randint", {0, 256, Ints{2}, DType::kUInt8}, "uint8[2]"},
      {"randint", {0, 2, Ints{2}, DType::kBool}, "bool[2]"},
      {"randperm", {4}, "int64[4]"},
      {"randperm", {256, DType::kUInt8}, "uint8[256]"},
  };
  for (const Case& c : cases) EXPECT_EQ(Result(c.op, c.args), c.want) << c.op << " of case " << &c - cases;
}

TEST(ShapeRules, CreationErrors) {
  const Case cases[] = {
      {"full", {Ints{2, -3}, 1}, "RuntimeError: Trying to create tensor with negative dimension -3: [2, -3]"},
      {"arange", {0, 10, 0}, "RuntimeError: step must be nonzero"},
      {"arange", {0, -10, 1}, "RuntimeError: upper bound and larger bound inconsistent with step sign"},
      {"arange", {0, HUGE_VAL}, "RuntimeError: unsupported range: 0 -> inf"},
      {"arange.end", {std::nan("")}, "RuntimeError: unsupported range: 0 -> nan"},
      {"arange", {0, 5, 1, DType::kBool}, "RuntimeError: \"arange_cpu\" not implemented for 'Bool'"},
      {"linspace", {0, 1, -1}, "RuntimeError: number of steps must be non-negative"},
      {"eye", {-1}, "RuntimeError: n must be greater or equal to 0, got -1"},
      {"eye", {2, -1}, "RuntimeError: m must be greater or equal to 0, got -1"},
      {"rand", {Ints{2}, DType::kInt64}, "RuntimeError: \"check_uniform_bounds\" not implemented for 'Long'"},
      {"randn", {Ints{2}, DType::kInt64}, "RuntimeError: \"normal_kernel_cpu\" not implemented for 'Long'"},
      {"randint", {0, 0, Ints{2}}, "RuntimeError: random_ expects 'from' to be less than 'to', but got from=0 >= to=0"},
      {"randint", {5, 2, Ints{2}}, "RuntimeError: random_ expects 'from' to be less than 'to', but got from=5 >= to=2"},
      {"randint", {0, 300, Ints{2}, DType::kUInt8}, "RuntimeError: to - 1 is out of bounds for unsigned char"},
      {"randint", {-1, 3, Ints{2}, DType::kUInt8}, "RuntimeError: from is out of bounds for unsigned char"},
      {"randint", {0, 3, Ints{2}, DType::kBool}, "RuntimeError: to - 1 is out of bounds for bool"},
      {"randperm", {-1}, "RuntimeError: Trying to create tensor with negative dimension -1: [-1]"},
      {"randperm", {3, DType::kBool}, "RuntimeError: \"randperm\" not implemented for 'Bool'"},
  };
  for (const Case& c : cases) EXPECT_EQ(Result(c.op, c.args), c.want) << c.op << " of case " << &c - cases;
}

TEST(ShapeRules, Pointwise) {
  const Case cases[] = {
      {"add", {F({2, 3}), F({3})}, "float32[2, 3]"},
      {"add", {F({2, 1}), F({1, 3})}, "float32[2, 3]"},
      {"add", {F({2, 3}), 1}, "float32[2, 3]"},
      {"add", {F({0, 3}), F({1, 3})}, "float32[0, 3]"},
      {"add", {F({0, 3}), F({3})}, "float32[0, 3]"},
      {"add", {F({}), F({2})}, "float32[2]"},
      {"add", {F({4, 1, 3}), F({2, 1})}, "float32[4, 2, 3]"},
      {"add", {Strided(F({3, 2}), {1, 3}), 1}, "float32[3, 2] by [1, 3]"},
      {"add", {Strided(F({3, 2}), {1, 3}), Strided(F({3, 2}), {1, 3})}, "float32[3, 2] by [1, 3]"},
      {"add", {Strided(F({3, 2}), {1, 3}), F({3, 2})}, "float32[3, 2] by [1, 3]"},
      {"add", {F({3, 2}), Strided(F({3, 2}), {1, 3})}, "float32[3, 2]"},
      {"add", {Strided(F({3, 2}), {1, 3}), F({2})}, "float32[3, 2] by [1, 3]"},
      {"add", {Strided(F({3, 2}), {1, 3}), F({})}, "float32[3, 2] by [1, 3]"},
      {"add", {Strided(F({3, 4}), {1, 3}), F({1, 4})}, "float32[3, 4] by [1, 3]"},
      {"clone", {Strided(F({2, 5}), {1, 2})}, "float32[2, 5] by [1, 2]"},
      {"clone", {Strided(F({2, 4, 3}), {1, 6, 2})}, "float32[2, 4, 3] by [1, 6, 2]"},
      {"add", {Strided(F({2, 4, 3}), {1, 6, 2}), 1}, "float32[2, 4, 3] by [1, 6, 2]"},
      {"add", {Strided(F({2, 4, 3}), {1, 6, 2}), Strided(F({2, 4, 3}), {1, 6, 2})}, "float32[2, 4, 3] by [1, 6, 2]"},
      {"add", {Strided(F({2, 4, 3}), {1, 6, 2}), F({2, 4, 3})}, "float32[2, 4, 3] by [1, 6, 2]"},
      {"add", {F({2, 4, 3}), Strided(F({2, 4, 3}), {1, 6, 2})}, "float32[2, 4, 3]"},
      {"add", {Strided(F({2, 4, 3}), {1, 6, 2}), F({4, 1})}, "float32[2, 4, 3] by [1, 6, 2]"},
      {"add", {Strided(F({2, 2, 3}), {1, 12, 2}), 1}, "float32[2, 2, 3] by [1, 6, 2]"},
      {"clone", {Strided(F({2, 2, 3}), {1, 12, 2})}, "float32[2, 2, 3] by [1, 6, 2]"},
      {"add", {Strided(F({1, 4, 3}), {1, 3, 1}), 1}, "float32[1, 4, 3] by [1, 3, 1]"},
      {"add", {Strided(F({1, 4, 3}), {3, 3, 1}), 1}, "float32[1, 4, 3] by [3, 3, 1]"},
      {"add", {Strided(F({3, 1, 4}), {1, 3, 3}), 1}, "float32[3, 1, 4] by [1, 3, 3]"},
      {"neg", {Strided(F({3, 1, 4}), {1, 3, 3})}, "float32[3, 1, 4] by [1, 3, 3]"},
      {"add", {Strided(F({3, 4}), {1, 0}), 1}, "float32[3, 4]"},
      {"add", {Strided(F({2, 4, 3}), {0, 1, 4}), 1}, "float32[2, 4, 3] by [12, 1, 4]"},
      {"add", {Strided(F({4, 3}), {1, 4}), F({2, 1, 1})}, "float32[2, 4, 3] by [12, 1, 4]"},
      {"add", {Strided(F({4, 0}), {1, 4}), 1}, "float32[4, 0] by [1, 4]"},
      {"add", {Strided(F({1, 3}), {1, 1}), F({1})}, "float32[1, 3] by [1, 1]"},
      {"add", {F({3, 1}), F({1, 4})}, "float32[3, 4]"},
      {"add", {Strided(F({3, 1}), {1, 3}), 1}, "float32[3, 1] by [1, 3]"},
      {"exp", {Strided(F({3, 1}), {1, 3})}, "float32[3, 1]"},
      {"add", {Strided(F({3, 1}), {1, 3}), F({1, 4})}, "float32[3, 4]"},
      {"add", {Strided(F({1, 3, 5}), {3, 1, 3}), F({1, 1, 5})}, "float32[1, 3, 5] by [3, 1, 3]"},
      {"add", {Strided(F({2, 4, 5, 3}), {60, 5, 1, 20}), F({2, 4, 5, 3})}, "float32[2, 4, 5, 3] by [60, 5, 1, 20]"},
      {"add", {Strided(F({2, 5, 3, 4}), {60, 1, 20, 5}), F({1, 1, 1})}, "float32[2, 5, 3, 4] by [60, 1, 20, 5]"},
      {"relu", {Strided(F({3, 2}), {1, 3})}, "float32[3, 2] by [1, 3]"},
      {"where", {Strided(B({3, 2}), {1, 3}), F({3, 2}), 0.0}, "float32[3, 2] by [1, 3]"},
      {"where", {B({3, 2}), Strided(F({3, 2}), {1, 3}), Strided(F({3, 2}), {1, 3})}, "float32[3, 2]"},
      {"clamp", {Strided(F({3, 2}), {1, 3}), 0, 1}, "float32[3, 2] by [1, 3]"},
      {"eq", {Strided(F({3, 2}), {1, 3}), 1}, "bool[3, 2] by [1, 3]"},
      {"to", {Strided(F({3, 2}), {1, 3}), DType::kFloat64}, "float64[3, 2] by [1, 3]"},
      {"to", {Strided(F({2, 2}), {3, 2}), DType::kFloat32}, "float32[2, 2] by [3, 2]"},
      {"contiguous", {Strided(F({3, 2}), {1, 3})}, "float32[3, 2]"},
      {"contiguous", {Strided(F({3, 3}), {3, 1}, 3)}, "float32[3, 3] at 3"},
      {"lerp", {F({2, 3}), F({3}), 0.5}, "float32[2, 3]"},
      {"addcmul", {F({2, 3}), F({3}), F({2, 1})}, "float32[2, 3]"},
  };
  for (const Case& c : cases) EXPECT_EQ(Result(c.op, c.args), c.want) << c.op << " of case " << &c - cases;
}

TEST(ShapeRules, PointwiseErrors) {
  const Case cases[] = {
      {"add",
       {F({2, 3}), F({2, 4})},
       "RuntimeError: The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1"},
      {"add",
       {F({3, 1}), F({2, 4})},
       "RuntimeError: The size of tensor a (3) must match the size of tensor b (2) at non-singleton dimension 0"},
      {"add",
       {F({3}), F({2})},
       "RuntimeError: The size of tensor a (3) must match the size of tensor b (2) at non-singleton dimension 0"},
      {"where",
       {B({2}), F({3}), F({3})},
       "RuntimeError: The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 0"},
      {"copy_",
       {F({2, 3}), F({4})},
       "RuntimeError: The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1"},
      {"copy_",
       {F({2, 3}), F({2, 2, 3})},
       "RuntimeError: output with shape [2, 3] doesn't match the broadcast shape [2, 2, 3]"},
      {"fill_",
       {F({2, 3}), F({2})},
       "RuntimeError: fill_ only supports 0-dimension value tensor but got tensor with 1 dimensions."},
  };
  for (const Case& c : cases) EXPECT_EQ(Result(c.op, c.args), c.want) << c.op << " of case " << &c - cases;
}

TEST(ShapeRules, Reductions) {
  const Case cases[] = {
      {"sum", {F({2, 3})}, "float32[]"},
      {"sum", {F({2, 3}), Ints{0}}, "float32[3]"},
      {"sum", {F({2, 3}), Ints{-1}, true}, "float32[2, 1]"},
      {"sum", {F({2, 3}), Ints{0, 1}, true}, "float32[1, 1]"},
      {"sum", {F({}), Ints{0}}, "float32[]"},
      {"sum", {F({0, 3}), Ints{0}}, "float32[3]"},
      {"mean", {Strided(F({3, 2}), {1, 3}), Ints{0}, true}, "float32[1, 2]"},
      {"amax", {F({2, 3}), Ints{1}}, "float32[2]"},
      {"amax", {F({0, 3}), Ints{1}}, "float32[0]"},
      {"max", {F({2, 3})}, "float32[]"},
      {"max.dim", {F({2, 3}), 1}, "float32[2]; int64[2]"},
      {"max.dim", {F({2, 3}), -2, true}, "float32[1, 3]; int64[1, 3]"},
      {"max.dim", {F({}), 0}, "float32[]; int64[]"},
      {"prod.dim", {F({2, 3}), 1}, "float32[2]"},
      {"argmax", {F({2, 3})}, "int64[]"},
      {"argmax", {F({2, 3}), 1}, "int64[2]"},
      {"argmax", {F({2, 3}), 0, true}, "int64[1, 3]"},
      {"argmax", {F({}), 0}, "int64[]"},
      {"any", {F({2, 3}), Ints{1}}, "bool[2]"},
      {"var", {F({2, 3}), Ints{1}}, "float32[2]"},
      {"norm", {F({2, 3}), 2, Ints{0}, true}, "float32[1, 3]"},
      {"logsumexp", {F({2, 3}), Ints{1}}, "float32[2]"},
      {"cumsum", {Strided(F({3, 2}), {1, 3}), 1}, "float32[3, 2]"},
      {"cumsum", {F({}), 0}, "float32[]"},
  };
  for (const Case& c : cases) EXPECT_EQ(Result(c.op, c.args), c.want) << c.op << " of case " << &c - cases;
}

TEST(ShapeRules, ReductionErrors) {
  const Case cases[] = {
      {"sum", {F({2, 3}), Ints{0, -2}}, "RuntimeError: dim 0 appears multiple times in the list of dims"},
      {"sum",
       {F({2, 3}), Ints{5}},
       "IndexError: Dimension out of range (expected to be in range of [-2, 1], but got 5)"},
      {"amax", {F({2, 3}), Ints{0, 0}}, "RuntimeError: dim 0 appears multiple times in the list of dims"},
      {"amax",
       {F({0, 3})},
       "RuntimeError: amax(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction "
       "dim with the 'dim' argument."},
      {"amax", {F({0, 3}), Ints{0}}, "IndexError: amax(): Expected reduction dim 0 to have non-zero size."},
      {"max",
       {F({0, 3})},
       "RuntimeError: max(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction "
       "dim with the 'dim' argument."},
      {"max.dim", {F({0, 3}), 0}, "IndexError: max(): Expected reduction dim 0 to have non-zero size."},
      {"argmax", {F({0, 3})}, "IndexError: argmax(): Expected reduction dim to be specified for input.numel() == 0."},
      {"argmax", {F({0, 3}), 0}, "IndexError: argmax(): Expected reduction dim 0 to have non-zero size."},
      {"cumsum", {F({2, 3}), 2}, "IndexError: Dimension out of range (expected to be in range of [-2, 1], but got 2)"},
  };
  for (const Case& c : cases) EXPECT_EQ(Result(c.op, c.args), c.want) << c.op << " of case " << &c - cases;
}

TEST(ShapeRules, AGradientHasTheSizeOfItsReduction) {
  const Case cases[] = {
      {"_prod_backward", {F({2}), F({2, 3}), Ints{1}, false}, "float32[2, 3]"},
      {"_prod_backward",
       {F({3}), F({2, 3}), Ints{1}, false},
       "RuntimeError: _prod_backward(): grad has size [3], expected [2]"},
      {"_prod_backward",
       {F({2}), F({2, 3}), Ints{2}, false},
       "IndexError: Dimension out of range (expected to be in range of [-2, 1], but got 2)"},
      {"_prod_backward",
       {F({2}), D({2, 3}), Ints{1}, false},
       "RuntimeError: expected m1 and m2 to have the same dtype, but got: double != float"},
      {"_extremum_backward", {F({}), F({2, 3}), F({}), None, false}, "float32[2, 3]"},
      {"_extremum_backward",
       {F({2, 1}), F({2, 3}), F({2}), Ints{1}, true},
       "RuntimeError: _extremum_backward(): result has size [2], expected [2, 1]"},
      {"_norm_backward", {F({2}), F({2, 3}), 2.0, F({2}), Ints{1}, false}, "float32[2, 3]"},
      {"_norm_backward",
       {F({2, 3}), F({2, 3}), 2.0, F({2}), Ints{1}, false},
       "RuntimeError: _norm_backward(): grad has size [2, 3], expected [2]"},
      {"_pick_backward", {F({2}), Ints{2, 3}, 1, I({2}), false}, "float32[2, 3]"},
      {"_pick_backward", {F({2, 1}), Ints{2, 3}, 1, I({2, 1}), true}, "float32[2, 3]"},
      {"_pick_backward", {F({}), Ints{}, 0, I({}), false}, "float32[]"},
      {"_pick_backward",
       {F({3}), Ints{2, 3}, 1, I({3}), false},
       "RuntimeError: _pick_backward(): grad has size [3], expected [2]"},
      {"_pick_backward",
       {F({2}), Ints{2, 3}, 1, I({1}), false},
       "RuntimeError: _pick_backward(): indices has size [1], expected [2]"},
      {"_pick_backward",
       {F({2}), Ints{2, 3}, 1, F({2}), false},
       "RuntimeError: pick_backward(): Expected dtype int64 for index"},
      {"_pow_backward_self", {F({2, 3}), F({2, 3}), F({3})}, "float32[2, 3]"},
      {"_pow_backward_self",
       {F({3}), F({2, 3}), 0},
       "RuntimeError: _pow_backward_self(): grad has size [3], expected [2, 3]"},
  };
  for (const Case& c : cases) EXPECT_EQ(Result(c.op, c.args), c.want) << c.op << " of case " << &c - cases;
}

}  // namespace
}  // namespace telensor::testing
