#include "server/executor.h"

#include <cstring>

#include "proto/core/in_place.h"
#include "proto/core/op_ids.h"
#include "proto/core/shape_util.h"
#include "server/op_call.h"

namespace telensor::server {
namespace {

// Work a session's own reading thread may do: beyond this the device's compute thread takes over.
constexpr int64_t kSmallElements = 16384;
constexpr uint32_t kKnownFlags = v1::COMMAND_FLAG_RECORD | v1::COMMAND_FLAG_IN_PLACE | v1::COMMAND_FLAG_RETAIN_GRAPH |
                                 v1::COMMAND_FLAG_CREATE_GRAPH | v1::COMMAND_FLAG_ALLOW_UNUSED |
                                 v1::COMMAND_FLAG_REQUIRES_GRAD | v1::COMMAND_FLAG_WANT_META;

rt::Ref<Failure> NewFailure(absl::Status status, uint64_t seq) {
  return rt::Ref<Failure>(new Failure(std::move(status), seq));
}

absl::Status UnknownHandle(uint64_t handle) {
  return absl::NotFoundError(absl::StrCat("no tensor has the handle ", handle, " in this session"));
}

absl::Status WrongResults(const OpSchema& schema, size_t gives, const v1::Command& command) {
  return InvalidArgument(schema.name, ": gives ", gives, " results, not ", command.outputs_size());
}

absl::Status CheckRules(const OpSchema& schema, absl::Span<const rt::Operand> operands, const OpCall& call, bool writes,
                        DType default_float) {
  const rt::CallArgs args(schema, operands, call.attrs(), default_float);
  OpMetas out;
  TD_RETURN_IF_ERROR(InferMeta(*args, &out));
  return writes ? CheckInPlace(*args, out) : absl::OkStatus();
}

absl::Span<const Handle> Handles(const v1::Command& command) {
  return {command.outputs().data(), static_cast<size_t>(command.outputs_size())};
}

}  // namespace

Executor::Executor(std::vector<rt::Device*> devices, size_t memory_limit, ExecutorLimits limits)
    : limits_(limits),
      budget_(memory_limit > 0 ? memory_limit : MemoryBudget::kUnlimited, "session memory"),
      context_(std::move(devices), &budget_),
      recorder_(&context_),
      engine_(&recorder_),
      table_(limits.max_handles) {}

Executor::~Executor() = default;

void Executor::Close() {
  failures_.Clear();
  table_.Clear();
  downloads_.clear();
}

Executor::Resolved Executor::Resolve(uint64_t handle, uint64_t seq, rt::Operand* out) {
  const TensorTable::Entry entry = table_.Find(handle);
  Resolved resolved;
  if (entry.pending) {
    resolved.outcome = Outcome::kWaiting;
  } else if (entry.failure != nullptr) {
    resolved.failure = rt::Ref<Failure>(entry.failure);
  } else if (entry.tensor == nullptr) {
    resolved.failure = NewFailure(UnknownHandle(handle), seq);
  } else {
    out->tensor = entry.tensor;
    if (__builtin_expect(failures_.any_unwritten(), 0)) {
      resolved.failure = rt::Ref<Failure>(failures_.Find(*entry.tensor));
    }
  }
  return resolved;
}

void Executor::Fail(const v1::Command& command, uint64_t seq, rt::Ref<Failure> failure, v1::EventBatch* events) {
  const bool backward = command.kind() == v1::Command::KIND_BACKWARD;
  bool carried = command.outputs_size() > 0 && !backward;
  // Backward names pairs of leaf and gradient: only gradients are its outputs.
  const int step = backward ? 2 : 1;
  for (int i = step - 1; i < command.outputs_size(); i += step) {
    const uint64_t handle = command.outputs(i);
    if (handle == 0 && command.kind() == v1::Command::KIND_GRAD) continue;
    // What holds something stays.
    if (table_.CanFail(handle)) {
      table_.PutFailure(handle, failure);
    } else {
      carried = false;
    }
  }
  MarkUnwritten(command, failure);
  if (carried) return failures_.Carried(failure);
  v1::CommandError* error = events->add_errors();
  error->set_seq(seq);
  FillError(*failure, error->mutable_error());
}

void Executor::MarkUnwritten(const v1::Command& command, const rt::Ref<Failure>& failure) {
  const auto mark = [&](int i) {
    rt::TensorImpl* tensor = table_.Find(command.inputs(i)).tensor;
    if (tensor != nullptr) failures_.Unwritten(rt::Tensor(tensor), failure);
  };
  if (command.kind() == v1::Command::KIND_BACKWARD) {
    for (int i = 2; i < command.inputs_size(); ++i) mark(i);
  }
  if (command.kind() != v1::Command::KIND_OP || command.op() >= static_cast<uint32_t>(OpTable::Get().size())) return;
  const OpSchema& schema = OpTable::Get().at(static_cast<OpId>(command.op()));
  const bool writes = schema.inplace_only || (command.flags() & v1::COMMAND_FLAG_IN_PLACE) != 0;
  for (int i = 0; i < command.inputs_size(); ++i) {
    const int slot = schema.InputSlot(i, command.inputs_size());
    if ((writes && i == 0) || (slot >= 0 && slot < schema.num_inputs && (schema.mutates >> slot & 1) != 0)) mark(i);
  }
}

Executor::Outcome Executor::Run(const v1::Command& command, uint64_t seq, bool small_only, v1::EventBatch* events) {
  Outcome outcome = Outcome::kDone;
  absl::Status status;
  // A flag this server does not know may change what the command means.
  const bool known = (command.flags() & ~kKnownFlags) == 0;
  if (!known) status = InvalidArgument("a command with unknown flags ", command.flags());
  switch (known ? command.kind() : v1::Command::KIND_FENCE) {
    case v1::Command::KIND_OP: outcome = RunOp(command, seq, small_only, events); break;
    case v1::Command::KIND_READ: outcome = RunRead(command, seq, events); break;
    case v1::Command::KIND_WRITE: status = RunWrite(command); break;
    case v1::Command::KIND_UPLOAD: status = RunUpload(command); break;
    case v1::Command::KIND_RELEASE: break;
    case v1::Command::KIND_FENCE:
      if (known) failures_.TellAll(seq, events);
      break;
    case v1::Command::KIND_SEED: context_.Seed(command.seed()); break;
    case v1::Command::KIND_DEFAULT_DTYPE:
      if (const absl::StatusOr<DType> dtype = OpCall::ReadDType(command.dtype()); dtype.ok() && IsFloating(*dtype)) {
        context_.default_float = *dtype;
      } else {
        status = InvalidArgument("only floating-point types are supported as the default type");
      }
      break;
    case v1::Command::KIND_BACKWARD:
    case v1::Command::KIND_GRAD:
      if (small_only) return Outcome::kTooLarge;
      outcome = RunWithTensors(command, seq, events);
      break;
    case v1::Command::KIND_REQUIRES_GRAD:
    case v1::Command::KIND_CLEAR_GRAD:
    case v1::Command::KIND_SET_GRAD: outcome = RunWithTensors(command, seq, events); break;
    default: status = InvalidArgument("a command of unknown kind ", static_cast<int>(command.kind()));
  }
  if (outcome != Outcome::kDone) return outcome;
  if (!status.ok()) Fail(command, seq, NewFailure(std::move(status), seq), events);
  for (const uint64_t handle : command.release()) table_.Erase(handle);
  if (__builtin_expect(failures_.any_unwritten(), 0) && command.release_size() > 0) failures_.Prune();
  return Outcome::kDone;
}

Executor::Outcome Executor::RunOp(const v1::Command& command, uint64_t seq, bool small_only, v1::EventBatch* events) {
  const auto fail = [&](rt::Ref<Failure> failure) {
    AddDynamicFailure(command, seq, failure.get(), events);
    Fail(command, seq, std::move(failure), events);
    return Outcome::kDone;
  };
  const OpTable& table = OpTable::Get();
  if (command.op() >= static_cast<uint32_t>(table.size())) {
    return fail(NewFailure(absl::UnimplementedError(absl::StrCat("this server has no op number ", command.op())), seq));
  }
  const OpSchema& schema = table.at(static_cast<OpId>(command.op()));
  const int min_inputs = schema.list_slot >= 0 ? schema.num_inputs - 1 : schema.num_inputs;
  if (command.inputs_size() < min_inputs || (schema.list_slot < 0 && command.inputs_size() > schema.num_inputs)) {
    return fail(NewFailure(InvalidArgument(schema.name, ": takes ", static_cast<int>(schema.num_inputs), " tensors, not ",
                                           command.inputs_size()), seq));
  }

  absl::InlinedVector<rt::Operand, 4> operands(command.inputs_size());
  int next_scalar = 0;
  int64_t work = 0;
  for (int i = 0; i < command.inputs_size(); ++i) {
    const int slot = schema.InputSlot(i, command.inputs_size());
    const Param& param = *schema.input_params[slot];
    if (command.inputs(i) != 0) {
      Resolved resolved = Resolve(command.inputs(i), seq, &operands[i]);
      if (resolved.outcome != Outcome::kDone) return resolved.outcome;
      if (resolved.failed()) return fail(std::move(resolved.failure));
      work += operands[i].tensor->meta().numel();
    } else if (param.type == ParamType::kTensorOrScalar && next_scalar < command.scalars_size()) {
      absl::StatusOr<Scalar> scalar = OpCall::ReadScalar(command.scalars(next_scalar++));
      if (!scalar.ok()) return fail(NewFailure(scalar.status(), seq));
      operands[i].scalar = *scalar;
    } else if (!param.optional) {
      return fail(NewFailure(InvalidArgument(schema.base_name, "(): argument '", param.name, "' must be a Tensor, not None"), seq));
    }
  }
  if (next_scalar < command.scalars_size()) {
    return fail(NewFailure(InvalidArgument(schema.name, ": takes ", next_scalar, " numbers, not ", command.scalars_size()), seq));
  }
  if (small_only && work > kSmallElements) return Outcome::kTooLarge;

  OpCall call;
  if (absl::Status status = call.ReadAttributes(schema, command); !status.ok()) return fail(NewFailure(status, seq));
  // Without an operand to measure, a creation op is small if its sizes say so.
  if (small_only && schema.num_inputs == 0) {
    for (const Value* v : call.attrs()) {
      int64_t n = 1;
      for (int64_t s : v->ints()) n = s > kSmallElements || n > kSmallElements ? kSmallElements + 1 : n * s;
      if (n > kSmallElements || (v->kind() == Value::Kind::kInt && v->i() > kSmallElements)) return Outcome::kTooLarge;
    }
  }
  const bool in_place = (command.flags() & v1::COMMAND_FLAG_IN_PLACE) != 0;
  if (in_place && !schema.has_inplace && !schema.inplace_only) {
    return fail(NewFailure(InvalidArgument(schema.name, " has no in-place form"), seq));
  }
  // Before anything is done: what cannot be answered as asked shall change nothing.
  const bool writes = in_place || schema.inplace_only;
  const int num_outputs = writes ? 0 : schema.num_outputs;
  if (num_outputs >= 0 && command.outputs_size() != num_outputs) {
    return fail(NewFailure(WrongResults(schema, num_outputs, command), seq));
  }
  if (absl::Status status = table_.CheckNew(Handles(command)); !status.ok()) return fail(NewFailure(status, seq));
  if (schema.formula.given()) {
    // A formula's steps are checked one by one: the row's own rules are ours to apply, as the client has to.
    if (absl::Status status = CheckRules(schema, operands, call, writes, context_.default_float); !status.ok()) {
      return fail(NewFailure(status, seq));
    }
  }
  recorder_.set_recording((command.flags() & v1::COMMAND_FLAG_RECORD) != 0);
  absl::StatusOr<rt::TensorList> results = recorder_.Call(schema, operands, call.attrs(), in_place);
  recorder_.set_recording(false);
  ++ops_run_;
  if (!results.ok()) return fail(NewFailure(results.status(), seq));
  if (writes) return Outcome::kDone;
  if (static_cast<int>(results->size()) != command.outputs_size()) {
    return fail(NewFailure(WrongResults(schema, results->size(), command), seq));
  }
  if ((command.flags() & v1::COMMAND_FLAG_WANT_META) != 0 && !results->empty()) {
    v1::DynamicResult* dynamic = events->add_dynamics();
    dynamic->set_seq(seq);
    for (int64_t s : (*results)[0]->meta().sizes) dynamic->add_sizes(s);
  }
  for (int i = 0; i < command.outputs_size(); ++i) table_.Put(command.outputs(i), std::move((*results)[i]));
  return Outcome::kDone;
}

void Executor::AddDynamicFailure(const v1::Command& command, uint64_t seq, Failure* failure,
                                 v1::EventBatch* events) {
  if ((command.flags() & v1::COMMAND_FLAG_WANT_META) == 0) return;
  v1::DynamicResult* dynamic = events->add_dynamics();
  dynamic->set_seq(seq);
  FillError(*failure, dynamic->mutable_error());
  failures_.Told(failure);
}

Executor::Outcome Executor::RunWithTensors(const v1::Command& command, uint64_t seq, v1::EventBatch* events) {
  std::vector<rt::Tensor> inputs;
  const bool backward = command.kind() == v1::Command::KIND_BACKWARD;
  const bool reads = backward || command.kind() == v1::Command::KIND_GRAD;
  for (int i = 0; i < command.inputs_size(); ++i) {
    const uint64_t handle = command.inputs(i);
    rt::Operand operand;
    if (handle != 0) {
      Resolved resolved = Resolve(handle, seq, &operand);
      if (resolved.outcome != Outcome::kDone) return resolved.outcome;
      // What needs no values takes a tensor as it is; and a gradient that never came is nobody's loss here.
      const bool usable = operand.tensor != nullptr ? !reads : backward && i >= 2;
      if (resolved.failed() && !usable) {
        Fail(command, seq, std::move(resolved.failure), events);
        return Outcome::kDone;
      }
    }
    inputs.emplace_back(operand.tensor);
  }
  absl::Status status;
  switch (command.kind()) {
    case v1::Command::KIND_BACKWARD: status = RunBackward(command, inputs); break;
    case v1::Command::KIND_GRAD: status = RunGrad(command, inputs); break;
    case v1::Command::KIND_REQUIRES_GRAD:
      status = SetRequiresGrad(inputs, (command.flags() & v1::COMMAND_FLAG_REQUIRES_GRAD) != 0);
      break;
    case v1::Command::KIND_CLEAR_GRAD:
      for (const rt::Tensor& t : inputs) {
        if (t) rt::AutogradMeta::Of(t.get()).grad = nullptr;
      }
      break;
    case v1::Command::KIND_SET_GRAD:
      if (inputs.size() != 2 || !inputs[0] || !inputs[1]) {
        status = InvalidArgument("set_grad: takes a leaf and a gradient");
      } else if (inputs[0]->meta().sizes != inputs[1]->meta().sizes) {
        status = InvalidArgument("assigned grad has data of a different size");
      } else if (inputs[0]->meta().dtype != inputs[1]->meta().dtype) {
        status = InvalidArgument("assigned grad has data of a different type");
      } else {
        rt::AutogradMeta::Of(inputs[0].get()).grad = inputs[1];
      }
      break;
    default: break;
  }
  if (!status.ok()) Fail(command, seq, NewFailure(std::move(status), seq), events);
  return Outcome::kDone;
}

absl::Status Executor::SetRequiresGrad(const std::vector<rt::Tensor>& tensors, bool on) {
  for (const rt::Tensor& t : tensors) {
    if (!t) return InvalidArgument("requires_grad: a tensor is missing");
    if (on && !IsFloating(t->meta().dtype)) {
      return InvalidArgument("only Tensors of floating point and complex dtype can require gradients");
    }
    if (rt::AutogradMeta::Of(t.get()).grad_fn) {
      return AutogradError("you can only change requires_grad flags of leaf variables.");
    }
  }
  for (const rt::Tensor& t : tensors) rt::AutogradMeta::Of(t.get()).requires_grad = on;
  return absl::OkStatus();
}

// The client's graph knows an op's inputs, not which branch of its formula was taken: here no gradient flowed.
absl::StatusOr<rt::Tensor> Executor::ZeroGradient(const rt::TensorImpl& tensor, const Dims& strides) {
  TensorMeta zero = tensor.meta();
  zero.offset = 0;
  zero.strides = strides;
  TD_ASSIGN_OR_RETURN(rt::Tensor out, recorder_.dispatcher().Empty(zero));
  const rt::Operand fill[] = {{out.get(), {}}, {nullptr, Scalar(0)}};
  TD_RETURN_IF_ERROR(recorder_.Call(*OpTable::Get().Find("fill_"), fill, {}, true).status());
  return out;
}

absl::Status Executor::RunBackward(const v1::Command& command, const std::vector<rt::Tensor>& inputs) {
  if (inputs.size() < 2 || !inputs[0] || command.outputs_size() % 2 != 0) {
    return InvalidArgument("backward: takes a root and a gradient, gradients that are added to, and pairs of leaf and "
                           "gradient handles");
  }
  std::vector<Handle> names;
  for (int i = 0; i < command.outputs_size(); i += 2) {
    if (table_.Find(command.outputs(i)).tensor == nullptr) return UnknownHandle(command.outputs(i));
    names.push_back(command.outputs(i + 1));
  }
  TD_RETURN_IF_ERROR(table_.CheckNew(names));
  rt::BackwardOptions options;
  options.retain_graph = (command.flags() & v1::COMMAND_FLAG_RETAIN_GRAPH) != 0;
  options.create_graph = (command.flags() & v1::COMMAND_FLAG_CREATE_GRAPH) != 0;
  // A pair may name a result as well, whose gradient is kept for once.
  std::vector<rt::Tensor> retained;
  for (int i = 0; i < command.outputs_size(); i += 2) {
    rt::TensorImpl* tensor = table_.Find(command.outputs(i)).tensor;
    if (!rt::AutogradMeta::Of(tensor).requires_grad) retained.emplace_back(tensor);
  }
  TD_ASSIGN_OR_RETURN(std::vector<rt::Tensor> passed,
                      engine_.BackwardRetaining({&inputs[0], 1}, {&inputs[1], 1}, retained, options));
  for (size_t i = 0; i < retained.size(); ++i) {
    if (passed[i]) TD_RETURN_IF_ERROR(Retain(retained[i].get(), std::move(passed[i]), options.create_graph));
  }
  for (int i = 0; i < command.outputs_size(); i += 2) {
    rt::TensorImpl* leaf = table_.Find(command.outputs(i)).tensor;
    rt::AutogradMeta& meta = rt::AutogradMeta::Of(leaf);
    if (!meta.grad) {
      TD_ASSIGN_OR_RETURN(meta.grad, ZeroGradient(*leaf, GradientStrides(leaf->meta(), meta.requires_grad)));
    }
    table_.Put(command.outputs(i + 1), meta.grad);
  }
  return absl::OkStatus();
}

absl::Status Executor::Retain(rt::TensorImpl* tensor, rt::Tensor passed, bool with_history) {
  rt::AutogradMeta& meta = rt::AutogradMeta::Of(tensor);
  const rt::RecordingGuard guard(&recorder_, with_history);
  if (meta.grad) {
    const rt::Operand operands[] = {{meta.grad.get(), {}}, {passed.get(), {}}};
    TD_ASSIGN_OR_RETURN(rt::Tensor sum, recorder_.Call1(ops::add, operands, {Value::Int(1)}));
    TD_ASSIGN_OR_RETURN(meta.grad, recorder_.LaidOut(std::move(sum), ContiguousStrides(tensor->meta().sizes)));
    return absl::OkStatus();
  }
  // A copy: what passed by may be the program's own gradient, or go on to be added to.
  const rt::Operand operands[] = {{passed.get(), {}}};
  TD_ASSIGN_OR_RETURN(rt::Tensor copy, recorder_.Call1(ops::clone, operands, {}));
  TD_ASSIGN_OR_RETURN(meta.grad, recorder_.LaidOut(std::move(copy), ContiguousStrides(tensor->meta().sizes)));
  return absl::OkStatus();
}

absl::Status Executor::RunGrad(const v1::Command& command, const std::vector<rt::Tensor>& inputs) {
  const int64_t n = command.sizes_size() == 1 ? command.sizes(0) : -1;
  if (n < 1 || n > static_cast<int64_t>(inputs.size()) / 2 ||
      static_cast<int64_t>(inputs.size()) - 2 * n != command.outputs_size()) {
    return InvalidArgument("grad: takes n roots, n gradients and as many inputs as outputs");
  }
  const absl::Span<const rt::Tensor> all(inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i] && (i < static_cast<size_t>(n) || i >= static_cast<size_t>(2 * n))) {
      return InvalidArgument("grad: a tensor is missing");
    }
  }
  std::vector<Handle> names;
  for (const uint64_t handle : command.outputs()) {
    if (handle != 0) names.push_back(handle);
  }
  TD_RETURN_IF_ERROR(table_.CheckNew(names));
  rt::BackwardOptions options;
  options.retain_graph = (command.flags() & v1::COMMAND_FLAG_RETAIN_GRAPH) != 0;
  options.create_graph = (command.flags() & v1::COMMAND_FLAG_CREATE_GRAPH) != 0;
  options.allow_unused = (command.flags() & v1::COMMAND_FLAG_ALLOW_UNUSED) != 0;
  TD_ASSIGN_OR_RETURN(std::vector<rt::Tensor> grads,
                      engine_.Grad(all.subspan(0, n), all.subspan(n, n), all.subspan(2 * n), options));
  // 0: the client knows that none flows there.
  for (size_t i = 0; i < grads.size(); ++i) {
    if (command.outputs(static_cast<int>(i)) == 0) continue;
    if (!grads[i] && options.allow_unused) {
      const rt::TensorImpl& in = *inputs[2 * n + i];
      TD_ASSIGN_OR_RETURN(grads[i], ZeroGradient(in, ContiguousStrides(in.meta().sizes)));
    }
    if (!grads[i]) {
      return AutogradError(
          "One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True if this "
          "is the desired behavior.");
    }
  }
  const rt::RecordingGuard guard(&recorder_, options.create_graph);
  for (size_t i = 0; i < grads.size(); ++i) {
    if (command.outputs(static_cast<int>(i)) == 0) continue;
    const Dims rows = ContiguousStrides(inputs[2 * n + i]->meta().sizes);
    TD_ASSIGN_OR_RETURN(grads[i], recorder_.LaidOut(std::move(grads[i]), rows));
  }
  for (size_t i = 0; i < grads.size(); ++i) {
    const uint64_t handle = command.outputs(static_cast<int>(i));
    if (handle != 0) table_.Put(handle, std::move(grads[i]));
  }
  return absl::OkStatus();
}

