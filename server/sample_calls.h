// For tests: calls from the op table's `sample` strings, as commands for an executor, with operands in several layouts.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string>
#include <vector>

#include "server/executor_testing.h"

namespace telensor::server {

// How the elements of an operand lie in its storage.
enum class Layout { kDense, kTransposed, kStepped, kExpanded, kOffset };
inline constexpr Layout kLayouts[] = {Layout::kDense, Layout::kTransposed, Layout::kStepped, Layout::kExpanded,
                                      Layout::kOffset};

// A tensor of small positive values, laid out as asked where its rank allows.
inline Handle LaidOut(TestClient* client, std::vector<int64_t> sizes, DType dtype, int64_t below, Layout layout) {
  std::vector<int64_t> stored = sizes;
  if (stored.empty()) layout = Layout::kDense;
  switch (layout) {
    case Layout::kDense: break;
    case Layout::kTransposed: std::reverse(stored.begin(), stored.end()); break;
    case Layout::kStepped: stored.back() *= 2; break;
    case Layout::kExpanded: stored[0] = std::min<int64_t>(stored[0], 1); break;
    case Layout::kOffset: stored[0] += 1; break;
  }
  int64_t n = 1;
  for (int64_t s : stored) n *= s;
  Handle made;
  if (dtype == DType::kInt64) {
    std::vector<int64_t> values(static_cast<size_t>(n));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = below > 0 ? static_cast<int64_t>(i) % below : 1 + static_cast<int64_t>(i) % 3;
    made = client->WriteInts(values, stored);
  } else {
    std::vector<float> values(static_cast<size_t>(n));
    for (size_t i = 0; i < values.size(); ++i) values[i] = 0.1F + static_cast<float>(i % 8) * 0.1F;
    made = client->Write(values, stored);
    if (dtype != DType::kFloat32) made = client->Op("_to_copy", {made}, {Value::Type(dtype)});
  }
  const int64_t rank = static_cast<int64_t>(sizes.size());
  switch (layout) {
    case Layout::kDense: return made;
    case Layout::kTransposed: {
      std::vector<int64_t> dims;
      for (int64_t d = rank - 1; d >= 0; --d) dims.push_back(d);
      return client->Op("permute", {made}, {Value::Ints(dims)});
    }
    case Layout::kStepped: return client->Op("slice", {made}, {Value::Int(rank - 1), Value(), Value(), Value::Int(2)});
    case Layout::kExpanded: return client->Op("expand", {made}, {Value::Ints(sizes)});
    case Layout::kOffset: return client->Op("slice", {made}, {Value::Int(0), Value::Int(1), Value(), Value::Int(1)});
  }
  return made;
}

// One argument of a sample: a tensor to be made, or a value.
struct SampleArg {
  std::string keyword;
  bool tensor = false;
  std::vector<int64_t> sizes;
  std::string kind;  // "T", "f32", "i64", ...
  int64_t below = 0;
  std::string amax;  // of an earlier tensor: "t1" or "t1 1 True"
  Value value;
  std::vector<SampleArg> list;  // of tensors
};

// Reads the argument lists of calls: tensors, numbers, lists, strings, names.
class SampleParser {
 public:
  explicit SampleParser(std::string text) : text_(std::move(text)) {}

  std::vector<SampleArg> Read() {
    std::vector<SampleArg> args;
    for (Skip(); at_ < text_.size(); Skip()) {
      SampleArg arg;
      const size_t equals = text_.find('=', at_);
      if (equals != std::string::npos && text_.find_first_of(",[('", at_) > equals) {
        arg.keyword = text_.substr(at_, equals - at_);
        at_ = equals + 1;
      }
      ReadValue(&arg);
      args.push_back(std::move(arg));
      if (at_ < text_.size()) {
        EXPECT_EQ(text_[at_], ',') << text_ << " at " << at_;
        if (text_[at_] != ',') break;
        ++at_;
      }
    }
    return args;
  }

