// For tests that draw calls: a row's own samples, read from the op table. What the tests of the Python package call
// with real values is here a start from which a call can be made wrong.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "proto/core/op_schema.h"

namespace telensor::testing {

struct SampleArg {
  bool is_tensor = false;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> sizes;  // in memory: before `transposed`
  bool transposed = false;
  int64_t below = 0;            // what an integer tensor's elements are below
  std::vector<SampleArg> list;  // of a list of tensors; one without dtype is None
  Value value;
};
// By parameter; absent where the default is meant.
using SampleCall = std::vector<std::optional<SampleArg>>;

// Pieces of a text between commas that stand outside of brackets and quotes.
inline std::vector<std::string> SplitSample(absl::string_view text) {
  std::vector<std::string> out(1);
  int depth = 0;
  for (const char c : text) {
    depth += (c == '[' || c == '(') - (c == ']' || c == ')');
    if (c == ',' && depth == 0) {
      out.emplace_back();
    } else if (c != ' ' || !out.back().empty()) {
      out.back() += c;
    }
  }
  if (out.size() == 1 && out[0].empty()) out.clear();
  return out;
}

inline std::vector<int64_t> SampleInts(absl::string_view text) {
  std::vector<int64_t> out;
  for (const std::string& piece : SplitSample(text)) out.push_back(std::atoll(piece.c_str()));
  return out;
}

inline SampleArg ReadSampleTensor(absl::string_view text, const SampleCall& before) {
  SampleArg out;
  out.is_tensor = true;
  if (text[0] == 't') {  // made from another operand; of the gradient's size wherever this is used
    out.sizes = before[0]->sizes;
    return out;
  }
  const size_t open = text.find('['), close = text.find(']');
  const absl::string_view letter = text.substr(0, open);
  out.dtype = letter[0] == 'i' ? DType::kInt64 : letter[0] == 'b' ? DType::kBool : DType::kFloat32;
  if (absl::StartsWith(letter, "f64")) out.dtype = DType::kFloat64;
  out.sizes = SampleInts(text.substr(open + 1, close - open - 1));
  const absl::string_view rest = text.substr(close + 1);
  out.transposed = rest == ".t()";
  if (!rest.empty() && rest[0] == '<') out.below = std::atoll(std::string(rest.substr(1)).c_str());
  return out;
}

inline bool IsSampleNumber(absl::string_view text) {
  double number;
  return absl::SimpleAtod(text, &number);
}

inline Value ReadSampleValue(const Param& param, absl::string_view text) {
  if (text == "None") return Value();
  if (text == "True" || text == "False") return Value::Bool(text == "True");
  if (text[0] == '\'') return Value::String(std::string(text.substr(1, text.size() - 2)));
  if (text[0] == '[') return Value::Ints(SampleInts(text.substr(1, text.size() - 2)));
  double number = 0;
  if (!absl::SimpleAtod(text, &number)) {
    for (int t = 1; t < kNumDTypes; ++t) {
      if (text == DTypeName(static_cast<DType>(t))) {
        return Value::Type(static_cast<DType>(t));
      }
    }
    return Value();
  }
  const bool whole = text.find_first_of(".en") == absl::string_view::npos;
  if (param.type == ParamType::kInts) {
    return Value::Ints(std::vector<int64_t>(std::max<int>(param.length, 1), static_cast<int64_t>(number)));
  }
  return whole && param.type != ParamType::kFloat ? Value::Int(static_cast<int64_t>(number)) : Value::Float(number);
}

inline SampleArg ReadSampleArg(const Param& param, absl::string_view text, const SampleCall& before) {
  SampleArg out;
  const bool tensor = IsTensorType(param.type) && text != "None" && !IsSampleNumber(text);
  if (!tensor) {
    out.value = ReadSampleValue(param, text);
  } else if (param.type == ParamType::kTensorList) {
    for (const std::string& piece : SplitSample(text.substr(1, text.size() - 2))) {
      out.list.push_back(piece == "None" ? SampleArg() : ReadSampleTensor(piece, before));
    }
  } else {
    out = ReadSampleTensor(text, before);
  }
  return out;
}

inline SampleCall ReadSample(const OpSchema& schema, absl::string_view text) {
  SampleCall call(schema.num_params);
  int next = 0;
  for (const std::string& piece : SplitSample(text)) {
    const size_t equal = piece.find('=');
    int at = next;
    absl::string_view value = piece;
    if (equal != std::string::npos) {
      for (at = 0; at < schema.num_params && schema.params[at].name != piece.substr(0, equal);) ++at;
      value = absl::string_view(piece).substr(equal + 1);
    }
    if (at >= schema.num_params) continue;
    const Param& param = schema.params[at];
    if (param.variadic && IsSampleNumber(value)) {
      std::vector<int64_t> ints = call[at] ? call[at]->value.ints() : std::vector<int64_t>();
      ints.push_back(std::atoll(std::string(value).c_str()));
      call[at].emplace().value = Value::Ints(std::move(ints));
      continue;  // the next number may belong to it too
    }
    call[at] = ReadSampleArg(param, value, call);
    if (equal == std::string::npos) ++next;
  }
  return call;
}

inline std::vector<SampleCall> ReadSamples(const OpSchema& schema) {
  std::vector<SampleCall> out;
  if (schema.samples[0] == '\0') return out;
  for (absl::string_view text : absl::StrSplit(schema.samples, '\n')) out.push_back(ReadSample(schema, text));
  return out;
}

}  // namespace telensor::testing
