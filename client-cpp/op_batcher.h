// OpBatcher: collects commands into batches and sends them by the acknowledgement clock: at once if nothing is
// unacknowledged, otherwise when the acknowledgement comes or a batch is full. No timer.
//
// Thread-safe. One for each session; a writing and a reading thread of its own.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "proto/core/status.h"
#include "telensor/v1/telensor.pb.h"

namespace telensor::client {

// The ordered stream, without its transport.
class CommandStream {
 public:
  virtual ~CommandStream() = default;
  virtual bool Write(const v1::CommandBatch& batch) = 0;
  virtual bool Read(v1::EventBatch* events) = 0;
  // Wakes Read and Write for good; called once.
  virtual void Cancel() = 0;
  // Why the stream ended; after Read returned false.
  virtual absl::Status Finish() = 0;
};

// What a language does around a wait. A thread that waits must not hold an interpreter's lock; and where the program is
// interrupted, as by Ctrl-C, the wait ends. Set once, before the first session.
struct WaitHooks {
  void* (*pause)() = nullptr;             // before a wait
  void (*resume)(void* paused) = nullptr;  // after it
  bool (*interrupted)() = nullptr;        // asked a few times a second in between
};
void SetWaitHooks(const WaitHooks& hooks);

struct BatcherStats {
  uint64_t commands = 0;
  uint64_t batches = 0;
  uint64_t waits = 0;
};

class OpBatcher {
 public:
  explicit OpBatcher(std::unique_ptr<CommandStream> stream);
  ~OpBatcher();

  // Appends a command: `lock` covers it until it is destroyed, `command` is empty and `seq` its number.
  class Appender {
   public:
    // `flushes`: the caller sends the command itself, so the writer need not be woken for it.
    explicit Appender(OpBatcher* batcher, bool flushes = false);
    ~Appender();
    Appender(const Appender&) = delete;
    v1::Command* command() { return command_; }
    uint64_t seq() const { return seq_; }
    // A command with long lists or data takes about so much more than others do.
    void AddBytes(size_t bytes) { batcher_->bytes_ += bytes; }
    // Names a new tensor.
    uint64_t NewHandle() { return batcher_->next_handle_++; }

   private:
    OpBatcher* batcher_;
    std::unique_lock<std::mutex> lock_;
    v1::Command* command_;
    uint64_t seq_;
    bool flushes_;
  };

  // Drops a handle, in the order of the commands.
  void Release(uint64_t handle);
  // Sends what is waiting: from the calling thread where that can't block, else from the writer's.
  void Flush();
  // Whether a command more would have to wait; and that wait, which ends by an interrupt too.
  bool full() const { return full_.load(std::memory_order_relaxed); }
  absl::Status AwaitRoom();
  // Each flushes and waits. The error is of what was waited for; kCancelled where an interrupt ended the wait.
  absl::StatusOr<v1::ReadResult> WaitRead(uint64_t seq);
  absl::StatusOr<v1::DynamicResult> WaitDynamic(uint64_t seq);
  absl::Status WaitExecuted(uint64_t seq);
  // The first failure that the server reported and that no wait has raised; then all of them are forgotten.
  absl::Status TakeError();
  // Not OK once the connection is gone.
  absl::Status connection_status();
  // Reads whose wait was interrupted and whose bytes the server keeps for a download.
  std::vector<uint64_t> TakeAbandoned();
  BatcherStats stats();

 private:
  static constexpr int kFullCommands = 512;
  static constexpr size_t kMaxErrors = 64;
  static constexpr size_t kCommandBytes = 64;         // about what a short command takes on the wire
  static constexpr size_t kMaxUnsentBytes = 1 << 20;  // 16,384 of them; past it the caller waits
  static constexpr size_t kMaxReleases = 100000;  // of one command
  // What a stream takes whatever the server does: HTTP/2 lets 64 KiB be under way.
  static constexpr size_t kNeverBlocks = 24 << 10;

  void Send();
  // Starts the next batch by the releases that the last one had no room for.
  void PutOffReleases();
  // Waits until `done`, asked with the lock held, or the connection is gone. False where it was interrupted.
  template <typename Done>
  bool Sleep(std::unique_lock<std::mutex>* lock, const Done& done);
  // The same for what command `seq` brings, all before it sent.
  template <typename Done>
  bool Await(uint64_t seq, std::unique_lock<std::mutex>* lock, const Done& done);
  void WriterLoop();
  void ReaderLoop();
  template <typename Result>
  absl::StatusOr<Result> Wait(uint64_t seq, std::map<uint64_t, Result>* results);

  std::unique_ptr<CommandStream> stream_;
  std::mutex write_mu_;  // before mu_: who holds it takes the batch and writes it
  std::mutex mu_;
  std::condition_variable writer_wakes_;
  std::condition_variable caller_wakes_;
  std::unique_ptr<v1::CommandBatch> current_;
  std::unique_ptr<v1::CommandBatch> spare_;
  int count_ = 0;          // commands of current_; the batch keeps cleared ones behind them
  size_t bytes_ = 0;       // about what they take on the wire
  size_t under_way_ = 0;   // of what is sent and not acknowledged
  std::atomic<bool> full_{false};
  bool flush_wanted_ = false;  // of the writer
  std::vector<uint64_t> releases_;  // that current_ has no room for
  uint64_t next_seq_ = 1;  // of the next command
  uint64_t sent_seq_ = 0;
  uint64_t acked_seq_ = 0;
  std::atomic<uint64_t> acked_hint_{0};  // acked_seq_, for a waiter that looks without the lock
  uint64_t next_handle_ = 1;
  bool writer_idle_ = true;
  bool stopping_ = false;
  int waiters_ = 0;
  absl::Status closed_;
  std::map<uint64_t, absl::Status> errors_;  // by the command that failed first
  std::map<uint64_t, v1::ReadResult> reads_;
  std::map<uint64_t, v1::DynamicResult> dynamics_;
  std::set<uint64_t> unwanted_;       // results that nobody waits for any more
  std::vector<uint64_t> abandoned_;
  BatcherStats stats_;
  std::thread writer_;
  std::thread reader_;
};

absl::Status FromWire(const v1::Error& error);

}  // namespace telensor::client
