#include "kernels/dispatcher.h"

#include <algorithm>

#include "kernels/elementwise.h"
#include "proto/core/half.h"
#include "proto/core/in_place.h"

namespace telensor::rt {
namespace {

// The row whose kernel converts and copies; looked up once.
const OpSchema& CopySchema() {
  static const OpSchema* const schema = OpTable::Get().Find("_to_copy");
  return *schema;
}

// A number as one element of a dtype.
void StoreScalar(const Scalar& s, DType dtype, void* out) {
  const auto put = [out](auto v) { std::memcpy(out, &v, sizeof(v)); };
  // A float given to an integer op is cut as a C cast would, with the ends saturating instead of trapping.
  const auto whole = [&]() -> int64_t {
    if (!s.is_float()) return s.i;
    if (!(s.f > -9.2e18)) return INT64_MIN;
    return s.f < 9.2e18 ? static_cast<int64_t>(s.f) : INT64_MAX;
  };
  switch (dtype) {
    case DType::kBool: return put(static_cast<uint8_t>(s.is_float() ? s.f != 0 : s.i != 0));
    case DType::kUInt8: return put(static_cast<uint8_t>(whole()));
    case DType::kInt8: return put(static_cast<int8_t>(whole()));
    case DType::kInt16: return put(static_cast<int16_t>(whole()));
    case DType::kInt32: return put(static_cast<int32_t>(whole()));
    case DType::kInt64: return put(whole());
    case DType::kFloat16: return put(FloatToHalfBits(static_cast<float>(s.f)));
    case DType::kBFloat16: return put(FloatToBFloat16Bits(static_cast<float>(s.f)));
    case DType::kFloat32: return put(static_cast<float>(s.f));
    case DType::kFloat64: return put(s.f);
    case DType::kNone: return;
  }
}

// Filled where it stays: small stores that a copy loads as one wait for each other.
void FillView(const TensorImpl& tensor, tt_tensor* view) {
  const TensorMeta& m = tensor.meta();
  tt_tensor& t = *view;
  t.data = tensor.data();
  t.sizes = m.sizes.data();
  t.strides = m.strides.data();
  t.numel = m.numel();
  t.rank = m.rank();
  t.dtype = static_cast<int32_t>(m.dtype);
  t.contiguous = m.contiguous();
}

tt_value ViewValue(const Value& v) {
  tt_value out = {};
  out.kind = static_cast<int32_t>(v.kind());
  out.i = v.i();
  out.f = v.f();
  out.ints = v.ints().data();
  out.floats = v.floats().data();
  out.count = static_cast<int32_t>(v.kind() == Value::Kind::kFloats ? v.floats().size() : v.ints().size());
  out.text = v.text().c_str();
  return out;
}

}  // namespace

absl::StatusOr<Stream*> ExecutionContext::stream(DeviceIndex index) {
  if (streams_[index] == nullptr) {
    TD_ASSIGN_OR_RETURN(streams_[index], Stream::Create(devices_[index]));
  }
  return streams_[index].get();
}

// One kernel call: the C structs and what must live as long as they do.
class Dispatcher::Invocation {
 public:
  Invocation(const OpSchema& schema, Stream* stream, MemoryBudget* budget)
      : schema_(schema), stream_(stream), budget_(budget) {
    call_.size = sizeof(call_);
    call_.device = stream->device().backend_device();
    call_.stream = stream->handle();
    call_.workspace = &Workspace;
    call_.host = this;
    call_.error = error_;
    call_.error_size = sizeof(error_);
    error_[0] = '\0';
  }

