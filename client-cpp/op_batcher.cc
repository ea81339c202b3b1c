#include "client-cpp/op_batcher.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"

namespace telensor::client {
namespace {

constexpr auto kInterruptPoll = std::chrono::milliseconds(100);

WaitHooks g_hooks;

// The time in which a thread waits, without an interpreter's lock.
class Pause {
 public:
  Pause() : paused_(g_hooks.pause != nullptr ? g_hooks.pause() : nullptr) {}
  ~Pause() {
    if (g_hooks.resume != nullptr) g_hooks.resume(paused_);
  }
  Pause(const Pause&) = delete;

 private:
  void* paused_;
};

absl::Status Interrupted() { return absl::CancelledError("the wait was interrupted"); }

}  // namespace

void SetWaitHooks(const WaitHooks& hooks) { g_hooks = hooks; }

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
  Send();
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
  if (__builtin_expect(batcher->full(), 0)) {
    batcher->writer_wakes_.notify_one();
    batcher->caller_wakes_.wait(lock_, [batcher] { return !batcher->full() || !batcher->closed_.ok(); });
  }
  if (__builtin_expect(!batcher->closed_.ok(), 0)) {
    // Nothing will be sent any more; whoever reads a result learns why.
    batcher->current_->Clear();
    batcher->releases_.clear();
    batcher->count_ = 0;
    batcher->bytes_ = 0;
  }
  command_ = batcher->current_->add_commands();
  seq_ = batcher->next_seq_++;
  ++batcher->count_;
}

OpBatcher::Appender::~Appender() {
  OpBatcher& b = *batcher_;
  b.bytes_ += kCommandBytes;
  if (__builtin_expect(b.bytes_ >= kMaxUnsentBytes, 0)) b.full_ = true;
  // The writer sleeps while there is nothing to do for it: nobody pays for waking it twice.
  const bool wake = !flushes_ && b.writer_idle_ && (b.sent_seq_ == b.acked_seq_ || b.count_ >= kFullCommands);
  if (wake) b.writer_idle_ = false;
  lock_.unlock();
  if (wake) b.writer_wakes_.notify_one();
}

void OpBatcher::Release(uint64_t handle) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (__builtin_expect(bytes_ >= kMaxUnsentBytes, 0)) {
      // It must not wait: it may come from anywhere that a last reference is dropped.
      if (closed_.ok()) releases_.push_back(handle);
      return;
    }
    if (count_ > 0) {
      // Rides on the last command: it is dropped once that one is done.
      current_->mutable_commands(count_ - 1)->add_release(handle);
      bytes_ += 8;
      return;
    }
    if (!closed_.ok()) return;
  }
  Appender append(this);
  append.command()->set_kind(v1::Command::KIND_RELEASE);
  append.command()->add_release(handle);
}

void OpBatcher::PutOffReleases() {
  if (releases_.empty()) return;
  v1::Command* command = current_->add_commands();
  command->set_kind(v1::Command::KIND_RELEASE);
  const size_t n = std::min(releases_.size(), kMaxReleases);
  command->mutable_release()->Add(releases_.begin(), releases_.begin() + static_cast<std::ptrdiff_t>(n));
  releases_.erase(releases_.begin(), releases_.begin() + static_cast<std::ptrdiff_t>(n));
  ++next_seq_;
  count_ = 1;
  bytes_ = kCommandBytes + 8 * n;
  // More of them: behind this command nothing is released before they are.
  if (!releases_.empty()) bytes_ = std::max(bytes_, kMaxUnsentBytes);
  full_ = bytes_ >= kMaxUnsentBytes;
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
    under_way_ += bytes_;
    count_ = 0;
    bytes_ = 0;
    full_ = false;
    PutOffReleases();
    flush_wanted_ = count_ > 0;
  }
  caller_wakes_.notify_all();
  stream_->Write(*batch);  // a failure shows in the reader, which says why
  batch->Clear();
}

void OpBatcher::Flush() {
  {
    std::unique_lock<std::mutex> writing(write_mu_, std::try_to_lock);
    std::unique_lock<std::mutex> lock(mu_);
    if (count_ == 0) return;
    if (!writing.owns_lock() || under_way_ + bytes_ > kNeverBlocks) {
      // A server that reads nothing blocks the writer, which nobody waits for without end.
      flush_wanted_ = true;
      writer_idle_ = false;
      lock.unlock();
      writer_wakes_.notify_one();
      return;
    }
  }
  Send();
}

