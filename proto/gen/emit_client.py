"""Writes client-cpp/ops.{h,cc}: a typed C++ function for every public row."""

import ast

from table import TableError

ARG_TYPES = {
    "kTensor": "const Tensor&",
    "kTensorOrScalar": "const Operand&",
    "kTensorList": "const std::vector<Tensor>&",
    "kInt": "int64_t",
    "kFloat": "double",
    "kBool": "bool",
    "kScalar": "const Scalar&",
    "kInts": "const IntArray&",
    "kDType": "DType",
    "kDevice": "const Device&",
    "kString": "std::string_view",
}
OPTIONAL_TYPES = {
    "kInt": "std::optional<int64_t>",
    "kFloat": "std::optional<double>",
    "kBool": "std::optional<bool>",
    "kInts": "const OptionalIntArray&",
    "kString": "std::optional<std::string_view>",
}


def arg_type(param):
    return OPTIONAL_TYPES.get(param.type, ARG_TYPES[param.type]) if param.optional else ARG_TYPES[param.type]


def default_cpp(param):
    value = ast.literal_eval(param.default)
    if value is None:
        return {
            "kTensor": "Tensor()", "kScalar": "Scalar()", "kDType": "DType::kNone", "kDevice": "Device()",
        }.get(param.type, "std::nullopt")
    if isinstance(value, bool):
        return "true" if value else "false"
    if param.type == "kString":
        return f'"{value}"'
    return str(value)


def result_type(op):
    if op.returns_list:
        return "std::vector<Tensor>"
    if len(op.outputs) == 1:
        return "Tensor"
    if not op.outputs:
        return "void"
    return "std::tuple<%s>" % ", ".join(["Tensor"] * len(op.outputs))


def public(ops):
    return [op for op in ops if not op.base.startswith("_")]


# Of these, C++ turns one into another, and likes a bool better than what takes a class's constructor.
STRICT = {"kBool": "IfBool", "kInt": "IfInt", "kFloat": "IfFloat"}


def strict_params(op, ops):
    """The numbers whose C++ type tells this overload from another: they take their own kind only."""
    strict = []
    for index, p in enumerate(op.params):
        others = [o.params[index] for o in ops if o.base == op.base and o is not op and index < len(o.params)]
        if p.type in STRICT and not p.optional and any(o.type != p.type for o in others):
            strict.append(index)
    return strict


def numbers_taken(p):
    """The kinds of C++ values, and lists of them, that a parameter of an overload takes from a caller."""
    if p.type == "kInts":
        return {"kInt", "list"}
    if p.type in ("kScalar", "kTensorOrScalar"):
        return {"kBool", "kInt", "kFloat"} | ({"kTensor"} if p.type == "kTensorOrScalar" else set())
    return {p.type}


def check_overloads(ops):
    """Refuses rows of one name that C++ could not tell apart by their arguments, whatever stands there."""
    shown = public(ops)
    for i, a in enumerate(shown):
        for b in shown[i + 1:]:
            if a.base != b.base:
                continue
            required = max(sum(p.default is None for p in op.params) for op in (a, b))
            for n in range(required, min(len(a.params), len(b.params)) + 1):
                pairs = [(a.params[k], b.params[k]) for k in range(n)]
                differ = [(p, q) for p, q in pairs if (p.type, p.optional) != (q.type, q.optional)]
                if any(not numbers_taken(p) & numbers_taken(q) for p, q in differ):
                    continue
                # One parameter that takes its own kind only decides for its overload; two may decide differently.
                exact = {(p.type in STRICT and not p.optional) - (q.type in STRICT and not q.optional) for p, q in differ}
                if differ and (1 in exact) == (-1 in exact):
                    raise TableError(f"{a.name} and {b.name}: C++ can't tell their overloads with {n} arguments apart")


def overload_name(op, inplace):
    return f"{op.cpp_name}{'_' if inplace else ''}"


def signature(op, inplace, defaults, name=None):
    parts = []
    for index, p in enumerate(op.params):
        kind = arg_type(p)
        if inplace and index == 0:
            kind = "const Tensor&"
        text = f"{kind} {p.name}"
        if defaults and p.default is not None:
            text += f" = {default_cpp(p)}"
        parts.append(text)
    name = name or f"{op.base}{'_' if inplace else ''}"
    return f"{'Tensor' if inplace else result_type(op)} {name}({', '.join(parts)})"


