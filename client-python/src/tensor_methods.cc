// Tensor's attributes, and the methods that are no ops of the table.
#include <cstring>

#include "proto/core/op_ids.h"
#include "proto/core/shape_util.h"
#include "tensor_object.h"

namespace telensor::python {
namespace {

TensorState* S(PyObject* self) { return StateOf(self); }

PyObject* Shape(PyObject* self, void*) { return NewSize(S(self)->meta.sizes); }
PyObject* DTypeOf(PyObject* self, void*) { return DTypeObject(S(self)->meta.dtype); }
PyObject* DeviceOf(PyObject* self, void*) { return DeviceObject(S(self)->meta.device); }
PyObject* NDim(PyObject* self, void*) { return PyLong_FromLong(S(self)->meta.rank()); }
PyObject* RequiresGrad(PyObject* self, void*) { return PyBool_FromLong(S(self)->RequiresGrad()); }
int SetRequiresGrad(PyObject* self, PyObject* value, void*) {
  const int on = value != nullptr ? PyObject_IsTrue(value) : -1;
  if (on < 0) return -1;
  return RaiseIfError(S(self)->session()->SetRequiresGrad(S(self), on != 0)) ? -1 : 0;
}
PyObject* IsLeaf(PyObject* self, void*) { return PyBool_FromLong(!S(self)->RequiresGrad() || S(self)->requires_grad); }
PyObject* Version(PyObject* self, void*) { return PyLong_FromUnsignedLong(S(self)->version()); }
PyObject* IsCuda(PyObject* self, void*) { return PyBool_FromLong(S(self)->meta.device != 0); }
PyObject* False(PyObject*, void*) { Py_RETURN_FALSE; }

PyObject* Grad(PyObject* self, void*) {
  if (!S(self)->grad) Py_RETURN_NONE;
  return Wrap(S(self)->grad);
}
int SetGrad(PyObject* self, PyObject* value, void*) {
  TensorState* gradient = nullptr;
  if (value != nullptr && value != Py_None) {
    if (!IsTensor(value)) {
      PyErr_Format(PyExc_TypeError, "assigned grad expected to be a Tensor or None but got grad of %s", Py_TYPE(value)->tp_name);
      return -1;
    }
    gradient = StateOf(value);
  }
  return RaiseIfError(S(self)->session()->SetGrad(S(self), gradient)) ? -1 : 0;
}
PyObject* GradFn(PyObject* self, void*) {
  const client::GradEdge edge = S(self)->Edge();
  if (!edge.node) Py_RETURN_NONE;
  return PyUnicode_FromFormat("<%s>", edge.node->Name().c_str());
}

PyObject* Data(PyObject* self, void*) {
  const Operand inputs[] = {Operand(S(self))};
  return CallOp(ops::detach, inputs, {});
}
int SetData(PyObject* self, PyObject* value, void*) {
  if (value == nullptr || !IsTensor(value)) {
    PyErr_SetString(PyExc_TypeError, "Variable data has to be a tensor");
    return -1;
  }
  // The same memory from now on, as a leaf or not as before.
  const Operand inputs[] = {Operand(StateOf(value))};
  PyObject* made = CallOp(ops::detach, inputs, {});
  if (made == nullptr) return -1;
  TensorObject* object = reinterpret_cast<TensorObject*>(self);
  TensorState* fresh = StateOf(made);
  const bool on = object->state->requires_grad;
  fresh->grad = object->state->grad;
  std::swap(object->state, reinterpret_cast<TensorObject*>(made)->state);
  Py_DECREF(made);
  return on && RaiseIfError(S(self)->session()->SetRequiresGrad(S(self), true)) ? -1 : 0;
}

PyObject* Transposed(PyObject* self, void*) {
  const int rank = S(self)->meta.rank();
  std::vector<int64_t> dims;
  for (int i = rank - 1; i >= 0; --i) dims.push_back(i);
  const Operand inputs[] = {Operand(S(self))};
  const Value attrs[] = {Value::Ints(std::move(dims))};
  return CallOp(ops::permute, inputs, attrs);
}
PyObject* MatrixTransposed(PyObject* self, void*) {
  const Operand inputs[] = {Operand(S(self))};
  const Value attrs[] = {Value::Int(-2), Value::Int(-1)};
  return CallOp(ops::transpose, inputs, attrs);
}

// size(), size(dim): also stride.
PyObject* DimsOrOne(PyObject* self, PyObject* args, const Dims& dims, bool as_size) {
  PyObject* dim = nullptr;
  if (!PyArg_ParseTuple(args, "|O", &dim)) return nullptr;
  if (dim == nullptr || dim == Py_None) {
    if (as_size) return NewSize(dims);
    PyObject* out = PyTuple_New(dims.size());
    for (int i = 0; i < dims.size(); ++i) PyTuple_SET_ITEM(out, i, PyLong_FromLongLong(dims[i]));
    return out;
  }
  const long long at = PyLong_AsLongLong(dim);
  if (at == -1 && PyErr_Occurred()) return nullptr;
  const absl::StatusOr<int> d = WrapDim(at, dims.size());
  if (RaiseIfError(d.status())) return nullptr;
  if (dims.empty()) {
    PyErr_SetString(PyExc_IndexError, "dimension specified as 0 but tensor has no dimensions");
    return nullptr;
  }
  return PyLong_FromLongLong(dims[*d]);
}
PyObject* Size(PyObject* self, PyObject* args) { return DimsOrOne(self, args, S(self)->meta.sizes, true); }
PyObject* Stride(PyObject* self, PyObject* args) { return DimsOrOne(self, args, S(self)->meta.strides, false); }
PyObject* Dim(PyObject* self, PyObject*) { return PyLong_FromLong(S(self)->meta.rank()); }
PyObject* Numel(PyObject* self, PyObject*) { return PyLong_FromLongLong(S(self)->meta.numel()); }
PyObject* ElementSize(PyObject* self, PyObject*) { return PyLong_FromSize_t(ItemSize(S(self)->meta.dtype)); }
PyObject* StorageOffset(PyObject* self, PyObject*) { return PyLong_FromLongLong(S(self)->meta.offset); }
PyObject* IsContiguousMethod(PyObject* self, PyObject*, PyObject*) { return PyBool_FromLong(S(self)->meta.contiguous()); }
PyObject* IsFloatingPoint(PyObject* self, PyObject*) { return PyBool_FromLong(IsFloating(S(self)->meta.dtype)); }

PyObject* Item(PyObject* self, PyObject*) { return ToPythonNumber(S(self)); }
PyObject* List(PyObject* self, PyObject*) { return ToList(S(self)); }
PyObject* Bytes(PyObject* self, PyObject*) { return ToBytes(S(self)); }
PyObject* Numpy(PyObject* self, PyObject*, PyObject*) { return ToNumpy(S(self)); }
PyObject* Array(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"dtype", "copy", nullptr};
  PyObject* dtype = Py_None;
  PyObject* copy = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO", const_cast<char**>(names), &dtype, &copy)) return nullptr;
  if (copy == Py_False) {
    PyErr_SetString(PyExc_ValueError, "a tensor on a server can't be seen as an array without a copy");
    return nullptr;
  }
  PyObject* array = ToNumpy(S(self));
  if (array == nullptr || dtype == Py_None) return array;
  PyObject* converted = PyObject_CallMethod(array, "astype", "O", dtype);
  Py_DECREF(array);
  return converted;
}

PyObject* Backward(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"gradient", "retain_graph", "create_graph", "inputs", nullptr};
  PyObject *gradient = Py_None, *retain = Py_None, *inputs = Py_None;
  int create = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OOpO", const_cast<char**>(names), &gradient, &retain, &create, &inputs)) return nullptr;
  if (inputs != Py_None) {
    PyObject* module = PyImport_ImportModule("telensor.autograd");
    if (module == nullptr) return nullptr;
    PyObject* done = PyObject_CallMethod(module, "backward", "OOOOO", self, gradient, retain, create ? Py_True : Py_False, inputs);
    Py_DECREF(module);
    return done;
  }
  if (gradient != Py_None && !IsTensor(gradient)) {
    PyErr_Format(PyExc_TypeError, "gradients can be either Tensors or None, but got %s", Py_TYPE(gradient)->tp_name);
    return nullptr;
  }
  const bool keep = retain == Py_None ? create != 0 : PyObject_IsTrue(retain) == 1;
  if (RaiseIfError(S(self)->session()->Backward(S(self), gradient == Py_None ? nullptr : StateOf(gradient), keep, create != 0))) return nullptr;
  Py_RETURN_NONE;
}

