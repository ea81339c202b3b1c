// Results and errors, as PyTorch 1.13 gives them for the same calls.
#include <gtest/gtest.h>

#include "proto/core/rule_testing.h"

namespace telensor::testing {
namespace {

TEST(MatmulRules, Sizes) {
  const Case cases[] = {
      {"mm", {F({2, 3}), F({3, 4})}, "float32[2, 4]"},
      {"mm", {Strided(F({2, 3}), {1, 2}), Strided(F({3, 4}), {1, 3})}, "float32[2, 4]"},
      {"mm", {F({2, 0}), F({0, 3})}, "float32[2, 3]"},
      {"mm", {I({2, 3}), I({3, 4})}, "int64[2, 4]"},
      {"bmm", {F({2, 3, 4}), F({2, 4, 5})}, "float32[2, 3, 5]"},
      {"bmm", {F({0, 3, 4}), F({0, 4, 5})}, "float32[0, 3, 5]"},
      {"addmm", {F({2, 4}), F({2, 3}), F({3, 4})}, "float32[2, 4]"},
      {"addmm", {F({4}), F({2, 3}), F({3, 4}), 2, 3}, "float32[2, 4]"},
      {"addmm", {F({}), F({2, 3}), F({3, 4})}, "float32[2, 4]"},
      {"dot", {F({3}), F({3})}, "float32[]"},
      {"mv", {F({2, 3}), F({3})}, "float32[2]"},
      {"outer", {F({2}), F({3})}, "float32[2, 3]"},
      {"outer", {I({2}), F({3})}, "float32[2, 3]"},
      {"baddbmm", {F({2, 3, 5}), F({2, 3, 4}), F({2, 4, 5})}, "float32[2, 3, 5]"},
      {"baddbmm", {F({5}), F({2, 3, 4}), F({2, 4, 5})}, "float32[2, 3, 5]"},
      {"matmul", {F({3}), F({3})}, "float32[]"},
      {"matmul", {F({2, 3}), F({3})}, "float32[2]"},
      {"matmul", {F({3}), F({3, 4})}, "float32[4]"},
      {"matmul", {F({2, 3}), F({3, 4})}, "float32[2, 4]"},
      {"matmul", {F({2, 3, 4}), F({4, 5})}, "float32[2, 3, 5]"},
      {"matmul", {F({2, 3, 4}), F({4})}, "float32[2, 3]"},
      {"matmul", {F({2, 3, 4}), F({2, 4, 5})}, "float32[2, 3, 5]"},
      {"matmul", {F({2, 1, 3, 4}), F({5, 4, 3})}, "float32[2, 5, 3, 3]"},
      {"matmul", {F({3}), F({2, 3, 4})}, "float32[2, 4]"},
      {"matmul", {F({0, 3, 4}), F({4, 2})}, "float32[0, 3, 2]"},
      {"linear", {F({2, 3}), F({4, 3}), F({4})}, "float32[2, 4]"},
      {"linear", {F({2, 5, 3}), F({4, 3})}, "float32[2, 5, 4]"},
      {"linear", {F({3}), F({4, 3}), F({4})}, "float32[4]"},
      {"linear", {F({0, 3}), F({4, 3})}, "float32[0, 4]"},
  };
  for (const Case& c : cases) EXPECT_EQ(Result(c.op, c.args), c.want) << c.op << " of case " << &c - cases;
}

TEST(MatmulRules, Errors) {
  const Case cases[] = {
      {"mm", {F({2, 3}), F({4, 5})}, "RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)"},
      {"mm", {F({2}), F({4, 5})}, "RuntimeError: self must be a matrix"},
      {"mm", {F({2, 3}), F({4})}, "RuntimeError: mat2 must be a matrix"},
      {"mm",
       {F({2, 3}), D({3, 4})},
       "RuntimeError: expected m1 and m2 to have the same dtype, but got: float != double"},
      {"mm", {B({2, 3}), B({3, 4})}, "RuntimeError: \"addmm_impl_cpu_\" not implemented for 'Bool'"},
      {"bmm", {F({2, 3}), F({4})}, "RuntimeError: batch1 must be a 3D tensor"},
      {"bmm", {F({2, 3, 4}), F({4})}, "RuntimeError: batch2 must be a 3D tensor"},
      {"bmm",
       {F({2, 3, 4}), F({2, 5, 4})},
       "RuntimeError: Expected size for first two dimensions of batch2 tensor to be: [2, 4] but got: [2, 5]."},
      {"bmm",
       {F({2, 3, 4}), F({3, 4, 4})},
       "RuntimeError: Expected size for first two dimensions of batch2 tensor to be: [2, 4] but got: [3, 4]."},
      {"addmm",
       {F({5}), F({2, 3}), F({3, 4})},
       "RuntimeError: The expanded size of the tensor (4) must match the existing size (5) at non-singleton "
       "dimension 1.  Target sizes: [2, 4].  Tensor sizes: [5]"},
      {"addmm",
       {F({2, 2, 4}), F({2, 3}), F({3, 4})},
       "RuntimeError: expand([2, 2, 4], size=[2, 4]): the number of sizes provided (2) must be greater or equal to "
       "the number of dimensions in the tensor (3)"},
      {"addmm", {F({4}), F({2, 3}), F({4})}, "RuntimeError: mat2 must be a matrix, got 1-D tensor"},
      {"addmm", {F({4}), F({2}), F({4})}, "RuntimeError: mat1 must be a matrix, got 1-D tensor"},
      {"addmm",
       {F({4}), F({2, 3}), F({5, 4})},
       "RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x3 and 5x4)"},
      {"addmm", {F({4}), F({2, 3}), D({3, 4})}, "RuntimeError: self and mat2 must have the same dtype"},
      {"addmm", {D({4}), F({2, 3}), F({3, 4})}, "RuntimeError: self and mat2 must have the same dtype"},
      {"dot",
       {F({2}), F({3})},
       "RuntimeError: inconsistent tensor size, expected tensor [2] and src [3] to have the same number of "
       "elements, but got 2 and 3 elements respectively"},
      {"dot", {F({2, 2}), F({3})}, "RuntimeError: 1D tensors expected, but got 2D and 1D tensors"},
      {"dot",
       {F({3}), D({3})},
       "RuntimeError: dot : expected both vectors to have same dtype, but found Float and Double"},
      {"mv", {F({2, 2}), F({3})}, "RuntimeError: size mismatch, got 2, 2x2,3"},
      {"mv", {F({2}), F({3})}, "RuntimeError: vector + matrix @ vector expected, got 1, 1, 1"},
      {"outer", {F({2, 2}), F({3})}, "RuntimeError: outer: Expected 1-D argument self, but got 2-D"},
      {"outer", {F({2}), F({3, 1})}, "RuntimeError: outer: Expected 1-D argument vec2, but got 2-D"},
      {"baddbmm",
       {F({3}), F({2, 3, 4}), F({2, 4, 5})},
       "RuntimeError: The expanded size of the tensor (5) must match the existing size (3) at non-singleton "
       "dimension 2.  Target sizes: [2, 3, 5].  Tensor sizes: [3]"},
      {"matmul",
       {F({2, 3, 4}), F({5, 4, 2})},
       "RuntimeError: The size of tensor a (2) must match the size of tensor b (5) at non-singleton dimension 0"},
      {"matmul", {F({2, 3, 4}), F({5, 2})}, "RuntimeError: mat1 and mat2 shapes cannot be multiplied (6x4 and 5x2)"},
      {"matmul",
       {F({2, 3, 4}), F({2, 5, 4})},
       "RuntimeError: Expected size for first two dimensions of batch2 tensor to be: [2, 4] but got: [2, 5]."},
      {"matmul",
       {F({3}), F({4})},
       "RuntimeError: inconsistent tensor size, expected tensor [3] and src [4] to have the same number of "
       "elements, but got 3 and 4 elements respectively"},
      {"matmul", {F({2, 3}), F({4})}, "RuntimeError: size mismatch, got 2, 2x3,4"},
      {"matmul", {F({3}), F({4, 2})}, "RuntimeError: mat1 and mat2 shapes cannot be multiplied (1x3 and 4x2)"},
      {"matmul", {F({2, 3, 4}), F({3})}, "RuntimeError: size mismatch, got 6, 6x4,3"},
      {"matmul",
       {F({}), F({2})},
       "RuntimeError: both arguments to matmul need to be at least 1D, but they are 0D and 1D"},
      {"linear", {F({2, 5}), F({4, 3})}, "RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x5 and 3x4)"},
      {"linear",
       {F({}), F({4, 3})},
       "RuntimeError: both arguments to matmul need to be at least 1D, but they are 0D and 2D"},
      {"linear",
       {F({2, 3}), F({4, 3}), F({5})},
       "RuntimeError: The expanded size of the tensor (4) must match the existing size (5) at non-singleton "
       "dimension 1.  Target sizes: [2, 4].  Tensor sizes: [5]"},
      {"linear", {F({2, 3}), F({4, 3}), D({4})}, "RuntimeError: self and mat2 must have the same dtype"},
  };
  for (const Case& c : cases) EXPECT_EQ(Result(c.op, c.args), c.want) << c.op << " of case " << &c - cases;
}

}  // namespace
}  // namespace telensor::testing
