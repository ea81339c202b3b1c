// The module telensor._core: the Tensor type, the table's ops, and the session's functions.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "proto/core/shape_util.h"
#include "tensor_object.h"

namespace nb = nanobind;

namespace telensor::python {
namespace {

void Check(const absl::Status& status) {
  if (RaiseIfError(status)) throw nb::python_error();
}

Session& Current() {
  Session* session = GetSession();
  if (session == nullptr) throw nb::python_error();
  return *session;
}

TensorState* Unwrap(nb::handle object, const char* what) {
  if (!IsTensor(object.ptr())) throw nb::type_error(what);
  return StateOf(object.ptr());
}

nb::object Steal(PyObject* object) {
  if (object == nullptr) throw nb::python_error();
  return nb::steal(object);
}

DType AsDType(nb::handle object) {
  DType dtype = DType::kNone;
  if (!object.is_none() && !IsDTypeObject(object.ptr(), &dtype)) throw nb::type_error("dtype must be a torch.dtype");
  return dtype;
}

int AsDevice(nb::handle object) {
  if (object.is_none()) return -1;
  const int index = DeviceIndexOf(object.ptr());
  if (index < 0) throw nb::python_error();
  return index;
}

nb::object MakeTensor(nb::handle data, nb::handle dtype, nb::handle device, bool requires_grad, bool pin_memory) {
  return Steal(NewTensor(data.ptr(), AsDType(dtype), AsDevice(device), requires_grad));
}

nb::object AsTensor(nb::handle data, nb::handle dtype, nb::handle device) {
  if (IsTensor(data.ptr())) {
    nb::object out = nb::borrow(data);
    return (dtype.is_none() && device.is_none()) ? out : out.attr("to")(nb::arg("dtype") = dtype, nb::arg("device") = device);
  }
  return Steal(NewTensor(data.ptr(), AsDType(dtype), AsDevice(device), false));
}

nb::object RebuildTensor(nb::bytes data, std::vector<int64_t> sizes, const std::string& dtype, bool requires_grad) {
  TensorMeta meta;
  meta.dtype = DTypeFromName(dtype);
  absl::StatusOr<Dims> checked = CheckedSizes(sizes);
  Check(checked.status());
  meta.sizes = *checked;
  meta.device = static_cast<DeviceIndex>(Current().default_device());
  if (!IsValid(meta.dtype) || meta.bytes() != static_cast<int64_t>(data.size())) throw nb::value_error("the bytes do not fit the sizes");
  absl::StatusOr<TensorRef> tensor = Current().FromHost(data.c_str(), meta);
  Check(tensor.status());
  if (requires_grad) Check(Current().SetRequiresGrad(tensor->get(), true));
  return Steal(Wrap(*std::move(tensor)));
}

nb::list AutogradGrad(nb::sequence outputs, nb::sequence inputs, nb::object grad_outputs, bool retain_graph,
                      bool create_graph, bool allow_unused) {
  std::vector<TensorState*> roots, gradients, wanted;
  for (nb::handle t : outputs) roots.push_back(Unwrap(t, "outputs must be tensors"));
  for (nb::handle t : inputs) wanted.push_back(Unwrap(t, "inputs must be tensors"));
  if (!grad_outputs.is_none()) {
    for (nb::handle t : grad_outputs) gradients.push_back(t.is_none() ? nullptr : Unwrap(t, "grad_outputs must be tensors or None"));
  }
  gradients.resize(roots.size(), nullptr);
  std::vector<TensorRef> results;
  Check(Current().Grad(roots, gradients, wanted, retain_graph, create_graph, allow_unused, &results));
  nb::list out;
  for (TensorRef& r : results) out.append(r ? Steal(Wrap(std::move(r))) : nb::none());
  return out;
}

nb::object InternalOp(nb::handle name, nb::args args, nb::kwargs kwargs) {
  static PyObject* ops = PyObject_GetAttrString(PyImport_AddModule("telensor._core"), "_ops");
  PyObject* op = PyDict_GetItemWithError(ops, name.ptr());
  if (op == nullptr) throw nb::key_error("no such op");
  return Steal(PyObject_Call(op, args.ptr(), kwargs.ptr()));
}

nb::dict SessionStats() {
  nb::dict out;
  client::BatcherStats stats;
  if (Session* session = Session::Existing()) stats = session->stats();
  out["ops"] = stats.commands;
  out["batches"] = stats.batches;
  out["blocked_round_trips"] = stats.waits;
  return out;
}

nb::dict Status() {
  absl::StatusOr<v1::GetStatusResponse> response = absl::InternalError("");
  Session& session = Current();
  {
    nb::gil_scoped_release release;
    response = session.GetStatus();
  }
  Check(response.status());
  nb::dict memory, own, out;
  for (const v1::Stat& stat : response->memory()) memory[stat.name().c_str()] = stat.value();
  for (const v1::Stat& stat : response->session()) own[stat.name().c_str()] = stat.value();
  nb::list devices, backends;
  for (const v1::Device& device : response->devices()) {
    nb::dict d;
    d["name"] = device.name();
    d["description"] = device.description();
    d["total_memory"] = device.total_memory();
    devices.append(d);
  }
  for (const std::string& backend : response->backends()) backends.append(nb::str(backend.c_str()));
  out["address"] = session.address();
  out["version"] = response->version();
  out["uptime_s"] = response->uptime_s();
  out["devices"] = devices;
  out["backends"] = backends;
  out["memory"] = memory;
  out["session"] = own;
  return out;
}

void Connect(const std::string& address) {
  absl::StatusOr<Session*> opened = absl::InternalError("");
  {
    nb::gil_scoped_release release;
    opened = Session::Open(address);
  }
  Check(opened.status());
}

void Synchronize() {
  absl::Status status;
  Session& session = Current();
  {
    nb::gil_scoped_release release;
    status = session.Synchronize();
  }
  Check(status);
}

}  // namespace

NB_MODULE(_core, m) {
  PyObject* module = m.ptr();
  if (!AddErrors(module) || !AddDTypes(module) || !AddTensorType(module) || !AddOps(module)) throw nb::python_error();
  AddWaitHooks();
  m.def("connect", &Connect, nb::arg("address") = "");
  m.def("synchronize", &Synchronize, "Waits until everything sent so far is done.");
  m.def("_set_hints", &Session::SetHints);
  m.def("tensor", &MakeTensor, nb::arg("data"), nb::kw_only(), nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none(),
        nb::arg("requires_grad") = false, nb::arg("pin_memory") = false);
  m.def("as_tensor", &AsTensor, nb::arg("data"), nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none());
  m.def("from_numpy", [](nb::handle array) { return Steal(NewTensor(array.ptr(), DType::kNone, -1, false)); });
  m.def("_rebuild_tensor", &RebuildTensor);
  m.def("manual_seed", [](uint64_t seed) { Check(Current().Seed(seed)); });
  m.def("is_tensor", [](nb::handle object) { return IsTensor(object.ptr()); });
  m.def("get_default_dtype", [] {
    Session* session = Session::Existing();
    return Steal(DTypeObject(session != nullptr ? session->default_dtype() : DType::kFloat32));
  });
  m.def("set_default_dtype", [](nb::handle dtype) { Check(Current().SetDefaultDType(AsDType(dtype))); });
  m.def("_set_grad_enabled", [](bool on) {
    const bool before = client::GradEnabled();
    client::SetGradEnabled(on);
    return before;
  });
  m.def("_grad_enabled", &client::GradEnabled);
  m.def("_autograd_grad", &AutogradGrad, nb::arg("outputs"), nb::arg("inputs"), nb::arg("grad_outputs") = nb::none(),
        nb::arg("retain_graph") = false, nb::arg("create_graph") = false, nb::arg("allow_unused") = false);
  m.def("_op", &InternalOp);
  m.def("_session_stats", &SessionStats);
  m.def("_status", &Status);
  m.def("_devices", [] {
    nb::list out;
    for (const v1::Device& device : Current().description().devices()) out.append(nb::str(device.name().c_str()));
    return out;
  });
  m.def("_default_device", [] { return Steal(DeviceObject(Current().default_device())); });
  m.def("_op_rows", [] {
    // The table as Python sees it: tests are made from it.
    nb::list out;
    const OpTable& table = OpTable::Get();
    for (int i = 0; i < table.size(); ++i) {
      const OpSchema& s = table.at(i);
      nb::dict row;
      row["name"] = s.name;
      row["base_name"] = s.base_name;
      row["signature"] = s.signature;
      row["api"] = s.api;
      row["dtypes"] = s.dtypes;
      row["samples"] = s.samples;
      row["inplace"] = s.has_inplace;
      row["differentiable"] = s.differentiable;
      nb::list params, differentiable_inputs;
      for (int p = 0; p < s.num_params; ++p) params.append(s.params[p].name);
      for (int slot = 0; slot < s.num_inputs; ++slot) {
        if (s.differentiable_inputs >> slot & 1) differentiable_inputs.append(s.input_params[slot]->name);
      }
      // A row's own gradient formula is that of its first result; those of a composite and of a list know all.
      row["first_result_only"] = s.num_grads > 0 && !s.returns_list;
      row["params"] = params;
      row["differentiable_inputs"] = differentiable_inputs;
      row["random"] = s.kind == OpKind::kRandom;
      out.append(row);
    }
    return out;
  });
}

}  // namespace telensor::python
