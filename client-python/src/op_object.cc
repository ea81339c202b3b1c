// Op objects: the table's ops as Python callables, as functions and as methods, with PyTorch's ways of giving arguments.
#include <cstring>
#include <map>
#include <string>

#include "tensor_object.h"

namespace telensor::python {
namespace {

struct OpObject {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  const std::vector<const OpSchema*>* overloads;  // tried in order
  const char* name;
  bool in_place;
};
PyTypeObject g_op_type = {PyVarObject_HEAD_INIT(nullptr, 0)};
std::map<const OpSchema*, PyTypeObject*>* g_result_types;

// One attempt to read a call's arguments as one overload's.
class Binding {
 public:
  explicit Binding(const OpSchema& schema) : schema_(schema) {}

  // False where the arguments do not fit; `why` says so, and no exception is set unless one came from Python code.
  bool Read(PyObject* const* args, Py_ssize_t n, PyObject* kwnames);
  const std::string& why() const { return why_; }
  const std::vector<Operand>& inputs() const { return inputs_; }
  const std::vector<Value>& attrs() const { return attrs_; }
  bool requires_grad() const { return requires_grad_; }

 private:
  bool Fail(std::string why) {
    if (why_.empty()) why_ = std::move(why);
    return false;
  }
  bool Wrong(const Param& param, PyObject* got) {
    return Fail(std::string(schema_.base_name) + "(): argument '" + param.name + "' must be " + TypeName(param) + ", not " +
                Py_TYPE(got)->tp_name);
  }
  static std::string TypeName(const Param& param);
  bool ReadTensor(const Param& param, PyObject* object);
  bool ReadAttr(const Param& param, PyObject* object);
  bool ReadInts(const Param& param, PyObject* object);
  bool IgnoredKeyword(const char* name, PyObject* value);

  const OpSchema& schema_;
  std::string why_;
  std::vector<Operand> inputs_;
  std::vector<Value> attrs_;
  bool requires_grad_ = false;
};

std::string Binding::TypeName(const Param& param) {
  switch (param.type) {
    case ParamType::kTensor: return "Tensor";
    case ParamType::kTensorOrScalar: return "Tensor or Number";
    case ParamType::kTensorList: return "tuple of Tensors";
    case ParamType::kInt: return "int";
    case ParamType::kFloat: return "float";
    case ParamType::kBool: return "bool";
    case ParamType::kScalar: return "Number";
    case ParamType::kInts: return "tuple of ints";
    case ParamType::kDType: return "torch.dtype";
    case ParamType::kDevice: return "torch.device";
    default: return "str";
  }
}

bool ReadInt(PyObject* object, int64_t* out) {
  if (PyBool_Check(object) || PyFloat_Check(object)) return false;
  if (!PyLong_Check(object) && !PyIndex_Check(object)) return false;
  PyObject* number = PyNumber_Index(object);
  if (number == nullptr) {
    PyErr_Clear();
    return false;
  }
  int overflow = 0;
  *out = PyLong_AsLongLongAndOverflow(number, &overflow);
  Py_DECREF(number);
  return overflow == 0;
}

bool Binding::ReadTensor(const Param& param, PyObject* object) {
  if (param.type == ParamType::kTensorList) {
    if (IsTensor(object) || PyUnicode_Check(object)) return Wrong(param, object);
    PyObject* items = PySequence_Fast(object, "");
    if (items == nullptr) {
      PyErr_Clear();
      return Wrong(param, object);
    }
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items); ++i) {
      PyObject* item = PySequence_Fast_GET_ITEM(items, i);
      if (IsTensor(item)) {
        inputs_.emplace_back(StateOf(item));
      } else if (param.optional && item == Py_None) {
        inputs_.emplace_back(Scalar());
      } else {
        Py_DECREF(items);
        return Fail("expected Tensor as element " + std::to_string(i) + " in argument '" + param.name + "', but got " +
                    Py_TYPE(item)->tp_name);
      }
    }
    // The caller's argument keeps the elements alive: a sequence that is not a list or tuple was copied here.
    const bool borrowed = items == object;
    Py_DECREF(items);
    return borrowed || Fail("a list or tuple of tensors is needed");
  }
  if (IsTensor(object)) {
    inputs_.emplace_back(StateOf(object));
    return true;
  }
  if (object == Py_None && param.optional) {
    inputs_.emplace_back(Scalar());
    return true;
  }
  Scalar number;
  if (param.type == ParamType::kTensorOrScalar && ToScalar(object, &number)) {
    inputs_.emplace_back(number);
    return true;
  }
  return Wrong(param, object);
}

