// Tensor: a strided view of a storage. Storage: device memory with a version, shared by its views.
//
// Owned by whoever holds a Ref. Everything belongs to the session's turn on the device, counts included: a transfer
// thread that fills a tensor's memory takes and drops its Ref in a turn.
#pragma once

#include <memory>

#include "absl/container/inlined_vector.h"
#include "allocator/buffer.h"
#include "kernels/device.h"
#include "kernels/ref.h"
#include "proto/core/tensor_meta.h"
#include "proto/core/value.h"

namespace telensor::rt {

class Storage final : public RefCounted {
 public:
  Storage(Device* device, Buffer buffer) : device_(device), buffer_(std::move(buffer)) {}
  static void Destroy(Storage* storage) { delete storage; }

  Device& device() const { return *device_; }
  char* data() const { return static_cast<char*>(buffer_.data()); }
  size_t bytes() const { return buffer_.size(); }
  const Buffer& buffer() const { return buffer_; }
  // Counts writes: a saved tensor is only good at the version it was saved at.
  uint32_t version() const { return version_; }
  void BumpVersion() { ++version_; }

 private:
  Device* device_;
  Buffer buffer_;
  uint32_t version_ = 0;
};

// What the autograd layer keeps with a tensor; this layer only owns it.
class AutogradData {
 public:
  virtual ~AutogradData() = default;
};

class TensorImpl;
using Tensor = Ref<TensorImpl>;
using TensorList = absl::InlinedVector<Tensor, 2>;

class TensorImpl final : public RefCounted {
 public:
  TensorImpl(TensorMeta meta, Ref<Storage> storage, Tensor base = nullptr)
      : meta_(std::move(meta)), storage_(std::move(storage)), base_(std::move(base)) {}
  static void Destroy(TensorImpl* tensor) { delete tensor; }

  const TensorMeta& meta() const { return meta_; }
  const Ref<Storage>& storage() const { return storage_; }
  Device& device() const { return storage_->device(); }
  void* data() const { return storage_->data() + meta_.offset * static_cast<int64_t>(ItemSize(meta_.dtype)); }
  // The tensor this one is a view of; null where it is none. Never itself a view.
  const Tensor& base() const { return base_; }

  AutogradData* autograd() const { return autograd_.get(); }
  void set_autograd(std::unique_ptr<AutogradData> data) { autograd_ = std::move(data); }

 private:
  TensorMeta meta_;
  Ref<Storage> storage_;
  Tensor base_;
  std::unique_ptr<AutogradData> autograd_;
};

// A tensor operand of a call, or the number given in its place; neither where it is absent.
struct Operand {
  TensorImpl* tensor = nullptr;
  Scalar scalar;
};

}  // namespace telensor::rt
