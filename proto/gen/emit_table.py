"""Writes op_table.cc and op_ids.h: the table as constant data."""

import hashlib
import json
import re

from formula import compile_forward, compile_grads, differentiable_inputs
from table import TableError, _split


def quoted(text):
    return json.dumps(text, ensure_ascii=True)


def literal_cpp(value):
    if value is None:
        return "Value()"
    if isinstance(value, bool):
        return f"Value::Bool({'true' if value else 'false'})"
    if isinstance(value, int):
        return f"Value::Int({value})"
    if isinstance(value, float):
        if value == float("inf"):
            return "Value::Float(std::numeric_limits<double>::infinity())"
        return f"Value::Float({value!r})"
    if isinstance(value, str):
        return f"Value::String({quoted(value)})"
    return "Value::Ints(std::vector<int64_t>{%s})" % ", ".join(map(str, value))


def fingerprint(ops):
    text = "\n".join(f"{op.id} {op.name} {op.signature}" for op in ops)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


class Emitter:
    def __init__(self, ops, pool, rules):
        self.ops, self.pool, self.rules = ops, pool, rules
        self.lines = []

    def rule(self, op, text, kind):
        match = re.fullmatch(r"(\w+)\((.*)\)", text)
        if not match:
            raise TableError(f"{op.name}: cannot read the rule '{text}'")
        name, args = match.groups()
        function = ("Shape" if kind == "shape" else "DType") + "".join(p.capitalize() for p in name.split("_"))
        if function not in self.rules:
            raise TableError(f"{op.name}: no {kind} rule '{name}' (wanted {function} in proto/core)")
        out = []
        for arg in filter(None, (a.strip() for a in _split(args))):
            param = op.by_name.get(arg)
            if param is not None:
                out.append("{RuleArg::%s, %d}" % ("kInput" if param.is_tensor else "kAttr", param.slot))
            else:
                try:
                    out.append("{RuleArg::kLiteral, %d}" % self.pool.parse_default(arg))
                except (ValueError, SyntaxError):
                    raise TableError(f"{op.name}: rule argument '{arg}' is no parameter") from None
        return f"rules::{function}", out

    def rules_of(self, op, kind):
        texts = op.row[kind]
        texts = texts if isinstance(texts, list) else [texts]
        if len(texts) not in (1, max(1, len(op.outputs))):
            raise TableError(f"{op.name}: {len(texts)} {kind} rules for {len(op.outputs)} outputs")
        rows = []
        for index, text in enumerate(texts):
            function, args = self.rule(op, text, kind)
            array = "nullptr"
            if args:
                array = f"k_{op.cpp_name}_{kind}{index}"
                self.lines.append(f"constexpr RuleArg {array}[] = {{{', '.join(args)}}};")
            rows.append(f"{{{function}, {array}, {len(args)}}}")
        name = f"k_{op.cpp_name}_{kind}"
        self.lines.append(f"constexpr Rule {name}[] = {{{', '.join(rows)}}};")
        return name, len(texts)

    def formula(self, name, compiler, root):
        lets = "nullptr"
        if compiler.let_exprs:
            lets = f"k_{name}_lets"
            self.lines.append(f"constexpr int16_t {lets}[] = {{{', '.join(map(str, compiler.let_exprs))}}};")
        return f"{{{lets}, {len(compiler.let_exprs)}, {root}}}"

    def row(self, op):
        n = op.cpp_name
        flag = lambda b: "true" if b else "false"
        params = []
        for p in op.params:
            default = -1 if p.default is None else self.pool.param_default(p)
            params.append(
                f"{{{quoted(p.name)}, ParamType::{p.type}, {p.slot}, {p.length}, {flag(p.optional)}, "
                f"{flag(p.keyword_only)}, {flag(p.variadic)}, {default}}}")
        if params:
            self.lines.append(f"constexpr Param k_{n}_params[] = {{{', '.join(params)}}};")
        arrays = {}
        for group, members in (("attr", op.attrs), ("input", op.inputs)):
            arrays[group] = "nullptr"
            if members:
                arrays[group] = f"k_{n}_{group}s"
                items = ", ".join(f"&k_{n}_params[{op.params.index(p)}]" for p in members)
                self.lines.append(f"constexpr const Param* {arrays[group]}[] = {{{items}}};")
        names = "nullptr"
        if op.outputs and op.outputs[0]:
            names = f"k_{n}_outputs"
            self.lines.append(f"constexpr const char* {names}[] = {{{', '.join(map(quoted, op.outputs))}}};")
        shape, num_shape = self.rules_of(op, "shape")
        dtype, num_dtype = self.rules_of(op, "dtype")
        forward = "{}"
        if "formula" in op.row:
            forward = self.formula(n, *compile_forward(self.pool, op))
        grads = compile_grads(self.pool, op)
        grads_name = "nullptr"
        if grads:
            rows = []
            for index, (slots, compiler, root) in enumerate(grads):
                mask = sum(1 << s for s in slots)
                rows.append(
                    f"{{{self.formula(f'{n}_grad{index}', compiler, root)}, {mask}u, {compiler.saved_inputs}u, "
                    f"{compiler.meta_inputs}u, {compiler.saved_outputs}u, {compiler.meta_outputs}u}}")
            grads_name = f"k_{n}_grads"
            self.lines.append(f"constexpr GradFormula {grads_name}[] = {{{', '.join(rows)}}};")
        mutates = sum(1 << op.by_name[m].slot for m in op.row.get("mutates", []))
        kind = {"kernel": "kKernel", "view": "kView", "random": "kRandom"}[op.kind]
        differentiable = op.row.get("grad") != "none"
        return (
            f"{{{op.id}, {quoted(op.name)}, {quoted(op.base)}, {quoted(op.signature)}, {quoted(op.row['doc'])}, "
            f"{quoted(op.api)}, {quoted(' '.join(op.row.get('aliases', [])))}, {quoted(op.row.get('dtypes', ''))}, "
            f"{quoted(chr(10).join(op.row.get('sample', [])))}, {quoted(op.kernel) if op.kernel else 'nullptr'}, "
            f"OpKind::{kind}, {flag(op.row.get('elementwise'))}, {flag(op.row.get('inplace'))}, "
            f"{flag(op.inplace_only)}, {flag(op.row.get('fused'))}, {flag(op.returns_list)}, {flag(differentiable)}, "
            f"{len(op.inputs)}, {op.list_slot}, {len(op.attrs)}, {-1 if op.returns_list else len(op.outputs)}, "
            f"{mutates}u, {self.flows[op.name]}u, {f'k_{n}_params' if params else 'nullptr'}, {len(params)}, {arrays['attr']}, {arrays['input']}, "
            f"{names}, {shape}, {dtype}, {num_shape}, {num_dtype}, {forward}, {grads_name}, {len(grads)}}}")

    def emit(self):
        self.flows = differentiable_inputs(self.pool, self.ops)
        rows = [self.row(op) for op in self.ops]
        exprs = ",\n".join(
            f"    {{ExprKind::{k}, {a}, {first}, {count}}}" for k, a, first, count in self.pool.exprs)
        literals = ",\n".join("      " + literal_cpp(v) for v in self.pool.literals)
        body = "\n".join(self.lines)
        table = ",\n".join("      " + r for r in rows)
        return f"""// Generated from proto/ops by proto/gen. Do not edit.
#include <limits>

#include "proto/core/meta_rules.h"
#include "proto/core/op_schema.h"

namespace telensor {{
namespace {{
{body}
constexpr Expr kExprs[] = {{
{exprs}
}};
constexpr int16_t kExprArgs[] = {{{", ".join(map(str, self.pool.args))}}};
}}  // namespace

class OpTableBuilder {{
 public:
  static void Fill(OpTable* table) {{
    table->schemas_ = {{
{table}
    }};
    table->literals_ = {{
{literals}
    }};
    table->exprs_ = kExprs;
    table->expr_args_ = kExprArgs;
    table->fingerprint_ = {fingerprint(self.ops)}u;
  }}
  static OpTable* Build() {{
    auto* table = new OpTable();
    Fill(table);
    return table;
  }}
}};

const OpTable& OpTable::Get() {{
  static const OpTable* const table = OpTableBuilder::Build();  // never destroyed: used until the process ends
  return *table;
}}

}}  // namespace telensor
"""


def emit_ids(ops):
    ids = "\n".join(f"inline constexpr OpId {op.cpp_name}{'_op' if op.cpp_name in CPP_WORDS else ''} = {op.id};" for op in ops)
    return f"""// Generated from proto/ops by proto/gen. Do not edit.
#pragma once

#include "proto/core/op_schema.h"

namespace telensor::ops {{

{ids}

}}  // namespace telensor::ops
"""


CPP_WORDS = {"and", "or", "xor", "not", "where_", "register"}
