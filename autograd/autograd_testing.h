// For tests: one session's world below the server, on the CPU, and short ways to make tensors and call ops.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "autograd/engine.h"
#include "autograd/op_node.h"

namespace telensor::rt {

class AutogradWorld {
 public:
  explicit AutogradWorld(size_t memory_limit = MemoryBudget::kUnlimited)
      : backend_(*Backend::Create(CpuBackend())),
        device_(*Device::Create(backend_.get(), 0, 0, 0)),
        budget(memory_limit, "budget"),
        context({device_.get()}, &budget),
        recorder(&context),
        engine(&recorder) {
    recorder.set_recording(true);
  }

 private:
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Device> device_;

 public:
  MemoryBudget budget;
  ExecutionContext context;
  Recorder recorder;
  Engine engine;

  Device& device() { return *device_; }

  Tensor Make(const std::vector<float>& values, const std::vector<int64_t>& sizes, bool requires_grad = false) {
    TensorMeta meta;
    meta.dtype = DType::kFloat32;
    meta.sizes = Dims(sizes);
    meta.strides = ContiguousStrides(meta.sizes);
    const Tensor t = *recorder.dispatcher().Empty(meta);
    if (!values.empty()) std::memcpy(t->data(), values.data(), values.size() * sizeof(float));
    if (requires_grad) AutogradMeta::Of(t.get()).requires_grad = true;
    return t;
  }
  absl::StatusOr<TensorList> TryAll(const char* name, const std::vector<Operand>& inputs, const std::vector<Value>& attrs = {},
                                    bool in_place = false) {
    const OpSchema& schema = *OpTable::Get().Find(name);
    return recorder.Call(schema, inputs, OpTable::Get().WithDefaults(schema, attrs), in_place);
  }
  absl::StatusOr<Tensor> Try(const char* name, const std::vector<Operand>& inputs, const std::vector<Value>& attrs = {},
                             bool in_place = false) {
    TD_ASSIGN_OR_RETURN(TensorList out, TryAll(name, inputs, attrs, in_place));
    return std::move(out[0]);
  }
  Tensor Op(const char* name, const std::vector<Operand>& inputs, const std::vector<Value>& attrs = {}) {
    absl::StatusOr<Tensor> t = Try(name, inputs, attrs);
    EXPECT_TRUE(t.ok()) << name << ": " << t.status();
    return t.ok() ? *t : nullptr;
  }
  absl::Status Do(const char* name, const std::vector<Operand>& inputs, const std::vector<Value>& attrs = {}) {
    return Try(name, inputs, attrs, true).status();
  }
  Tensor Sum(const Tensor& t) { return Op("sum", {In(t)}); }
  static Operand In(const Tensor& t) { return {t.get(), {}}; }
  static Operand In(double v) { return {nullptr, Scalar(v)}; }

  absl::Status Backward(const Tensor& root, BackwardOptions options = {}) { return engine.Backward({&root, 1}, {}, options); }
  absl::StatusOr<Tensor> Grad(const Tensor& root, const Tensor& input, BackwardOptions options = {}) {
    TD_ASSIGN_OR_RETURN(std::vector<Tensor> grads, engine.Grad({&root, 1}, {}, {&input, 1}, options));
    return std::move(grads[0]);
  }
  static Tensor GradOf(const Tensor& leaf) { return AutogradMeta::Of(leaf.get()).grad; }
  // The elements of a float32 tensor, row-major.
  std::vector<float> Values(const Tensor& t) {
    if (!t) return {};
    RecordingGuard guard(&recorder, false);
    const absl::StatusOr<Tensor> dense = recorder.dispatcher().Contiguous(t.get());
    EXPECT_TRUE(dense.ok()) << dense.status();
    const float* data = static_cast<const float*>((*dense)->data());
    return {data, data + (*dense)->meta().numel()};
  }
};

}  // namespace telensor::rt
