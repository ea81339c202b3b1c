#include "server/session.h"

#include <omp.h>

namespace telensor::server {
namespace {

constexpr auto kNoDeadline = std::chrono::steady_clock::time_point::max();
constexpr absl::Duration kUploadPatience = absl::Seconds(30);

}  // namespace

Session::Session(std::string id, std::shared_ptr<Executor> executor, Scheduler* scheduler, SessionLimits limits)
    : id_(std::move(id)), executor_(std::move(executor)), scheduler_(scheduler), limits_(limits) {}

bool Session::Attach() {
  absl::MutexLock lock(&mu_);
  return !closed_ && !std::exchange(attached_, true);
}

bool Session::Abandoned(absl::Time now) {
  absl::MutexLock lock(&mu_);
  return !attached_ && now - opened_ > limits_.attach_patience;
}

absl::Status Session::Submit(v1::CommandBatch* batch, const std::function<bool(const v1::EventBatch&)>& send,
                             const std::function<bool()>& gone) {
  const size_t bytes = batch->ByteSizeLong();
  bool alone = false;
  {
    absl::MutexLock lock(&mu_);
    const auto room = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return closed_ || queued_bytes_ < limits_.max_queued_bytes;
    };
    // Nobody reads the stream meanwhile, so nobody else would see its end.
    while (!mu_.AwaitWithTimeout(absl::Condition(&room), absl::Milliseconds(200))) {
      if (gone && gone()) return absl::CancelledError("the client is gone");
    }
    if (closed_) return absl::CancelledError("the session is closed");
    if (batch->first_seq() != next_seq_) {
      return InvalidArgument("batch starts at number ", batch->first_seq(), ", expected ", next_seq_);
    }
    next_seq_ += batch->commands_size();
    alone = queue_.empty() && !sending_ && !outbox_ready_;
    std::unique_ptr<Queued> queued;
    if (free_.empty()) {
      queued = std::make_unique<Queued>();
    } else {
      queued = std::move(free_.back());
      free_.pop_back();
    }
    queued->batch.Swap(batch);
    queued->next = 0;
    queued->bytes = bytes;
    queued_bytes_ += bytes;
    queue_.push_back(std::move(queued));
    if (alone) sending_ = true;
  }
  bool more = true;
  if (alone) {
    if (Scheduler::Turn turn = scheduler_->TryTurn()) {
      // This thread has no OpenMP team of its own and shall not start one.
      thread_local const bool once = (omp_set_num_threads(1), true);
      (void)once;
      thread_local v1::EventBatch events;
      events.Clear();
      more = RunQueued(true, kNoDeadline, &events);
      turn = Scheduler::Turn();
      const bool sent = events.ByteSizeLong() == 0 || send(events);
      if (!sent) return absl::CancelledError("the client is gone");
    }
    absl::MutexLock lock(&mu_);
    sending_ = false;
    more = more && !parked_;
  }
  if (more) scheduler_->Enqueue(shared_from_this());
  return absl::OkStatus();
}

bool Session::RunQueued(bool small_only, std::chrono::steady_clock::time_point deadline, v1::EventBatch* events) {
  while (true) {
    Queued* queued;
    {
      absl::MutexLock lock(&mu_);
      if (closed_ || queue_.empty()) return false;
      if (outbox_bytes_ > limits_.max_event_bytes) {
        parked_ = true;
        return false;
      }
      queued = queue_.front().get();
    }
    const v1::CommandBatch& batch = queued->batch;
    bool stop = false;
    bool more = true;
    int done = queued->next;
    for (; done < batch.commands_size(); ++done) {
      const auto outcome = executor_->Run(batch.commands(done), batch.first_seq() + done, small_only, events);
      if (outcome == Executor::Outcome::kWaiting) {
        more = false;
        stop = true;
      }
      if (outcome == Executor::Outcome::kTooLarge) stop = true;
      if (stop) break;
      // A clock is read now and then only: it costs as much as a small op.
      if (deadline != kNoDeadline && (done & 15) == 15 && std::chrono::steady_clock::now() >= deadline) {
        ++done;
        stop = true;
        break;
      }
    }
    absl::MutexLock lock(&mu_);
    queued->next = done;
    executed_seq_ = batch.first_seq() + done - 1;
    events->set_executed_seq(executed_seq_);
    if (!more) parked_ = true;
    if (done == batch.commands_size()) {
      queued_bytes_ -= queued->bytes;
      queued->batch.Clear();
      if (free_.size() < 4) free_.push_back(std::move(queue_.front()));
      queue_.pop_front();
    }
    stats_.tensors = executor_->tensors().size();
    stats_.allocated_bytes = executor_->budget().used();
    stats_.peak_bytes = executor_->budget().peak();
    stats_.ops = executor_->ops_run();
    stats_.executed_seq = executed_seq_;
    if (stop) return more;
    // Answers leave between batches, so that a reader does not wait for what comes behind its read.
    if (!small_only && events->reads_size() + events->dynamics_size() > 0) return !queue_.empty();
    if (deadline != kNoDeadline && std::chrono::steady_clock::now() >= deadline) return !queue_.empty();
  }
}

bool Session::RunSlice(std::chrono::steady_clock::time_point deadline) {
  {
    absl::MutexLock lock(&mu_);
    parked_ = false;
  }
  v1::EventBatch events;
  const bool more = RunQueued(false, deadline, &events);
  Publish(&events);
  return more;
}

