#include "tests/gpu/sample.h"

#include <cctype>
#include <cstdlib>
#include <limits>

namespace telensor::conformance {
namespace {

class Parser {
 public:
  explicit Parser(const std::string& text) : text_(text) {}

  bool List(char end, std::vector<Argument>* out) {
    Space();
    if (At(end)) return true;
    while (true) {
      Argument argument;
      if (!Value(&argument)) return false;
      out->push_back(std::move(argument));
      Space();
      if (At(end)) return true;
      if (!Take(',')) return Wrong("a comma");
    }
  }
  const std::string& error() const { return error_; }

 private:
  bool At(char c) const { return c == '\0' ? at_ >= text_.size() : at_ < text_.size() && text_[at_] == c; }
  bool Take(char c) {
    if (!At(c) || c == '\0') return false;
    ++at_;
    return true;
  }
  bool Take(const char* word) {
    const size_t n = std::char_traits<char>::length(word);
    if (text_.compare(at_, n, word) != 0) return false;
    at_ += n;
    return true;
  }
  void Space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool Wrong(const char* wanted) {
    error_ = std::string("expected ") + wanted + " at '" + text_.substr(at_) + "'";
    return false;
  }
  bool Whole(int64_t* out) {
    const char* begin = text_.c_str() + at_;
    char* end = nullptr;
    *out = std::strtoll(begin, &end, 10);
    at_ += static_cast<size_t>(end - begin);
    return end != begin || Wrong("a whole number");
  }

  bool Number(Argument* out) {
    const char* begin = text_.c_str() + at_;
    char* end = nullptr;
    out->f = std::strtod(begin, &end);
    if (end == begin) return Wrong("a value");
    const std::string written(begin, static_cast<size_t>(end - begin));
    at_ += written.size();
    const bool whole = written.find_first_of(".eEinfa") == std::string::npos;
    out->kind = whole ? Argument::kInt : Argument::kFloat;
    if (whole) out->i = std::strtoll(written.c_str(), nullptr, 10);
    return true;
  }

  bool Tensor(const std::string& word, bool plus, Argument* out) {
    out->kind = Argument::kTensor;
    TensorSpec& t = out->tensor;
    t.type = word;
    t.range = plus ? TensorSpec::kPositive : TensorSpec::kAny;
    if (word == "T1" || word == "A1") t.type = word.substr(0, 1), t.range = TensorSpec::kWithinOne;
    if (word == "T01") t.type = "T", t.range = TensorSpec::kWithinUnit;
    ++at_;  // [
    Space();
    while (!At(']')) {
      int64_t size;
      if (!Whole(&size)) return false;
      t.sizes.push_back(size);
      Space();
      if (!At(']') && !Take(',')) return Wrong("a comma or ]");
      Space();
    }
    ++at_;
    if (Take('<')) {
      t.range = TensorSpec::kBelow;
      if (!Whole(&t.limit)) return false;
    } else if (Take('=')) {
      t.range = TensorSpec::kEqual;
      if (!Whole(&t.limit)) return false;
    }
    t.transposed = Take(".t()");
    return true;
  }

  bool Value(Argument* out) {
    Space();
    if (Take('[')) {
      out->kind = Argument::kList;
      return List(']', &out->list) && (Take(']') || Wrong("]"));
    }
    if (Take('\'')) {
      const size_t end = text_.find('\'', at_);
      if (end == std::string::npos) return Wrong("a quote");
      out->kind = Argument::kString;
      out->text = text_.substr(at_, end - at_);
      at_ = end + 1;
      return true;
    }
    if (at_ < text_.size() && std::isalpha(static_cast<unsigned char>(text_[at_]))) {
      const size_t start = at_;
      while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) ++at_;
      const std::string word = text_.substr(start, at_ - start);
      const bool plus = Take('+');
      if (At('[')) return Tensor(word, plus, out);
      if (Take('=')) {
        if (!Value(out)) return false;
        out->name = word;
        return true;
      }
      if (word == "inf") {
        out->kind = Argument::kFloat;
        out->f = std::numeric_limits<double>::infinity();
      } else if (word == "True" || word == "False") {
        out->kind = Argument::kBool;
        out->i = word == "True";
        out->f = static_cast<double>(out->i);
      } else if (word != "None") {
        out->kind = Argument::kWord;
        out->text = word;
      }
      return true;
    }
    const bool whole = Number(out);
    if (whole && out->kind == Argument::kInt) out->f = static_cast<double>(out->i);
    return whole;
  }

  const std::string& text_;
  size_t at_ = 0;
  std::string error_;
};

}  // namespace

bool ParseSample(const std::string& text, std::vector<Argument>* out, std::string* error) {
  Parser parser(text);
  if (parser.List('\0', out)) return true;
  *error = parser.error();
  return false;
}

}  // namespace telensor::conformance
