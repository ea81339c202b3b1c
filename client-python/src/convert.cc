// Values in and out: nested lists, buffers and arrays to tensors; tensors to numbers, lists, bytes and arrays.
#include <cstring>

#include "proto/core/half.h"
#include "proto/core/shape_util.h"
#include "tensor_object.h"

namespace telensor::python {
namespace {

// Host elements on their way to a tensor.
struct HostArray {
  std::vector<int64_t> sizes;
  DType dtype = DType::kNone;
  std::string data;
};

void StoreElement(const Scalar& s, DType dtype, std::string* out) {
  const auto put = [out](auto v) { out->append(reinterpret_cast<const char*>(&v), sizeof(v)); };
  const int64_t i = s.is_float() ? static_cast<int64_t>(s.f) : s.i;
  switch (dtype) {
    case DType::kBool: return put(static_cast<uint8_t>(s.is_float() ? s.f != 0 : s.i != 0));
    case DType::kUInt8: return put(static_cast<uint8_t>(i));
    case DType::kInt8: return put(static_cast<int8_t>(i));
    case DType::kInt16: return put(static_cast<int16_t>(i));
    case DType::kInt32: return put(static_cast<int32_t>(i));
    case DType::kInt64: return put(i);
    case DType::kFloat16: return put(FloatToHalfBits(static_cast<float>(s.f)));
    case DType::kBFloat16: return put(FloatToBFloat16Bits(static_cast<float>(s.f)));
    case DType::kFloat32: return put(static_cast<float>(s.f));
    default: return put(s.f);
  }
}

// The dtype of a buffer's elements; kNone where telensor has none such.
DType BufferDType(const Py_buffer& view) {
  const char* f = view.format != nullptr ? view.format : "B";
  if (*f == '@' || *f == '=' || *f == '<') ++f;
  if (f[0] == '\0' || f[1] != '\0') return DType::kNone;
  switch (*f) {
    case '?': return DType::kBool;
    case 'B': return DType::kUInt8;
    case 'b': return DType::kInt8;
    case 'h': return DType::kInt16;
    case 'i': return DType::kInt32;
    case 'l': case 'q': case 'n': return view.itemsize == 8 ? DType::kInt64 : DType::kInt32;
    case 'e': return DType::kFloat16;
    case 'f': return DType::kFloat32;
    case 'd': return DType::kFloat64;
    default: return DType::kNone;
  }
}

// A buffer straight to a tensor, without a copy where it is dense.
PyObject* FromBuffer(PyObject* object, int device, bool* handled) {
  Py_buffer view;
  *handled = false;
  if (PyObject_GetBuffer(object, &view, PyBUF_FORMAT | PyBUF_STRIDES) != 0) {
    PyErr_Clear();
    return nullptr;
  }
  const DType dtype = BufferDType(view);
  if (dtype == DType::kNone || view.ndim > kMaxRank) {
    PyErr_Format(PyExc_TypeError, "can't convert a buffer of format '%s' to a tensor", view.format != nullptr ? view.format : "B");
    PyBuffer_Release(&view);
    *handled = true;
    return nullptr;
  }
  *handled = true;
  TensorMeta meta;
  meta.dtype = dtype;
  meta.device = static_cast<DeviceIndex>(device);
  for (int i = 0; i < view.ndim; ++i) meta.sizes.push_back(view.shape[i]);
  const bool dense = PyBuffer_IsContiguous(&view, 'C') != 0;
  std::string copy;
  if (!dense) {
    copy.resize(static_cast<size_t>(view.len));
    if (PyBuffer_ToContiguous(copy.data(), &view, view.len, 'C') != 0) {
      PyBuffer_Release(&view);
      return nullptr;
    }
  }
  Session* session = GetSession();
  absl::StatusOr<TensorRef> tensor = absl::InternalError("no session");
  if (session != nullptr) {
    Py_BEGIN_ALLOW_THREADS;
    tensor = session->FromHost(dense ? view.buf : copy.data(), meta);
    Py_END_ALLOW_THREADS;
  }
  PyBuffer_Release(&view);
  if (session == nullptr || RaiseIfError(tensor.status())) return nullptr;
  return Wrap(*std::move(tensor));
}

// Lists and tuples all the way down, with numbers (or one-element tensors) at the ends.
bool FindShape(PyObject* data, std::vector<int64_t>* sizes) {
  PyObject* level = data;
  Py_INCREF(level);
  while (PyList_Check(level) || PyTuple_Check(level)) {
    if (sizes->size() == kMaxRank) {
      PyErr_SetString(PyExc_ValueError, "too many dimensions");
      Py_DECREF(level);
      return false;
    }
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(level);
    sizes->push_back(n);
    if (n == 0) break;
    PyObject* first = PySequence_Fast_GET_ITEM(level, 0);
    Py_INCREF(first);
    Py_DECREF(level);
    level = first;
  }
  Py_DECREF(level);
  return true;
}

bool Collect(PyObject* data, const std::vector<int64_t>& sizes, size_t depth, std::vector<Scalar>* out) {
  if (depth == sizes.size()) {
    Scalar s;
    if (IsTensor(data) && StateOf(data)->meta.numel() == 1) {
      PyObject* number = ToPythonNumber(StateOf(data));
      const bool ok = number != nullptr && ToScalar(number, &s);
      Py_XDECREF(number);
      if (!ok) return false;
    } else if (!ToScalar(data, &s)) {
      if (PyLong_Check(data)) {
        PyErr_SetString(PyExc_RuntimeError, "Overflow when unpacking long");
      } else if (PyList_Check(data) || PyTuple_Check(data)) {
        PyErr_Format(PyExc_ValueError, "expected a number at dim %zu, got a sequence: the nested lists are ragged", depth);
      } else {
        PyErr_Format(PyExc_TypeError, "new(): invalid data type '%s'", Py_TYPE(data)->tp_name);
      }
      return false;
    }
    out->push_back(s);
    return true;
  }
  if (!PyList_Check(data) && !PyTuple_Check(data)) {
    PyErr_Format(PyExc_TypeError, "not a sequence");
    return false;
  }
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(data);
  if (n != sizes[depth]) {
    PyErr_Format(PyExc_ValueError, "expected sequence of length %lld at dim %zu (got %zd)", static_cast<long long>(sizes[depth]), depth, n);
    return false;
  }
  for (Py_ssize_t i = 0; i < n; ++i) {
    if (!Collect(PySequence_Fast_GET_ITEM(data, i), sizes, depth + 1, out)) return false;
  }
  return true;
}

bool FromNested(PyObject* data, DType default_float, DType dtype, HostArray* out) {
  if (!FindShape(data, &out->sizes)) return false;
  std::vector<Scalar> numbers;
  if (!Collect(data, out->sizes, 0, &numbers)) return false;
  if (dtype == DType::kNone) {
    DType kind = numbers.empty() ? DType::kFloat64 : DType::kBool;
    for (const Scalar& s : numbers) kind = std::max(kind, s.kind);
    dtype = kind == DType::kFloat64 ? default_float : kind;
  }
  out->dtype = dtype;
  out->data.reserve(numbers.size() * ItemSize(dtype));
  for (const Scalar& s : numbers) StoreElement(s, dtype, &out->data);
  return true;
}

PyObject* ElementToPython(const char* p, DType dtype) {
  const auto as = [p](auto v) {
    std::memcpy(&v, p, sizeof(v));
    return v;
  };
  switch (dtype) {
    case DType::kBool: return PyBool_FromLong(as(uint8_t()));
    case DType::kUInt8: return PyLong_FromLong(as(uint8_t()));
    case DType::kInt8: return PyLong_FromLong(as(int8_t()));
    case DType::kInt16: return PyLong_FromLong(as(int16_t()));
    case DType::kInt32: return PyLong_FromLong(as(int32_t()));
    case DType::kInt64: return PyLong_FromLongLong(as(int64_t()));
    case DType::kFloat16: return PyFloat_FromDouble(HalfBitsToFloat(as(uint16_t())));
    case DType::kBFloat16: return PyFloat_FromDouble(BFloat16BitsToFloat(as(uint16_t())));
    case DType::kFloat32: return PyFloat_FromDouble(as(float()));
    default: return PyFloat_FromDouble(as(double()));
  }
}

bool Read(TensorState* tensor, std::string* out) {
  absl::StatusOr<std::string> bytes = absl::InternalError("");
  Py_BEGIN_ALLOW_THREADS;
  bytes = tensor->session()->ToHost(tensor);
  Py_END_ALLOW_THREADS;
  if (RaiseIfError(bytes.status())) return false;
  *out = *std::move(bytes);
  return true;
}

PyObject* ListOf(const char** p, const TensorMeta& meta, int dim) {
  if (dim == meta.rank()) {
    PyObject* value = ElementToPython(*p, meta.dtype);
    *p += ItemSize(meta.dtype);
    return value;
  }
  PyObject* list = PyList_New(meta.sizes[dim]);
  for (int64_t i = 0; list != nullptr && i < meta.sizes[dim]; ++i) {
    PyObject* item = ListOf(p, meta, dim + 1);
    if (item == nullptr) {
      Py_CLEAR(list);
      break;
    }
    PyList_SET_ITEM(list, i, item);
  }
  return list;
}

}  // namespace

PyObject* NewTensor(PyObject* data, DType dtype, int device, bool requires_grad) {
  Session* session = GetSession();
  if (session == nullptr) return nullptr;
  if (device < 0) device = session->default_device();
  PyObject* made = nullptr;
  if (IsTensor(data)) {
    const Operand inputs[] = {Operand(StateOf(data))};
    const Value attrs[] = {dtype == DType::kNone ? Value() : Value::Type(dtype), Value::Device(device)};
    made = CallOp(*OpTable::Get().Find("_to_copy"), inputs, attrs, false);
    if (made != nullptr) {
      const Operand again[] = {Operand(StateOf(made))};
      PyObject* detached = CallOp(*OpTable::Get().Find("detach"), again, {}, false);
      Py_DECREF(made);
      made = detached;
    }
  } else {
    bool handled = false;
    if (!PyList_Check(data) && !PyTuple_Check(data) && PyObject_CheckBuffer(data)) {
      made = FromBuffer(data, device, &handled);
      if (handled && made != nullptr && dtype != DType::kNone && StateOf(made)->meta.dtype != dtype) {
        const Operand inputs[] = {Operand(StateOf(made))};
        const Value attrs[] = {Value::Type(dtype), Value()};
        PyObject* converted = CallOp(*OpTable::Get().Find("_to_copy"), inputs, attrs, false);
        Py_DECREF(made);
        made = converted;
      }
    } else if (!PyList_Check(data) && !PyTuple_Check(data) && PyObject_HasAttrString(data, "__array__")) {
      PyObject* array = PyObject_CallMethod(data, "__array__", nullptr);
      if (array == nullptr) return nullptr;
      made = FromBuffer(array, device, &handled);
      Py_DECREF(array);
    }
    if (!handled) {
      HostArray host;
      if (!FromNested(data, session->default_dtype(), dtype, &host)) return nullptr;
      TensorMeta meta;
      meta.dtype = host.dtype;
      meta.device = static_cast<DeviceIndex>(device);
      meta.sizes = Dims(host.sizes);
      absl::StatusOr<TensorRef> tensor = absl::InternalError("");
      Py_BEGIN_ALLOW_THREADS;
      tensor = session->FromHost(host.data.data(), meta);
      Py_END_ALLOW_THREADS;
      if (RaiseIfError(tensor.status())) return nullptr;
      made = Wrap(*std::move(tensor));
    }
  }
  if (made != nullptr && requires_grad && RaiseIfError(session->SetRequiresGrad(StateOf(made), true))) Py_CLEAR(made);
  return made;
}

PyObject* ToPythonNumber(TensorState* tensor) {
  if (tensor->meta.numel() != 1) {
    PyErr_Format(PyExc_RuntimeError, "a Tensor with %lld elements cannot be converted to Scalar", static_cast<long long>(tensor->meta.numel()));
    return nullptr;
  }
  std::string bytes;
  return Read(tensor, &bytes) ? ElementToPython(bytes.data(), tensor->meta.dtype) : nullptr;
}

PyObject* ToList(TensorState* tensor) {
  std::string bytes;
  if (!Read(tensor, &bytes)) return nullptr;
  const char* p = bytes.data();
  return ListOf(&p, tensor->meta, 0);
}

PyObject* ToBytes(TensorState* tensor) {
  std::string bytes;
  if (!Read(tensor, &bytes)) return nullptr;
  return PyByteArray_FromStringAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size()));
}

PyObject* ToNumpy(TensorState* tensor) {
  if (tensor->RequiresGrad()) {
    PyErr_SetString(PyExc_RuntimeError, "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.");
    return nullptr;
  }
  if (tensor->meta.dtype == DType::kBFloat16) {
    PyErr_SetString(PyExc_TypeError, "Got unsupported ScalarType BFloat16");
    return nullptr;
  }
  PyObject* numpy = PyImport_ImportModule("numpy");
  if (numpy == nullptr) return nullptr;
  PyObject* bytes = ToBytes(tensor);
  PyObject* sizes = PyTuple_New(tensor->meta.rank());
  for (int i = 0; i < tensor->meta.rank(); ++i) PyTuple_SET_ITEM(sizes, i, PyLong_FromLongLong(tensor->meta.sizes[i]));
  const std::string name(DTypeName(tensor->meta.dtype));
  // The array owns the bytes, and may be written.
  PyObject* array = bytes == nullptr ? nullptr : PyObject_CallMethod(numpy, "ndarray", "OsO", sizes, name.c_str(), bytes);
  Py_DECREF(sizes);
  Py_XDECREF(bytes);
  Py_DECREF(numpy);
  return array;
}

}  // namespace telensor::python