void Session::Publish(v1::EventBatch* events) {
  const size_t bytes = events->ByteSizeLong();
  if (bytes == 0) return;
  absl::MutexLock lock(&mu_);
  const uint64_t executed = std::max(outbox_.executed_seq(), events->executed_seq());
  if (!outbox_ready_) {
    outbox_.Swap(events);
  } else {
    outbox_.MergeFrom(*events);
  }
  outbox_.set_executed_seq(executed);
  outbox_bytes_ += bytes;
  outbox_ready_ = true;
}

bool Session::NextEvents(v1::EventBatch* events) {
  bool resume = false;
  {
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(
        +[](Session* self) ABSL_EXCLUSIVE_LOCKS_REQUIRED(self->mu_) {
          return self->closed_ || (self->outbox_ready_ && !self->sending_);
        },
        this));
    if (closed_) return false;
    sending_ = true;
    events->Clear();
    events->Swap(&outbox_);
    resume = outbox_bytes_ > limits_.max_event_bytes;
    outbox_bytes_ = 0;
    outbox_ready_ = false;
  }
  if (resume) scheduler_->Enqueue(shared_from_this());
  return true;
}

void Session::EventsSent() {
  absl::MutexLock lock(&mu_);
  sending_ = false;
}

void Session::Close() {
  {
    absl::MutexLock lock(&mu_);
    if (std::exchange(closed_, true)) return;
  }
  // Tensors are dropped in the session's turn, where nothing runs on them.
  Scheduler::Turn turn = scheduler_->WaitTurn();
  executor_->Close();
  executor_.reset();
}

absl::StatusOr<rt::Tensor> Session::AwaitPending(Handle handle, std::shared_ptr<Executor>* executor) {
  const absl::Time deadline = absl::Now() + kUploadPatience;
  while (true) {
    uint64_t seen;
    {
      Scheduler::Turn turn = scheduler_->WaitTurn();
      absl::MutexLock lock(&mu_);
      if (closed_) return absl::CancelledError("the session is closed");
      TD_ASSIGN_OR_RETURN(rt::Tensor tensor, executor_->FindPending(handle));
      if (tensor) {
        *executor = executor_;
        return tensor;
      }
      seen = executed_seq_;
    }
    absl::MutexLock lock(&mu_);
    const auto moved = [this, seen]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return closed_ || executed_seq_ != seen; };
    if (!mu_.AwaitWithDeadline(absl::Condition(&moved), deadline)) {
      return absl::NotFoundError(absl::StrCat("no upload is expected for handle ", handle));
    }
  }
}

absl::Status Session::FillTensor(rt::TensorImpl* tensor, const std::function<bool(std::string*)>& next_chunk,
                                 uint64_t* bytes) {
  rt::Device& device = tensor->device();
  const uint64_t total = static_cast<uint64_t>(tensor->meta().bytes());
  TD_ASSIGN_OR_RETURN(const std::unique_ptr<rt::Stream> stream, rt::Stream::Create(&device));
  std::string chunk;
  while (next_chunk(&chunk)) {
    {
      absl::MutexLock lock(&mu_);
      if (closed_) return absl::CancelledError("the session is closed");
    }
    if (chunk.size() > total - *bytes) return InvalidArgument("an upload of ", total, " bytes brought more");
    char* to = static_cast<char*>(tensor->data()) + *bytes;
    if (tensor->meta().dtype == DType::kBool) {
      for (char& c : chunk) c = c != 0;
    }
    if (!chunk.empty()) {
      TD_RETURN_IF_ERROR(device.Check(device.api().copy_to_device(device.backend_device(), to, chunk.data(), chunk.size(),
                                                                  stream->handle()),
                                      "copy to the device"));
      if (!device.host_accessible()) TD_RETURN_IF_ERROR(stream->Synchronize());
    }
    *bytes += chunk.size();
  }
  if (*bytes != total) return InvalidArgument("an upload of ", total, " bytes brought ", *bytes);
  return absl::OkStatus();
}

absl::Status Session::WriteUpload(Handle handle, const std::function<bool(std::string*)>& next_chunk, uint64_t* bytes) {
  *bytes = 0;
  {
    absl::MutexLock lock(&mu_);
    if (!uploading_.insert(handle).second) {
      return absl::FailedPreconditionError(absl::StrCat("handle ", handle, " has an upload already"));
    }
  }
  std::shared_ptr<Executor> executor;  // owns the budget that the tensor is charged to
  absl::StatusOr<rt::Tensor> tensor = AwaitPending(handle, &executor);
  const absl::Status status = tensor.ok() ? FillTensor(tensor->get(), next_chunk, bytes) : tensor.status();
  {
    Scheduler::Turn turn = scheduler_->WaitTurn();
    absl::MutexLock lock(&mu_);
    uploading_.erase(handle);
    if (!tensor.ok()) return status;
    if (!closed_) executor->FinishUpload(handle, status);
    tensor->reset();
    executor.reset();
  }
  scheduler_->Enqueue(shared_from_this());
  return status;
}

absl::StatusOr<std::string> Session::TakeDownload(uint64_t read_seq) {
  Scheduler::Turn turn = scheduler_->WaitTurn();
  absl::MutexLock lock(&mu_);
  if (closed_) return absl::CancelledError("the session is closed");
  return executor_->TakeDownload(read_seq);
}

Session::Stats Session::GetStats() {
  absl::MutexLock lock(&mu_);
  return stats_;
}

}  // namespace telensor::server
