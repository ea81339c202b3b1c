// Ref: an intrusive counted pointer; RefCounted: what it counts.
//
// Neither the count nor the objects are guarded: they belong to whoever has the turn on the device
// (server/scheduler.h). Every op changes a dozen counts, and atomic ones cost it a twentieth of its time.
#pragma once

#include <cstdint>
#include <utility>

namespace telensor::rt {

class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

  void AddRef() const { ++refs_; }
  // True where this was the last reference: the caller then destroys the object.
  bool DropRef() const { return --refs_ == 0; }
  bool unique() const { return refs_ == 1; }

 protected:
  ~RefCounted() = default;

 private:
  mutable uint32_t refs_ = 0;
};

// T has a static Destroy(T*).
template <typename T>
class Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}
  explicit Ref(T* object) : object_(object) {
    if (object_ != nullptr) object_->AddRef();
  }
  Ref(const Ref& other) : Ref(other.object_) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() { reset(); }

  void reset() {
    T* object = std::exchange(object_, nullptr);
    if (object != nullptr && object->DropRef()) T::Destroy(object);
  }
  // Gives up the pointer with its count.
  T* release() { return std::exchange(object_, nullptr); }
  // Takes over a pointer that `release` gave up.
  static Ref Adopt(T* object) {
    Ref ref;
    ref.object_ = object;
    return ref;
  }
  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }
  friend bool operator==(const Ref& a, const Ref& b) { return a.object_ == b.object_; }

 private:
  T* object_ = nullptr;
};

template <typename T, typename... Args>
Ref<T> MakeRef(Args&&... args) {
  return Ref<T>(new T(std::forward<Args>(args)...));
}

}  // namespace telensor::rt
