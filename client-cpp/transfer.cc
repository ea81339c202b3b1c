// The parts of Session that move bytes, wait, and set state of the server.
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "client-cpp/session.h"

namespace telensor::client {
namespace {

constexpr size_t kInlineBytes = 32 * 1024;  // larger tensors ride a stream of their own

}  // namespace

absl::Status Session::OfTransfer(const absl::Status& status) {
  if (status.ok()) return status;
  // Where the connection broke, a side stream's own words tell less. It may be the first to notice.
  const absl::Status connection = batcher_->connection_status();
  if (!connection.ok()) return connection;
  if (status.code() != absl::StatusCode::kUnavailable) return status;
  return absl::UnavailableError(absl::StrCat("the connection to the server is lost: ", status.message()));
}

absl::StatusOr<TensorRef> Session::FromHost(const void* data, const TensorMeta& meta) {
  TD_RETURN_IF_ERROR(CheckUsable());
  TD_RETURN_IF_ERROR(AwaitRoom());
  const size_t bytes = static_cast<size_t>(meta.bytes());
  uint64_t handle;
  TensorRef result;
  {
    OpBatcher::Appender append(batcher_.get());
    handle = append.NewHandle();
    v1::Command* command = append.command();
    command->set_kind(bytes <= kInlineBytes ? v1::Command::KIND_WRITE : v1::Command::KIND_UPLOAD);
    command->add_outputs(handle);
    for (int64_t s : meta.sizes) command->add_sizes(s);
    command->set_dtype(static_cast<v1::DType>(meta.dtype));
    command->set_device(meta.device);
    if (bytes <= kInlineBytes) {
      command->set_data(data, bytes);
      append.AddBytes(bytes);
    }
    TensorState* state = new TensorState(this, handle);
    state->meta = meta;
    state->meta.offset = 0;
    state->meta.strides = ContiguousStrides(meta.sizes);
    result = TensorRef::Adopt(state);
  }
  if (bytes > kInlineBytes) {
    batcher_->Flush();
    TD_RETURN_IF_ERROR(OfTransfer(connection_->Upload(handle, static_cast<const char*>(data), bytes)));
  }
  TD_RETURN_IF_ERROR(AfterCommand());
  return result;
}

absl::StatusOr<std::string> Session::ToHost(TensorState* tensor) {
  TD_RETURN_IF_ERROR(CheckUsable());
  const TensorRef held(tensor);  // other threads go on meanwhile
  for (const uint64_t read : batcher_->TakeAbandoned()) (void)connection_->Download(read, 0);
  TD_RETURN_IF_ERROR(AwaitRoom());
  uint64_t seq;
  {
    OpBatcher::Appender append(batcher_.get(), true);
    seq = append.seq();
    append.command()->set_kind(v1::Command::KIND_READ);
    append.command()->add_inputs(tensor->handle());
  }
  TD_ASSIGN_OR_RETURN(v1::ReadResult result, batcher_->WaitRead(seq));
  const size_t bytes = static_cast<size_t>(tensor->meta.bytes());
  if (result.too_large()) {
    absl::StatusOr<std::string> data = connection_->Download(seq, bytes);
    TD_RETURN_IF_ERROR(OfTransfer(data.status()));
    return data;
  }
  if (result.data().size() != bytes) return absl::DataLossError("the server sent another number of bytes than the tensor has");
  return std::move(*result.mutable_data());
}

absl::Status Session::Synchronize() {
  TD_RETURN_IF_ERROR(CheckUsable());
  TD_RETURN_IF_ERROR(AwaitRoom());
  uint64_t seq;
  {
    OpBatcher::Appender append(batcher_.get(), true);
    seq = append.seq();
    append.command()->set_kind(v1::Command::KIND_FENCE);
  }
  TD_RETURN_IF_ERROR(batcher_->WaitExecuted(seq));
  return batcher_->TakeError();
}

absl::Status Session::Seed(uint64_t seed) {
  TD_RETURN_IF_ERROR(CheckUsable());
  TD_RETURN_IF_ERROR(AwaitRoom());
  OpBatcher::Appender append(batcher_.get());
  append.command()->set_kind(v1::Command::KIND_SEED);
  append.command()->set_seed(seed);
  return absl::OkStatus();
}

absl::Status Session::SetDefaultDType(DType dtype) {
  TD_RETURN_IF_ERROR(CheckUsable());
  TD_RETURN_IF_ERROR(AwaitRoom());
  if (!IsFloating(dtype)) return InvalidArgument("only floating-point types are supported as the default type");
  default_dtype_ = dtype;
  OpBatcher::Appender append(batcher_.get());
  append.command()->set_kind(v1::Command::KIND_DEFAULT_DTYPE);
  append.command()->set_dtype(static_cast<v1::DType>(dtype));
  return absl::OkStatus();
}

absl::Status Session::SetRequiresGrad(TensorState* tensor, bool on) {
  TD_RETURN_IF_ERROR(CheckUsable());
  const TensorRef held(tensor);
  TD_RETURN_IF_ERROR(AwaitRoom());
  if (on && !IsFloating(tensor->meta.dtype)) {
    return InvalidArgument("only Tensors of floating point dtype can require gradients");
  }
  if (tensor->grad_fn) {
    if (on) return absl::OkStatus();
    return AutogradError(
        "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a subgraph "
        "that doesn't require differentiation use var_no_grad = var.detach().");
  }
  if (tensor->requires_grad == on) return absl::OkStatus();
  tensor->requires_grad = on;
  OpBatcher::Appender append(batcher_.get());
  append.command()->set_kind(v1::Command::KIND_REQUIRES_GRAD);
  append.command()->add_inputs(tensor->handle());
  append.command()->set_flags(on ? v1::COMMAND_FLAG_REQUIRES_GRAD : 0);
  return absl::OkStatus();
}

absl::Status Session::SetGrad(TensorState* tensor, TensorState* gradient) {
  TD_RETURN_IF_ERROR(CheckUsable());
  const TensorRef held[] = {TensorRef(tensor), TensorRef(gradient)};
  TD_RETURN_IF_ERROR(AwaitRoom());
  if (gradient != nullptr) {
    if (gradient->meta.sizes != tensor->meta.sizes) return InvalidArgument("assigned grad has data of a different size");
    if (gradient->meta.dtype != tensor->meta.dtype) return InvalidArgument("assigned grad has data of a different type");
  } else if (!tensor->grad) {
    return absl::OkStatus();
  }
  TensorRef old = std::move(tensor->grad);  // released after the batch's lock is free
  tensor->grad = TensorRef(gradient);
  OpBatcher::Appender append(batcher_.get());
  append.command()->set_kind(gradient != nullptr ? v1::Command::KIND_SET_GRAD : v1::Command::KIND_CLEAR_GRAD);
  append.command()->add_inputs(tensor->handle());
  if (gradient != nullptr) append.command()->add_inputs(gradient->handle());
  return absl::OkStatus();
}

}  // namespace telensor::client
