// Adam: the optimizer of the C++ client. A step is one command for all parameters.
#pragma once

#include <vector>

#include "client-cpp/tensor.h"

namespace telensor {

class Adam {
 public:
  struct Options {
    double beta1 = 0.9;
    double beta2 = 0.999;
    double eps = 1e-8;
    double weight_decay = 0;
    bool decoupled = false;  // AdamW
  };
  Adam(std::vector<Tensor> parameters, double lr);
  Adam(std::vector<Tensor> parameters, double lr, Options options);

  // Parameters without a gradient stay as they are.
  void step();
  // Drops the gradients.
  void zero_grad();
  void set_lr(double lr) { lr_ = lr; }

 private:
  std::vector<Tensor> parameters_, first_, second_;
  std::vector<int64_t> steps_;
  double lr_;
  Options options_;
};

}  // namespace telensor