bool Binding::ReadInts(const Param& param, PyObject* object) {
  int64_t one;
  if (ReadInt(object, &one)) {
    attrs_.push_back(Value::Ints(std::vector<int64_t>(std::max<int>(param.length, 1), one)));
    return true;
  }
  if (PyUnicode_Check(object) || IsTensor(object)) return Wrong(param, object);
  PyObject* items = PySequence_Fast(object, "");
  if (items == nullptr) {
    PyErr_Clear();
    return Wrong(param, object);
  }
  std::vector<int64_t> values(PySequence_Fast_GET_SIZE(items));
  bool ok = true;
  for (size_t i = 0; i < values.size() && ok; ++i) ok = ReadInt(PySequence_Fast_GET_ITEM(items, i), &values[i]);
  Py_DECREF(items);
  if (!ok) return Wrong(param, object);
  if (param.length > 0 && values.size() == 1) values.assign(param.length, values[0]);
  if (param.length > 0 && values.size() != static_cast<size_t>(param.length)) {
    return Fail(std::string(schema_.base_name) + "(): argument '" + param.name + "' must have " +
                std::to_string(param.length) + " elements");
  }
  attrs_.push_back(Value::Ints(std::move(values)));
  return true;
}

bool Binding::ReadAttr(const Param& param, PyObject* object) {
  if (object == Py_None) {
    if (!param.optional) return Wrong(param, object);
    attrs_.emplace_back();
    return true;
  }
  Scalar number;
  int64_t integer;
  DType dtype;
  switch (param.type) {
    case ParamType::kInt:
      if (!ReadInt(object, &integer)) return Wrong(param, object);
      attrs_.push_back(Value::Int(integer));
      return true;
    case ParamType::kFloat:
      if (IsTensor(object) || !ToScalar(object, &number)) return Wrong(param, object);
      attrs_.push_back(Value::Float(number.f));
      return true;
    case ParamType::kBool:
      if (!PyBool_Check(object)) return Wrong(param, object);
      attrs_.push_back(Value::Bool(object == Py_True));
      return true;
    case ParamType::kScalar:
      if (IsTensor(object) && StateOf(object)->meta.rank() == 0) {
        // A 0-dim tensor stands for its value; reading it waits.
        PyObject* value = ToPythonNumber(StateOf(object));
        const bool ok = value != nullptr && ToScalar(value, &number);
        Py_XDECREF(value);
        if (!ok) return Wrong(param, object);
      } else if (IsTensor(object) || !ToScalar(object, &number)) {
        return Wrong(param, object);
      }
      attrs_.push_back(Value::Number(number));
      return true;
    case ParamType::kInts: return ReadInts(param, object);
    case ParamType::kDType:
      if (!IsDTypeObject(object, &dtype)) return Wrong(param, object);
      attrs_.push_back(Value::Type(dtype));
      return true;
    case ParamType::kDevice: {
      const int device = DeviceIndexOf(object);
      if (device < 0) return false;
      attrs_.push_back(Value::Device(device));
      return true;
    }
    case ParamType::kString:
      if (!PyUnicode_Check(object)) return Wrong(param, object);
      attrs_.push_back(Value::String(TextOf(object)));
      return true;
    default: return Wrong(param, object);
  }
}

