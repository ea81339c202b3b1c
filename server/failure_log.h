// FailureLog: what failed in a session and has not been told to its client; and the tensors that ops in place left
// unwritten for it, which are not what the program takes them for until it knows.
//
// Owned by a session's executor and used only in its turn.
#pragma once

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "server/tensor_table.h"
#include "telensor/v1/telensor.pb.h"

namespace telensor::server {

void FillError(const Failure& failure, v1::Error* error);

class FailureLog {
 public:
  // Whether any tensor is unwritten: asked for every operand.
  bool any_unwritten() const { return !unwritten_.empty(); }
  // Why a tensor's memory does not hold what was to be written; null where it does.
  Failure* Find(const rt::TensorImpl& tensor) const;
  // What was to be written and was not. Whatever uses it from now on fails with the same failure.
  void Unwritten(const rt::Tensor& tensor, const rt::Ref<Failure>& failure);
  // A failure that only results carry, which somebody may never read.
  void Carried(const rt::Ref<Failure>& failure);
  // The client hears of a failure: it raises there, and what was unwritten for it is good again with its old value.
  void Told(Failure* failure);
  // Tells of everything, the first failure by name.
  void TellAll(uint64_t seq, v1::EventBatch* events);
  // Lets go of memory that nobody else holds any more.
  void Prune();
  void Clear();

 private:
  // Past this only the first ones are kept: one of them is raised.
  static constexpr size_t kMaxCarried = 64;

  struct Entry {
    rt::Ref<rt::Storage> storage;
    rt::Ref<Failure> failure;
  };
  absl::flat_hash_map<const rt::Storage*, Entry> unwritten_;
  std::vector<rt::Ref<Failure>> carried_;
};

}  // namespace telensor::server