absl::StatusOr<rt::Tensor> Executor::NewTensor(const v1::Command& command) {
  if (command.outputs_size() != 1) return InvalidArgument("a write names one handle");
  TD_RETURN_IF_ERROR(table_.CheckNew(command.outputs(0)));
  TensorMeta meta;
  TD_ASSIGN_OR_RETURN(meta.sizes, CheckedSizes({command.sizes().begin(), command.sizes().end()}));
  TD_ASSIGN_OR_RETURN(meta.dtype, OpCall::ReadDType(command.dtype()));
  TD_RETURN_IF_ERROR(context_.device(command.device()).status());
  meta.device = static_cast<DeviceIndex>(command.device());
  meta.strides = ContiguousStrides(meta.sizes);
  if (command.kind() == v1::Command::KIND_WRITE && static_cast<int64_t>(command.data().size()) != meta.bytes()) {
    return InvalidArgument("a write of ", meta.bytes(), " bytes brought ", command.data().size());
  }
  return recorder_.dispatcher().Empty(meta);
}

absl::Status Executor::RunWrite(const v1::Command& command) {
  TD_ASSIGN_OR_RETURN(rt::Tensor tensor, NewTensor(command));
  const size_t bytes = command.data().size();
  if (bytes > 0) {
    const std::string* data = &command.data();
    // A bool is 0 or 1 in memory, whatever a client sends.
    std::string flags;
    if (tensor->meta().dtype == DType::kBool) {
      flags = *data;
      for (char& flag : flags) flag = flag != 0;
      data = &flags;
    }
    rt::Device& device = tensor->device();
    TD_ASSIGN_OR_RETURN(rt::Stream* stream, context_.stream(device.index()));
    TD_RETURN_IF_ERROR(device.Check(
        device.api().copy_to_device(device.backend_device(), tensor->data(), data->data(), bytes, stream->handle()),
        "copy to the device"));
    if (!device.host_accessible()) TD_RETURN_IF_ERROR(stream->Synchronize());  // the bytes go away
  }
  table_.Put(command.outputs(0), std::move(tensor));
  return absl::OkStatus();
}

