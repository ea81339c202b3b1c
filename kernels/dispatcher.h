// Dispatcher: runs one op without recording: shape rules, conversions, outputs, kernel.
//
// Holds no state of its own. Called on the thread that has the session's turn on the device.
#pragma once

#include "absl/types/span.h"
#include "allocator/memory_budget.h"
#include "kernels/tensor.h"
#include "proto/core/op_args.h"

namespace telensor::rt {

// The counter of one session's random numbers on one device. A call takes one step; within it numbers are drawn by
// element index, so neither the launch nor a neighbour changes them.
class Generator {
 public:
  void Seed(uint64_t seed) {
    seed_ = seed;
    offset_ = 0;
  }
  uint64_t seed() const { return seed_; }
  uint64_t offset() const { return offset_; }
  // A call has used its step.
  void Advance() { ++offset_; }

 private:
  uint64_t seed_ = 0;
  uint64_t offset_ = 0;
};

// What a session gives every call: its devices, streams, budget and generators.
class ExecutionContext {
 public:
  ExecutionContext(std::vector<Device*> devices, MemoryBudget* budget) : devices_(std::move(devices)), budget_(budget) {
    streams_.resize(devices_.size());
    generators_.resize(devices_.size());
  }

  absl::StatusOr<Device*> device(int64_t index) const {
    if (index < 0 || index >= static_cast<int64_t>(devices_.size())) return InvalidArgument("no device number ", index);
    return devices_[index];
  }
  // Made at first use.
  absl::StatusOr<Stream*> stream(DeviceIndex index);
  Generator& generator(DeviceIndex index) { return generators_[index]; }
  void Seed(uint64_t seed) {
    for (Generator& g : generators_) g.Seed(seed);
  }
  MemoryBudget* budget() const { return budget_; }
  size_t num_devices() const { return devices_.size(); }

  DType default_float = DType::kFloat32;

 private:
  std::vector<Device*> devices_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<Generator> generators_;
  MemoryBudget* budget_;
};

// A call as the rules see it. It points to the operands and attributes, which must stay.
class CallArgs {
 public:
  CallArgs(const OpSchema& schema, absl::Span<const Operand> inputs, absl::Span<const Value* const> attrs,
           DType default_float) {
    metas_.reserve(inputs.size());
    scalars_.reserve(inputs.size());
    for (const Operand& in : inputs) {
      metas_.push_back(in.tensor != nullptr ? &in.tensor->meta() : nullptr);
      scalars_.push_back(in.scalar);
    }
    args_.schema = &schema;
    args_.inputs = metas_.data();
    args_.scalars = scalars_.data();
    args_.num_inputs = static_cast<int>(inputs.size());
    args_.attrs = attrs.data();
    args_.default_float = default_float;
  }
  CallArgs(const CallArgs&) = delete;
  const OpArgs& operator*() const { return args_; }

 private:
  absl::InlinedVector<const TensorMeta*, 4> metas_;
  absl::InlinedVector<Scalar, 4> scalars_;
  OpArgs args_;
};

class Dispatcher {
 public:
  explicit Dispatcher(ExecutionContext* context) : context_(*context) {}

  // Runs a kernel or view row. `attrs` by attribute slot, defaults filled in. In place, the first operand is written
  // and returned.
  absl::StatusOr<TensorList> Call(const OpSchema& schema, absl::Span<const Operand> inputs,
                                  absl::Span<const Value* const> attrs, bool in_place);

  absl::StatusOr<Tensor> Empty(const TensorMeta& meta);
  // dst and src of equal sizes, any strides, dtypes and devices.
  absl::Status Copy(TensorImpl* dst, TensorImpl* src);
  absl::StatusOr<Tensor> Converted(TensorImpl* src, DType dtype, DeviceIndex device);
  absl::StatusOr<Tensor> Contiguous(TensorImpl* src);

  ExecutionContext& context() { return context_; }

 private:
  class Invocation;

  absl::StatusOr<TensorList> CallKernel(const OpSchema& schema, const OpArgs& args, const OpMetas& metas,
                                        absl::Span<const Operand> inputs, bool in_place);
  absl::StatusOr<TensorList> CallInPlace(const OpSchema& schema, const OpArgs& args, const OpMetas& metas,
                                         absl::Span<const Operand> inputs);
  absl::StatusOr<TensorList> MakeViews(const OpSchema& schema, const OpMetas& metas, TensorImpl* self);
  absl::Status Run(const OpSchema& schema, const OpArgs& args, const OpMetas& metas, absl::Span<const Operand> inputs,
                   TensorList* outputs);

  ExecutionContext& context_;
};

}  // namespace telensor::rt