bool Binding::IgnoredKeyword(const char* name, PyObject* value) {
  const std::string_view key(name);
  if (key == "requires_grad" && schema_.num_inputs == 0) {
    requires_grad_ = PyObject_IsTrue(value) == 1;
    return true;
  }
  // Accepted where it asks for nothing: telensor has one layout and no out-variants.
  return (key == "memory_format" || key == "layout" || key == "pin_memory" || key == "non_blocking" || key == "generator" ||
          key == "out" || key == "size_average" || key == "reduce") &&
         (value == Py_None || key == "pin_memory" || key == "non_blocking" || key == "memory_format");
}

bool Binding::Read(PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  const Py_ssize_t keywords = kwnames != nullptr ? PyTuple_GET_SIZE(kwnames) : 0;
  uint64_t used = 0;  // keywords taken by a parameter
  Py_ssize_t next = 0;
  inputs_.reserve(schema_.num_inputs);
  attrs_.reserve(schema_.num_attrs);
  for (int i = 0; i < schema_.num_params; ++i) {
    const Param& param = schema_.params[i];
    PyObject* given = nullptr;
    if (next < n && !param.keyword_only) {
      int64_t probe;
      if (param.variadic && ReadInt(args[next], &probe)) {
        // Separate numbers up to the end, as in view(2, -1).
        std::vector<int64_t> values;
        while (next < n && ReadInt(args[next], &probe)) {
          values.push_back(probe);
          ++next;
        }
        attrs_.push_back(Value::Ints(std::move(values)));
        continue;
      }
      given = args[next++];
    } else {
      for (Py_ssize_t k = 0; k < keywords && given == nullptr; ++k) {
        const char* key = TextOf(PyTuple_GET_ITEM(kwnames, k));
        const bool match = std::strcmp(key, param.name) == 0 ||
                           (i == 0 && (std::strcmp(key, "input") == 0 || std::strcmp(key, "self") == 0)) ||
                           (std::strcmp(param.name, "dim") == 0 && std::strcmp(key, "axis") == 0) ||
                           (std::strcmp(param.name, "keepdim") == 0 && std::strcmp(key, "keepdims") == 0);
        if (!match) continue;
        given = args[n + k];
        used |= uint64_t{1} << k;
      }
    }
    if (given == nullptr) {
      if (param.default_literal < 0) {
        if (param.variadic && next >= n) {  // randn(): no sizes are the sizes of a 0-dim tensor
          attrs_.push_back(Value::Ints(std::vector<int64_t>()));
          continue;
        }
        return Fail(std::string(schema_.base_name) + "() missing 1 required positional argument: \"" + param.name + "\"");
      }
      const Value& value = OpTable::Get().literal(param.default_literal);
      if (!IsTensorType(param.type)) {
        attrs_.push_back(value);
      } else if (param.type != ParamType::kTensorList) {
        inputs_.emplace_back(value.scalar());
      }
      continue;
    }
    if (!(IsTensorType(param.type) ? ReadTensor(param, given) : ReadAttr(param, given))) return false;
  }
  if (next < n) {
    return Fail(std::string(schema_.base_name) + "() takes " + std::to_string(schema_.num_params) +
                " positional arguments but " + std::to_string(n) + " were given");
  }
  for (Py_ssize_t k = 0; k < keywords; ++k) {
    if (used >> k & 1) continue;
    const char* key = TextOf(PyTuple_GET_ITEM(kwnames, k));
    if (!IgnoredKeyword(key, args[n + k])) {
      return Fail(std::string(schema_.base_name) + "() got an unexpected keyword argument '" + key + "'");
    }
  }
  return true;
}

