// TensorTable: a session's handles. A handle holds a tensor, the error of the op that should have made it, or an
// upload still under way.
//
// Owned by a session's executor and used only in its turn. Clients name handles by a rising counter, so the table is
// pages of slots instead of a hash map.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "kernels/tensor.h"
#include "proto/core/status.h"

namespace telensor::server {

using Handle = uint64_t;

// Why a handle has no tensor: the first failure on the way to it.
struct Failure final : rt::RefCounted {
  Failure(absl::Status s, uint64_t q) : status(std::move(s)), seq(q) {}
  static void Destroy(Failure* failure) { delete failure; }
  absl::Status status;
  uint64_t seq;
  bool told = false;  // the client has heard of it
};

class TensorTable {
 public:
  explicit TensorTable(size_t max_handles) : max_handles_(max_handles) {}
  ~TensorTable();
  TensorTable(const TensorTable&) = delete;

  // Whether a client may name these handles now: they rise, are new, and there is room for them.
  absl::Status CheckNew(absl::Span<const Handle> handles) const;
  absl::Status CheckNew(Handle handle) const { return CheckNew(absl::MakeConstSpan(&handle, 1)); }
  // Whether a handle is beyond all that were ever put.
  bool IsAhead(Handle handle) const { return handle > highest_; }
  // Whether it may hold an error: what the limit refuses must still say so to whoever reads it.
  bool CanFail(Handle handle) const;
  void Put(Handle handle, rt::Tensor tensor);
  void PutFailure(Handle handle, rt::Ref<Failure> failure);
  // A tensor whose bytes still come.
  void PutPending(Handle handle, rt::Tensor tensor);
  // The upload of a pending handle ended.
  void Settle(Handle handle);

  struct Entry {
    rt::TensorImpl* tensor = nullptr;
    Failure* failure = nullptr;
    bool pending = false;
    bool found() const { return tensor != nullptr || failure != nullptr; }
  };
  Entry Find(Handle handle) const;
  // False where there was none.
  bool Erase(Handle handle);
  void Clear();
  size_t size() const { return live_; }

 private:
  static constexpr int kPageBits = 12;
  static constexpr uint64_t kPageSize = uint64_t{1} << kPageBits;
  // The low bits say what the pointer is.
  static constexpr uintptr_t kFailureTag = 1;
  static constexpr uintptr_t kPendingTag = 2;
  static constexpr uintptr_t kTags = 3;
  // A client's counter runs ahead of the table by what it has in flight, not by more.
  static constexpr uint64_t kMaxGap = uint64_t{1} << 22;

  struct Page {
    uint32_t live = 0;
    uintptr_t slots[kPageSize] = {};
  };

  absl::Status CheckNames(absl::Span<const Handle> handles) const;
  uintptr_t* Slot(Handle handle);
  void Set(Handle handle, uintptr_t value);
  static void Drop(uintptr_t value);

  std::vector<std::unique_ptr<Page>> pages_;
  std::unique_ptr<Page> spare_;  // all null, as every page with nothing live is
  size_t live_ = 0;
  size_t failures_ = 0;  // of live_
  Handle highest_ = 0;
  size_t max_handles_;
};

}  // namespace telensor::server
