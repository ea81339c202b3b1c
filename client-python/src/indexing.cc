// Tensor indexing: x[...] and x[...] = y, as a chain of views and at most one index op.
#include <cstring>

#include "proto/core/op_ids.h"
#include "tensor_object.h"

namespace telensor::python {
namespace {

// What an index comes to: a view of the tensor, and index tensors for some of its dimensions.
struct Plan {
  TensorRef view;
  std::vector<TensorRef> indices;  // by dimension of the view; null where the whole dimension is taken
  TensorRef mask;                  // the one index where it is a mask over the whole view
  bool advanced() const { return !indices.empty() || mask; }
};

bool Call(OpId op, absl::Span<const Operand> inputs, std::vector<Value> attrs, TensorRef* out) {
  client::TensorRefs results;
  Session* session = inputs[0].tensor->session();
  const OpSchema& schema = OpTable::Get().at(op);
  if (RaiseIfError(session->Call(schema, inputs, attrs, false, &results))) return false;
  *out = std::move(results[0]);
  return true;
}

bool Apply(OpId op, std::vector<Value> attrs, TensorRef* view) {
  const Operand inputs[] = {Operand(view->get())};
  TensorRef next;
  if (!Call(op, inputs, std::move(attrs), &next)) return false;
  *view = std::move(next);
  return true;
}

bool ReadSlice(PyObject* slice, int dim, Plan* plan) {
  Py_ssize_t start, stop, step;
  if (PySlice_Unpack(slice, &start, &stop, &step) < 0) return false;
  if (step <= 0) {
    PyErr_SetString(PyExc_ValueError, "step must be greater than zero");
    return false;
  }
  PySliceObject* s = reinterpret_cast<PySliceObject*>(slice);
  if (s->start == Py_None && s->stop == Py_None && step == 1) return true;
  return Apply(ops::slice, {Value::Int(dim), Value::Int(start), Value::Int(stop), Value::Int(step)}, &plan->view);
}

// Lists and arrays as index tensors.
bool ReadIndexTensor(PyObject* item, Session* session, int device, TensorRef* out) {
  if (IsTensor(item)) {
    *out = TensorRef(StateOf(item));
    return true;
  }
  PyObject* made = NewTensor(item, DType::kNone, device, false);
  if (made == nullptr) return false;
  *out = TensorRef(StateOf(made));
  Py_DECREF(made);
  if ((*out)->meta.numel() == 0 && IsFloating((*out)->meta.dtype)) {
    // An empty list has no numbers to tell its dtype by.
    return Apply(ops::to, {Value::Type(DType::kInt64), Value(), Value::Bool(false)}, out);
  }
  return true;
}

// The dimensions that one item of an index takes.
int Consumed(PyObject* item) {
  if (item == Py_None || item == Py_Ellipsis || PyBool_Check(item)) return 0;
  if (IsTensor(item)) {
    const TensorMeta& m = StateOf(item)->meta;
    return m.dtype == DType::kBool || m.dtype == DType::kUInt8 ? m.rank() : 1;
  }
  return 1;
}

bool SetIndex(Plan* plan, int dim, TensorRef index) {
  if (static_cast<int>(plan->indices.size()) <= dim) plan->indices.resize(dim + 1);
  plan->indices[dim] = std::move(index);
  return true;
}

// A mask takes as many dimensions as it has; its true places become one index tensor for each.
bool AddMask(Plan* plan, int* dim, TensorRef mask, bool only) {
  const TensorMeta& m = mask->meta;
  const TensorMeta& v = plan->view->meta;
  for (int i = 0; i < m.rank(); ++i) {
    if (*dim + i >= v.rank() || m.sizes[i] != v.sizes[*dim + i]) {
      PyErr_Format(PyExc_IndexError, "The shape of the mask %s at index %d does not match the shape of the indexed tensor %s at index %d",
                   m.sizes.ToString().c_str(), i, v.sizes.ToString().c_str(), *dim + i);
      return false;
    }
  }
  if (m.dtype == DType::kUInt8 && !Apply(ops::to, {Value::Type(DType::kBool), Value(), Value::Bool(false)}, &mask)) return false;
  if (only && m.rank() > 0) {
    plan->mask = std::move(mask);
    return true;
  }
  const int rank = m.rank();
  if (rank == 0) {
    // A 0-dim mask adds a dimension of size one or zero.
    if (!Apply(ops::unsqueeze, {Value::Int(*dim)}, &plan->view)) return false;
    TensorRef places;
    if (!Apply(ops::unsqueeze, {Value::Int(0)}, &mask)) return false;
    const Operand inputs[] = {Operand(mask.get())};
    if (!Call(ops::nonzero, inputs, {}, &places) || !Apply(ops::reshape, {Value::Ints(std::vector<int64_t>{-1})}, &places)) return false;
    return SetIndex(plan, (*dim)++, std::move(places));
  }
  TensorRef places;
  const Operand inputs[] = {Operand(mask.get())};
  if (!Call(ops::nonzero, inputs, {}, &places)) return false;
  for (int i = 0; i < rank; ++i) {
    TensorRef column = places;
    if (!Apply(ops::select, {Value::Int(1), Value::Int(i)}, &column)) return false;
    SetIndex(plan, (*dim)++, std::move(column));
  }
  return true;
}

bool MakePlan(PyObject* self, PyObject* index, Plan* plan) {
  TensorState* state = StateOf(self);
  plan->view = TensorRef(state);
  PyObject* one[] = {index};
  PyObject* const* items = one;
  Py_ssize_t count = 1;
  if (PyTuple_Check(index)) {
    items = &PyTuple_GET_ITEM(index, 0);
    count = PyTuple_GET_SIZE(index);
  }
  int consumed = 0;
  for (Py_ssize_t i = 0; i < count; ++i) consumed += Consumed(items[i]);
  if (consumed > state->meta.rank()) {
    if (state->meta.rank() == 0) {
      PyErr_SetString(PyExc_IndexError, "invalid index of a 0-dim tensor. Use `tensor.item()` in Python to convert a 0-dim tensor to a number");
    } else {
      PyErr_Format(PyExc_IndexError, "too many indices for tensor of dimension %d", state->meta.rank());
    }
    return false;
  }
  int dim = 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* item = items[i];
    if (item == Py_Ellipsis) {
      dim += state->meta.rank() - consumed;
      consumed = state->meta.rank();  // a second one takes nothing
    } else if (item == Py_None) {
      if (!Apply(ops::unsqueeze, {Value::Int(dim++)}, &plan->view)) return false;
    } else if (PyBool_Check(item)) {
      PyObject* mask = NewTensor(item, DType::kBool, plan->view->meta.device, false);
      if (mask == nullptr) return false;
      TensorRef ref(StateOf(mask));
      Py_DECREF(mask);
      if (!AddMask(plan, &dim, std::move(ref), false)) return false;
    } else if (PySlice_Check(item)) {
      if (!ReadSlice(item, dim, plan)) return false;
      ++dim;
    } else if (!IsTensor(item) && PyIndex_Check(item) && !PySequence_Check(item)) {
      const Py_ssize_t at = PyNumber_AsSsize_t(item, PyExc_IndexError);
      if (at == -1 && PyErr_Occurred()) return false;
      if (!Apply(ops::select, {Value::Int(dim), Value::Int(at)}, &plan->view)) return false;
    } else {
      if (PyUnicode_Check(item) || PyFloat_Check(item)) {
        PyErr_Format(PyExc_TypeError, "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got %s)",
                     Py_TYPE(item)->tp_name);
        return false;
      }
      TensorRef tensor;
      if (!ReadIndexTensor(item, state->session(), plan->view->meta.device, &tensor)) return false;
      if (tensor->meta.dtype == DType::kBool || tensor->meta.dtype == DType::kUInt8) {
        const bool only = count == 1 && tensor->meta.dtype == DType::kBool;
        if (!AddMask(plan, &dim, std::move(tensor), only)) return false;
      } else {
        if (IsFloating(tensor->meta.dtype)) {
          PyErr_SetString(PyExc_IndexError, "tensors used as indices must be long, byte or bool tensors");
          return false;
        }
        if (tensor->meta.dtype != DType::kInt64 &&
            !Apply(ops::to, {Value::Type(DType::kInt64), Value(), Value::Bool(false)}, &tensor)) {
          return false;
        }
        SetIndex(plan, dim++, std::move(tensor));
      }
    }
  }
  return true;
}

// The plan's index tensors as operands behind `first`.
std::vector<Operand> Operands(const Plan& plan, TensorState* first) {
  std::vector<Operand> operands = {Operand(first)};
  for (const TensorRef& index : plan.indices) operands.emplace_back(index.get());
  return operands;
}

// A mask over leading dimensions, as index tensors.
bool ExpandMask(Plan* plan) {
  if (!plan->mask) return true;
  int dim = 0;
  TensorRef mask = std::move(plan->mask);
  return AddMask(plan, &dim, std::move(mask), false);
}

}  // namespace

