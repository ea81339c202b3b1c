// Dims: a short list of sizes, strides or dimension numbers, held inline.
//
// A value type: copies cost only the elements in use. Not synchronised.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

namespace telensor {

// The largest rank a tensor may have. Peer data is checked against it before a Dims is made.
inline constexpr int kMaxRank = 16;

class Dims {
 public:
  using value_type = int64_t;
  Dims() {}  // not `= default`: that would clear data_ in every new TensorMeta
  Dims(std::initializer_list<int64_t> values) : Dims(values.begin(), static_cast<int>(values.size())) {}
  Dims(const int64_t* values, int n) : size_(Checked(n)) { std::copy_n(values, n, data_); }
  explicit Dims(const std::vector<int64_t>& values) : Dims(values.data(), static_cast<int>(values.size())) {}
  Dims(int n, int64_t value) : size_(Checked(n)) { std::fill_n(data_, n, value); }
  Dims(const Dims& other) { Copy(other); }
  Dims& operator=(const Dims& other) {
    Copy(other);
    return *this;
  }

  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const int64_t* data() const { return data_; }
  int64_t* data() { return data_; }
  const int64_t* begin() const { return data_; }
  const int64_t* end() const { return data_ + size_; }
  int64_t* begin() { return data_; }
  int64_t* end() { return data_ + size_; }
  int64_t operator[](int i) const { return data_[i]; }
  int64_t& operator[](int i) { return data_[i]; }
  int64_t back() const { return data_[size_ - 1]; }
  int64_t& back() { return data_[size_ - 1]; }

  void clear() { size_ = 0; }
  void push_back(int64_t v) {
    Checked(size_ + 1);
    data_[size_++] = v;
  }
  void pop_back() { --size_; }
  void resize(int n, int64_t value = 0) {
    Checked(n);
    for (int i = size_; i < n; ++i) data_[i] = value;
    size_ = n;
  }
  void insert(int at, int64_t v) {
    push_back(v);
    std::rotate(data_ + at, data_ + size_ - 1, data_ + size_);
  }
  void erase(int at) {
    std::copy(data_ + at + 1, data_ + size_, data_ + at);
    --size_;
  }
  bool contains(int64_t v) const { return std::find(begin(), end(), v) != end(); }

  friend bool operator==(const Dims& a, const Dims& b) {
    if (a.size_ != b.size_) return false;
    for (int i = 0; i < a.size_; ++i) {
      if (a.data_[i] != b.data_[i]) return false;
    }
    return true;
  }
  friend bool operator!=(const Dims& a, const Dims& b) { return !(a == b); }

  std::vector<int64_t> ToVector() const { return {begin(), end()}; }
  // "[2, 3]", as PyTorch's error messages write a shape.
  std::string ToString() const;

 private:
  // Every caller has bounded n by kMaxRank already, so going past it is a bug here, not bad input.
  static int Checked(int n) {
    if (n < 0 || n > kMaxRank) std::abort();
    return n;
  }

  void Copy(const Dims& other) {
    // Nearly all tensors fit the first copy, which needs no call.
    size_ = other.size_;
    std::memcpy(data_, other.data_, sizeof(int64_t) * kUsualRank);
    if (size_ > kUsualRank) {
      std::memmove(data_ + kUsualRank, other.data_ + kUsualRank, sizeof(int64_t) * (size_ - kUsualRank));
    }
  }

  static constexpr int kUsualRank = 4;
  int size_ = 0;
  int64_t data_[kMaxRank];
};

// The product of sizes, or -1 where it (or, of an empty tensor, the product of the others) is beyond 2^59, so that
// bytes fit 64 bits as well, or where a size is negative.
int64_t CheckedNumel(const Dims& sizes);

// Strides of a dense row-major tensor, in elements.
Dims ContiguousStrides(const Dims& sizes);

// True where (sizes, strides) is dense row-major; strides of size-1 dimensions do not matter.
bool IsContiguous(const Dims& sizes, const Dims& strides);

// True where distinct indices reach distinct elements and no element of the covered range is left out.
bool IsNonOverlappingAndDense(const Dims& sizes, const Dims& strides);

}  // namespace telensor
