// Error: what the C++ API throws. Inside the client everything is a status.
#pragma once

#include <stdexcept>
#include <string>

namespace telensor {

enum class ErrorKind {
  kRuntime,         // shapes, dtypes, autograd
  kIndex,           // an index or dimension out of range
  kType,            // an argument of the wrong kind
  kValue,
  kOutOfMemory,     // of the device, or past a quota
  kNotImplemented,  // the backend has no kernel for this dtype
  kConnectionLost,
};

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

}  // namespace telensor
