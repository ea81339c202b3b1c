// The `sample` strings of op rows, "T[2,3], T+[3], alpha=2", as a list of arguments.
//
// T, T+, T1, T01: a tensor of the dtype under test, any / positive / within (-1, 1) / in (0, 1); b, f32, i64, ...: of
// that dtype; A, A1: of the dtype that sums of the one under test have; i64[4]<3: indices below 3; i64[4]=9: all 9;
// .t(): transposed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace telensor::conformance {

struct TensorSpec {
  std::string type;  // "T", "b", "i64", ...
  enum Range { kAny, kPositive, kWithinOne, kWithinUnit, kBelow, kEqual } range = kAny;
  int64_t limit = 0;  // of kBelow and kEqual
  std::vector<int64_t> sizes;
  bool transposed = false;
};

struct Argument {
  enum Kind { kNone, kBool, kInt, kFloat, kString, kList, kTensor, kWord } kind = kNone;
  std::string name;  // keyword, or empty
  int64_t i = 0;
  double f = 0;
  std::string text;  // of kString and kWord
  std::vector<Argument> list;
  TensorSpec tensor;
};

// False, with `error`, where the text is no list of arguments.
bool ParseSample(const std::string& text, std::vector<Argument>* out, std::string* error);

}  // namespace telensor::conformance
