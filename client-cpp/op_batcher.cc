#include "client-cpp/op_batcher.h"

#include <chrono>

#include "absl/strings/str_cat.h"

namespace telensor::client {

absl::Status FromWire(const v1::Error& error) {
  if (error.code() == 0) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(error.code()), error.message());
}

OpBatcher::OpBatcher(std::unique_ptr<CommandStream> stream)
    : stream_(std::move(stream)),
      current_(std::make_unique<v1::CommandBatch>()),
      spare_(std::make_unique<v1::CommandBatch>()),
      writer_([this] { WriterLoop(); }),
      reader_([this] { ReaderLoop(); }) {}

OpBatcher::~OpBatcher() {
  Flush();
  {
    std::lock_guard<std::mutex> lock(mu_);
    stopping_ = true;
  }
  writer_wakes_.notify_all();
  writer_.join();
  stream_->Cancel();
  reader_.join();
}

OpBatcher::Appender::Appender(OpBatcher* batcher, bool flushes)
    : batcher_(batcher), lock_(batcher->mu_), flushes_(flushes) {
  if (__builtin_expect(static_cast<size_t>(batcher->count_) >= kMaxUnsentCommands || batcher->inline_bytes_ > (1 << 20), 0)) {
    batcher->writer_wakes_.notify_one();
    batcher->caller_wakes_.wait(lock_, [batcher] {
      return (static_cast<size_t>(batcher->count_) < kMaxUnsentCommands && batcher->inline_bytes_ <= (1 << 20)) ||
             !batcher->closed_.ok();
    });
  }
  if (__builtin_expect(!batcher->closed_.ok(), 0)) {
    // Nothing will be sent any more; whoever reads a result learns why.
    batcher->current_->Clear();
    batcher->count_ = 0;
    batcher->inline_bytes_ = 0;
  }
  command_ = batcher->current_->add_commands();
  seq_ = batcher->next_seq_++;
  ++batcher->count_;
}

OpBatcher::Appender::~Appender() {
  batcher_->inline_bytes_ += command_->data().size();
  // The writer sleeps while there is nothing to do for it: nobody pays for waking it twice.
  const bool wake = !flushes_ && batcher_->writer_idle_ && (batcher_->sent_seq_ == batcher_->acked_seq_ || batcher_->count_ >= kFullCommands);
  if (wake) batcher_->writer_idle_ = false;
  lock_.unlock();
  if (wake) batcher_->writer_wakes_.notify_one();
}

void OpBatcher::Release(uint64_t handle) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (count_ > 0) {
      // Rides on the last command: it is dropped once that one is done.
      current_->mutable_commands(count_ - 1)->add_release(handle);
      return;
    }
    if (!closed_.ok()) return;
  }
  Appender append(this);
  append.command()->set_kind(v1::Command::KIND_RELEASE);
  append.command()->add_release(handle);
}

void OpBatcher::Send() {
  std::lock_guard<std::mutex> writing(write_mu_);
  v1::CommandBatch* batch;
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (count_ == 0 || !closed_.ok()) return;
    current_.swap(spare_);
    batch = spare_.get();
    batch->set_first_seq(sent_seq_ + 1);
    sent_seq_ += count_;
    stats_.commands += count_;
    ++stats_.batches;
    count_ = 0;
    inline_bytes_ = 0;
  }
  caller_wakes_.notify_all();
  stream_->Write(*batch);  // a failure shows in the reader, which says why
  batch->Clear();
}

void OpBatcher::Flush() { Send(); }