void OpBatcher::WriterLoop() {
  std::unique_lock<std::mutex> lock(mu_);
  while (true) {
    const auto due = [this] {
      if (stopping_ || !closed_.ok()) return true;
      return count_ > 0 && (sent_seq_ == acked_seq_ || count_ >= kFullCommands || flush_wanted_);
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
    if (acked_seq_ == sent_seq_) under_way_ = 0;
    for (v1::ReadResult& read : *events.mutable_reads()) {
      if (__builtin_expect(unwanted_.erase(read.seq()) > 0, 0)) {
        if (read.too_large()) abandoned_.push_back(read.seq());
      } else {
        reads_[read.seq()] = std::move(read);
      }
    }
    for (v1::DynamicResult& dynamic : *events.mutable_dynamics()) {
      if (unwanted_.erase(dynamic.seq()) == 0) dynamics_[dynamic.seq()] = std::move(dynamic);
    }
    for (const v1::CommandError& error : events.errors()) {
      if (errors_.size() < kMaxErrors) errors_.emplace(error.error().seq(), FromWire(error.error()));
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
bool OpBatcher::Sleep(std::unique_lock<std::mutex>* lock, const Done& done) {
  const auto over = [&] { return done() || !closed_.ok(); };
  if (over()) return true;
  // An interpreter's lock is never asked for while ours is held.
  lock->unlock();
  const Pause pause;
  lock->lock();
  ++waiters_;
  bool interrupted = false;
  while (!interrupted && !caller_wakes_.wait_for(*lock, kInterruptPoll, over)) {
    if (g_hooks.interrupted == nullptr) continue;
    lock->unlock();
    interrupted = g_hooks.interrupted();
    lock->lock();
  }
  --waiters_;
  interrupted = interrupted && !over();
  lock->unlock();
  return !interrupted;
}

template <typename Done>
bool OpBatcher::Await(uint64_t seq, std::unique_lock<std::mutex>* lock, const Done& done) {
  Flush();
  // Waking a sleeping thread can cost half of a round trip on one host: look for two of them before sleeping.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::microseconds(200);
  while (acked_hint_.load(std::memory_order_acquire) < seq && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  *lock = std::unique_lock<std::mutex>(mu_);
  ++stats_.waits;
  const bool came = Sleep(lock, done);
  if (!lock->owns_lock()) lock->lock();
  return came;
}

absl::Status OpBatcher::AwaitRoom() {
  writer_wakes_.notify_one();
  std::unique_lock<std::mutex> lock(mu_);
  return Sleep(&lock, [this] { return !full(); }) ? absl::OkStatus() : Interrupted();
}

template <typename Result>
absl::StatusOr<Result> OpBatcher::Wait(uint64_t seq, std::map<uint64_t, Result>* results) {
  std::unique_lock<std::mutex> lock;
  if (!Await(seq, &lock, [&] { return results->count(seq) > 0; })) {
    if (results->erase(seq) == 0) unwanted_.insert(seq);
    return Interrupted();
  }
  auto it = results->find(seq);
  if (it == results->end()) return closed_;
  Result result = std::move(it->second);
  results->erase(it);
  // Raised here, so nowhere else again.
  if (result.has_error()) errors_.erase(result.error().seq());
  TD_RETURN_IF_ERROR(FromWire(result.error()));
  return result;
}

absl::StatusOr<v1::ReadResult> OpBatcher::WaitRead(uint64_t seq) { return Wait(seq, &reads_); }
absl::StatusOr<v1::DynamicResult> OpBatcher::WaitDynamic(uint64_t seq) { return Wait(seq, &dynamics_); }

absl::Status OpBatcher::WaitExecuted(uint64_t seq) {
  std::unique_lock<std::mutex> lock;
  if (!Await(seq, &lock, [&] { return acked_seq_ >= seq; })) return Interrupted();
  return acked_seq_ >= seq ? absl::OkStatus() : closed_;
}

absl::Status OpBatcher::TakeError() {
  std::lock_guard<std::mutex> lock(mu_);
  if (errors_.empty()) return absl::OkStatus();
  absl::Status first = std::move(errors_.begin()->second);
  errors_.clear();
  return first;
}

absl::Status OpBatcher::connection_status() {
  std::lock_guard<std::mutex> lock(mu_);
  return closed_;
}

std::vector<uint64_t> OpBatcher::TakeAbandoned() {
  std::lock_guard<std::mutex> lock(mu_);
  return std::exchange(abandoned_, {});
}

BatcherStats OpBatcher::stats() {
  std::lock_guard<std::mutex> lock(mu_);
  BatcherStats stats = stats_;
  stats.commands += count_;
  return stats;
}

}  // namespace telensor::client
