// For tests: devices over any backend, and a client of one executor, which names handles, counts commands, and reads.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "server/executor.h"

namespace telensor::server {

// A backend's devices, the first one as device number `first`.
class TestDevices {
 public:
  explicit TestDevices(const tt_backend* api, int first = 0, size_t memory_limit = 0) {
    backend_ = *rt::Backend::Create(api);
    for (int i = 0; i < api->device_count; ++i) {
      devices_.push_back(*rt::Device::Create(backend_.get(), i, static_cast<DeviceIndex>(first + i), memory_limit));
    }
  }
  rt::Device& operator[](int i) const { return *devices_[i]; }
  std::vector<rt::Device*> all() const {
    std::vector<rt::Device*> out;
    for (const auto& device : devices_) out.push_back(device.get());
    return out;
  }
  int64_t allocated_bytes(int i = 0) const { return devices_[i]->allocator().Stats().allocated_bytes.all.current; }

 private:
  std::unique_ptr<rt::Backend> backend_;
  std::vector<std::unique_ptr<rt::Device>> devices_;
};

// An operand: a handle or a number.
struct In {
  In(Handle h) : handle(h) {}
  In(int v) : scalar(Value::Int(v)) {}
  In(double v) : scalar(Value::Float(v)) {}
  Handle handle = 0;
  Value scalar;
};

class TestClient {
 public:
  explicit TestClient(std::vector<rt::Device*> devices, size_t memory_limit = 0, ExecutorLimits limits = {})
      : executor(std::move(devices), memory_limit, limits) {}

  Executor executor;
  v1::EventBatch events;  // of the last command
  uint64_t seq = 0;       // its number
  Executor::Outcome outcome = Executor::Outcome::kDone;
  uint32_t record = v1::COMMAND_FLAG_RECORD;  // 0: as under no_grad

  Handle NewHandle() { return ++last_handle_; }
  Handle last_handle() const { return last_handle_; }

  const v1::EventBatch& Run(const v1::Command& command) {
    events.Clear();
    outcome = executor.Run(command, ++seq, false, &events);
    return events;
  }

  static void Fill(const Value& v, v1::Attribute* out) {
    out->set_kind(static_cast<uint32_t>(v.kind()));
    out->set_i(v.i());
    out->set_f(v.f());
    for (int64_t i : v.ints()) out->add_ints(i);
    for (double f : v.floats()) out->add_floats(f);
    out->set_text(v.text());
  }

  // An op's command, without outputs.
  v1::Command Command(const char* name, const std::vector<In>& inputs, const std::vector<Value>& attrs = {}) {
    v1::Command command;
    command.set_kind(v1::Command::KIND_OP);
    const OpSchema* schema = OpTable::Get().Find(name);
    EXPECT_NE(schema, nullptr) << name;
    if (schema == nullptr) return command;
    command.set_op(schema->id);
    command.set_flags(record);
    for (const In& in : inputs) {
      command.add_inputs(in.handle);
      if (!in.scalar.none()) Fill(in.scalar, command.add_scalars());
    }
    for (const Value& v : attrs) Fill(v, command.add_attributes());
    return command;
  }
  std::vector<Handle> Ops(const char* name, const std::vector<In>& inputs, const std::vector<Value>& attrs, int results) {
    v1::Command command = Command(name, inputs, attrs);
    std::vector<Handle> out;
    for (int i = 0; i < results; ++i) {
      out.push_back(NewHandle());
      command.add_outputs(out.back());
    }
    Run(command);
    return out;
  }
  Handle Op(const char* name, const std::vector<In>& inputs, const std::vector<Value>& attrs = {}) {
    return Ops(name, inputs, attrs, 1)[0];
  }
  // In place, or a row without results. The error, where it failed.
  absl::Status Do(const char* name, const std::vector<In>& inputs, const std::vector<Value>& attrs = {}) {
    v1::Command command = Command(name, inputs, attrs);
    const OpSchema& schema = *OpTable::Get().Find(name);
    if (schema.has_inplace || schema.inplace_only) command.set_flags(command.flags() | v1::COMMAND_FLAG_IN_PLACE);
    Run(command);
    return Error();
  }

