#include "client-cpp/tensor.h"

#include <cstring>

#include "client-cpp/call.h"
#include "client-cpp/session.h"
#include "client-cpp/telensor.h"
#include "proto/core/half.h"
#include "proto/core/shape_util.h"

namespace telensor {
namespace {

using client::Session;
using client::TensorRef;
using client::TensorState;

void Check(const absl::Status& status) {
  if (!status.ok()) throw client::ToError(status);
}

template <typename T>
T Take(absl::StatusOr<T> value) {
  Check(value.status());
  return *std::move(value);
}

Session& Defined(const TensorState* state) {
  if (state == nullptr) throw Error(ErrorKind::kRuntime, "the tensor is undefined");
  return *state->session();
}

}  // namespace

Device::Device(const char* name) {
  const std::string wanted = std::string(name) == "cuda" ? "cuda:0" : name;
  const auto& devices = Take(Session::Default())->description().devices();
  for (int i = 0; i < devices.size(); ++i) {
    if (devices[i].name() == wanted) index_ = i;
  }
  if (index_ < 0) throw Error(ErrorKind::kRuntime, "the server has no device '" + wanted + "'");
}

std::string Device::name() const {
  if (!given()) return "";
  const auto& devices = Take(Session::Default())->description().devices();
  return index_ < devices.size() ? devices[index_].name() : "";
}

Tensor::Tensor(const Tensor& other) : state_(other.state_) {
  if (state_ != nullptr) state_->AddRef();
}
Tensor::Tensor(Tensor&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
Tensor& Tensor::operator=(Tensor other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}
Tensor::~Tensor() {
  if (state_ != nullptr) state_->DropRef();
}

const TensorMeta& Tensor::meta() const {
  Defined(state_);
  return state_->meta;
}

int64_t Tensor::size(int64_t dim) const {
  const int d = Take(WrapDim(dim, meta().rank()));
  return meta().rank() == 0 ? 1 : meta().sizes[d];
}

Device Tensor::device() const { return Device::FromIndex(meta().device); }
bool Tensor::requires_grad() const { return Defined(state_), state_->RequiresGrad(); }
bool Tensor::is_leaf() const { return Defined(state_), !state_->RequiresGrad() || state_->requires_grad; }

const Tensor& Tensor::requires_grad_(bool on) const {
  Check(Defined(state_).SetRequiresGrad(state_, on));
  return *this;
}

Tensor Tensor::grad() const {
  Defined(state_);
  TensorRef ref = state_->grad;
  return Adopt(ref.release());
}

void Tensor::set_grad(const Tensor& grad) const { Check(Defined(state_).SetGrad(state_, grad.state_)); }

void Tensor::retain_grad() const { Check(Defined(state_).RetainGrad(state_)); }
bool Tensor::retains_grad() const { return Defined(state_), state_->retains_grad; }

void Tensor::backward() const { backward(Tensor()); }

void Tensor::backward(const Tensor& gradient, bool retain_graph, bool create_graph) const {
  Check(Defined(state_).Backward(state_, gradient.state_, retain_graph, create_graph));
}

std::string Tensor::bytes() const { return Take(Defined(state_).ToHost(state_)); }

double Tensor::item() const {
  if (numel() != 1) {
    throw Error(ErrorKind::kValue, "only one element tensors can be converted to Python scalars");
  }
  const std::string raw = bytes();
  const auto as = [&raw](auto v) {
    std::memcpy(&v, raw.data(), sizeof(v));
    return v;
  };
  switch (dtype()) {
    case DType::kFloat64: return as(double());
    case DType::kFloat32: return as(float());
    case DType::kFloat16: return HalfBitsToFloat(as(uint16_t()));
    case DType::kBFloat16: return BFloat16BitsToFloat(as(uint16_t()));
    case DType::kInt64: return static_cast<double>(as(int64_t()));
    case DType::kInt32: return as(int32_t());
    case DType::kInt16: return as(int16_t());
    case DType::kInt8: return as(int8_t());
    default: return as(uint8_t());
  }
}

int64_t Tensor::item_int() const {
  if (dtype() != DType::kInt64) return static_cast<int64_t>(item());
  if (numel() != 1) throw Error(ErrorKind::kValue, "only one element tensors can be converted to Python scalars");
  int64_t v;
  std::memcpy(&v, bytes().data(), sizeof(v));
  return v;
}

Tensor Tensor::FromData(const void* data, const IntArray& sizes, DType dtype, const Device& device) {
  Session* session = Take(Session::Default());
  TensorMeta meta;
  meta.dtype = dtype;
  meta.sizes = Take(CheckedSizes(sizes.values()));
  meta.device = static_cast<DeviceIndex>(device.given() ? device.index() : session->default_device());
  return Adopt(Take(session->FromHost(data, meta)).release());
}

std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& grad_outputs, bool retain_graph, bool create_graph,
                         bool allow_unused) {
  std::vector<TensorState*> roots, gradients, wanted;
  for (const Tensor& t : outputs) roots.push_back(t.state());
  for (const Tensor& t : inputs) wanted.push_back(t.state());
  for (size_t i = 0; i < outputs.size(); ++i) gradients.push_back(i < grad_outputs.size() ? grad_outputs[i].state() : nullptr);
  std::vector<TensorRef> results;
  Check(Take(Session::Default())->Grad(roots, gradients, wanted, retain_graph, create_graph, allow_unused, &results));
  std::vector<Tensor> out;
  for (TensorRef& r : results) out.push_back(Tensor::Adopt(r.release()));
  return out;
}

NoGradGuard::NoGradGuard() : before_(client::GradEnabled()) { client::SetGradEnabled(false); }
NoGradGuard::~NoGradGuard() { client::SetGradEnabled(before_); }

void connect(const std::string& address) { Take(Session::Open(address)); }
void manual_seed(uint64_t seed) { Check(Take(Session::Default())->Seed(seed)); }
void synchronize() { Check(Take(Session::Default())->Synchronize()); }

SessionStats session_stats() {
  SessionStats out;
  if (Session* session = Session::Existing()) {
    const client::BatcherStats stats = session->stats();
    out.ops = stats.commands;
    out.batches = stats.batches;
    out.blocked_round_trips = stats.waits;
  }
  return out;
}

namespace client {

std::vector<Tensor> Call(OpId op, const Operand* inputs, size_t num_inputs, const Value* attrs, size_t num_attrs) {
  TensorRefs results;
  Check(Take(Session::Default())->Call(OpTable::Get().at(op), absl::MakeConstSpan(inputs, num_inputs), absl::MakeConstSpan(attrs, num_attrs), false, &results));
  std::vector<Tensor> out;
  for (TensorRef& r : results) out.push_back(Tensor::Adopt(r.release()));
  return out;
}

Tensor CallOne(OpId op, const Operand* inputs, size_t num_inputs, const Value* attrs, size_t num_attrs) {
  TensorRefs results;
  Check(Take(Session::Default())->Call(OpTable::Get().at(op), absl::MakeConstSpan(inputs, num_inputs), absl::MakeConstSpan(attrs, num_attrs), false, &results));
  return Tensor::Adopt(results[0].release());
}

Tensor CallInPlace(OpId op, const Operand* inputs, size_t num_inputs, const Value* attrs, size_t num_attrs) {
  TensorRefs results;
  Check(Take(Session::Default())->Call(OpTable::Get().at(op), absl::MakeConstSpan(inputs, num_inputs), absl::MakeConstSpan(attrs, num_attrs), true, &results));
  return Tensor::Adopt(results[0].release());
}

}  // namespace client
}  // namespace telensor