PyObject* CallOpObject(PyObject* callable, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  const OpObject* op = reinterpret_cast<OpObject*>(callable);
  const Py_ssize_t n = PyVectorcall_NARGS(nargsf);
  std::string why;
  for (const OpSchema* schema : *op->overloads) {
    Binding binding(*schema);
    if (!binding.Read(args, n, kwnames)) {
      if (PyErr_Occurred()) return nullptr;
      if (why.empty()) why = binding.why();
      continue;
    }
    PyObject* result = CallOp(*schema, binding.inputs(), binding.attrs(), op->in_place);
    if (result == nullptr) return nullptr;
    if (op->in_place || schema->inplace_only) {
      // The object itself, which may be of a class of the user's.
      Py_DECREF(result);
      Py_INCREF(args[0]);
      return args[0];
    }
    if (n > 0 && IsTensor(args[0]) && IsTensor(result) && StateOf(result) == StateOf(args[0])) {
      // Nothing was to be done: the argument itself, as `x.contiguous() is x`.
      Py_DECREF(result);
      return Py_NewRef(args[0]);
    }
    if (binding.requires_grad() && RaiseIfError(StateOf(result)->session()->SetRequiresGrad(StateOf(result), true))) {
      Py_DECREF(result);
      return nullptr;
    }
    return result;
  }
  PyErr_SetString(PyExc_TypeError, why.c_str());
  return nullptr;
}

PyObject* BindOp(PyObject* self, PyObject* object, PyObject*) {
  if (object == nullptr) {
    Py_INCREF(self);
    return self;
  }
  return PyMethod_New(self, object);
}

