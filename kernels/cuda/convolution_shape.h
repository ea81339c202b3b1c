// The numbers of a 2-D convolution, read from a call and checked, and the choices remembered for them. Host logic
// without CUDA.
#pragma once

#include <array>
#include <cstdint>
#include <map>

#include "kernels/plugin_abi.h"

namespace telensor::cuda {

struct ConvolutionShape {
  int64_t n, c, h, w;  // input
  int64_t k, kh, kw;   // weight: (k, c / groups, kh, kw)
  int64_t oh, ow;      // output: (n, k, oh, ow)
  int64_t stride[2], padding[2], dilation[2], groups;

  std::array<int64_t, 17> Key() const {
    return {n,         c,         h,          w,          k,           kh,          kw,     oh, ow,
            stride[0], stride[1], padding[0], padding[1], dilation[0], dilation[1], groups, 0};
  }
};

inline bool ReadPair(const tt_value& v, int64_t (&out)[2]) {
  if (v.kind == 2) {
    out[0] = out[1] = v.i;
    return true;
  }
  if (v.kind != 4 || v.count < 1 || v.count > 2) return false;
  out[0] = v.ints[0];
  out[1] = v.ints[v.count - 1];
  return true;
}

// `attrs` points to stride, padding, dilation, groups. False where the sizes do not belong together: the rows of the
// gradients take any, so this is the check.
inline bool ReadConvolution(const tt_tensor& input, const tt_tensor& weight, const tt_tensor& output,
                            const tt_value* attrs, ConvolutionShape* s) {
  if (input.rank != 4 || weight.rank != 4 || output.rank != 4) return false;
  s->n = input.sizes[0];
  s->c = input.sizes[1];
  s->h = input.sizes[2];
  s->w = input.sizes[3];
  s->k = weight.sizes[0];
  s->kh = weight.sizes[2];
  s->kw = weight.sizes[3];
  s->oh = output.sizes[2];
  s->ow = output.sizes[3];
  s->groups = attrs[3].i;
  if (!ReadPair(attrs[0], s->stride) || !ReadPair(attrs[1], s->padding) || !ReadPair(attrs[2], s->dilation))
    return false;
  for (const int64_t v : s->Key()) {
    if (v < 0 || v > INT32_MAX) return false;  // what the library counts with
  }
  for (int i = 0; i < 2; ++i) {
    if (s->stride[i] < 1 || s->dilation[i] < 1) return false;
  }
  if (s->groups < 1 || s->c % s->groups != 0 || s->k % s->groups != 0) return false;
  if (weight.sizes[1] != s->c / s->groups || output.sizes[0] != s->n || output.sizes[1] != s->k) return false;
  const auto places = [](int64_t size, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation) {
    const int64_t room = size + 2 * pad - dilation * (kernel - 1) - 1;
    return room < 0 ? -1 : room / stride + 1;
  };
  return s->oh == places(s->h, s->kh, s->stride[0], s->padding[0], s->dilation[0]) &&
         s->ow == places(s->w, s->kw, s->stride[1], s->padding[1], s->dilation[1]);
}

// What was chosen for a shape. Not locked: its owner is.
template <typename Choice>
class AlgorithmCache {
 public:
  const Choice* Find(const std::array<int64_t, 17>& key) const {
    const auto it = entries_.find(key);
    return it == entries_.end() ? nullptr : &it->second;
  }
  void Add(const std::array<int64_t, 17>& key, const Choice& choice) {
    // Shapes that change all the time must not fill the memory; choosing again is cheap.
    if (entries_.size() >= kMost) entries_.clear();
    entries_[key] = choice;
  }
  size_t size() const { return entries_.size(); }
  static constexpr size_t kMost = 1024;

 private:
  std::map<std::array<int64_t, 17>, Choice> entries_;
};

}  // namespace telensor::cuda
