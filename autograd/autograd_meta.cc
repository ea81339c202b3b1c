#include "autograd/autograd_meta.h"

namespace telensor::rt {

AutogradMeta& AutogradMeta::Of(TensorImpl* tensor) {
  if (tensor->autograd() == nullptr) {
    auto meta = std::make_unique<AutogradMeta>();
    meta->view_version = tensor->storage()->version();
    tensor->set_autograd(std::move(meta));
  }
  return *Find(tensor);
}

bool RequiresGrad(const TensorImpl* tensor) {
  const AutogradMeta* meta = AutogradMeta::Find(tensor);
  if (meta != nullptr && (meta->requires_grad || meta->grad_fn)) return true;
  // A view made before its base was written by something that requires grad.
  if (!tensor->base()) return false;
  const AutogradMeta* base = AutogradMeta::Find(tensor->base().get());
  return meta != nullptr && base != nullptr && base->grad_fn && meta->view_version != tensor->storage()->version();
}

SavedTensor::SavedTensor(TensorImpl* tensor, bool is_output) : version_(tensor->storage()->version()), is_output_(is_output) {
  tensor_ = is_output ? MakeRef<TensorImpl>(tensor->meta(), tensor->storage()) : Tensor(tensor);
}

absl::StatusOr<Tensor> SavedTensor::Unpack(Node* owner, uint32_t output) const {
  if (tensor_->storage()->version() != version_) {
    const std::string what = absl::StrCat(tensor_->device().name() == "cpu" ? "torch." : "torch.cuda.",
                        DTypeTitle(tensor_->meta().dtype), "Tensor ", tensor_->meta().sizes.ToString());
    std::string source;
    if (is_output_) {
      source = absl::StrCat(", which is output ", output, " of ", owner->Name(), ",");
    } else if (const AutogradMeta* meta = AutogradMeta::Find(tensor_.get()); meta != nullptr && meta->grad_fn) {
      source = absl::StrCat(", which is output ", meta->output, " of ", meta->grad_fn->Name(), ",");
    }
    return AutogradError("one of the variables needed for gradient computation has been modified by an inplace operation: [",
                         what, "]", source, " is at version ", tensor_->storage()->version(), "; expected version ",
                         version_, " instead. Hint: enable anomaly detection to find the operation that failed to "
                         "compute its gradient, with torch.autograd.set_detect_anomaly(True).");
  }
  if (!is_output_) return tensor_;
  Tensor out = MakeRef<TensorImpl>(tensor_->meta(), tensor_->storage());
  AutogradMeta& meta = AutogradMeta::Of(out.get());
  meta.grad_fn = Ref<Node>(owner);
  meta.output = output;
  return out;
}

}  // namespace telensor::rt