PyObject* OpName(PyObject* self, void*) { return PyUnicode_FromString(reinterpret_cast<OpObject*>(self)->name); }
PyObject* OpDoc(PyObject* self, void*) {
  std::string doc;
  for (const OpSchema* schema : *reinterpret_cast<OpObject*>(self)->overloads) {
    doc += std::string(schema->signature) + "\n\n" + schema->doc + "\n\n";
  }
  return PyUnicode_FromString(doc.c_str());
}
PyObject* OpRepr(PyObject* self) {
  return PyUnicode_FromFormat("<telensor op %s>", reinterpret_cast<OpObject*>(self)->name);
}
PyGetSetDef g_op_attributes[] = {
    {"__name__", OpName, nullptr, nullptr, nullptr},
    {"__qualname__", OpName, nullptr, nullptr, nullptr},
    {"__doc__", OpDoc, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyObject* NewOpObject(const std::vector<const OpSchema*>* overloads, const char* name, bool in_place) {
  OpObject* op = PyObject_New(OpObject, &g_op_type);
  if (op == nullptr) return nullptr;
  op->vectorcall = CallOpObject;
  op->overloads = overloads;
  op->name = name;
  op->in_place = in_place;
  return reinterpret_cast<PyObject*>(op);
}

bool HasWord(const char* words, std::string_view word) {
  std::string_view rest(words);
  while (!rest.empty()) {
    const size_t space = rest.find(' ');
    if (rest.substr(0, space) == word) return true;
    rest = space == std::string_view::npos ? "" : rest.substr(space + 1);
  }
  return false;
}

// A rows' named results, as torch.return_types.max.
PyTypeObject* ResultType(const OpSchema& schema) {
  if (g_result_types == nullptr) g_result_types = new std::map<const OpSchema*, PyTypeObject*>();
  PyTypeObject*& type = (*g_result_types)[&schema];
  if (type != nullptr) return type;
  std::vector<PyStructSequence_Field> fields;
  for (int i = 0; i < schema.num_outputs; ++i) fields.push_back({schema.output_names[i], nullptr});
  fields.push_back({nullptr, nullptr});
  char* name = strdup(("telensor.return_types." + std::string(schema.base_name)).c_str());
  PyStructSequence_Desc description = {name, nullptr, fields.data(), schema.num_outputs};
  type = PyStructSequence_NewType(&description);
  return type;
}

}  // namespace

PyObject* WrapResults(const OpSchema& schema, client::TensorRefs results) {
  if (schema.num_outputs == 0) Py_RETURN_NONE;
  PyObject* out;
  if (schema.output_names != nullptr) {
    PyTypeObject* type = ResultType(schema);
    out = type != nullptr ? PyStructSequence_New(type) : nullptr;
  } else {
    out = PyTuple_New(static_cast<Py_ssize_t>(results.size()));
  }
  if (out == nullptr) return nullptr;
  for (size_t i = 0; i < results.size(); ++i) {
    PyObject* item = Wrap(std::move(results[i]));
    if (item == nullptr) {
      Py_DECREF(out);
      return nullptr;
    }
    if (schema.output_names != nullptr) {
      PyStructSequence_SetItem(out, static_cast<Py_ssize_t>(i), item);
    } else {
      PyTuple_SET_ITEM(out, static_cast<Py_ssize_t>(i), item);
    }
  }
  return out;
}

bool AddOps(PyObject* module) {
  g_op_type.tp_name = "telensor.Op";
  g_op_type.tp_basicsize = sizeof(OpObject);
  g_op_type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR;
  g_op_type.tp_vectorcall_offset = offsetof(OpObject, vectorcall);
  g_op_type.tp_call = PyVectorcall_Call;
  g_op_type.tp_descr_get = BindOp;
  g_op_type.tp_getset = g_op_attributes;
  g_op_type.tp_repr = OpRepr;
  if (PyType_Ready(&g_op_type) < 0) return false;

  // Overloads share a base name; the table's order, by name, puts the plain one first.
  std::map<std::string, std::vector<const OpSchema*>> names;
  const OpTable& table = OpTable::Get();
  for (int i = 0; i < table.size(); ++i) {
    const OpSchema& schema = table.at(i);
    names[schema.base_name].push_back(&schema);
    std::string_view aliases(schema.aliases);
    while (!aliases.empty()) {
      const size_t space = aliases.find(' ');
      names[std::string(aliases.substr(0, space))].push_back(&schema);
      aliases = space == std::string_view::npos ? "" : aliases.substr(space + 1);
    }
  }
  PyObject* functional = PyModule_New("telensor._core.functional");
  PyObject* internal = PyDict_New();  // every row by its own name, for _op
  if (functional == nullptr || internal == nullptr) return false;
  const auto add = [&](const std::string& name, const std::vector<const OpSchema*>& overloads, bool in_place) {
    const auto* kept = new std::vector<const OpSchema*>(overloads);
    PyObject* op = NewOpObject(kept, strdup(name.c_str()), in_place);
    if (op == nullptr) return false;
    bool ok = true;
    const char* api = kept->front()->api;
    if (HasWord(api, "method") && PyDict_GetItemString(TensorType.tp_dict, name.c_str()) == nullptr) {
      ok = ok && PyDict_SetItemString(TensorType.tp_dict, name.c_str(), op) == 0;
    }
    if (HasWord(api, "torch") && (!in_place || kept->front()->has_inplace)) {
      ok = ok && PyModule_AddObjectRef(module, name.c_str(), op) == 0;
    }
    if (HasWord(api, "F")) ok = ok && PyModule_AddObjectRef(functional, name.c_str(), op) == 0;
    Py_DECREF(op);
    return ok;
  };
  for (const auto& [name, overloads] : names) {
    // Overloads that Python shows; a row may be internal beside them.
    std::vector<const OpSchema*> shown, in_place;
    for (const OpSchema* schema : overloads) {
      if (std::strcmp(schema->api, "none") != 0) shown.push_back(schema);
      if (schema->has_inplace && std::strcmp(schema->api, "none") != 0) in_place.push_back(schema);
    }
    if (!shown.empty() && !add(name, shown, false)) return false;
    if (!in_place.empty() && !add(name + "_", in_place, true)) return false;
    PyObject* op = NewOpObject(new std::vector<const OpSchema*>(overloads), strdup(name.c_str()), false);
    if (op == nullptr || PyDict_SetItemString(internal, name.c_str(), op) != 0) return false;
    Py_DECREF(op);
  }
  PyType_Modified(&TensorType);
  return PyModule_AddObject(module, "functional", functional) == 0 && PyModule_AddObject(module, "_ops", internal) == 0;
}

}  // namespace telensor::python
