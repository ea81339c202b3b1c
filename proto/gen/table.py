"""Reads the op table: rows of TOML into Op objects, with every name, arity and kind checked."""

import pathlib
import re
import tomllib

TENSOR_TYPES = {"Tensor": "kTensor", "Tensor|Scalar": "kTensorOrScalar"}
ATTR_TYPES = {
    "int": "kInt",
    "float": "kFloat",
    "bool": "kBool",
    "Scalar": "kScalar",
    "dtype": "kDType",
    "device": "kDevice",
    "str": "kString",
}
ROW_FIELDS = {
    "signature", "doc", "shape", "dtype", "grad", "formula", "fused", "kind", "kernel", "elementwise",
    "inplace", "mutates", "aliases", "api", "dtypes", "sample",
}


class TableError(Exception):
    """A row that can't be right; the message names the row."""


class Param:
    def __init__(self, text, keyword_only):
        match = re.fullmatch(r"(\S+) (\w+)(?:=(.+))?", text)
        if not match:
            raise TableError(f"cannot read the parameter '{text}'")
        kind, self.name, default = match.groups()
        self.keyword_only = keyword_only
        self.variadic = kind == "int..."
        self.length = 0
        self.is_list = False
        self.optional = kind.endswith("?")
        bare = kind.rstrip("?")
        if bare in ("Tensor[]", "Tensor?[]"):
            self.type, self.is_list, self.optional = "kTensorList", True, bare == "Tensor?[]"
        elif bare in TENSOR_TYPES:
            self.type = TENSOR_TYPES[bare]
        elif match_ints := re.fullmatch(r"int(?:\[(\d*)\]|\.\.\.)", bare):
            self.type = "kInts"
            self.length = int(match_ints.group(1) or 0)
        elif bare in ATTR_TYPES:
            self.type = ATTR_TYPES[bare]
        else:
            raise TableError(f"unknown type '{kind}'")
        self.is_tensor = self.type in ("kTensor", "kTensorOrScalar", "kTensorList")
        self.default = default
        self.slot = -1


class Op:
    def __init__(self, name, row):
        self.name, self.row = name, row
        unknown = set(row) - ROW_FIELDS
        if unknown:
            raise TableError(f"{name}: unknown fields {sorted(unknown)}")
        for field in ("signature", "doc", "shape", "dtype"):
            if field not in row:
                raise TableError(f"{name}: no {field}")
        self.base = name.split(".")[0]
        self.cpp_name = name.replace(".", "_")
        self.signature = row["signature"]
        match = re.fullmatch(r"(\w+)\((.*)\) -> (.+)", self.signature)
        if not match or match.group(1) != self.base:
            raise TableError(f"{name}: the signature must read '{self.base}(...) -> ...'")
        self.params = self._read_params(match.group(2))
        self._read_returns(match.group(3))
        self.inputs = [p for p in self.params if p.is_tensor]
        self.attrs = [p for p in self.params if not p.is_tensor]
        for group in (self.inputs, self.attrs):
            for slot, param in enumerate(group):
                param.slot = slot
        lists = [p for p in self.inputs if p.is_list]
        if len(lists) > 1:
            raise TableError(f"{name}: at most one list of tensors")
        self.list_slot = lists[0].slot if lists else -1
        self.kind = row.get("kind", "kernel")
        # `copy_` writes and returns its first input; a row without results (a fused step) only has `mutates`.
        self.inplace_only = self.base.endswith("_") and self.outputs == [None]
        self.api = row.get("api", "none" if self.base.startswith("_") else "torch method")
        self.kernel = self._kernel()
        self.by_name = {p.name: p for p in self.params}
        if self.kind not in ("kernel", "view", "random"):
            raise TableError(f"{name}: unknown kind '{self.kind}'")
        if "grad" not in row and "formula" not in row:
            raise TableError(f"{name}: needs grad (or an explicit \"none\") or a formula")

    def _read_params(self, text):
        params, keyword_only = [], False
        for part in filter(None, (p.strip() for p in _split(text))):
            if part == "*":
                keyword_only = True
            else:
                try:
                    params.append(Param(part, keyword_only))
                except TableError as error:
                    raise TableError(f"{self.name}: {error}") from None
        names = [p.name for p in params]
        if len(set(names)) != len(names):
            raise TableError(f"{self.name}: a parameter is named twice")
        return params

    def _read_returns(self, text):
        self.returns_list = text == "Tensor[]"
        if self.returns_list:
            self.outputs = []
        elif text == "Tensor":
            self.outputs = [None]
        else:
            match = re.fullmatch(r"\((.*)\)", text)
            if not match:
                raise TableError(f"{self.name}: cannot read the result '{text}'")
            self.outputs = [p.split()[1] for p in match.group(1).split(",") if p.strip()]

    def _kernel(self):
        if self.kind == "view":
            return None
        named = self.row.get("kernel")
        if named is None and "formula" in self.row and "grad" not in self.row and not self.row.get("fused"):
            return None
        if named is None and "formula" in self.row and not self.row.get("fused"):
            return None  # creation rows with a formula and grad = "none"
        return None if named == "none" else named or self.name


def _split(text):
    """Splits at commas outside brackets and quotes."""
    depth, start, quoted = 0, 0, False
    for i, c in enumerate(text):
        if c == "'":
            quoted = not quoted
        elif not quoted and c in "[(":
            depth += 1
        elif not quoted and c in "])":
            depth -= 1
        elif c == "," and depth == 0 and not quoted:
            yield text[start:i]
            start = i + 1
    yield text[start:]


def read_table(folder):
    """All rows of folder/*.toml, in the order of their names: that order is the op id."""
    rows = {}
    for path in sorted(pathlib.Path(folder).glob("*.toml")):
        with open(path, "rb") as file:
            for name, row in tomllib.load(file).items():
                if name in rows:
                    raise TableError(f"{name}: two rows")
                rows[name] = row
    ops = [Op(name, rows[name]) for name in sorted(rows)]
    for index, op in enumerate(ops):
        op.id = index
    return ops