PyObject* RequiresGradInPlace(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"requires_grad", nullptr};
  int on = 1;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|p", const_cast<char**>(names), &on)) return nullptr;
  if (RaiseIfError(S(self)->session()->SetRequiresGrad(S(self), on != 0))) return nullptr;
  Py_INCREF(self);
  return self;
}

PyObject* DetachInPlace(PyObject* self, PyObject*) {
  const Operand inputs[] = {Operand(S(self))};
  PyObject* made = CallOp(ops::detach, inputs, {});
  if (made == nullptr) return nullptr;
  std::swap(reinterpret_cast<TensorObject*>(self)->state, reinterpret_cast<TensorObject*>(made)->state);
  Py_DECREF(made);
  Py_INCREF(self);
  return self;
}

PyObject* ConvertTo(PyObject* self, Value dtype, Value device, bool copy) {
  const Operand inputs[] = {Operand(S(self))};
  client::TensorRefs results;
  const Value attrs[] = {std::move(dtype), std::move(device), Value::Bool(copy)};
  if (RaiseIfError(S(self)->session()->Call(OpTable::Get().at(ops::to), inputs, attrs, false, &results))) return nullptr;
  if (results[0].get() == S(self)) {
    Py_INCREF(self);
    return self;
  }
  return Wrap(std::move(results[0]));
}

