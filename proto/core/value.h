// Value: one attribute of an op call; Scalar: a number given where a tensor could stand.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "proto/core/dims.h"
#include "proto/core/dtype.h"

namespace telensor {

struct Scalar {
  DType kind = DType::kNone;  // kBool, kInt64 or kFloat64; kNone where no number was given
  int64_t i = 0;
  double f = 0;

  Scalar() = default;
  // A bool itself, not a pointer, which C++ would take for one.
  template <typename T, std::enable_if_t<std::is_same_v<T, bool>, int> = 0>
  Scalar(T v) : kind(DType::kBool), i(v), f(v) {}
  Scalar(int v) : Scalar(static_cast<int64_t>(v)) {}
  Scalar(int64_t v) : kind(DType::kInt64), i(v), f(static_cast<double>(v)) {}
  Scalar(double v) : kind(DType::kFloat64), f(v) {}

  bool given() const { return kind != DType::kNone; }
  bool is_float() const { return kind == DType::kFloat64; }
  double ToDouble() const { return f; }
  friend bool operator==(const Scalar& a, const Scalar& b) { return a.kind == b.kind && a.i == b.i && a.f == b.f; }
};

class Value {
 public:
  // The values travel on the wire: append, never renumber.
  enum class Kind : uint8_t { kNone = 0, kBool = 1, kInt = 2, kFloat = 3, kInts = 4, kString = 5, kDType = 6, kDevice = 7, kFloats = 8 };

  Value() = default;
  static Value Bool(bool v) { return Value(Kind::kBool, v, v); }
  static Value Int(int64_t v) { return Value(Kind::kInt, v, static_cast<double>(v)); }
  static Value Float(double v) { return Value(Kind::kFloat, 0, v); }
  static Value Type(DType t) { return Value(Kind::kDType, static_cast<int64_t>(t), 0); }
  static Value Device(int64_t d) { return Value(Kind::kDevice, d, 0); }
  static Value Ints(std::vector<int64_t> v) {
    Value out(Kind::kInts, 0, 0);
    out.ints_ = std::move(v);
    return out;
  }
  static Value Ints(const Dims& v) { return Ints(v.ToVector()); }
  static Value Floats(std::vector<double> v) {
    Value out(Kind::kFloats, 0, 0);
    out.floats_ = std::move(v);
    return out;
  }
  static Value String(std::string v) {
    Value out(Kind::kString, 0, 0);
    out.text_ = std::move(v);
    return out;
  }
  static Value Number(const Scalar& s) {
    switch (s.kind) {
      case DType::kBool: return Bool(s.i != 0);
      case DType::kInt64: return Int(s.i);
      case DType::kFloat64: return Float(s.f);
      default: return Value();
    }
  }

  Kind kind() const { return kind_; }
  bool none() const { return kind_ == Kind::kNone; }
  bool is_number() const { return kind_ == Kind::kBool || kind_ == Kind::kInt || kind_ == Kind::kFloat; }
  bool b() const { return i_ != 0; }
  int64_t i() const { return i_; }
  double f() const { return f_; }
  DType dtype() const { return static_cast<DType>(i_); }
  const std::vector<int64_t>& ints() const { return ints_; }
  const std::vector<double>& floats() const { return floats_; }
  const std::string& text() const { return text_; }
  Scalar scalar() const {
    switch (kind_) {
      case Kind::kBool: return Scalar(i_ != 0);
      case Kind::kInt: return Scalar(i_);
      case Kind::kFloat: return Scalar(f_);
      default: return Scalar();
    }
  }

  friend bool operator==(const Value& a, const Value& b) {
    return a.kind_ == b.kind_ && a.i_ == b.i_ && a.f_ == b.f_ && a.ints_ == b.ints_ && a.floats_ == b.floats_ &&
           a.text_ == b.text_;
  }

 private:
  Value(Kind kind, int64_t i, double f) : kind_(kind), i_(i), f_(f) {}

  Kind kind_ = Kind::kNone;
  int64_t i_ = 0;
  double f_ = 0;
  std::vector<int64_t> ints_;
  std::vector<double> floats_;
  std::string text_;
};

}  // namespace telensor