  void Reserve(size_t inputs) {
    inputs_.reserve(inputs);
    scalars_.reserve(inputs);
    metas_.reserve(inputs + 1);
  }
  void AddOutput(const TensorImpl& tensor) {
    FillView(tensor, &outputs_.emplace_back());
    output_metas_.push_back(&tensor.meta());
  }
  void AddInput(const TensorImpl& tensor) {
    FillView(tensor, &inputs_.emplace_back());
    metas_.push_back(&tensor.meta());
  }
  void AddScalar(const Scalar& scalar, DType dtype) {
    scalars_.emplace_back();
    StoreScalar(scalar, dtype, scalars_.back().bytes);
    tt_tensor t = {};
    t.dtype = static_cast<int32_t>(dtype);
    t.on_host = 1;
    t.numel = 1;
    t.contiguous = 1;
    scalar_inputs_.push_back(static_cast<int>(inputs_.size()));
    inputs_.push_back(t);
    metas_.push_back(nullptr);
  }
  void AddAbsent() {
    inputs_.push_back({});
    metas_.push_back(nullptr);
  }

  absl::Status Run(tt_kernel_fn kernel, absl::Span<const Value* const> attrs, Generator* generator) {
    for (size_t i = 0; i < scalar_inputs_.size(); ++i) inputs_[scalar_inputs_[i]].data = scalars_[i].bytes;
    ElementwiseShape shape;
    if (schema_.elementwise) {
      absl::InlinedVector<const TensorMeta*, 4> metas = {output_metas_[0]};
      absl::InlinedVector<tt_tensor*, 4> tensors = {&outputs_[0]};
      for (size_t i = 0; i < inputs_.size(); ++i) {
        metas.push_back(metas_[i]);
        tensors.push_back(&inputs_[i]);
      }
      shape.Apply(metas, tensors.data());
    }
    for (const Value* v : attrs) attrs_.push_back(ViewValue(*v));
    if (generator != nullptr) {
      call_.seed = generator->seed();
      call_.offset = generator->offset();
    }
    call_.inputs = inputs_.data();
    call_.num_inputs = static_cast<int32_t>(inputs_.size());
    call_.outputs = outputs_.data();
    call_.num_outputs = static_cast<int32_t>(outputs_.size());
    call_.attrs = attrs_.data();
    call_.num_attrs = static_cast<int32_t>(attrs_.size());
    const int code = kernel(&call_);
    if (code == TT_OK) {
      if (generator != nullptr) generator->Advance();
      return absl::OkStatus();
    }
    if (code == TT_OUT_OF_MEMORY && !workspace_status_.ok()) return workspace_status_;
    return StatusFromCode(code, error_);
  }

 private:
  struct ScalarBytes {
    alignas(8) char bytes[8];
  };

  static void* Workspace(tt_call* call, size_t bytes) {
    auto* self = static_cast<Invocation*>(call->host);
    absl::StatusOr<Buffer> buffer =
        self->stream_->device().allocator().Allocate(bytes, self->call_.stream, self->budget_);
    if (!buffer.ok()) {
      self->workspace_status_ = buffer.status();
      return nullptr;
    }
    self->workspaces_.push_back(*std::move(buffer));
    return self->workspaces_.back().data();
  }

