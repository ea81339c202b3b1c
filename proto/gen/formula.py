"""Compiles formulas with Python's ast into the flat expressions of proto/core/expr.h.

Names, arities and kinds are checked here, so that a misspelt op fails the build and not a user's backward.
"""

import ast
import re

from table import TableError

BINARY = {ast.Add: "kAdd", ast.Sub: "kSubtract", ast.Mult: "kMultiply", ast.Div: "kDivide", ast.FloorDiv: "kFloorDivide"}
COMPARE = {
    ast.Eq: "kEqual", ast.NotEq: "kNotEqual", ast.Lt: "kLess", ast.LtE: "kLessEqual", ast.Gt: "kGreater",
    ast.GtE: "kGreaterEqual",
}


def read_helpers(expr_header):
    """The names of enum class Helper, as formulas spell them."""
    with open(expr_header, encoding="utf-8") as file:
        body = re.search(r"enum class Helper[^{]*\{(.*?)\};", file.read(), re.S).group(1)
    names = re.findall(r"^\s*k(\w+),", body, re.M)
    return {re.sub(r"(?<!^)(?=[A-Z])", "_", n).lower(): "k" + n for n in names}


class Pool:
    """The expressions, arguments and literals of all formulas of the table."""

    def __init__(self, ops, helpers):
        self.ops = {op.name: op for op in ops}
        self.helpers = helpers
        self.exprs, self.args, self.literals, self._literal_index = [], [], [], {}
        self.forward = {}  # by op name: what compile_forward made

    def literal(self, value):
        key = (type(value).__name__, repr(value))
        if key not in self._literal_index:
            self._literal_index[key] = len(self.literals)
            self.literals.append(value)
        return self._literal_index[key]

    def add(self, kind, a=0, args=()):
        first = len(self.args)
        self.args.extend(args)
        self.exprs.append((kind, a, first, len(args)))
        return len(self.exprs) - 1

    def parse_default(self, text):
        """A parameter's default, as a literal."""
        value = ast.literal_eval(text)
        return self.literal(list(value) if isinstance(value, (list, tuple)) else value)


    def param_default(self, param):
        """A parameter's default in the form its type has: [0, 0] for int[2] = 0, 1.0 for float = 1."""
        value = ast.literal_eval(param.default)
        if param.type == "kInts" and isinstance(value, int):
            value = [value] * max(param.length, 1)
        if param.type == "kFloat" and isinstance(value, int):
            value = float(value)
        return self.literal(list(value) if isinstance(value, (list, tuple)) else value)


class Compiler:
    """One formula of one op. `gradient` says that `grad` is what comes in, not a parameter of that name."""

    def __init__(self, pool, op, gradient):
        self.pool, self.op, self.gradient = pool, op, gradient
        self.lets = {}
        self.let_exprs = []
        self.saved_inputs = self.meta_inputs = self.saved_outputs = self.meta_outputs = 0

    def fail(self, message):
        raise TableError(f"{self.op.name}: {message}")

    def compile(self, text):
        try:
            body = ast.parse("\n".join(line.strip() for line in text.strip().splitlines())).body
        except SyntaxError as error:
            self.fail(f"cannot read the formula '{text}': {error}")
        for statement in body[:-1]:
            if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
                self.fail("all lines of a formula but the last must be 'name = expression'")
            value = self.visit(statement.value)
            self.lets[statement.targets[0].id] = len(self.let_exprs)
            self.let_exprs.append(value)
        if not isinstance(body[-1], ast.Expr):
            self.fail("a formula must end in an expression")
        return self.visit(body[-1].value)

    def visit(self, node, meta=False):
        add = self.pool.add
        match node:
            case ast.Name(id=name):
                return self.name(name, meta)
            case ast.Constant(value=value):
                return add("kLiteral", self.pool.literal(value))
            case ast.List(elts=items):
                return add("kList", 0, [self.visit(i) for i in items])
            case ast.Tuple(elts=items):
                return add("kTuple", 0, [self.visit(i) for i in items])
            case ast.UnaryOp(op=ast.USub(), operand=value):
                return add("kNegate", 0, [self.visit(value)])
            case ast.UnaryOp(op=ast.Not(), operand=value):
                return add("kNot", 0, [self.visit(value)])
            case ast.BinOp(left=left, op=op, right=right) if type(op) in BINARY:
                return add(BINARY[type(op)], 0, [self.visit(left), self.visit(right)])
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in COMPARE:
                # A comparison with None only asks whether something was given.
                none = isinstance(right, ast.Constant) and right.value is None
                return add(COMPARE[type(op)], 0, [self.visit(left, meta=none), self.visit(right)])
            case ast.BoolOp(op=op, values=values):
                kind = "kAnd" if isinstance(op, ast.And) else "kOr"
                out = self.visit(values[0])
                for value in values[1:]:
                    out = add(kind, 0, [out, self.visit(value)])
                return out
            case ast.IfExp(test=test, body=then, orelse=other):
                return add("kCondition", 0, [self.visit(test), self.visit(then), self.visit(other)])
            case ast.Subscript(value=ast.Call() as call, slice=ast.Constant(value=int(index))):
                return add("kItem", index, [self.visit(call)])
            case ast.Call(func=func, args=args, keywords=keywords):
                return self.call(ast.unparse(func), args, keywords)
        self.fail(f"a formula cannot hold '{ast.unparse(node)}'")

    def name(self, name, meta):
        add = self.pool.add
        if name in self.lets:
            return add("kLet", self.lets[name])
        if name == "inf":
            return add("kLiteral", self.pool.literal(float("inf")))
        if self.gradient:
            if name == "grads":
                return add("kGrad", -1)
            if name == "grad":
                return add("kGrad", 0)
            if name == "grad0":
                name = "grad"
            outputs = {"result": 0} if self.op.outputs == [None] else {n: i for i, n in enumerate(self.op.outputs)}
            if name in outputs:
                if meta:
                    self.meta_outputs |= 1 << outputs[name]
                else:
                    self.saved_outputs |= 1 << outputs[name]
                return add("kOutput", outputs[name])
        param = self.op.by_name.get(name)
        if param is None:
            self.fail(f"unknown name '{name}'")
        if not param.is_tensor:
            return add("kAttr", param.slot)
        if meta:
            self.meta_inputs |= 1 << param.slot
        else:
            self.saved_inputs |= 1 << param.slot
        return add("kInput", param.slot)

    def call(self, name, args, keywords):
        if name in self.pool.ops:
            op = self.pool.ops[name]
            if not (name in self.pool.helpers and not args):
                return self.op_call(op, args, keywords)
        if name not in self.pool.helpers:
            self.fail(f"no op or helper named '{name}'")
        if keywords:
            self.fail(f"helper {name} takes no keywords")
        meta = name != "value_of"
        helper = "static_cast<int>(Helper::%s)" % self.pool.helpers[name]
        return self.pool.add("kHelper", helper, [self.visit(a, meta=meta) for a in args])

    def op_call(self, op, args, keywords):
        if len(args) > len(op.params):
            self.fail(f"{op.name} takes {len(op.params)} arguments, not {len(args)}")
        given = dict(zip((p.name for p in op.params), args))
        for keyword in keywords:
            if keyword.arg not in op.by_name or keyword.arg in given:
                self.fail(f"{op.name} has no further argument '{keyword.arg}'")
            given[keyword.arg] = keyword.value
        out = []
        for param in op.params:
            if param.name in given:
                node = given[param.name]
                if param.type in ("kTensor", "kTensorList") and isinstance(node, ast.Constant) and node.value is not None:
                    self.fail(f"{op.name}: {param.name} must be a tensor")
                out.append(self.visit(node))
            elif param.default is not None:
                out.append(self.pool.add("kLiteral", self.pool.param_default(param)))
            else:
                self.fail(f"{op.name}: argument '{param.name}' is missing")
        return self.pool.add("kCall", op.id, out)