void OpBatcher::WriterLoop() {
  std::unique_lock<std::mutex> lock(mu_);
  while (true) {
    const auto due = [this] {
      return stopping_ || !closed_.ok() || (count_ > 0 && (sent_seq_ == acked_seq_ || count_ >= kFullCommands));
    };
    // Somebody's Flush may have sent what this was woken for: it sleeps again, and must be woken again.
    while (!due()) {
      writer_idle_ = true;
      writer_wakes_.wait(lock);
    }
    writer_idle_ = false;
    if (stopping_ || !closed_.ok()) return;
    const bool full = count_ >= kFullCommands;
    lock.unlock();
    // Woken by a first op, this may have taken the caller's place on its core: an op and the read of it go together.
    if (!full) std::this_thread::yield();
    Send();
    lock.lock();
  }
}

void OpBatcher::ReaderLoop() {
  v1::EventBatch events;
  while (stream_->Read(&events)) {
    std::unique_lock<std::mutex> lock(mu_);
    if (events.executed_seq() > acked_seq_) acked_seq_ = events.executed_seq();
    for (v1::ReadResult& read : *events.mutable_reads()) reads_[read.seq()] = std::move(read);
    for (v1::DynamicResult& dynamic : *events.mutable_dynamics()) dynamics_[dynamic.seq()] = std::move(dynamic);
    for (const v1::CommandError& error : events.errors()) {
      if (error_.ok()) error_ = FromWire(error.error());
    }
    acked_hint_.store(acked_seq_, std::memory_order_release);
    const bool wake_writer = writer_idle_ && count_ > 0 && sent_seq_ == acked_seq_;
    if (wake_writer) writer_idle_ = false;
    const bool wake_caller = waiters_ > 0;
    lock.unlock();
    if (wake_caller) caller_wakes_.notify_all();
    if (wake_writer) writer_wakes_.notify_one();
  }
  absl::Status status = stream_->Finish();
  std::lock_guard<std::mutex> lock(mu_);
  closed_ = absl::UnavailableError(absl::StrCat("the connection to the server is lost", status.ok() ? "" : ": ", status.message()));
  caller_wakes_.notify_all();
  writer_wakes_.notify_all();
}

template <typename Done>
std::unique_lock<std::mutex> OpBatcher::Await(uint64_t seq, const Done& done) {
  Flush();
  // Waking a sleeping thread can cost half of a round trip on one host: look for two of them before sleeping.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::microseconds(200);
  while (acked_hint_.load(std::memory_order_acquire) < seq && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  std::unique_lock<std::mutex> lock(mu_);
  ++stats_.waits;
  ++waiters_;
  caller_wakes_.wait(lock, [&] { return done() || !closed_.ok(); });
  --waiters_;
  return lock;
}

template <typename Result>
absl::StatusOr<Result> OpBatcher::Wait(uint64_t seq, std::map<uint64_t, Result>* results) {
  const std::unique_lock<std::mutex> lock = Await(seq, [&] { return results->count(seq) > 0; });
  auto it = results->find(seq);
  if (it == results->end()) return closed_;
  Result result = std::move(it->second);
  results->erase(it);
  TD_RETURN_IF_ERROR(FromWire(result.error()));
  return result;
}

absl::StatusOr<v1::ReadResult> OpBatcher::WaitRead(uint64_t seq) { return Wait(seq, &reads_); }
absl::StatusOr<v1::DynamicResult> OpBatcher::WaitDynamic(uint64_t seq) { return Wait(seq, &dynamics_); }

absl::Status OpBatcher::WaitExecuted(uint64_t seq) {
  const std::unique_lock<std::mutex> lock = Await(seq, [&] { return acked_seq_ >= seq; });
  return acked_seq_ >= seq ? absl::OkStatus() : closed_;
}

absl::Status OpBatcher::TakeError() {
  std::lock_guard<std::mutex> lock(mu_);
  return std::exchange(error_, absl::OkStatus());
}

absl::Status OpBatcher::connection_status() {
  std::lock_guard<std::mutex> lock(mu_);
  return closed_;
}

BatcherStats OpBatcher::stats() {
  std::lock_guard<std::mutex> lock(mu_);
  BatcherStats stats = stats_;
  stats.commands += count_;
  return stats;
}

}  // namespace telensor::client
