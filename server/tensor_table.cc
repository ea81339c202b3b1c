#include "server/tensor_table.h"

#include <algorithm>

namespace telensor::server {

TensorTable::~TensorTable() { Clear(); }

void TensorTable::Clear() {
  for (std::unique_ptr<Page>& page : pages_) {
    if (page == nullptr) continue;
    for (uintptr_t value : page->slots) Drop(value);
  }
  pages_.clear();
  live_ = failures_ = 0;
}

void TensorTable::Drop(uintptr_t value) {
  if (value == 0) return;
  if (value & kFailureTag) {
    rt::Ref<Failure>::Adopt(reinterpret_cast<Failure*>(value & ~kTags)).reset();
  } else {
    rt::Tensor::Adopt(reinterpret_cast<rt::TensorImpl*>(value & ~kTags)).reset();
  }
}

absl::Status TensorTable::CheckNew(absl::Span<const Handle> handles) const {
  TD_RETURN_IF_ERROR(CheckNames(handles));
  const size_t used = live_ - failures_;
  if (handles.size() > max_handles_ - std::min(used, max_handles_)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("handles: limit ", max_handles_, ", used ", used, ", requested ", handles.size()));
  }
  return absl::OkStatus();
}

absl::Status TensorTable::CheckNames(absl::Span<const Handle> handles) const {
  Handle before = highest_;
  for (const Handle handle : handles) {
    if (handle == 0 || handle >= uint64_t{1} << 53) return InvalidArgument("handle ", handle, " is out of range");
    if (handle <= before) {
      return InvalidArgument("handle ", handle, " is not new: handles rise, and the highest so far is ", before);
    }
    if (handle > highest_ + kMaxGap) {
      return InvalidArgument("handle ", handle, " is too far beyond the highest so far, ", highest_);
    }
    before = handle;
  }
  return absl::OkStatus();
}

bool TensorTable::CanFail(Handle handle) const { return failures_ < max_handles_ && CheckNames(absl::MakeConstSpan(&handle, 1)).ok(); }

uintptr_t* TensorTable::Slot(Handle handle) {
  const uint64_t index = handle >> kPageBits;
  if (index >= pages_.size() || pages_[index] == nullptr) return nullptr;
  return &pages_[index]->slots[handle & (kPageSize - 1)];
}

void TensorTable::Set(Handle handle, uintptr_t value) {
  const uint64_t index = handle >> kPageBits;
  if (index >= pages_.size()) pages_.resize(index + 1);
  std::unique_ptr<Page>& page = pages_[index];
  if (page == nullptr) page = spare_ != nullptr ? std::move(spare_) : std::make_unique<Page>();
  uintptr_t& slot = page->slots[handle & (kPageSize - 1)];
  if (value & kFailureTag) ++failures_;
  if (slot != 0) {
    if (slot & kFailureTag) --failures_;
    Drop(slot);
  } else {
    ++page->live;
    ++live_;
  }
  slot = value;
  if (handle > highest_) highest_ = handle;
}

void TensorTable::Put(Handle handle, rt::Tensor tensor) {
  Set(handle, reinterpret_cast<uintptr_t>(tensor.release()));
}

void TensorTable::PutFailure(Handle handle, rt::Ref<Failure> failure) {
  Set(handle, reinterpret_cast<uintptr_t>(failure.release()) | kFailureTag);
}

void TensorTable::PutPending(Handle handle, rt::Tensor tensor) {
  Set(handle, reinterpret_cast<uintptr_t>(tensor.release()) | kPendingTag);
}

void TensorTable::Settle(Handle handle) {
  if (uintptr_t* slot = Slot(handle)) *slot &= ~kPendingTag;
}

TensorTable::Entry TensorTable::Find(Handle handle) const {
  const uintptr_t* slot = const_cast<TensorTable*>(this)->Slot(handle);
  Entry entry;
  if (slot == nullptr || *slot == 0) return entry;
  if (*slot & kFailureTag) {
    entry.failure = reinterpret_cast<Failure*>(*slot & ~kTags);
  } else {
    entry.tensor = reinterpret_cast<rt::TensorImpl*>(*slot & ~kTags);
    entry.pending = (*slot & kPendingTag) != 0;
  }
  return entry;
}

bool TensorTable::Erase(Handle handle) {
  uintptr_t* slot = Slot(handle);
  if (slot == nullptr || *slot == 0) return false;
  if (*slot & kFailureTag) --failures_;
  Drop(std::exchange(*slot, 0));
  --live_;
  std::unique_ptr<Page>& page = pages_[handle >> kPageBits];
  // The page new handles go to is kept: a temporary's life would otherwise make and drop it every time.
  if (--page->live == 0 && handle >> kPageBits != highest_ >> kPageBits) {
    if (spare_ == nullptr) {
      spare_ = std::move(page);
    } else {
      page.reset();
    }
  }
  return true;
}

}  // namespace telensor::server