  const OpSchema& schema_;
  Stream* stream_;
  MemoryBudget* budget_;
  tt_call call_ = {};
  absl::InlinedVector<tt_tensor, 4> inputs_;
  absl::InlinedVector<tt_tensor, 2> outputs_;
  absl::InlinedVector<const TensorMeta*, 4> metas_;
  absl::InlinedVector<const TensorMeta*, 2> output_metas_;
  absl::InlinedVector<ScalarBytes, 3> scalars_;
  absl::InlinedVector<int, 3> scalar_inputs_;
  absl::InlinedVector<tt_value, 4> attrs_;
  // Freed after the call: the stream's order keeps whoever gets the memory next behind this kernel.
  std::vector<Buffer> workspaces_;
  absl::Status workspace_status_;
  char error_[512];
};

absl::StatusOr<Tensor> Dispatcher::Empty(const TensorMeta& meta) {
  TD_ASSIGN_OR_RETURN(Device* device, context_.device(meta.device));
  TD_ASSIGN_OR_RETURN(Stream* stream, context_.stream(meta.device));
  TD_ASSIGN_OR_RETURN(Buffer buffer, device->allocator().Allocate(static_cast<size_t>(meta.bytes()), stream->handle(),
                                                                  context_.budget()));
  return MakeRef<TensorImpl>(meta, MakeRef<Storage>(device, std::move(buffer)));
}

absl::Status Dispatcher::Copy(TensorImpl* dst, TensorImpl* src) {
  if (dst->meta().numel() == 0) return absl::OkStatus();
  if (&dst->device() != &src->device()) {
    // Between devices by the host: dense bytes of one dtype travel, then the destination's side lays them out.
    TD_ASSIGN_OR_RETURN(Tensor dense, Contiguous(src));
    TensorMeta landed_meta = dense->meta();
    landed_meta.device = dst->meta().device;
    landed_meta.offset = 0;
    TD_ASSIGN_OR_RETURN(Tensor landed, Empty(landed_meta));
    TD_ASSIGN_OR_RETURN(Stream* from, context_.stream(src->meta().device));
    TD_ASSIGN_OR_RETURN(Stream* to, context_.stream(dst->meta().device));
    const size_t bytes = static_cast<size_t>(dense->meta().bytes());
    TD_RETURN_IF_ERROR(from->Synchronize());
    if (dense->device().host_accessible()) {
      TD_RETURN_IF_ERROR(landed->device().Check(
          landed->device().api().copy_to_device(landed->device().backend_device(), landed->data(), dense->data(), bytes,
                                                to->handle()),
          "copy to the device"));
    } else if (landed->device().host_accessible()) {
      TD_RETURN_IF_ERROR(dense->device().Check(
          dense->device().api().copy_to_host(dense->device().backend_device(), landed->data(), dense->data(), bytes,
                                             from->handle()),
          "copy to the host"));
      TD_RETURN_IF_ERROR(from->Synchronize());
    } else {
      std::vector<char> host(bytes);
      TD_RETURN_IF_ERROR(dense->device().Check(
          dense->device().api().copy_to_host(dense->device().backend_device(), host.data(), dense->data(), bytes,
                                             from->handle()),
          "copy to the host"));
      TD_RETURN_IF_ERROR(from->Synchronize());
      TD_RETURN_IF_ERROR(landed->device().Check(
          landed->device().api().copy_to_device(landed->device().backend_device(), landed->data(), host.data(), bytes,
                                                to->handle()),
          "copy to the device"));
      TD_RETURN_IF_ERROR(to->Synchronize());
    }
    TD_RETURN_IF_ERROR(to->Synchronize());
    return Copy(dst, landed.get());
  }
  const OpSchema& schema = CopySchema();
  TD_ASSIGN_OR_RETURN(Stream* stream, context_.stream(dst->meta().device));
  const tt_kernel_fn kernel = dst->device().backend().Find(schema.id, src->meta().dtype);
  if (kernel == nullptr) return absl::UnimplementedError("the backend has no copy kernel");
  Invocation invocation(schema, stream, context_.budget());
  invocation.AddOutput(*dst);
  invocation.AddInput(*src);
  return invocation.Run(kernel, {}, nullptr);
}

absl::StatusOr<Tensor> Dispatcher::Converted(TensorImpl* src, DType dtype, DeviceIndex device) {
  TensorMeta meta = src->meta();
  meta.dtype = dtype;
  meta.device = device;
  meta.offset = 0;
  meta.strides = ContiguousStrides(meta.sizes);
  TD_ASSIGN_OR_RETURN(Tensor out, Empty(meta));
  TD_RETURN_IF_ERROR(Copy(out.get(), src));
  return out;
}

absl::StatusOr<Tensor> Dispatcher::Contiguous(TensorImpl* src) {
  if (src->meta().contiguous()) return Tensor(src);
  return Converted(src, src->meta().dtype, src->meta().device);
}

absl::StatusOr<TensorList> Dispatcher::Call(const OpSchema& schema, absl::Span<const Operand> inputs,
                                            absl::Span<const Value* const> attrs, bool in_place) {
  const CallArgs call(schema, inputs, attrs, context_.default_float);
  const OpArgs& args = *call;
  OpMetas out;
  TD_RETURN_IF_ERROR(InferMeta(args, &out));
  if (schema.kind == OpKind::kView) return MakeViews(schema, out, inputs[0].tensor);
  if (in_place || schema.inplace_only) {
    TD_RETURN_IF_ERROR(CheckInPlace(args, out));
    return CallInPlace(schema, args, out, inputs);
  }
  return CallKernel(schema, args, out, inputs, false);
}

absl::StatusOr<TensorList> Dispatcher::MakeViews(const OpSchema& schema, const OpMetas& metas, TensorImpl* self) {
  TensorList views;
  // `detach` shares memory, but what is written through it is nobody's gradient.
  const Tensor base = !schema.differentiable ? nullptr : self->base() ? self->base() : Tensor(self);
  for (const TensorMeta& meta : metas.outputs) views.push_back(MakeRef<TensorImpl>(meta, self->storage(), base));
  return views;
}

absl::StatusOr<TensorList> Dispatcher::CallKernel(const OpSchema& schema, const OpArgs& args, const OpMetas& metas,
                                                  absl::Span<const Operand> inputs, bool in_place) {
  TensorList outputs;
  for (const TensorMeta& meta : metas.outputs) {
    TD_ASSIGN_OR_RETURN(Tensor out, Empty(meta));
    outputs.push_back(std::move(out));
  }
  if (schema.kernel != nullptr) {
    TD_RETURN_IF_ERROR(Run(schema, args, metas, inputs, &outputs));
  } else if (outputs[0]->meta().dtype == DType::kBool) {
    // Memory as it comes holds bytes that are no truth values, which kernels may not read.
    static const OpSchema* const fill = OpTable::Get().Find("fill_");
    const Operand operands[] = {{outputs[0].get(), {}}, {nullptr, Scalar(false)}};
    TD_RETURN_IF_ERROR(Call(*fill, operands, {}, true).status());
  }
  return outputs;
}

absl::StatusOr<TensorList> Dispatcher::CallInPlace(const OpSchema& schema, const OpArgs& args, const OpMetas& metas,
                                                   absl::Span<const Operand> inputs) {
  TensorImpl* self = inputs[0].tensor;
  TensorList result = {Tensor(self)};
  // A kernel may write over its input where it reads each element just before it writes it.
  const bool direct = (schema.elementwise || schema.inplace_only) && metas.outputs[0].dtype == self->meta().dtype &&
                      (schema.inplace_only || metas.compute == DType::kNone || metas.compute == self->meta().dtype);
  if (!direct) {
    TD_ASSIGN_OR_RETURN(TensorList out, CallKernel(schema, args, metas, inputs, false));
    TD_RETURN_IF_ERROR(Copy(self, out[0].get()));
    self->storage()->BumpVersion();
    return result;
  }
  // An operand that shares memory with self, but not element for element, is read from a copy.
  absl::InlinedVector<Operand, 4> operands(inputs.begin(), inputs.end());
  absl::InlinedVector<Tensor, 2> copies;
  for (size_t i = 1; i < operands.size(); ++i) {
    TensorImpl* other = operands[i].tensor;
    if (other == nullptr || !(other->storage() == self->storage())) continue;
    if (other->meta().offset == self->meta().offset && other->meta().sizes == self->meta().sizes &&
        other->meta().strides == self->meta().strides && other->meta().dtype == self->meta().dtype) {
      continue;
    }
    TD_ASSIGN_OR_RETURN(Tensor copy, Converted(other, other->meta().dtype, other->meta().device));
    operands[i].tensor = copy.get();
    copies.push_back(std::move(copy));
  }
  TD_RETURN_IF_ERROR(Run(schema, args, metas, operands, &result));
  self->storage()->BumpVersion();
  return result;
}

absl::Status Dispatcher::Run(const OpSchema& schema, const OpArgs& args, const OpMetas& metas,
                             absl::Span<const Operand> inputs, TensorList* outputs) {
  // An in-place-only row (copy_, fill_, normal_) gives its kernel what is written as the output alone.
  const size_t first = schema.inplace_only ? 1 : 0;
  if (schema.id == CopySchema().id || (schema.kernel == CopySchema().kernel && inputs.size() > first)) {
    TensorImpl* src = inputs[first].tensor;
    if (src != nullptr && &src->device() != &(*outputs)[0]->device()) {
      if (src->meta().sizes == (*outputs)[0]->meta().sizes) return Copy((*outputs)[0].get(), src);
      TD_ASSIGN_OR_RETURN(Tensor here, Converted(src, src->meta().dtype, (*outputs)[0]->meta().device));
      const Operand operands[] = {inputs[0], {here.get(), {}}};
      return Run(schema, args, metas, absl::MakeConstSpan(operands).subspan(schema.inplace_only ? 0 : 1), outputs);
    }
  }
  // A row without outputs writes its inputs and runs where they are.
  if (outputs->empty() && std::none_of(inputs.begin(), inputs.end(), [](const Operand& in) { return in.tensor != nullptr; })) {
    return InvalidArgument(schema.name, ": takes at least one tensor");
  }
  DeviceIndex where = 0;
  if (!outputs->empty()) {
    where = (*outputs)[0]->meta().device;
  } else {
    for (const Operand& in : inputs) {
      if (in.tensor != nullptr) where = in.tensor->meta().device;
    }
  }
  TD_ASSIGN_OR_RETURN(Stream* stream, context_.stream(where));

  Invocation invocation(schema, stream, context_.budget());
  invocation.Reserve(inputs.size());
  absl::InlinedVector<Tensor, 2> converted;
  DType key = DType::kNone;  // what the kernel is looked up by
  for (const Tensor& out : *outputs) invocation.AddOutput(*out);
  const bool is_copy = schema.kernel == CopySchema().kernel;
  for (size_t i = first; i < inputs.size(); ++i) {
    const Operand& in = inputs[i];
    // The slot of this input's parameter, for the cast mask.
    const int slot = schema.InputSlot(static_cast<int>(i), args.num_inputs);
    const bool cast = metas.compute != DType::kNone && !is_copy && (metas.cast >> slot & 1) != 0;
    if (in.tensor == nullptr) {
      if (!in.scalar.given()) {
        invocation.AddAbsent();
        continue;
      }
      const DType dtype = cast ? metas.compute : (*outputs)[0]->meta().dtype;
      if (key == DType::kNone && cast) key = dtype;
      invocation.AddScalar(in.scalar, dtype);
      continue;
    }
    TensorImpl* tensor = in.tensor;
    const DType dtype = cast ? metas.compute : tensor->meta().dtype;
    if (dtype != tensor->meta().dtype || tensor->meta().device != where) {
      TD_ASSIGN_OR_RETURN(Tensor copy, Converted(tensor, dtype, where));
      tensor = copy.get();
      converted.push_back(std::move(copy));
    }
    if (cast && key == DType::kNone) key = dtype;
    invocation.AddInput(*tensor);
  }
  if (key == DType::kNone) {
    key = is_copy && inputs.size() > first && inputs[first].tensor != nullptr ? inputs[first].tensor->meta().dtype
          : metas.compute != DType::kNone                                     ? metas.compute
          : inputs.size() > first && inputs[first].tensor != nullptr          ? inputs[first].tensor->meta().dtype
                                                                              : (*outputs)[0]->meta().dtype;
  }
  const tt_kernel_fn kernel = stream->device().backend().Find(schema.id, key);
  if (kernel == nullptr) {
    return absl::UnimplementedError(absl::StrCat("\"", schema.name, "_", stream->device().backend().api().name,
                                                 "\" not implemented for '",
                                                 DTypeTitle(key), "'"));
  }
  return invocation.Run(kernel, {args.attrs, static_cast<size_t>(schema.num_attrs)},
                        schema.kind == OpKind::kRandom ? &context_.generator(where) : nullptr);
}

}  // namespace telensor::rt
