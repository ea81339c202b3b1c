// The Python type Tensor: a C type over the client core's TensorState, so that an operator costs no more than it must.
// All functions here need the GIL.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "client-cpp/session.h"

namespace telensor::python {

using client::Session;
using client::TensorRef;
using client::TensorState;

struct TensorObject {
  PyObject_HEAD
  TensorState* state;
  PyObject* weakrefs;
};

extern PyTypeObject TensorType;

inline bool IsTensor(PyObject* object) {
  return Py_TYPE(object) == &TensorType || PyType_IsSubtype(Py_TYPE(object), &TensorType);
}
inline TensorState* StateOf(PyObject* object) { return reinterpret_cast<TensorObject*>(object)->state; }

// A new Tensor object of a result; takes over the reference.
PyObject* Wrap(TensorRef state);
// One tensor, a tuple of them, or for named outputs a named tuple.
PyObject* WrapResults(const OpSchema& schema, client::TensorRefs results);

// Sets a Python exception for an error and returns null.
PyObject* Raise(const absl::Status& status);
bool RaiseIfError(const absl::Status& status);  // true where it raised

// The process's session; null, with an exception, where none can be had.
Session* GetSession();

// One op on operands that were converted already.
PyObject* CallOp(const OpSchema& schema, absl::Span<const Operand> inputs, absl::Span<const Value> attrs, bool in_place);
// The same by name of a row, for the few places that need one op without a Python call.
PyObject* CallOp(OpId op, absl::Span<const Operand> inputs, absl::Span<const Value> attrs, bool in_place = false);

// A number, or a value that converts to one by __index__ or __float__; not a tensor. False, without an exception,
// where it is none.
bool ToScalar(PyObject* object, Scalar* out);

// A str's text; a replacement character where it has half a UTF-16 pair and so no UTF-8. No exception either way.
inline const char* TextOf(PyObject* str) {
  const char* text = PyUnicode_AsUTF8(str);
  if (text != nullptr) return text;
  PyErr_Clear();
  return "\xef\xbf\xbd";
}

// Adds the type, its methods, dtypes, Size and device to the module. False with an exception.
bool AddTensorType(PyObject* module);
bool AddDTypes(PyObject* module);
bool AddOps(PyObject* module);
bool AddErrors(PyObject* module);
void AddWaitHooks();

// dtype objects: one for each DType.
PyObject* DTypeObject(DType dtype);  // new reference
bool IsDTypeObject(PyObject* object, DType* out);
// torch.Size
PyObject* NewSize(const Dims& dims);
// torch.device; text or object to an index, -1 with an exception.
PyObject* DeviceObject(int index);
int DeviceIndexOf(PyObject* object);

// indexing.cc
PyObject* GetItem(PyObject* self, PyObject* index);
int SetItem(PyObject* self, PyObject* index, PyObject* value);

// convert.cc
PyObject* NewTensor(PyObject* data, DType dtype, int device, bool requires_grad);
PyObject* ToPythonNumber(TensorState* tensor);
PyObject* ToList(TensorState* tensor);
PyObject* ToBytes(TensorState* tensor);  // a bytearray
PyObject* ToNumpy(TensorState* tensor);

// reduction of a Python method table that tensor_object.cc adds to the type
extern PyMethodDef kTensorMethods[];
extern PyGetSetDef kTensorAttributes[];

}  // namespace telensor::python
