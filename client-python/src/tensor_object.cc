#include "tensor_object.h"

#include "proto/core/op_ids.h"

namespace telensor::python {
namespace {

// Objects of exactly this type are kept for reuse: a tensor's life is often one expression.
constexpr int kMaxFree = 64;
TensorObject* g_free[kMaxFree];
int g_num_free = 0;

PyObject* TensorNew(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  // torch.Tensor(...): an empty tensor of sizes, or a copy of data, always of the default dtype.
  Session* session = GetSession();
  if (session == nullptr) return nullptr;
  if (kwargs != nullptr && PyDict_Size(kwargs) > 0) {
    PyErr_SetString(PyExc_TypeError, "Tensor() takes no keyword arguments");
    return nullptr;
  }
  const Py_ssize_t n = PyTuple_GET_SIZE(args);
  PyObject* made;
  if (n == 1 && !PyLong_Check(PyTuple_GET_ITEM(args, 0))) {
    made = NewTensor(PyTuple_GET_ITEM(args, 0), session->default_dtype(), session->default_device(), false);
  } else {
    std::vector<int64_t> sizes;
    for (Py_ssize_t i = 0; i < n; ++i) {
      const long long v = PyLong_AsLongLong(PyTuple_GET_ITEM(args, i));
      if (v == -1 && PyErr_Occurred()) return nullptr;
      sizes.push_back(v);
    }
    if (n == 0) sizes.push_back(0);
    const Value attrs[] = {Value::Ints(std::move(sizes))};
    made = CallOp(ops::empty, {}, attrs);
  }
  if (made == nullptr || type == &TensorType) return made;
  TensorObject* self = reinterpret_cast<TensorObject*>(type->tp_alloc(type, 0));
  if (self != nullptr) self->state = std::exchange(reinterpret_cast<TensorObject*>(made)->state, nullptr);
  Py_DECREF(made);
  return reinterpret_cast<PyObject*>(self);
}

void TensorDealloc(PyObject* object) {
  TensorObject* self = reinterpret_cast<TensorObject*>(object);
  if (self->weakrefs != nullptr) PyObject_ClearWeakRefs(object);
  if (self->state != nullptr) self->state->DropRef();
  self->state = nullptr;
  if (Py_TYPE(object) == &TensorType && g_num_free < kMaxFree) {
    g_free[g_num_free++] = self;
    return;
  }
  Py_TYPE(object)->tp_free(object);
}

// `a op b` where at least one is a tensor and the other a tensor or a number.
template <OpId op>
PyObject* Binary(PyObject* a, PyObject* b) {
  Operand operands[2] = {Scalar(), Scalar()};
  PyObject* const objects[2] = {a, b};
  for (int i = 0; i < 2; ++i) {
    if (IsTensor(objects[i])) {
      operands[i].tensor = StateOf(objects[i]);
    } else if (!ToScalar(objects[i], &operands[i].scalar)) {
      Py_RETURN_NOTIMPLEMENTED;
    }
  }
  return CallOp(OpTable::Get().at(op), operands, {}, false);
}

template <OpId op>
PyObject* InPlace(PyObject* a, PyObject* b) {
  Operand operands[2] = {Operand(StateOf(a)), Scalar()};
  if (IsTensor(b)) {
    operands[1].tensor = StateOf(b);
  } else if (!ToScalar(b, &operands[1].scalar)) {
    Py_RETURN_NOTIMPLEMENTED;
  }
  client::TensorRefs results;
  if (RaiseIfError(StateOf(a)->session()->Call(OpTable::Get().at(op), operands, {}, true, &results))) return nullptr;
  Py_INCREF(a);
  return a;
}

template <OpId op>
PyObject* Unary(PyObject* a) {
  const Operand operands[] = {Operand(StateOf(a))};
  return CallOp(OpTable::Get().at(op), operands, {}, false);
}

PyObject* Power(PyObject* a, PyObject* b, PyObject*) { return Binary<ops::pow>(a, b); }
PyObject* InPlacePower(PyObject* a, PyObject* b, PyObject*) { return InPlace<ops::pow>(a, b); }

PyObject* MatMul(PyObject* a, PyObject* b) {
  if (!IsTensor(a) || !IsTensor(b)) Py_RETURN_NOTIMPLEMENTED;
  return Binary<ops::matmul>(a, b);
}

PyObject* Positive(PyObject* a) {
  Py_INCREF(a);
  return a;
}

PyObject* Invert(PyObject* a) { return Unary<ops::bitwise_not>(a); }

int Bool(PyObject* a) {
  TensorState* state = StateOf(a);
  if (state->meta.numel() != 1) {
    PyErr_SetString(PyExc_RuntimeError, state->meta.numel() == 0
                                            ? "Boolean value of Tensor with no values is ambiguous"
                                            : "Boolean value of Tensor with more than one value is ambiguous");
    return -1;
  }
  PyObject* number = ToPythonNumber(state);
  if (number == nullptr) return -1;
  const int truth = PyObject_IsTrue(number);
  Py_DECREF(number);
  return truth;
}

PyObject* Converted(PyObject* a, PyObject* (*convert)(PyObject*)) {
  PyObject* number = ToPythonNumber(StateOf(a));
  if (number == nullptr) return nullptr;
  PyObject* out = convert(number);
  Py_DECREF(number);
  return out;
}
PyObject* Int(PyObject* a) { return Converted(a, PyNumber_Long); }
PyObject* Float(PyObject* a) { return Converted(a, PyNumber_Float); }
PyObject* Index(PyObject* a) {
  const DType t = StateOf(a)->meta.dtype;
  if (IsFloating(t) || StateOf(a)->meta.numel() != 1) {
    PyErr_SetString(PyExc_TypeError, "only integer tensors of a single element can be converted to an index");
    return nullptr;
  }
  return Converted(a, PyNumber_Long);
}

PyObject* Compare(PyObject* a, PyObject* b, int op) {
  switch (op) {
    case Py_EQ:
      if (b == Py_None) Py_RETURN_FALSE;
      return Binary<ops::eq>(a, b);
    case Py_NE:
      if (b == Py_None) Py_RETURN_TRUE;
      return Binary<ops::ne>(a, b);
    case Py_LT: return Binary<ops::lt>(a, b);
    case Py_LE: return Binary<ops::le>(a, b);
    case Py_GT: return Binary<ops::gt>(a, b);
    default: return Binary<ops::ge>(a, b);
  }
}

Py_hash_t Hash(PyObject* a) { return _Py_HashPointer(a); }

Py_ssize_t Length(PyObject* a) {
  const TensorMeta& meta = StateOf(a)->meta;
  if (meta.rank() == 0) {
    PyErr_SetString(PyExc_TypeError, "len() of a 0-d tensor");
    return -1;
  }
  return meta.sizes[0];
}

PyObject* Iterate(PyObject* a) {
  if (StateOf(a)->meta.rank() == 0) {
    PyErr_SetString(PyExc_TypeError, "iteration over a 0-d tensor");
    return nullptr;
  }
  PyObject* pieces = Unary<ops::unbind>(a);
  if (pieces == nullptr) return nullptr;
  PyObject* iterator = PyObject_GetIter(pieces);
  Py_DECREF(pieces);
  return iterator;
}

PyObject* Repr(PyObject* a) {
  PyObject* module = PyImport_ImportModule("telensor._repr");
  if (module == nullptr) return nullptr;
  PyObject* text = PyObject_CallMethod(module, "tensor_repr", "O", a);
  Py_DECREF(module);
  return text;
}

int Contains(PyObject* self, PyObject* value) {
  PyObject* equal = Binary<ops::eq>(self, value);
  if (equal == nullptr) return -1;
  PyObject* any = equal == Py_NotImplemented ? nullptr : Unary<ops::any>(equal);
  Py_DECREF(equal);
  if (any == nullptr) return PyErr_Occurred() ? -1 : 0;
  const int truth = Bool(any);
  Py_DECREF(any);
  return truth;
}

// lint: ops listed here, Python's operators each stand for one op
PyNumberMethods g_number = {};
PyMappingMethods g_mapping = {Length, GetItem, SetItem};
PySequenceMethods g_sequence = {};

}  // namespace

PyTypeObject TensorType = {PyVarObject_HEAD_INIT(nullptr, 0)};

PyObject* Wrap(TensorRef state) {
  TensorObject* self;
  if (g_num_free > 0) {
    self = g_free[--g_num_free];
    PyObject_Init(reinterpret_cast<PyObject*>(self), &TensorType);
  } else {
    self = PyObject_New(TensorObject, &TensorType);
    if (self == nullptr) return nullptr;
  }
  self->state = state.release();
  self->weakrefs = nullptr;
  return reinterpret_cast<PyObject*>(self);
}

PyObject* CallOp(const OpSchema& schema, absl::Span<const Operand> inputs, absl::Span<const Value> attrs, bool in_place) {
  Session* session = nullptr;
  for (const Operand& in : inputs) {
    if (in.tensor != nullptr) {
      session = in.tensor->session();
      break;
    }
  }
  if (session == nullptr) session = GetSession();
  if (session == nullptr) return nullptr;
  client::TensorRefs results;
  if (RaiseIfError(session->Call(schema, inputs, attrs, in_place, &results))) return nullptr;
  if (schema.num_outputs == 1) return Wrap(std::move(results[0]));
  return WrapResults(schema, std::move(results));
}

PyObject* CallOp(OpId op, absl::Span<const Operand> inputs, absl::Span<const Value> attrs, bool in_place) {
  return CallOp(OpTable::Get().at(op), inputs, attrs, in_place);
}

bool ToScalar(PyObject* object, Scalar* out) {
  if (PyFloat_CheckExact(object)) {
    *out = Scalar(PyFloat_AS_DOUBLE(object));
    return true;
  }
  if (PyBool_Check(object)) {
    *out = Scalar(object == Py_True);
    return true;
  }
  if (PyLong_Check(object)) {
    int overflow = 0;
    const long long v = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow != 0) return false;
    *out = Scalar(static_cast<int64_t>(v));
    return true;
  }
  if (PyFloat_Check(object)) {
    *out = Scalar(PyFloat_AsDouble(object));
    return true;
  }
  // NumPy's scalars, but not its arrays, nor text.
  if (PyObject_HasAttrString(object, "shape") && !PySequence_Check(object)) {
    PyNumberMethods* number = Py_TYPE(object)->tp_as_number;
    PyObject* plain = nullptr;
    if (number != nullptr && number->nb_index != nullptr) {
      plain = PyNumber_Index(object);
    } else if (number != nullptr && number->nb_float != nullptr) {
      plain = PyNumber_Float(object);
    }
    if (plain == nullptr) {
      PyErr_Clear();
      return false;
    }
    const bool ok = ToScalar(plain, out);
    Py_DECREF(plain);
    return ok;
  }
  return false;
}