absl::Status Executor::RunUpload(const v1::Command& command) {
  TD_ASSIGN_OR_RETURN(rt::Tensor tensor, NewTensor(command));
  table_.PutPending(command.outputs(0), std::move(tensor));
  return absl::OkStatus();
}

absl::StatusOr<rt::Tensor> Executor::FindPending(Handle handle) {
  const TensorTable::Entry entry = table_.Find(handle);
  if (entry.pending) return rt::Tensor(entry.tensor);
  if (entry.failure != nullptr) {
    const rt::Ref<Failure> failure(entry.failure);
    failures_.Told(failure.get());
    return failure->status;
  }
  if (entry.found() || !table_.IsAhead(handle)) {
    return absl::NotFoundError(absl::StrCat("no upload is expected for handle ", handle));
  }
  return rt::Tensor();
}

void Executor::FinishUpload(Handle handle, const absl::Status& status) {
  if (!table_.Find(handle).pending) return;  // released meanwhile
  if (status.ok()) {
    table_.Settle(handle);
  } else {
    rt::Ref<Failure> failure = NewFailure(status, 0);
    failure->told = true;  // by the call itself
    table_.PutFailure(handle, std::move(failure));
  }
}

absl::StatusOr<std::string> Executor::ReadBytes(rt::TensorImpl* tensor) {
  TD_ASSIGN_OR_RETURN(rt::Tensor dense, recorder_.dispatcher().Contiguous(tensor));
  const size_t bytes = static_cast<size_t>(dense->meta().bytes());
  std::string data(bytes, '\0');
  if (bytes == 0) return data;
  rt::Device& device = dense->device();
  TD_ASSIGN_OR_RETURN(rt::Stream* stream, context_.stream(device.index()));
  TD_RETURN_IF_ERROR(device.Check(
      device.api().copy_to_host(device.backend_device(), data.data(), dense->data(), bytes, stream->handle()),
      "copy to the host"));
  TD_RETURN_IF_ERROR(stream->Synchronize());
  return data;
}