PyObject* GetItem(PyObject* self, PyObject* index) {
  Plan plan;
  if (!MakePlan(self, index, &plan) || !ExpandMask(&plan)) return nullptr;
  if (plan.advanced()) {
    TensorRef result;
    if (!Call(ops::index, Operands(plan, plan.view.get()), {}, &result)) return nullptr;
    return Wrap(std::move(result));
  }
  if (plan.view.get() == StateOf(self)) {
    // x[...] is a view of its own, not x.
    if (!Apply(ops::view, {Value::Ints(plan.view->meta.sizes)}, &plan.view)) {
      PyErr_Clear();
      Py_INCREF(self);
      return self;
    }
  }
  return Wrap(std::move(plan.view));
}

int SetItem(PyObject* self, PyObject* index, PyObject* value) {
  if (value == nullptr) {
    PyErr_SetString(PyExc_TypeError, "Tensor does not support deleting items");
    return -1;
  }
  Plan plan;
  if (!MakePlan(self, index, &plan)) return -1;
  Scalar number;
  TensorRef tensor;
  const TensorMeta& target = plan.view->meta;
  if (IsTensor(value)) {
    tensor = TensorRef(StateOf(value));
  } else if (!ToScalar(value, &number)) {
    PyObject* made = NewTensor(value, target.dtype, target.device, false);
    if (made == nullptr) return -1;
    tensor = TensorRef(StateOf(made));
    Py_DECREF(made);
  }
  // Sizes of one in front may be more than the target has dimensions.
  while (tensor && tensor->meta.rank() > 0 && !plan.advanced() && tensor->meta.rank() > target.rank() && tensor->meta.sizes[0] == 1) {
    if (!Apply(ops::select, {Value::Int(0), Value::Int(0)}, &tensor)) return -1;
  }
  Session* session = plan.view->session();
  client::TensorRefs results;
  const auto run = [&](OpId op, absl::Span<const Operand> inputs, absl::Span<const Value> attrs) {
    return RaiseIfError(session->Call(OpTable::Get().at(op), inputs, attrs, true, &results)) ? -1 : 0;
  };
  if (!plan.advanced()) {
    if (!tensor) {
      const Operand inputs[] = {Operand(plan.view.get()), Operand(number)};
      return run(ops::fill_, inputs, {});
    }
    const Operand inputs[] = {Operand(plan.view.get()), Operand(tensor.get())};
    return run(ops::copy_, inputs, {});
  }
  if (plan.mask && (!tensor || tensor->meta.rank() == 0)) {
    // One value under a mask needs no positions, so nothing is waited for.
    TensorRef mask = plan.mask;
    for (int i = mask->meta.rank(); i < plan.view->meta.rank(); ++i) {
      if (!Apply(ops::unsqueeze, {Value::Int(-1)}, &mask)) return -1;
    }
    const Operand inputs[] = {Operand(plan.view.get()), Operand(mask.get()), tensor ? Operand(tensor.get()) : Operand(number)};
    return run(ops::masked_fill, inputs, {});
  }
  if (!ExpandMask(&plan)) return -1;
  if (!tensor) {
    const Value attrs[] = {Value::Ints(std::vector<int64_t>()), Value::Number(number), Value::Type(plan.view->meta.dtype),
                           Value::Device(plan.view->meta.device)};
    if (RaiseIfError(session->Call(OpTable::Get().at(ops::full), {}, attrs, false, &results))) return -1;
    tensor = std::move(results[0]);
    results.clear();
  } else if (tensor->meta.dtype != plan.view->meta.dtype || tensor->meta.device != plan.view->meta.device) {
    if (!Apply(ops::to, {Value::Type(plan.view->meta.dtype), Value::Device(plan.view->meta.device), Value::Bool(false)}, &tensor)) return -1;
  }
  std::vector<Operand> inputs = Operands(plan, plan.view.get());
  inputs.emplace_back(tensor.get());
  const Value attrs[] = {Value::Bool(false)};
  return run(ops::index_put, inputs, attrs);
}

}  // namespace telensor::python