def compile_forward(pool, op):
    """(Compiler, root) of a row's formula, compiled once."""
    if op.name not in pool.forward:
        compiler = Compiler(pool, op, gradient=False)
        pool.forward[op.name] = (compiler, compiler.compile(op.row["formula"]))
    return pool.forward[op.name]


def compile_grads(pool, op):
    """[(input slots, Compiler, root)] of a row; every tensor input needs a formula or an explicit none."""
    grad = op.row.get("grad")
    if grad is None or grad == "none":
        return []
    grads, covered = [], set()
    for key, text in grad.items():
        names = [n.strip() for n in key.split(",")]
        for name in names:
            param = op.by_name.get(name)
            if param is None or not param.is_tensor:
                raise TableError(f"{op.name}: grad of '{name}', which is no tensor parameter")
            covered.add(name)
        if text == "none":
            continue
        compiler = Compiler(pool, op, gradient=True)
        root = compiler.compile(text)
        grads.append(([op.by_name[n].slot for n in names], compiler, root))
    missing = [p.name for p in op.inputs if p.name not in covered]
    if missing:
        raise TableError(f"{op.name}: no gradient and no explicit \"none\" for {missing}")
    return grads


def differentiable_inputs(pool, ops):
    """{op name: bits of the input slots that a gradient can flow into}, through formulas of formulas."""
    known = {}

    def of(op):
        if op.name in known:
            return known[op.name]
        grad = op.row.get("grad")
        if isinstance(grad, dict):
            slots = 0
            for key, text in grad.items():
                for name in key.split(","):
                    slots |= 0 if text == "none" else 1 << op.by_name[name.strip()].slot
        elif grad == "none" or "formula" not in op.row:
            slots = 0
        else:
            compiler, root = compile_forward(pool, op)
            slots = flow(root, compiler.let_exprs)
        known[op.name] = slots
        return slots

    def flow(index, lets):
        kind, a, first, count = pool.exprs[index]
        args = pool.args[first:first + count]
        if kind == "kInput":
            return 1 << a
        if kind == "kLet":
            return flow(lets[a], lets)
        if kind == "kCondition":
            args = args[1:]  # the test only looks at it
        elif kind == "kCall":
            op = ops[a]
            slots = of(op)
            args = [arg for arg, param in zip(args, op.params) if param.is_tensor and slots >> param.slot & 1]
        elif kind not in ("kList", "kTuple", "kItem"):
            return 0
        mask = 0
        for arg in args:
            mask |= flow(arg, lets)
        return mask

    return {op.name: of(op) for op in ops}
