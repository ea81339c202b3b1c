// Results and errors, as PyTorch 1.13 gives them for the same calls.
#include <cmath>

#include <gtest/gtest.h>

#include "proto/core/rule_testing.h"

namespace telensor::testing {
namespace {

TEST(NnRules, Sizes) {
  const Case cases[] = {
      {"conv2d", {F({2, 3, 4, 4}), F({5, 3, 3, 3})}, "float32[2, 5, 2, 2]"},
      {"conv2d", {F({2, 3, 4, 5}), F({5, 3, 3, 3}), F({5}), 2, Ints{1, 0}, 1, 1}, "float32[2, 5, 2, 2]"},
      {"conv2d", {F({2, 4, 9, 9}), F({6, 2, 3, 3}), None, 1, 0, Ints{2, 3}, 2}, "float32[2, 6, 5, 3]"},
      {"conv2d", {F({0, 3, 4, 4}), F({5, 3, 3, 3})}, "float32[0, 5, 2, 2]"},
      {"conv1d", {F({2, 3, 4}), F({5, 3, 3})}, "float32[2, 5, 2]"},
      {"conv1d", {F({2, 3, 9}), F({5, 3, 3}), F({5}), 2, 1, 2}, "float32[2, 5, 4]"},
      {"max_pool2d", {F({2, 3, 4, 4}), 2}, "float32[2, 3, 2, 2]"},
      {"max_pool2d", {F({3, 4, 4}), 2}, "float32[3, 2, 2]"},
      {"max_pool2d", {F({0, 3, 4, 4}), 2}, "float32[0, 3, 2, 2]"},
      {"max_pool2d", {F({2, 3, 5, 5}), 2, 2, 0, 1, true}, "float32[2, 3, 3, 3]"},
      {"max_pool2d", {F({2, 3, 5, 5}), 2, 3, 1, 1, true}, "float32[2, 3, 2, 2]"},
      {"max_pool2d", {F({2, 3, 7, 8}), Ints{3, 2}, Ints{1, 2}, Ints{1, 0}, Ints{2, 1}}, "float32[2, 3, 5, 4]"},
      {"avg_pool2d", {F({2, 3, 7, 7}), 3, 2, 1}, "float32[2, 3, 4, 4]"},
      {"avg_pool2d", {F({2, 3, 7, 7}), 3, 2, 1, true}, "float32[2, 3, 4, 4]"},
      {"adaptive_avg_pool2d", {F({2, 3, 4, 4}), 1}, "float32[2, 3, 1, 1]"},
      {"adaptive_avg_pool2d", {F({2, 3, 4, 4}), Ints{3, 2}}, "float32[2, 3, 3, 2]"},
      {"adaptive_avg_pool2d", {F({2, 3, 4, 4}), 0}, "float32[2, 3, 0, 0]"},
      {"adaptive_avg_pool2d", {F({3, 4, 4}), 2}, "float32[3, 2, 2]"},
      {"adaptive_avg_pool2d", {F({0, 3, 4, 4}), 2}, "float32[0, 3, 2, 2]"},
      {"batch_norm", {F({2, 3}), F({3}), F({3})}, "float32[2, 3]"},
      {"batch_norm", {F({2, 3, 4, 5}), None, None, F({3}), F({3}), true}, "float32[2, 3, 4, 5]"},
      {"_batch_norm", {H({2, 3}), None, None, None, None, true, 0.1, 1e-05},
       "float16[2, 3]; float32[3]; float32[3]"},
      {"layer_norm", {F({2, 3}), Ints{3}}, "float32[2, 3]"},
      {"layer_norm", {F({2, 3, 4}), Ints{3, 4}, F({3, 4}), F({3, 4})}, "float32[2, 3, 4]"},
      {"_layer_norm", {F({2, 3, 4}), Ints{4}, None, None, 1e-05}, "float32[2, 3, 4]; float32[2, 3]; float32[2, 3]"},
      {"softmax", {F({2, 3}), 1}, "float32[2, 3]"},
      {"softmax", {F({}), 0}, "float32[]"},
      {"softmax", {H({2, 3}), -1, DType::kFloat32}, "float32[2, 3]"},
      {"log_softmax", {F({2, 3}), 0}, "float32[2, 3]"},
      {"dropout", {F({2, 3}), 0.5}, "float32[2, 3]"},
      {"dropout", {I({2, 3}), 0.5, false}, "int64[2, 3]"},
      {"dropout", {I({2, 3}), 0.0}, "int64[2, 3]"},
      {"nll_loss", {F({2, 3}), I({2})}, "float32[]"},
      {"nll_loss", {F({3}), I({})}, "float32[]"},
      {"nll_loss", {F({2, 3, 4}), I({2, 4})}, "float32[]"},
      {"nll_loss", {F({2, 3, 4, 5}), I({2, 4, 5}), F({3}), -100, "none"}, "float32[2, 4, 5]"},
      {"nll_loss", {F({2, 3}), I({2}), F({3}), 1, "sum"}, "float32[]"},
      {"cross_entropy", {F({2, 3}), I({2})}, "float32[]"},
      {"cross_entropy", {F({2, 3}), F({2, 3})}, "float32[]"},
      {"cross_entropy", {F({3}), I({})}, "float32[]"},
      {"cross_entropy", {F({3}), F({3})}, "float32[]"},
      {"cross_entropy", {F({2, 3}), D({2, 3})}, "float64[]"},
      {"cross_entropy", {F({2, 3, 4}), I({2, 4}), None, -100, "none"}, "float32[2, 4]"},
      {"cross_entropy", {F({2, 3, 4}), F({2, 3, 4}), None, -100, "none"}, "float32[2, 4]"},
      {"cross_entropy", {F({3}), F({3}), None, -100, "none"}, "float32[]"},
      {"mse_loss", {F({2, 3}), F({2, 3})}, "float32[]"},
      {"mse_loss", {F({2, 3}), F({3}), "none"}, "float32[2, 3]"},
      {"mse_loss", {F({2, 3}), D({2, 3}), "sum"}, "float64[]"},
      {"gelu", {H({2})}, "float16[2]"},
  };
  for (const Case& c : cases) EXPECT_EQ(Result(c.op, c.args), c.want) << c.op << " of case " << &c - cases;
}

TEST(NnRules, Errors) {
  const Case cases[] = {
      // Convolutions take batches only.
      {"conv2d", {F({3, 4, 4}), F({5, 3, 3, 3})},
       "RuntimeError: Expected 4D (batched) input to conv2d and a 4D weight, but got input of size: [3, 4, 4] and "
       "weight of size: [5, 3, 3, 3]"},
      {"conv2d", {F({2, 4, 4, 4}), F({5, 3, 3, 3})},
       "RuntimeError: Given groups=1, weight of size [5, 3, 3, 3], expected input[2, 4, 4, 4] to have 3 channels, "
       "but got 4 channels instead"},
      {"conv2d", {F({2, 3, 4, 4}), F({5, 3, 3, 3}), F({4})},
       "RuntimeError: Given weight of size [5, 3, 3, 3], expected bias to be 1-dimensional with 5 elements, but got "
       "bias of size [4] instead"},
      {"conv2d", {F({2, 3, 4, 4}), F({5, 3, 3, 3}), F({5, 1})},
       "RuntimeError: Given weight of size [5, 3, 3, 3], expected bias to be 1-dimensional with 5 elements, but got "
       "bias of size [5, 1] instead"},
      {"conv2d", {F({2, 3, 4, 4}), F({5, 3, 5, 5})},
       "RuntimeError: Calculated padded input size per channel: (4 x 4). Kernel size: (5 x 5). Kernel size can't be "
       "greater than actual input size"},
      {"conv2d", {F({2, 3, 4, 4}), F({5, 3, 3, 3}), None, 0}, "RuntimeError: non-positive stride is not supported"},
      {"conv2d", {F({2, 3, 4, 4}), F({5, 3, 3, 3}), None, -1}, "RuntimeError: non-positive stride is not supported"},
      {"conv2d", {F({2, 3, 4, 4}), F({5, 3, 3, 3}), None, 1, -1}, "RuntimeError: negative padding is not supported"},
      {"conv2d", {F({2, 3, 4, 4}), F({5, 3, 3, 3}), None, 1, 0, 0},
       "RuntimeError: non-positive dilation is not supported"},
      {"conv2d", {F({2, 3, 4, 4}), F({5, 3, 3, 3}), None, 1, 0, 1, 0},
       "RuntimeError: non-positive groups is not supported"},
      {"conv2d", {F({2, 3, 4, 4}), F({5, 3, 3, 3}), None, 1, 0, 1, 2},
       "RuntimeError: Given groups=2, expected weight to be divisible by 2 at dimension 0, but got weight of size "
       "[[5, 3, 3, 3]] instead"},
      {"conv2d", {F({2, 4, 4, 4}), F({1, 2, 3, 3}), None, 1, 0, 1, 2},
       "RuntimeError: Given groups=2, expected weight to be at least 2 at dimension 0, but got weight of size [1, "
       "2, 3, 3] instead"},
      {"conv2d", {F({2, 3, 4, 4}), D({5, 3, 3, 3})},
       "RuntimeError: Input type (torch.FloatTensor) and weight type (torch.DoubleTensor) should be the same"},
      {"conv2d", {F({2, 3, 4, 4}), F({5, 3, 3, 3}), D({5})},
       "RuntimeError: Input type (float) and bias type (double) should be the same"},
      {"conv1d", {F({2, 4, 4}), F({5, 3, 3})},
       "RuntimeError: Given groups=1, weight of size [5, 3, 3], expected input[2, 4, 4] to have 3 channels, but got "
       "4 channels instead"},
      {"conv1d", {F({2, 3, 2}), F({5, 3, 3})},
       "RuntimeError: Calculated padded input size per channel: (2). Kernel size: (3). Kernel size can't be greater "
       "than actual input size"},
      {"max_pool2d", {F({4, 4}), 2}, "RuntimeError: non-empty 3D or 4D (batch mode) tensor expected for input"},
      {"max_pool2d", {F({2, 0, 4, 4}), 2},
       "RuntimeError: Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, but got:[2, "
       "0, 4, 4]"},
      {"max_pool2d", {F({2, 3, 0, 4}), 2},
       "RuntimeError: Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, but got:[2, "
       "3, 0, 4]"},
      {"max_pool2d", {F({2, 3, 4, 4}), 5},
       "RuntimeError: Given input size: (3x4x4). Calculated output size: (3x0x0). Output size is too small"},
      {"max_pool2d", {F({2, 3, 4, 4}), 2, 0}, "RuntimeError: stride should not be zero"},
      {"max_pool2d", {F({2, 3, 4, 4}), 2, 2, 2},
       "RuntimeError: pad should be at most half of kernel size, but got pad=2 and kernel_size=2"},
      {"max_pool2d", {F({2, 3, 4, 4}), 2, 2, -1}, "RuntimeError: pad must be non-negative, but got pad: -1"},
      {"max_pool2d", {F({2, 3, 4, 4}), 2, 2, 0, 0},
       "RuntimeError: dilation should be greater than zero, but got dilationH: 0 dilationW: 0"},
      {"max_pool2d", {I({2, 3, 4, 4}), 2}, "RuntimeError: \"max_pool2d_cpu\" not implemented for 'Long'"},
      {"avg_pool2d", {F({2, 3, 4, 4}), 2, 2, 2},
       "RuntimeError: pad should be at most half of kernel size, but got pad=2 and kernel_size=2"},
      {"avg_pool2d", {F({2, 3, 4, 4}), 2, 2, 0, false, true, 0}, "RuntimeError: divisor must be not zero"},
      {"avg_pool2d", {F({2, 3, 4, 4}), 5},
       "RuntimeError: Given input size: (3x4x4). Calculated output size: (3x0x0). Output size is too small"},
      {"adaptive_avg_pool2d", {F({2, 3, 4, 4}), -1},
       "RuntimeError: adaptive_avg_pool2d: elements of output_size must be greater than or equal to 0 but received "
       "{-1, -1}"},
      {"adaptive_avg_pool2d", {F({4, 4}), 2},
       "RuntimeError: adaptive_avg_pool2d(): Expected 3D or 4D tensor, but got [4, 4]"},
      {"adaptive_avg_pool2d", {F({2, 3, 0, 4}), 2},
       "RuntimeError: adaptive_avg_pool2d(): Expected input to have non-zero size for non-batch dimensions, but "
       "input has sizes [2, 3, 0, 4] with dimension 2 being empty"},
      {"batch_norm", {F({2, 3}), F({4}), F({3})}, "RuntimeError: running_mean should contain 3 elements not 4"},
      {"batch_norm", {F({2, 3}), F({3}), F({4})}, "RuntimeError: running_var should contain 3 elements not 4"},
      {"batch_norm", {F({2, 3}), F({3}), F({3}), F({4})}, "RuntimeError: weight should contain 3 elements not 4"},
      {"batch_norm", {F({2, 3}), F({3}), F({3}), F({3}), F({4})},
       "RuntimeError: bias should contain 3 elements not 4"},
      {"batch_norm", {F({2, 3}), None, None}, "RuntimeError: running_mean must be defined in evaluation mode"},
      {"batch_norm", {F({3}), None, None, None, None, true},
       "IndexError: Dimension out of range (expected to be in range of [-1, 0], but got 1)"},
      {"batch_norm", {F({}), None, None, None, None, true},
       "IndexError: Dimension specified as 1 but tensor has no dimensions"},
      {"batch_norm", {F({1, 3}), None, None, None, None, true},
       "RuntimeError: Expected more than 1 value per channel when training, got input size torch.Size([1, 3])"},
      {"layer_norm", {F({2, 3}), Ints{2}},
       "RuntimeError: Given normalized_shape=[2], expected input with shape [*, 2], but got input of size[2, 3]"},
      {"layer_norm", {F({2, 3}), Ints{}},
       "RuntimeError: Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one "
       "element, but got normalized_shape = []"},
      {"layer_norm", {F({2, 3}), Ints{3}, F({2})},
       "RuntimeError: Expected weight to be of same shape as normalized_shape, but got weight of shape [2] and "
       "normalized_shape = [3]"},
      {"layer_norm", {F({2, 3}), Ints{3}, F({3}), F({2})},
       "RuntimeError: Expected bias to be of same shape as normalized_shape, but got bias of shape [2] and "
       "normalized_shape = [3]"},
      {"layer_norm", {F({2, 3}), Ints{2, 2, 3}},
       "RuntimeError: Given normalized_shape=[2, 2, 3], expected input with shape [*, 2, 2, 3], but got input of "
       "size[2, 3]"},
      {"softmax", {I({2}), 0}, "RuntimeError: \"softmax_lastdim_kernel_impl\" not implemented for 'Long'"},
      {"softmax", {F({2}), 0, DType::kInt64},
       "RuntimeError: \"softmax_lastdim_kernel_impl\" not implemented for 'Long'"},
      {"softmax", {F({2, 3}), 2},
       "IndexError: Dimension out of range (expected to be in range of [-2, 1], but got 2)"},
      {"log_softmax", {I({2}), 0}, "RuntimeError: \"log_softmax_lastdim_kernel_impl\" not implemented for 'Long'"},
      {"dropout", {F({2}), 1.5}, "RuntimeError: dropout probability has to be between 0 and 1, but got 1.5"},
      {"dropout", {F({2}), std::nan("")},
       "RuntimeError: dropout probability has to be between 0 and 1, but got nan"},
      {"dropout", {I({2}), 0.5}, "RuntimeError: result type Float can't be cast to the desired output type Long"},
      {"nll_loss", {F({2, 3}), I({3})},
       "RuntimeError: Expected input batch_size (2) to match target batch_size (3)."},
      {"nll_loss", {F({2, 3}), F({2})}, "RuntimeError: expected scalar type Long but found Float"},
      {"nll_loss", {F({3}), I({2})}, "RuntimeError: size mismatch (got input: [3], target: [2])"},
      {"nll_loss", {F({}), I({})}, "RuntimeError: Expected 1 or more dimensions (got 0)"},
      {"nll_loss", {F({2, 3, 4}), I({2, 5})}, "RuntimeError: Expected target size [2, 4], got [2, 5]"},
      {"nll_loss", {F({2, 3, 4}), I({2})}, "RuntimeError: Expected target size [2, 4], got [2]"},
      {"nll_loss", {F({2, 3}), I({2}), F({4})},
       "RuntimeError: weight tensor should be defined either for all 3 classes or no classes but got weight tensor "
       "of shape: [4]"},
      {"nll_loss", {F({2, 3}), I({2}), F({3}), -100, "bad"}, "RuntimeError: bad is not a valid value for reduction"},
      {"nll_loss", {F({2, 3}), I({2}), D({3})}, "RuntimeError: expected scalar type Float but found Double"},
      {"nll_loss", {F({2, 3}), W({2})}, "RuntimeError: expected scalar type Long but found Int"},
      {"nll_loss", {I({2, 3}), I({2})}, "RuntimeError: \"nll_loss_out_frame\" not implemented for 'Long'"},
      {"cross_entropy", {F({2, 3}), I({2, 3})},
       "RuntimeError: Expected floating point type for target with class probabilities, got Long"},
      {"cross_entropy", {F({2, 3}), I({3})},
       "RuntimeError: Expected input batch_size (2) to match target batch_size (3)."},
      {"cross_entropy", {F({2, 3}), F({2})}, "RuntimeError: expected scalar type Long but found Float"},
      {"cross_entropy", {F({2, 3}), I({2}), F({4})},
       "RuntimeError: weight tensor should be defined either for all 3 classes or no classes but got weight tensor "
       "of shape: [4]"},
      {"cross_entropy", {F({2, 3}), F({2, 3}), F({4})},
       "RuntimeError: cross_entropy: weight tensor should be defined either for all 3 classes or no classes but got "
       "weight tensor of shape: [4]"},
      {"mse_loss", {F({2, 3}), F({2, 4})},
       "RuntimeError: The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1"},
      {"mse_loss", {F({2, 3}), F({2, 3}), "x"}, "RuntimeError: x is not a valid value for reduction"},
      {"mse_loss", {I({2}), I({2})}, "RuntimeError: \"mse_loss_cpu\" not implemented for 'Long'"},
      {"gelu", {I({2})}, "RuntimeError: \"gelu_cpu\" not implemented for 'Long'"},
      {"silu", {I({2})}, "RuntimeError: \"silu_cpu\" not implemented for 'Long'"},
      {"leaky_relu", {I({2})}, "RuntimeError: \"leaky_relu_cpu\" not implemented for 'Long'"},
      {"softplus", {I({2})}, "RuntimeError: \"softplus_cpu\" not implemented for 'Long'"},
  };
  for (const Case& c : cases) EXPECT_EQ(Result(c.op, c.args), c.want) << c.op << " of case " << &c - cases;
}

}  // namespace
}  // namespace telensor::testing