  static v1::Command WriteCommand(Handle handle, const std::vector<int64_t>& sizes, DType dtype, const std::string& data) {
    v1::Command command;
    command.set_kind(v1::Command::KIND_WRITE);
    command.add_outputs(handle);
    for (int64_t s : sizes) command.add_sizes(s);
    command.set_dtype(static_cast<v1::DType>(dtype));
    command.set_data(data);
    return command;
  }
  Handle Write(const std::vector<float>& values, const std::vector<int64_t>& sizes, uint32_t device = 0) {
    const Handle handle = NewHandle();
    v1::Command command =
        WriteCommand(handle, sizes, DType::kFloat32,
                     std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)));
    command.set_device(device);
    Run(command);
    return handle;
  }
  Handle WriteInts(const std::vector<int64_t>& values, const std::vector<int64_t>& sizes) {
    const Handle handle = NewHandle();
    Run(WriteCommand(handle, sizes, DType::kInt64,
                     std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int64_t))));
    return handle;
  }
  // Values from a fixed sequence in [-1, 1).
  Handle Random(const std::vector<int64_t>& sizes) {
    int64_t n = 1;
    for (int64_t s : sizes) n *= s;
    std::vector<float> values(static_cast<size_t>(n));
    for (float& v : values) {
      random_ = random_ * 1664525u + 1013904223u;
      v = static_cast<float>(random_ >> 8) / (1 << 23) - 1;
    }
    return Write(values, sizes);
  }

  // The error, where the command reported one. Reads answer in `events`.
  absl::Status Simple(v1::Command::Kind kind, const std::vector<Handle>& inputs, uint32_t flags = 0) {
    v1::Command command;
    command.set_kind(kind);
    for (Handle h : inputs) command.add_inputs(h);
    command.set_flags(flags);
    Run(command);
    return Error();
  }
  absl::Status RequireGrad(Handle handle) {
    return Simple(v1::Command::KIND_REQUIRES_GRAD, {handle}, v1::COMMAND_FLAG_REQUIRES_GRAD);
  }
  // Gradients of leaves that had none, by new handles.
  absl::Status Backward(Handle root, const std::vector<Handle>& leaves, std::vector<Handle>* grads, uint32_t flags = 0) {
    v1::Command command;
    command.set_kind(v1::Command::KIND_BACKWARD);
    command.set_flags(flags);
    command.add_inputs(root);
    command.add_inputs(0);
    for (Handle leaf : leaves) {
      command.add_outputs(leaf);
      grads->push_back(NewHandle());
      command.add_outputs(grads->back());
    }
    Run(command);
    return Error();
  }
  // Waits as a client does: hears of all that failed. The first failure that only results carried.
  absl::Status Fence() { return Simple(v1::Command::KIND_FENCE, {}); }
  void Release(const std::vector<Handle>& handles) {
    v1::Command command;
    command.set_kind(v1::Command::KIND_RELEASE);
    for (Handle h : handles) command.add_release(h);
    Run(command);
  }

  // What the last command reported.
  absl::Status Error() const {
    if (events.errors_size() == 0) return absl::OkStatus();
    return FromWire(events.errors(0).error());
  }
  static absl::Status FromWire(const v1::Error& error) {
    return absl::Status(static_cast<absl::StatusCode>(error.code()), error.message());
  }

  const TensorMeta& Meta(Handle handle) const { return executor.tensors().Find(handle).tensor->meta(); }
  uint32_t Version(Handle handle) const { return executor.tensors().Find(handle).tensor->storage()->version(); }
  bool Holds(Handle handle) const { return executor.tensors().Find(handle).tensor != nullptr; }
  // The error a handle holds.
  absl::Status Poison(Handle handle) const {
    const Failure* failure = executor.tensors().Find(handle).failure;
    return failure != nullptr ? failure->status : absl::OkStatus();
  }

  absl::StatusOr<std::string> ReadBytes(Handle handle) {
    v1::Command command;
    command.set_kind(v1::Command::KIND_READ);
    command.add_inputs(handle);
    Run(command);
    if (events.reads_size() != 1) return absl::InternalError("a read without an answer");
    const v1::ReadResult& read = events.reads(0);
    if (read.has_error()) return FromWire(read.error());
    if (read.too_large()) return executor.TakeDownload(read.seq());
    return read.data();
  }
  // Elements of any of float32, int64 and bool.
  absl::StatusOr<std::vector<double>> Read(Handle handle) {
    TD_ASSIGN_OR_RETURN(const std::string data, ReadBytes(handle));
    std::vector<double> out;
    const DType dtype = Meta(handle).dtype;
    const size_t size = ItemSize(dtype);
    for (size_t at = 0; at < data.size(); at += size) {
      float f = 0;
      double d = 0;
      int64_t i = 0;
      switch (dtype) {
        case DType::kFloat32: std::memcpy(&f, &data[at], 4), out.push_back(f); break;
        case DType::kFloat64: std::memcpy(&d, &data[at], 8), out.push_back(d); break;
        case DType::kInt64: std::memcpy(&i, &data[at], 8), out.push_back(static_cast<double>(i)); break;
        case DType::kBool: out.push_back(data[at] != 0); break;
        default: return absl::UnimplementedError("Read of this dtype");
      }
    }
    return out;
  }
  std::vector<double> Values(Handle handle) {
    absl::StatusOr<std::vector<double>> values = Read(handle);
    EXPECT_TRUE(values.ok()) << "handle " << handle << ": " << values.status();
    return values.ok() ? *values : std::vector<double>{};
  }

 private:
  Handle last_handle_ = 0;
  uint32_t random_ = 1;
};

}  // namespace telensor::server
