#include "server/failure_log.h"

#include <algorithm>

namespace telensor::server {

void FillError(const Failure& failure, v1::Error* error) {
  error->set_code(static_cast<int>(failure.status.code()));
  error->set_message(std::string(failure.status.message()));
  error->set_seq(failure.seq);
}

Failure* FailureLog::Find(const rt::TensorImpl& tensor) const {
  const auto it = unwritten_.find(tensor.storage().get());
  return it != unwritten_.end() ? it->second.failure.get() : nullptr;
}

void FailureLog::Unwritten(const rt::Tensor& tensor, const rt::Ref<Failure>& failure) {
  // The first failure is the one that explains.
  unwritten_.try_emplace(tensor->storage().get(), Entry{tensor->storage(), failure});
}

void FailureLog::Carried(const rt::Ref<Failure>& failure) {
  if (failure->told || carried_.size() >= kMaxCarried) return;
  for (const rt::Ref<Failure>& known : carried_) {
    if (known.get() == failure.get()) return;
  }
  carried_.push_back(failure);
}

void FailureLog::Told(Failure* failure) {
  failure->told = true;
  absl::erase_if(unwritten_, [failure](const auto& item) { return item.second.failure.get() == failure; });
  carried_.erase(std::remove_if(carried_.begin(), carried_.end(), [](const auto& known) { return known->told; }),
                 carried_.end());
}

void FailureLog::TellAll(uint64_t seq, v1::EventBatch* events) {
  unwritten_.clear();
  for (const rt::Ref<Failure>& failure : carried_) failure->told = true;
  if (!carried_.empty()) {
    v1::CommandError* error = events->add_errors();
    error->set_seq(seq);
    FillError(*carried_.front(), error->mutable_error());
  }
  carried_.clear();
}

void FailureLog::Prune() {
  absl::erase_if(unwritten_, [](const auto& item) { return item.second.storage->unique(); });
}

void FailureLog::Clear() {
  unwritten_.clear();
  carried_.clear();
}

}  // namespace telensor::server