Executor::Outcome Executor::RunRead(const v1::Command& command, uint64_t seq, v1::EventBatch* events) {
  rt::Operand operand;
  rt::Ref<Failure> failure;
  if (command.inputs_size() != 1) {
    failure = NewFailure(InvalidArgument("a read names one handle"), seq);
  } else {
    Resolved resolved = Resolve(command.inputs(0), seq, &operand);
    if (resolved.outcome != Outcome::kDone) return resolved.outcome;
    failure = std::move(resolved.failure);
  }
  v1::ReadResult* result = events->add_reads();
  result->set_seq(seq);
  if (!failure) {
    const size_t bytes = static_cast<size_t>(operand.tensor->meta().bytes());
    const bool inline_result = bytes <= limits_.max_inline_bytes;
    absl::StatusOr<std::string> data;
    if (!inline_result && downloads_.size() >= limits_.max_pending_downloads) {
      data = absl::ResourceExhaustedError(absl::StrCat("pending downloads: limit ", limits_.max_pending_downloads, ", used ",
                                                       downloads_.size(), ", requested 1"));
    } else if (!inline_result && download_bytes_ + bytes > limits_.max_pending_download_bytes) {
      data = absl::ResourceExhaustedError(absl::StrCat("pending downloads: limit ", limits_.max_pending_download_bytes,
                                                       " bytes, used ", download_bytes_, ", requested ", bytes));
    } else {
      data = ReadBytes(operand.tensor);
    }
    if (!data.ok()) {
      failure = NewFailure(data.status(), seq);
    } else if (inline_result) {
      result->set_data(*std::move(data));
    } else {
      download_bytes_ += data->size();
      downloads_[seq] = *std::move(data);
      result->set_too_large(true);
    }
  }
  if (failure) {
    FillError(*failure, result->mutable_error());
    failures_.Told(failure.get());
  }
  return Outcome::kDone;
}

absl::StatusOr<std::string> Executor::TakeDownload(uint64_t read_seq) {
  auto it = downloads_.find(read_seq);
  if (it == downloads_.end()) return absl::NotFoundError(absl::StrCat("no read number ", read_seq, " waits to be fetched"));
  std::string data = std::move(it->second);
  downloads_.erase(it);
  download_bytes_ -= data.size();
  return data;
}

}  // namespace telensor::server