// to(dtype), to(device), to(device, dtype), to(other), each with non_blocking and copy.
PyObject* To(PyObject* self, PyObject* args, PyObject* kwargs) {
  Value dtype, device;
  bool copy = false;
  const auto take = [&](PyObject* object) {
    DType t;
    if (object == Py_None) return true;
    if (IsDTypeObject(object, &t)) {
      dtype = Value::Type(t);
      return true;
    }
    if (IsTensor(object)) {
      dtype = Value::Type(StateOf(object)->meta.dtype);
      device = Value::Device(StateOf(object)->meta.device);
      return true;
    }
    const int index = DeviceIndexOf(object);
    if (index < 0) return false;
    device = Value::Device(index);
    return true;
  };
  Py_ssize_t flags = 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) {
    PyObject* object = PyTuple_GET_ITEM(args, i);
    if (PyBool_Check(object)) {
      if (flags++ == 1) copy = object == Py_True;  // non_blocking, then copy
    } else if (!take(object)) {
      return nullptr;
    }
  }
  PyObject *key, *value;
  Py_ssize_t at = 0;
  while (kwargs != nullptr && PyDict_Next(kwargs, &at, &key, &value)) {
    const std::string_view name(TextOf(key));
    if (name == "copy") {
      copy = PyObject_IsTrue(value) == 1;
    } else if (name == "dtype" || name == "device" || name == "other") {
      if (!take(value)) return nullptr;
    } else if (name != "non_blocking" && name != "memory_format") {
      PyErr_Format(PyExc_TypeError, "to() got an unexpected keyword argument '%U'", key);
      return nullptr;
    }
  }
  return ConvertTo(self, std::move(dtype), std::move(device), copy);
}

template <DType dtype>
PyObject* As(PyObject* self, PyObject*, PyObject*) { return ConvertTo(self, Value::Type(dtype), Value(), false); }