def strict_overload(op, inplace, strict):
    """A template in the header, which takes an argument only as what it is, and what it calls."""
    kinds = {index: f"T{index}" for index in strict}
    heads = [f"typename T{i}, {STRICT[op.params[i].type]}<T{i}> = 0" for i in strict]
    parts = []
    for index, p in enumerate(op.params):
        kind = kinds.get(index) or ("const Tensor&" if inplace and index == 0 else arg_type(p))
        default = "" if p.default is None or index in kinds else f" = {default_cpp(p)}"
        parts.append(f"{kind} {p.name}{default}")
    result = "Tensor" if inplace else result_type(op)
    call = f"overloads::{overload_name(op, inplace)}({', '.join(p.name for p in op.params)})"
    return (f"template <{', '.join(heads)}>\n{result} {op.base}{'_' if inplace else ''}({', '.join(parts)}) {{\n"
            f"  return {call};\n}}")


def value_expr(p):
    n = p.name
    if p.optional and p.type in OPTIONAL_TYPES:
        inner = {
            "kInt": f"Value::Int(*{n})", "kFloat": f"Value::Float(*{n})", "kBool": f"Value::Bool(*{n})",
            "kInts": f"Value::Ints({n}->Expanded({p.length}))", "kString": f"Value::String(std::string(*{n}))",
        }[p.type]
        return f"{n} ? {inner} : Value()"
    return {
        "kInt": f"Value::Int({n})",
        "kFloat": f"Value::Float({n})",
        "kBool": f"Value::Bool({n})",
        "kScalar": f"Value::Number({n})",
        "kInts": f"Value::Ints({n}.Expanded({p.length}))",
        "kDType": f"{n} == DType::kNone ? Value() : Value::Type({n})",
        "kDevice": f"{n}.ToValue()",
        "kString": f"Value::String(std::string({n}))",
    }[p.type]


def body(op, inplace):
    lines = []
    if op.list_slot >= 0:
        lines.append("  std::vector<Operand> inputs;")
        for p in op.inputs:
            lines.append(f"  inputs.insert(inputs.end(), {p.name}.begin(), {p.name}.end());" if p.is_list
                         else f"  inputs.emplace_back({p.name});")
        inputs = "inputs.data(), inputs.size()"
    elif op.inputs:
        lines.append(f"  const Operand inputs[] = {{{', '.join(p.name for p in op.inputs)}}};")
        inputs = f"inputs, {len(op.inputs)}"
    else:
        inputs = "nullptr, 0"
    if op.attrs:
        lines.append(f"  const Value attrs[] = {{{', '.join(value_expr(p) for p in op.attrs)}}};")
        attrs = f"attrs, {len(op.attrs)}"
    else:
        attrs = "nullptr, 0"
    call = f"{inputs}, {attrs}"
    op_id = f"ops::{op.cpp_name}"
    if inplace or op.inplace_only:
        lines.append(f"  return client::CallInPlace({op_id}, {call});")
    elif op.returns_list:
        lines.append(f"  return client::Call({op_id}, {call});")
    elif len(op.outputs) == 1:
        lines.append(f"  return client::CallOne({op_id}, {call});")
    else:
        lines.append(f"  std::vector<Tensor> out = client::Call({op_id}, {call});")
        lines.append("  return {%s};" % ", ".join(f"std::move(out[{i}])" for i in range(len(op.outputs))))
    return "\n".join(lines)


def variants(op):
    yield op, False
    if op.row.get("inplace"):
        yield op, True


def emit_client_header(ops):
    out = [
        "// Generated from proto/ops by proto/gen. Do not edit.",
        "//",
        "// The ops of telensor under PyTorch's names. Each sends one command and returns at once; an error of shape,",
        "// dtype or argument throws telensor::Error here. An absent optional tensor is Tensor().",
        "#pragma once", "", "#include <optional>", "#include <string_view>", "#include <tuple>", "#include <vector>", "",
        '#include "client-cpp/tensor.h"', "", "namespace telensor {", "",
    ]
    check_overloads(ops)
    called = [signature(row, inplace, False, overload_name(op, inplace)) + ";"
              for op in public(ops) if strict_params(op, ops) for row, inplace in variants(op)]
    if called:
        out += ["namespace overloads {"] + called + ["}  // namespace overloads", ""]
    for op in public(ops):
        strict = strict_params(op, ops)
        for row, inplace in variants(op):
            out.append(f"// {op.row['doc']}" + (" Written into `self`." if inplace else ""))
            out.append(strict_overload(row, inplace, strict) if strict else signature(row, inplace, True) + ";")
    out += ["", "}  // namespace telensor", ""]
    return "\n".join(out)


def emit_client_source(ops):
    out = [
        "// Generated from proto/ops by proto/gen. Do not edit.",
        '#include "client-cpp/ops.h"', "", '#include "client-cpp/call.h"', '#include "proto/core/op_ids.h"', "",
        "namespace telensor {", "",
    ]
    for op in public(ops):
        for row, inplace in variants(op):
            name = f"overloads::{overload_name(op, inplace)}" if strict_params(op, ops) else None
            out.append(f"{signature(row, inplace, False, name)} {{\n{body(row, inplace)}\n}}\n")
    out += ["}  // namespace telensor", ""]
    return "\n".join(out)
