// Tensor: a handle of a tensor that lives in the server, with all its metadata here. Copies share the handle; the
// server's memory is freed when the last one goes.
//
// Different tensors may be used from different threads; one tensor's autograd state is not guarded.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "client-cpp/error.h"
#include "proto/core/tensor_meta.h"
#include "proto/core/value.h"

namespace telensor {

namespace client {
class TensorState;
}

// "cpu", "cuda:1"; the default is the session's default device.
class Device {
 public:
  Device() = default;
  Device(const char* name);
  Device(const std::string& name) : Device(name.c_str()) {}
  static Device FromIndex(int index) {
    Device d;
    d.index_ = index;
    return d;
  }
  bool given() const { return index_ >= 0; }
  int index() const { return index_; }
  std::string name() const;
  Value ToValue() const { return given() ? Value::Device(index_) : Value(); }

 private:
  int index_ = -1;
};

// What an argument's own type must be: C++ would turn a bool, a number and a pointer into one another.
template <typename T>
using IfBool = std::enable_if_t<std::is_same_v<T, bool>, int>;
template <typename T>
using IfInt = std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, int>;
template <typename T>
using IfFloat = std::enable_if_t<std::is_floating_point_v<T>, int>;

// Sizes, dimensions: from a list or from one number.
class IntArray {
 public:
  template <typename T, IfInt<T> = 0>
  IntArray(T value) : values_{static_cast<int64_t>(value)} {}
  IntArray(std::initializer_list<int64_t> values) : values_(values) {}
  IntArray(std::vector<int64_t> values) : values_(std::move(values)) {}
  const std::vector<int64_t>& values() const { return values_; }
  // For an argument of `length` numbers, one stands for all of them.
  std::vector<int64_t> Expanded(size_t length) const {
    return values_.size() == 1 && length > 1 ? std::vector<int64_t>(length, values_[0]) : values_;
  }

 private:
  std::vector<int64_t> values_;
};

// Dimensions that may be left out: std::nullopt, or {}.
class OptionalIntArray {
 public:
  OptionalIntArray() = default;
  OptionalIntArray(std::nullopt_t) {}
  template <typename T, IfInt<T> = 0>
  OptionalIntArray(T value) : array_(value) {}
  OptionalIntArray(std::initializer_list<int64_t> values) : array_(values) {}
  OptionalIntArray(std::vector<int64_t> values) : array_(std::move(values)) {}
  OptionalIntArray(IntArray array) : array_(std::move(array)) {}
  OptionalIntArray(std::optional<IntArray> array) : array_(std::move(array)) {}
  explicit operator bool() const { return array_.has_value(); }
  const IntArray* operator->() const { return &*array_; }

 private:
  std::optional<IntArray> array_;
};

class Tensor {
 public:
  Tensor() = default;
  Tensor(const Tensor& other);
  Tensor(Tensor&& other) noexcept;
  Tensor& operator=(Tensor other) noexcept;
  ~Tensor();

  bool defined() const { return state_ != nullptr; }
  const TensorMeta& meta() const;
  std::vector<int64_t> sizes() const { return meta().sizes.ToVector(); }
  int64_t size(int64_t dim) const;
  std::vector<int64_t> strides() const { return meta().strides.ToVector(); }
  int64_t dim() const { return meta().rank(); }
  int64_t numel() const { return meta().numel(); }
  DType dtype() const { return meta().dtype; }
  Device device() const;

  bool requires_grad() const;
  // Throws where the tensor is the result of an op.
  const Tensor& requires_grad_(bool on = true) const;
  bool is_leaf() const;
  // The gradient that `backward` left; undefined where there is none.
  Tensor grad() const;
  void set_grad(const Tensor& grad) const;
  // Lets backward leave a gradient in this result too.
  void retain_grad() const;
  bool retains_grad() const;
  // Adds to the gradients of all leaves below. `gradient` may be undefined for a one-element tensor.
  void backward() const;
  void backward(const Tensor& gradient, bool retain_graph = false, bool create_graph = false) const;

  // The following wait for the server.
  // The value of a one-element tensor.
  double item() const;
  int64_t item_int() const;
  // The elements, row-major, little-endian.
  std::string bytes() const;
  template <typename T>
  std::vector<T> to_vector() const {
    const std::string raw = bytes();
    std::vector<T> out(raw.size() / sizeof(T));
    std::copy_n(raw.data(), out.size() * sizeof(T), reinterpret_cast<char*>(out.data()));
    return out;
  }

  // `data` holds row-major elements of the product of `sizes`; it is read before this returns.
  static Tensor FromData(const void* data, const IntArray& sizes, DType dtype, const Device& device = Device());

  client::TensorState* state() const { return state_; }
  static Tensor Adopt(client::TensorState* state) {
    Tensor t;
    t.state_ = state;
    return t;
  }

 private:
  client::TensorState* state_ = nullptr;
};

// A tensor, or a number in its place.
struct Operand {
  Operand(const Tensor& t) : tensor(t.state()) {}
  Operand(const Scalar& s) : scalar(s) {}
  Operand(double v) : scalar(v) {}
  Operand(float v) : scalar(static_cast<double>(v)) {}
  Operand(int v) : scalar(v) {}
  Operand(int64_t v) : scalar(v) {}
  template <typename T, IfBool<T> = 0>
  Operand(T v) : scalar(v) {}
  explicit Operand(client::TensorState* state) : tensor(state) {}
  client::TensorState* tensor = nullptr;
  Scalar scalar;
};

// Gradients of the sum of outputs for inputs, without touching any leaf. Throws where an input is not reached, unless
// `allow_unused`, which gives an undefined tensor there.
std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& grad_outputs = {}, bool retain_graph = false,
                         bool create_graph = false, bool allow_unused = false);

// Recording of gradients on this thread, off for a scope.
class NoGradGuard {
 public:
  NoGradGuard();
  ~NoGradGuard();
  NoGradGuard(const NoGradGuard&) = delete;

 private:
  bool before_;
};

}  // namespace telensor
