// Status helpers: the two macros that Debian's Abseil lacks, and PyTorch-worded constructors.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#define TD_CONCAT_INNER_(a, b) a##b
#define TD_CONCAT_(a, b) TD_CONCAT_INNER_(a, b)

#define TD_RETURN_IF_ERROR(expr)                                   \
  do {                                                             \
    if (absl::Status td_status_ = (expr); __builtin_expect(!td_status_.ok(), 0)) return td_status_; \
  } while (0)

#define TD_ASSIGN_OR_RETURN(lhs, expr) TD_ASSIGN_OR_RETURN_(TD_CONCAT_(td_or_, __LINE__), lhs, expr)
#define TD_ASSIGN_OR_RETURN_(tmp, lhs, expr) \
  auto tmp = (expr);                         \
  if (__builtin_expect(!tmp.ok(), 0)) return std::move(tmp).status(); \
  lhs = *std::move(tmp)

namespace telensor {

template <typename... Args>
absl::Status InvalidArgument(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(args...));
}

// Python users expect IndexError for these.
template <typename... Args>
absl::Status IndexError(const Args&... args) {
  return absl::OutOfRangeError(absl::StrCat(args...));
}

template <typename... Args>
absl::Status AutogradError(const Args&... args) {
  return absl::FailedPreconditionError(absl::StrCat(args...));
}

}  // namespace telensor
