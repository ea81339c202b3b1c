#include "client-cpp/optim.h"

#include <map>

#include "client-cpp/call.h"
#include "client-cpp/ops.h"
#include "proto/core/op_ids.h"

namespace telensor {

Adam::Adam(std::vector<Tensor> parameters, double lr) : Adam(std::move(parameters), lr, Options()) {}

Adam::Adam(std::vector<Tensor> parameters, double lr, Options options)
    : parameters_(std::move(parameters)), steps_(parameters_.size(), 0), lr_(lr), options_(options) {
  NoGradGuard no_grad;
  for (const Tensor& p : parameters_) {
    first_.push_back(zeros_like(p));
    second_.push_back(zeros_like(p));
  }
}

void Adam::step() {
  NoGradGuard no_grad;
  // Parameters that have made the same number of steps go together.
  std::map<int64_t, std::vector<size_t>> groups;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].grad().defined()) groups[++steps_[i]].push_back(i);
  }
  for (const auto& [step, members] : groups) {
    std::vector<Operand> tensors;
    std::vector<Tensor> gradients;
    for (size_t i : members) {
      tensors.emplace_back(parameters_[i]);
      gradients.push_back(parameters_[i].grad());
    }
    for (const Tensor& g : gradients) tensors.emplace_back(g);
    for (size_t i : members) tensors.emplace_back(first_[i]);
    for (size_t i : members) tensors.emplace_back(second_[i]);
    const Value attrs[] = {Value::Int(4),
                           Value::Float(lr_),
                           Value::Float(options_.beta1),
                           Value::Float(options_.beta2),
                           Value::Float(options_.eps),
                           Value::Float(options_.weight_decay),
                           Value::Bool(options_.decoupled),
                           Value::Bool(false),
                           Value::Bool(false),
                           Value::Int(step)};
    client::Call(ops::_adam_step_, tensors.data(), tensors.size(), attrs, 10);
  }
}

void Adam::zero_grad() {
  for (const Tensor& p : parameters_) p.set_grad(Tensor());
}

}  // namespace telensor