 private:
  void Skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  std::string Until(const char* ends) {
    const size_t end = std::min(text_.find_first_of(ends, at_), text_.size());
    std::string out = text_.substr(at_, end - at_);
    at_ = end;
    return out;
  }
  std::vector<int64_t> List() {
    std::vector<int64_t> out;
    ++at_;
    while (text_[at_] != ']') {
      out.push_back(std::strtoll(Until(",]").c_str(), nullptr, 10));
      if (text_[at_] == ',') ++at_;
    }
    ++at_;
    return out;
  }
  void ReadValue(SampleArg* arg) {
    if (text_[at_] == '[' && std::isalpha(static_cast<unsigned char>(text_[at_ + 1])) != 0) {
      while (text_[at_] != ']') {
        ++at_;
        Skip();
        arg->list.emplace_back();
        ReadValue(&arg->list.back());
      }
      ++at_;
      return;
    }
    if (text_[at_] == '[') {
      arg->value = Value::Ints(List());
      return;
    }
    if (text_[at_] == '\'') {
      ++at_;
      arg->value = Value::String(Until("'"));
      ++at_;
      return;
    }
    const std::string word = Until(",[(]");
    if (at_ < text_.size() && text_[at_] == '[') {
      arg->tensor = true;
      arg->kind = word;
      arg->sizes = List();
      if (at_ < text_.size() && text_[at_] == '<') {
        ++at_;
        arg->below = std::strtoll(Until(",.]").c_str(), nullptr, 10);
      }
      const std::string method = Until(",(]");
      if (method == ".t") std::reverse(arg->sizes.begin(), arg->sizes.end());
      if (!method.empty()) at_ = text_.find(')', at_) + 1;
      return;
    }
    if (at_ < text_.size() && text_[at_] == '(') {  // t1.amax(1, True)
      arg->tensor = true;
      const size_t end = text_.find(')', at_);
      arg->amax = word.substr(0, word.find('.')) + " " + text_.substr(at_ + 1, end - at_ - 1);
      at_ = end + 1;
      return;
    }
    if (word == "None") return;
    char* end = nullptr;
    const int64_t whole = std::strtoll(word.c_str(), &end, 10);
    if (word == "True" || word == "False") {
      arg->value = Value::Bool(word == "True");
    } else if (DTypeFromName(word) != DType::kNone) {
      arg->value = Value::Type(DTypeFromName(word));
    } else if (*end == '\0') {
      arg->value = Value::Int(whole);
    } else {
      arg->value = Value::Float(std::strtod(word.c_str(), &end));  // "inf" too
      EXPECT_EQ(*end, '\0') << text_ << ": " << word;
    }
  }

  std::string text_;
  size_t at_ = 0;
};

// A call of a row: operands by the row's inputs, attributes by its slots.
struct SampleCall {
  std::vector<In> inputs;
  std::vector<Value> attrs;
  std::vector<Handle> tensors;  // those made for it
};

// Makes a sample's operands, the k-th of the dtype under test `dtypes(k)` in the layout `layouts(k)`, and puts its
// arguments where the row wants them.
template <typename DTypes, typename Layouts>
SampleCall MakeCall(TestClient* client, const OpSchema& schema, const std::string& sample, const DTypes& dtypes,
                    const Layouts& layouts) {
  const std::vector<SampleArg> args = SampleParser(sample).Read();
  SampleCall call;
  const auto operand = [&](const SampleArg& arg) -> In {
    if (!arg.tensor) {
      In in(Handle{0});
      in.scalar = arg.value;
      return in;
    }
    Handle made;
    if (!arg.amax.empty()) {
      const Handle of = call.tensors[static_cast<size_t>(arg.amax[1] - '0')];
      const bool all = arg.amax.size() < 4;
      made = client->Op("amax", {of},
                        {all ? Value() : Value::Ints(std::vector<int64_t>{arg.amax[3] - '0'}), Value::Bool(!all)});
    } else {
      const DType type = arg.kind[0] == 'T'              ? dtypes(call.tensors.size())
                         : arg.kind == "i64"             ? DType::kInt64
                         : arg.kind == "b"               ? DType::kBool
                         : arg.kind.rfind("f64", 0) == 0 ? DType::kFloat64
                                                         : DType::kFloat32;
      made = LaidOut(client, arg.sizes, type, arg.below, layouts(call.tensors.size()));
    }
    call.tensors.push_back(made);
    return made;
  };
  size_t next = 0;
  for (int p = 0; p < schema.num_params; ++p) {
    const Param& param = schema.params[p];
    const SampleArg* given = nullptr;
    for (const SampleArg& arg : args) {
      if (arg.keyword == param.name) given = &arg;
    }
    if (given == nullptr && next < args.size() && args[next].keyword.empty()) given = &args[next++];
    if (IsTensorType(param.type)) {
      if (param.type == telensor::ParamType::kTensorList) {
        for (const SampleArg& item : given->list) call.inputs.push_back(operand(item));
        continue;
      }
      call.inputs.push_back(given != nullptr ? operand(*given) : In(Handle{0}));
      continue;
    }
    Value value = given != nullptr ? given->value : OpTable::Get().literal(param.default_literal);
    if (param.type == telensor::ParamType::kInts && value.kind() == Value::Kind::kInt) {
      std::vector<int64_t> ints(static_cast<size_t>(std::max<int>(param.length, 1)), value.i());
      while (param.variadic && next < args.size() && args[next].keyword.empty()) ints.push_back(args[next++].value.i());
      value = Value::Ints(ints);
    } else if (param.type == telensor::ParamType::kInts && param.length > 1 && value.ints().size() == 1) {
      value = Value::Ints(std::vector<int64_t>(static_cast<size_t>(param.length), value.ints()[0]));
    } else if (param.type == telensor::ParamType::kFloat && value.kind() == Value::Kind::kInt) {
      value = Value::Float(value.f());
    }
    call.attrs.push_back(std::move(value));
  }
  EXPECT_EQ(next, static_cast<size_t>(
                      std::count_if(args.begin(), args.end(), [](const SampleArg& a) { return a.keyword.empty(); })))
      << schema.name << ": " << sample;
  return call;
}

}  // namespace telensor::server
