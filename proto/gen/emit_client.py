"""Writes client-cpp/ops.{h,cc}: a typed C++ function for every public row."""

import ast

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
    "kInts": "const std::optional<IntArray>&",
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


def signature(op, inplace, defaults):
    parts = []
    for index, p in enumerate(op.params):
        kind = arg_type(p)
        if inplace and index == 0:
            kind = "const Tensor&"
        text = f"{kind} {p.name}"
        if defaults and p.default is not None:
            text += f" = {default_cpp(p)}"
        parts.append(text)
    return f"{'Tensor' if inplace else result_type(op)} {op.base}{'_' if inplace else ''}({', '.join(parts)})"


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
    for op in public(ops):
        for row, inplace in variants(op):
            out.append(f"// {op.row['doc']}" + (" Written into `self`." if inplace else ""))
            out.append(signature(row, inplace, True) + ";")
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
            out.append(f"{signature(row, inplace, False)} {{\n{body(row, inplace)}\n}}\n")
    out += ["}  // namespace telensor", ""]
    return "\n".join(out)
