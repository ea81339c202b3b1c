"""Calls from the op table's `sample` strings, as tensors of real PyTorch and of telensor at once.

A sample is the argument list of a call: `T[2,3], dim=1`. `T` is the dtype under test, `T+` positive, `T1` within
(-1, 1), `T01` within (0, 1); `f32[3]`, `f64[3]`, `b[2]` fix the dtype; `i64[4]<5` draws indices below 5. Later
arguments may name the tensors before them: in `T[2,3], T[2], t0.amax(1)` t0 is the first.
"""

import re

import numpy
import torch

DTYPES = {
    "float": ["float32", "float64", "float16", "bfloat16"],
    "number": ["float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8"],
    "all": ["float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"],
    "int_bool": ["int64", "int32", "int16", "int8", "uint8", "bool"],
}
FIXED = {"f32": "float32", "f64": "float64", "i64": "int64", "b": "bool"}
TENSOR = re.compile(r"(T01|T1|T\+|T|f64\+|f32|f64|i64|b)\[([\d,]*)\](?:<(\d+))?")


class Call:
    """One call: `text` with tensors replaced by names, and the arrays behind the names."""

    def __init__(self, sample, dtype, seed=0):
        self.random = numpy.random.default_rng(seed)
        self.arrays = {}
        self.dtype = dtype
        self.text = TENSOR.sub(self._tensor, sample)

    def _tensor(self, match):
        kind, sizes, below = match.groups()
        shape = tuple(int(s) for s in sizes.split(",") if s)
        name = f"t{len(self.arrays)}"
        dtype = FIXED.get(kind.rstrip("+"), self.dtype)
        if below:
            values = self.random.integers(0, int(below), shape)
        elif dtype == "bool":
            values = self.random.integers(0, 2, shape).astype(bool)
        elif "float" in dtype:
            values = self.random.standard_normal(shape)
            if kind.endswith("+"):
                values = numpy.abs(values) + 0.5
            elif kind == "T1":
                values = numpy.tanh(values) * 0.9
            elif kind == "T01":
                values = self.random.uniform(0.1, 0.9, shape)
        else:
            low = 1 if kind.endswith("+") or dtype == "uint8" else -5
            values = self.random.integers(low, 6, shape)
            if kind.endswith("+"):
                values = numpy.abs(values)
        self.arrays[name] = (torch.from_numpy(numpy.ascontiguousarray(values)).reshape(shape).to(getattr(torch, dtype)))
        return name

    def arguments(self, convert):
        """(args, kwargs) with every tensor made by `convert`."""
        return self.arguments_of({name: convert(value) for name, value in self.arrays.items()})

    def arguments_of(self, tensors):
        """(args, kwargs) with the given tensors, by their names."""
        namespace = {name: name for name in ("float64", "int64", "int32")}
        namespace |= {"inf": float("inf"), "call": lambda *args, **kwargs: (args, kwargs)}
        return eval(f"call({self.text})", {**namespace, **tensors})  # the table's own text, not a peer's


def draws(row):
    """Whether an op's results are random."""
    return row["random"] or row["base_name"] == "dropout"


def cases(rows):
    """(row, dtype, sample) for every sample of every row whose results are the same each time."""
    for row in rows:
        if draws(row) or not row["samples"]:
            continue
        for dtype in DTYPES.get(row["dtypes"], ["int64"]):
            for sample in row["samples"].split("\n"):
                yield row, dtype, sample
