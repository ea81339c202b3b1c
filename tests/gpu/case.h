// A case: one kernel call made from a row, a sample, a dtype and a variation, ready to run on any backend.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "proto/core/op_args.h"
#include "tests/gpu/runner.h"
#include "tests/gpu/sample.h"

namespace telensor::conformance {

enum class Layout { kDense, kTransposed, kStepped, kExpanded };
enum class Sizes { kAsWritten, kLarge, kEmpty };

struct Variation {
  Layout layout = Layout::kDense;
  Sizes sizes = Sizes::kAsWritten;
  bool special = false;  // infinities, NaN, the ends of integers
  bool in_place = false;
  bool mixed = false;  // every tensor but the first has another dtype than the one under test
};
std::string Describe(const Variation& v);

class Case {
 public:
  // Null where this combination makes no call; `error` says why where the sample itself is at fault.
  static std::unique_ptr<Case> Make(const OpSchema& schema, const std::vector<Argument>& arguments, DType dtype,
                                    const Variation& variation, uint32_t seed, std::string* error);

  const OpSchema& schema() const { return *schema_; }
  DType key() const { return key_; }  // what a kernel is looked up by
  KernelCall& call() { return call_; }
  // Every tensor the call has: outputs first.
  const std::vector<std::unique_ptr<HostTensor>>& tensors() const { return tensors_; }
  size_t num_outputs() const { return call_.outputs.size(); }
  // Puts back the bytes as they were made.
  void Reset();

 private:
  bool Bind(const std::vector<Argument>& arguments, std::string* error);
  bool BindOne(const Param& param, const Argument& argument, std::string* error);
  HostTensor* NewTensor(const TensorSpec& spec);
  HostTensor* Dense(const TensorMeta& meta);
  HostTensor* Converted(const HostTensor& t, DType dtype);
  bool Infer();
  uint32_t Random();

  const OpSchema* schema_;
  DType dtype_, key_ = DType::kNone;
  Variation variation_;
  uint64_t random_ = 0;
  int64_t elements_ = 0;  // of all tensors so far
  std::vector<std::unique_ptr<HostTensor>> tensors_;
  std::vector<std::vector<char>> original_;
  // By input slot (lists expanded later) and by attribute slot.
  std::vector<std::vector<CallInput>> inputs_;
  std::vector<Scalar> scalars_;
  std::vector<Value> values_;
  KernelCall call_;
};

}  // namespace telensor::conformance