PyObject* Cpu(PyObject* self, PyObject*, PyObject*) { return ConvertTo(self, Value(), Value::Device(0), false); }
PyObject* Cuda(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"device", "non_blocking", nullptr};
  PyObject* device = nullptr;
  int ignored = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|Op", const_cast<char**>(names), &device, &ignored)) return nullptr;
  PyObject* name = device == nullptr || device == Py_None ? PyUnicode_FromString("cuda") : Py_NewRef(device);
  const int index = DeviceIndexOf(name);
  Py_DECREF(name);
  return index < 0 ? nullptr : ConvertTo(self, Value(), Value::Device(index), false);
}
PyObject* Type(PyObject* self, PyObject* args, PyObject*) {
  PyObject* dtype = nullptr;
  if (!PyArg_ParseTuple(args, "|O", &dtype)) return nullptr;
  DType t;
  if (dtype == nullptr) {
    const std::string title(DTypeTitle(S(self)->meta.dtype));
    return PyUnicode_FromFormat("torch.%s%sTensor", S(self)->meta.device != 0 ? "cuda." : "", title.c_str());
  }
  if (!IsDTypeObject(dtype, &t)) {
    PyErr_SetString(PyExc_TypeError, "dtype must be a type or dtype");
    return nullptr;
  }
  return ConvertTo(self, Value::Type(t), Value(), false);
}
PyObject* TypeAs(PyObject* self, PyObject* other) {
  if (!IsTensor(other)) {
    PyErr_SetString(PyExc_TypeError, "type_as() takes a Tensor");
    return nullptr;
  }
  return ConvertTo(self, Value::Type(StateOf(other)->meta.dtype), Value::Device(StateOf(other)->meta.device), false);
}

// new_zeros and its kin: the dtype and device of self unless told otherwise.
PyObject* NewLike(PyObject* self, PyObject* args, PyObject* kwargs, const char* function, Py_ssize_t leading) {
  PyObject* module = PyImport_ImportModule("telensor._core");
  if (module == nullptr) return nullptr;
  PyObject* target = PyObject_GetAttrString(module, function);
  Py_DECREF(module);
  PyObject* options = kwargs != nullptr ? PyDict_Copy(kwargs) : PyDict_New();
  PyObject* dtype = DTypeObject(S(self)->meta.dtype);
  PyObject* device = DeviceObject(S(self)->meta.device);
  if (PyDict_GetItemString(options, "dtype") == nullptr) PyDict_SetItemString(options, "dtype", dtype);
  if (PyDict_GetItemString(options, "device") == nullptr) PyDict_SetItemString(options, "device", device);
  PyObject* out = target != nullptr ? PyObject_Call(target, args, options) : nullptr;
  Py_DECREF(dtype);
  Py_DECREF(device);
  Py_DECREF(options);
  Py_XDECREF(target);
  return out;
}
PyObject* NewZeros(PyObject* s, PyObject* a, PyObject* k) { return NewLike(s, a, k, "zeros", 0); }
PyObject* NewOnes(PyObject* s, PyObject* a, PyObject* k) { return NewLike(s, a, k, "ones", 0); }
PyObject* NewEmpty(PyObject* s, PyObject* a, PyObject* k) { return NewLike(s, a, k, "empty", 0); }
PyObject* NewFull(PyObject* s, PyObject* a, PyObject* k) { return NewLike(s, a, k, "full", 1); }
PyObject* NewTensorLike(PyObject* s, PyObject* a, PyObject* k) { return NewLike(s, a, k, "tensor", 1); }

