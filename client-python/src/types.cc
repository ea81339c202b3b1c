// dtype, Size and device, and the exceptions.
#include <map>

#include "tensor_object.h"

namespace telensor::python {
namespace {

struct DTypeBox {
  PyObject_HEAD
  DType dtype;
};
struct DeviceBox {
  PyObject_HEAD
  int index;
};

PyTypeObject g_dtype_type = {PyVarObject_HEAD_INIT(nullptr, 0)};
PyTypeObject g_device_type = {PyVarObject_HEAD_INIT(nullptr, 0)};
PyTypeObject g_size_type = {PyVarObject_HEAD_INIT(nullptr, 0)};
DTypeBox* g_dtypes[kNumDTypes];
PyObject* g_error;
PyObject* g_out_of_memory;
PyObject* g_connection_lost;

PyObject* DTypeRepr(PyObject* self) {
  const std::string name(DTypeName(reinterpret_cast<DTypeBox*>(self)->dtype));
  return PyUnicode_FromFormat("torch.%s", name.c_str());
}
PyObject* DTypeFloating(PyObject* self, void*) {
  return PyBool_FromLong(IsFloating(reinterpret_cast<DTypeBox*>(self)->dtype));
}
PyObject* DTypeComplex(PyObject*, void*) { Py_RETURN_FALSE; }
PyObject* DTypeSigned(PyObject* self, void*) {
  const DType t = reinterpret_cast<DTypeBox*>(self)->dtype;
  return PyBool_FromLong(t != DType::kBool && t != DType::kUInt8);
}
PyObject* DTypeItemSize(PyObject* self, void*) { return PyLong_FromSize_t(ItemSize(reinterpret_cast<DTypeBox*>(self)->dtype)); }
PyObject* DTypeReduce(PyObject* self, PyObject*) {
  return PyUnicode_FromString(std::string(DTypeName(reinterpret_cast<DTypeBox*>(self)->dtype)).c_str());
}
PyGetSetDef g_dtype_attributes[] = {
    {"is_floating_point", DTypeFloating, nullptr, nullptr, nullptr},
    {"is_complex", DTypeComplex, nullptr, nullptr, nullptr},
    {"is_signed", DTypeSigned, nullptr, nullptr, nullptr},
    {"itemsize", DTypeItemSize, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyMethodDef g_dtype_methods[] = {{"__reduce__", DTypeReduce, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};

std::string DeviceName(int index) {
  Session* session = Session::Existing();
  if (session == nullptr) return index == 0 ? "cpu" : "cuda:" + std::to_string(index - 1);
  const auto& devices = session->description().devices();
  return index < devices.size() ? devices[index].name() : "cpu";
}

PyObject* DeviceNew(PyTypeObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"type", "index", nullptr};
  PyObject* type;
  PyObject* index = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O", const_cast<char**>(names), &type, &index)) return nullptr;
  int found;
  if (index == Py_None) {
    found = DeviceIndexOf(type);
  } else {
    PyObject* text = PyUnicode_FromFormat("%S:%S", type, index);
    if (text == nullptr) return nullptr;
    found = DeviceIndexOf(text);
    Py_DECREF(text);
  }
  return found < 0 ? nullptr : DeviceObject(found);
}
PyObject* DeviceText(PyObject* self) {
  return PyUnicode_FromString(DeviceName(reinterpret_cast<DeviceBox*>(self)->index).c_str());
}
PyObject* DeviceRepr(PyObject* self) {
  const std::string name = DeviceName(reinterpret_cast<DeviceBox*>(self)->index);
  const size_t colon = name.find(':');
  if (colon == std::string::npos) return PyUnicode_FromFormat("device(type='%s')", name.c_str());
  return PyUnicode_FromFormat("device(type='%s', index=%s)", name.substr(0, colon).c_str(), name.substr(colon + 1).c_str());
}
PyObject* DeviceType(PyObject* self, void*) {
  const std::string name = DeviceName(reinterpret_cast<DeviceBox*>(self)->index);
  return PyUnicode_FromString(name.substr(0, name.find(':')).c_str());
}
PyObject* DeviceNumber(PyObject* self, void*) {
  const std::string name = DeviceName(reinterpret_cast<DeviceBox*>(self)->index);
  const size_t colon = name.find(':');
  if (colon == std::string::npos) Py_RETURN_NONE;
  return PyLong_FromString(name.c_str() + colon + 1, nullptr, 10);
}
PyObject* DeviceCompare(PyObject* a, PyObject* b, int op) {
  if (Py_TYPE(b) != &g_device_type || (op != Py_EQ && op != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
  const bool same = reinterpret_cast<DeviceBox*>(a)->index == reinterpret_cast<DeviceBox*>(b)->index;
  return PyBool_FromLong(same == (op == Py_EQ));
}
Py_hash_t DeviceHash(PyObject* self) { return reinterpret_cast<DeviceBox*>(self)->index + 1; }
PyGetSetDef g_device_attributes[] = {
    {"type", DeviceType, nullptr, nullptr, nullptr},
    {"index", DeviceNumber, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyObject* SizeRepr(PyObject* self) {
  PyObject* list = PySequence_List(self);
  if (list == nullptr) return nullptr;
  PyObject* text = PyUnicode_FromFormat("torch.Size(%R)", list);
  Py_DECREF(list);
  return text;
}
PyObject* SizeNumel(PyObject* self, PyObject*) {
  int64_t n = 1;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self); ++i) {
    const long long v = PyLong_AsLongLong(PyTuple_GET_ITEM(self, i));
    if (v == -1 && PyErr_Occurred()) return nullptr;
    n *= v;
  }
  return PyLong_FromLongLong(n);
}
// Slices of a Size are Sizes.
PyObject* SizeItem(PyObject* self, PyObject* index) {
  PyObject* item = PyTuple_Type.tp_as_mapping->mp_subscript(self, index);
  if (item == nullptr || !PySlice_Check(index)) return item;
  PyObject* size = PyObject_CallOneArg(reinterpret_cast<PyObject*>(&g_size_type), item);
  Py_DECREF(item);
  return size;
}
PyMappingMethods g_size_mapping = {nullptr, SizeItem, nullptr};
PyMethodDef g_size_methods[] = {{"numel", SizeNumel, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};

}  // namespace

PyObject* DTypeObject(DType dtype) {
  PyObject* object = reinterpret_cast<PyObject*>(g_dtypes[static_cast<int>(dtype)]);
  Py_INCREF(object);
  return object;
}

bool IsDTypeObject(PyObject* object, DType* out) {
  if (Py_TYPE(object) == &g_dtype_type) {
    *out = reinterpret_cast<DTypeBox*>(object)->dtype;
    return true;
  }
  // Python's own types stand for dtypes too.
  if (object == reinterpret_cast<PyObject*>(&PyFloat_Type)) {
    *out = DType::kFloat64;
  } else if (object == reinterpret_cast<PyObject*>(&PyLong_Type)) {
    *out = DType::kInt64;
  } else if (object == reinterpret_cast<PyObject*>(&PyBool_Type)) {
    *out = DType::kBool;
  } else {
    return false;
  }
  return true;
}

PyObject* NewSize(const Dims& dims) {
  PyObject* size = g_size_type.tp_alloc(&g_size_type, dims.size());
  if (size == nullptr) return nullptr;
  for (int i = 0; i < dims.size(); ++i) PyTuple_SET_ITEM(size, i, PyLong_FromLongLong(dims[i]));
  return size;
}

PyObject* DeviceObject(int index) {
  DeviceBox* box = PyObject_New(DeviceBox, &g_device_type);
  if (box != nullptr) box->index = index;
  return reinterpret_cast<PyObject*>(box);
}

int DeviceIndexOf(PyObject* object) {
  if (Py_TYPE(object) == &g_device_type) return reinterpret_cast<DeviceBox*>(object)->index;
  std::string wanted;
  if (PyUnicode_Check(object)) {
    wanted = TextOf(object);
  } else if (PyLong_Check(object)) {
    wanted = "cuda:" + std::to_string(PyLong_AsLong(object));
  } else {
    PyErr_Format(PyExc_TypeError, "device must be a device, str or int, not %s", Py_TYPE(object)->tp_name);
    return -1;
  }
  if (wanted == "cuda") wanted = "cuda:0";
  if (wanted == "cpu:0") wanted = "cpu";
  Session* session = GetSession();
  if (session == nullptr) return -1;
  const auto& devices = session->description().devices();
  for (int i = 0; i < devices.size(); ++i) {
    if (devices[i].name() == wanted) return i;
  }
  if (wanted.rfind("cuda", 0) == 0) {
    PyErr_Format(g_error, "the server %s has no device '%s'", session->address().c_str(), wanted.c_str());
  } else {
    PyErr_Format(PyExc_RuntimeError, "Expected one of cpu, cuda device type at start of device string: %s", wanted.c_str());
  }
  return -1;
}

PyObject* Raise(const absl::Status& status) {
  // An interrupted wait: what the signal's handler raised.
  if (absl::IsCancelled(status) && PyErr_Occurred() != nullptr) return nullptr;
  const Error error = client::ToError(status);
  PyObject* type = g_error;
  switch (error.kind()) {
    case ErrorKind::kIndex: type = PyExc_IndexError; break;
    case ErrorKind::kType: type = PyExc_TypeError; break;
    case ErrorKind::kValue: type = PyExc_ValueError; break;
    case ErrorKind::kOutOfMemory: type = g_out_of_memory; break;
    case ErrorKind::kConnectionLost: type = g_connection_lost; break;
    default: break;
  }
  PyErr_SetString(type, error.what());
  return nullptr;
}

bool RaiseIfError(const absl::Status& status) {
  if (__builtin_expect(status.ok(), 1)) return false;
  Raise(status);
  return true;
}

// Around a wait of the client: other Python threads run meanwhile, and Ctrl-C ends it.
void AddWaitHooks() {
  client::WaitHooks hooks;
  hooks.pause = [] { return PyGILState_Check() != 0 ? static_cast<void*>(PyEval_SaveThread()) : nullptr; };
  hooks.resume = [](void* state) {
    if (state != nullptr) PyEval_RestoreThread(static_cast<PyThreadState*>(state));
  };
  hooks.interrupted = [] {
    const PyGILState_STATE state = PyGILState_Ensure();
    const bool interrupted = PyErr_CheckSignals() != 0;  // the exception stays set, for Raise
    PyGILState_Release(state);
    return interrupted;
  };
  client::SetWaitHooks(hooks);
}

Session* GetSession() {
  if (Session* session = Session::Existing()) return session;
  absl::StatusOr<Session*> opened = absl::InternalError("");
  Py_BEGIN_ALLOW_THREADS;
  opened = Session::Default();
  Py_END_ALLOW_THREADS;
  if (RaiseIfError(opened.status())) return nullptr;
  return *opened;
}

bool AddErrors(PyObject* module) {
  g_error = PyErr_NewExceptionWithDoc("telensor.TelensorError", "An op, or the server, refused.", PyExc_RuntimeError, nullptr);
  g_out_of_memory = PyErr_NewExceptionWithDoc("telensor.OutOfMemoryError", "The device, or a quota, has no room.", g_error, nullptr);
  PyObject* bases = PyTuple_Pack(2, g_error, PyExc_ConnectionError);
  if (bases == nullptr) return false;
  g_connection_lost = PyErr_NewExceptionWithDoc("telensor.ConnectionLost", "The server is gone, and this session with it.", bases, nullptr);
  Py_DECREF(bases);
  if (g_error == nullptr || g_out_of_memory == nullptr || g_connection_lost == nullptr) return false;
  return PyModule_AddObjectRef(module, "TelensorError", g_error) == 0 &&
         PyModule_AddObjectRef(module, "OutOfMemoryError", g_out_of_memory) == 0 &&
         PyModule_AddObjectRef(module, "ConnectionLost", g_connection_lost) == 0;
}

bool AddDTypes(PyObject* module) {
  g_dtype_type.tp_name = "telensor.dtype";
  g_dtype_type.tp_basicsize = sizeof(DTypeBox);
  g_dtype_type.tp_flags = Py_TPFLAGS_DEFAULT;
  g_dtype_type.tp_repr = DTypeRepr;
  g_dtype_type.tp_getset = g_dtype_attributes;
  g_dtype_type.tp_methods = g_dtype_methods;
  g_device_type.tp_name = "telensor.device";
  g_device_type.tp_basicsize = sizeof(DeviceBox);
  g_device_type.tp_flags = Py_TPFLAGS_DEFAULT;
  g_device_type.tp_new = DeviceNew;
  g_device_type.tp_repr = DeviceRepr;
  g_device_type.tp_str = DeviceText;
  g_device_type.tp_getset = g_device_attributes;
  g_device_type.tp_richcompare = DeviceCompare;
  g_device_type.tp_hash = DeviceHash;
  g_size_type.tp_name = "telensor.Size";
  g_size_type.tp_base = &PyTuple_Type;
  g_size_type.tp_flags = Py_TPFLAGS_DEFAULT;
  g_size_type.tp_repr = SizeRepr;
  g_size_type.tp_methods = g_size_methods;
  g_size_type.tp_as_mapping = &g_size_mapping;
  for (PyTypeObject* type : {&g_dtype_type, &g_device_type, &g_size_type}) {
    if (PyType_Ready(type) < 0) return false;
    const char* name = strrchr(type->tp_name, '.') + 1;
    if (PyModule_AddObjectRef(module, name, reinterpret_cast<PyObject*>(type)) != 0) return false;
  }
  static const std::map<std::string, const char*> kAliases = {
      {"uint8", ""}, {"int16", "short"}, {"int32", "int"}, {"int64", "long"},
      {"float16", "half"}, {"float32", "float"}, {"float64", "double"},
  };
  for (int i = 1; i < kNumDTypes; ++i) {
    DTypeBox* box = PyObject_New(DTypeBox, &g_dtype_type);
    if (box == nullptr) return false;
    box->dtype = static_cast<DType>(i);
    g_dtypes[i] = box;
    const std::string name(DTypeName(box->dtype));
    if (PyModule_AddObjectRef(module, name.c_str(), reinterpret_cast<PyObject*>(box)) != 0) return false;
    auto alias = kAliases.find(name);
    if (alias != kAliases.end() && alias->second[0] != '\0' &&
        PyModule_AddObjectRef(module, alias->second, reinterpret_cast<PyObject*>(box)) != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace telensor::python