bool AddTensorType(PyObject* module) {
  PyNumberMethods& n = g_number;
  n.nb_add = Binary<ops::add>;
  n.nb_subtract = Binary<ops::sub>;
  n.nb_multiply = Binary<ops::mul>;
  n.nb_true_divide = Binary<ops::div>;
  n.nb_floor_divide = Binary<ops::floor_divide>;
  n.nb_remainder = Binary<ops::remainder>;
  n.nb_power = Power;
  n.nb_matrix_multiply = MatMul;
  n.nb_and = Binary<ops::bitwise_and>;
  n.nb_or = Binary<ops::bitwise_or>;
  n.nb_xor = Binary<ops::bitwise_xor>;
  n.nb_inplace_add = InPlace<ops::add>;
  n.nb_inplace_subtract = InPlace<ops::sub>;
  n.nb_inplace_multiply = InPlace<ops::mul>;
  n.nb_inplace_true_divide = InPlace<ops::div>;
  n.nb_inplace_floor_divide = InPlace<ops::floor_divide>;
  n.nb_inplace_remainder = InPlace<ops::remainder>;
  n.nb_inplace_power = InPlacePower;
  n.nb_inplace_and = InPlace<ops::bitwise_and>;
  n.nb_inplace_or = InPlace<ops::bitwise_or>;
  n.nb_inplace_xor = InPlace<ops::bitwise_xor>;
  n.nb_negative = Unary<ops::neg>;
  n.nb_absolute = Unary<ops::abs>;
  n.nb_positive = Positive;
  n.nb_invert = Invert;
  n.nb_bool = Bool;
  n.nb_int = Int;
  n.nb_float = Float;
  n.nb_index = Index;
  g_sequence.sq_contains = Contains;

  PyTypeObject& t = TensorType;
  t.tp_name = "telensor.Tensor";
  t.tp_doc = "A tensor that lives in a telensor server. Its metadata is known here; reading its values waits.";
  t.tp_basicsize = sizeof(TensorObject);
  t.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
  t.tp_new = TensorNew;
  t.tp_dealloc = TensorDealloc;
  t.tp_weaklistoffset = offsetof(TensorObject, weakrefs);
  t.tp_as_number = &g_number;
  t.tp_as_mapping = &g_mapping;
  t.tp_as_sequence = &g_sequence;
  t.tp_richcompare = Compare;
  t.tp_hash = Hash;
  t.tp_iter = Iterate;
  t.tp_repr = Repr;
  t.tp_methods = kTensorMethods;
  t.tp_getset = kTensorAttributes;
  if (PyType_Ready(&t) < 0) return false;
  Py_INCREF(&t);
  return PyModule_AddObject(module, "Tensor", reinterpret_cast<PyObject*>(&t)) == 0;
}

}  // namespace telensor::python