// _make_subclass(cls, tensor, requires_grad): the same memory as an object of another class.
PyObject* MakeSubclass(PyObject*, PyObject* args) {
  PyTypeObject* type;
  PyObject* data;
  int on = 0;
  if (!PyArg_ParseTuple(args, "O!O!|p", &PyType_Type, &type, &TensorType, &data, &on)) return nullptr;
  if (!PyType_IsSubtype(type, &TensorType)) {
    PyErr_SetString(PyExc_TypeError, "cls must be a subclass of Tensor");
    return nullptr;
  }
  const Operand inputs[] = {Operand(StateOf(data))};
  PyObject* made = CallOp(ops::detach, inputs, {});
  if (made == nullptr) return nullptr;
  PyObject* self = type->tp_alloc(type, 0);
  if (self != nullptr) {
    reinterpret_cast<TensorObject*>(self)->state = std::exchange(reinterpret_cast<TensorObject*>(made)->state, nullptr);
    if (on && RaiseIfError(S(self)->session()->SetRequiresGrad(S(self), true))) Py_CLEAR(self);
  }
  Py_DECREF(made);
  return self;
}

// Host bytes, never a handle: a pickle may be read anywhere.
PyObject* Reduce(PyObject* self, PyObject*) {
  // A Python function: pickle finds it by its name.
  PyObject* module = PyImport_ImportModule("telensor._host_bytes");
  if (module == nullptr) return nullptr;
  PyObject* rebuild = PyObject_GetAttrString(module, "rebuild_tensor");
  Py_DECREF(module);
  PyObject* bytes = rebuild != nullptr ? ToBytes(S(self)) : nullptr;
  if (bytes == nullptr) {
    Py_XDECREF(rebuild);
    return nullptr;
  }
  const std::string dtype(DTypeName(S(self)->meta.dtype));
  PyObject* plain = PyBytes_FromObject(bytes);
  Py_DECREF(bytes);
  PyObject* sizes = NewSize(S(self)->meta.sizes);
  PyObject* size_tuple = PySequence_List(sizes);
  Py_DECREF(sizes);
  return Py_BuildValue("N(NNsO)", rebuild, plain, size_tuple, dtype.c_str(), S(self)->RequiresGrad() ? Py_True : Py_False);
}

PyObject* DeepCopy(PyObject* self, PyObject*) {
  if (S(self)->grad_fn) {
    PyErr_SetString(PyExc_RuntimeError,
                    "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment");
    return nullptr;
  }
  const Operand inputs[] = {Operand(S(self))};
  const bool before = client::GradEnabled();
  client::SetGradEnabled(false);
  PyObject* copy = CallOp(ops::clone, inputs, {});
  client::SetGradEnabled(before);
  if (copy == nullptr) return nullptr;
  PyTypeObject* type = Py_TYPE(self);
  if (type == &TensorType) {
    if (S(self)->requires_grad && RaiseIfError(S(copy)->session()->SetRequiresGrad(S(copy), true))) Py_CLEAR(copy);
    return copy;
  }
  PyObject* args = Py_BuildValue("(ONO)", type, copy, S(self)->requires_grad ? Py_True : Py_False);
  PyObject* out = args != nullptr ? MakeSubclass(nullptr, args) : nullptr;
  Py_XDECREF(args);
  return out;
}

PyObject* RetainGrad(PyObject* self, PyObject*) {
  if (RaiseIfError(S(self)->session()->RetainGrad(S(self)))) return nullptr;
  Py_RETURN_NONE;
}
PyObject* RetainsGrad(PyObject* self, void*) { return PyBool_FromLong(S(self)->retains_grad); }

#define WITH_KEYWORDS(f) reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f))

}  // namespace

PyGetSetDef kTensorAttributes[] = {
    {"shape", Shape, nullptr, "Size; known without asking the server.", nullptr},
    {"dtype", DTypeOf, nullptr, nullptr, nullptr},
    {"device", DeviceOf, nullptr, nullptr, nullptr},
    {"ndim", NDim, nullptr, nullptr, nullptr},
    {"requires_grad", RequiresGrad, SetRequiresGrad, nullptr, nullptr},
    {"is_leaf", IsLeaf, nullptr, nullptr, nullptr},
    {"grad", Grad, SetGrad, "The gradient that backward left, or None.", nullptr},
    {"grad_fn", GradFn, nullptr, nullptr, nullptr},
    {"data", Data, SetData, nullptr, nullptr},
    {"T", Transposed, nullptr, nullptr, nullptr},
    {"mT", MatrixTransposed, nullptr, nullptr, nullptr},
    {"_version", Version, nullptr, nullptr, nullptr},
    {"retains_grad", RetainsGrad, nullptr, nullptr, nullptr},
    {"is_cuda", IsCuda, nullptr, nullptr, nullptr},
    {"is_sparse", False, nullptr, nullptr, nullptr},
    {"is_quantized", False, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMethodDef kTensorMethods[] = {
    {"size", Size, METH_VARARGS, nullptr},
    {"stride", Stride, METH_VARARGS, nullptr},
    {"dim", Dim, METH_NOARGS, nullptr},
    {"ndimension", Dim, METH_NOARGS, nullptr},
    {"numel", Numel, METH_NOARGS, nullptr},
    {"nelement", Numel, METH_NOARGS, nullptr},
    {"element_size", ElementSize, METH_NOARGS, nullptr},
    {"storage_offset", StorageOffset, METH_NOARGS, nullptr},
    {"is_contiguous", WITH_KEYWORDS(IsContiguousMethod), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"is_floating_point", IsFloatingPoint, METH_NOARGS, nullptr},
    {"item", Item, METH_NOARGS, "The value of a one-element tensor; waits for the server."},
    {"tolist", List, METH_NOARGS, "The values as nested lists; waits for the server."},
    {"_bytes", Bytes, METH_NOARGS, "The elements as a bytearray, row-major; waits for the server."},
    {"numpy", WITH_KEYWORDS(Numpy), METH_VARARGS | METH_KEYWORDS, "The values as a NumPy array of its own; waits for the server."},
    {"__array__", WITH_KEYWORDS(Array), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"backward", WITH_KEYWORDS(Backward), METH_VARARGS | METH_KEYWORDS, "Adds to the gradients of all leaves below."},
    {"requires_grad_", WITH_KEYWORDS(RequiresGradInPlace), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"detach_", DetachInPlace, METH_NOARGS, nullptr},
    {"retain_grad", RetainGrad, METH_NOARGS, "Lets backward leave a gradient in this result too."},
    {"to", WITH_KEYWORDS(To), METH_VARARGS | METH_KEYWORDS, "Another dtype or device; self where nothing changes."},
    {"cpu", WITH_KEYWORDS(Cpu), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"cuda", WITH_KEYWORDS(Cuda), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"type", WITH_KEYWORDS(Type), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"type_as", TypeAs, METH_O, nullptr},
    {"float", WITH_KEYWORDS(As<DType::kFloat32>), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"double", WITH_KEYWORDS(As<DType::kFloat64>), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"half", WITH_KEYWORDS(As<DType::kFloat16>), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"bfloat16", WITH_KEYWORDS(As<DType::kBFloat16>), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"int", WITH_KEYWORDS(As<DType::kInt32>), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"long", WITH_KEYWORDS(As<DType::kInt64>), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"short", WITH_KEYWORDS(As<DType::kInt16>), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"char", WITH_KEYWORDS(As<DType::kInt8>), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"byte", WITH_KEYWORDS(As<DType::kUInt8>), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"bool", WITH_KEYWORDS(As<DType::kBool>), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"new_zeros", WITH_KEYWORDS(NewZeros), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"new_ones", WITH_KEYWORDS(NewOnes), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"new_empty", WITH_KEYWORDS(NewEmpty), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"new_full", WITH_KEYWORDS(NewFull), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"new_tensor", WITH_KEYWORDS(NewTensorLike), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"_make_subclass", MakeSubclass, METH_VARARGS | METH_STATIC, nullptr},
    {"__reduce_ex__", Reduce, METH_O, nullptr},
    {"__deepcopy__", DeepCopy, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace telensor::python
