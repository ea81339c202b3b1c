"""Every pointwise op of the table on the edges of every dtype, against real PyTorch: NaN, infinities, zeros of both
signs, subnormal numbers, the least and the largest, division by zero, powers, remainders, conversions."""

import itertools

import pytest
import telensor
import telensor._core as core
import torch
from conftest import to_telensor, to_torch
from samples import DTYPES, draws
from test_ops import flat, telensor_function, torch_function

INF, NAN = float("inf"), float("nan")
FLOATS = [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -2.5, 2.0, 3.0, -7.0, 1e-5, 100.0, -100.0]
LIMITS = {"float16": [6e-8, 65504.0], "bfloat16": [1e-40, 3.3895e38], "float32": [1e-40, 3.4028e38],
          "float64": [5e-324, 1.797e308]}


def special(dtype):
    t = getattr(torch, dtype)
    if dtype == "bool":
        return torch.tensor([False, True])
    if t.is_floating_point:
        extremes = LIMITS[dtype]
        return torch.tensor(FLOATS + extremes + [-x for x in extremes], dtype=t)
    info = torch.iinfo(t)
    values = [0, 1, 2, 3, 7, info.max, info.max - 1] + ([-1, -2, -7, info.min, info.min + 1] if info.min < 0 else [])
    return torch.tensor(values, dtype=t)


def call(function, module, *args):
    """The results, or the error."""
    try:
        results = flat(function(*args))
        if module is telensor:
            results = [to_torch(r) for r in results]
        return results
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError, ZeroDivisionError) as error:
        return error


NARROW = (torch.float16, torch.bfloat16)


def like(tensor):
    """The same values in telensor; transposed in memory where the tensor is not dense."""
    if tensor.dim() < 2 or tensor.is_contiguous():
        return to_telensor(tensor)
    return to_telensor(tensor.transpose(-1, -2)).transpose(-1, -2)


def compare(function, *args, atol=None, mine=None):
    """Results of torch and telensor for the same tensors and numbers, errors included."""
    want = call(function, torch, *[a.clone() if torch.is_tensor(a) else a for a in args])
    if isinstance(want, Exception) and "not implemented for '" in str(want) and any(
            torch.is_tensor(a) and a.dtype in NARROW for a in args):
        narrow = next(a.dtype for a in args if torch.is_tensor(a) and a.dtype in NARROW)
        wide = call(function, torch, *[a.float() if torch.is_tensor(a) and a.dtype in NARROW else a for a in args])
        want = wide if isinstance(wide, Exception) else [w.to(narrow) if w.dtype == torch.float32 else w for w in wide]
    got = call(mine or function, telensor, *[like(a) if torch.is_tensor(a) else a for a in args])
    if isinstance(want, Exception) or isinstance(got, Exception):
        both = isinstance(want, Exception) and isinstance(got, Exception)
        assert both, f"torch: {want!r:.150}, telensor: {got!r:.150}"
        return
    assert len(got) == len(want)
    for g, w in zip(got, want):
        assert g.dtype == w.dtype and g.shape == w.shape, (g.dtype, w.dtype, g.shape, w.shape)
        close = {torch.float16: 2e-3, torch.bfloat16: 2e-2, torch.float32: 1e-5, torch.float64: 1e-9}.get(w.dtype, 0)
        if w.dtype.is_floating_point:
            # A subnormal number has few digits.
            floor = 3 * torch.finfo(w.dtype).tiny * 1e-6 if atol is None else atol
            torch.testing.assert_close(g.double(), w.double(), rtol=close, atol=floor, equal_nan=True)
            zeros = (w == 0) & (g == 0)
            assert (torch.signbit(g) == torch.signbit(w))[zeros].all(), "zeros of another sign"
        else:
            assert (g == w).all(), (g, w)


def rows_like(*shapes):
    """Public rows whose tensors are these parameters, and all else is optional."""
    for row in core._op_rows():
        parameters = row["signature"].partition("(")[2].rpartition(") ->")[0].replace("*, ", "").split(", ")
        kinds = [p.split()[0] for p in parameters]
        if (tuple(kinds[:len(shapes)]) == shapes and all("=" in p for p in parameters[len(shapes):])
                and row["api"] != "none" and not draws(row) and not row["name"].endswith(("_", "_like"))
                and row["name"] not in ("linear", "binary_cross_entropy", "sort", "argsort") and torch_function(row)):
            yield row


UNARY = [(r, d) for r in rows_like("Tensor") for d in DTYPES.get(r["dtypes"], [])]


# Where telensor is nearer to the exact value: torch loses gelu's sign of zero, subnormal numbers and the largest in
# log1p, and remainders whose quotient overflows.
def comparable(row, *tensors):
    if row["name"] == "gelu":
        return tensors[0] >= 0.5
    if row["name"] == "log1p":
        size = tensors[0].double().abs()
        return (size == 0) | ~(size < 1e-30) & ~(size > 1e38) | size.isinf()
    if row["name"] in ("fmod", "remainder", "floor_divide") and tensors[0].is_floating_point():
        a, b = tensors
        return (b == 0) | ~a.isfinite() | (a / b).isfinite() & ~(b.abs() < 1e-30)
    return torch.ones_like(tensors[0], dtype=torch.bool)


@pytest.mark.parametrize("row,dtype", UNARY, ids=[f"{r['name']}-{d}" for r, d in UNARY])
def test_unary(row, dtype):
    values = special(dtype)
    compare(torch_function(row), values[comparable(row, values)], mine=telensor_function(row))


OPERAND = "Tensor|Scalar"
BINARY = [(r, d) for r in [*rows_like(OPERAND, OPERAND), *rows_like("Tensor", "Tensor")]
          for d in DTYPES.get(r["dtypes"], [])]


@pytest.mark.parametrize("row,dtype", BINARY, ids=[f"{r['name']}-{d}" for r, d in BINARY])
def test_binary(row, dtype):
    values = special(dtype)
    a, b = (t.reshape(-1) for t in torch.meshgrid(values, values, indexing="ij"))
    if not values.is_floating_point() and dtype != "bool":
        least = torch.iinfo(values.dtype).min
        if row["name"] in ("floor_divide", "remainder", "fmod", "pow"):
            # Zero divisors and negative exponents have tests of their own; min / -1 overflows.
            keep = (b > 0) & ((b < 8) | (row["name"] != "pow"))
            a, b = a[keep], b[keep]
    keep = comparable(row, a, b)
    a, b = a[keep], b[keep]
    if row["name"] == "masked_select":
        b = b != 0  # torch takes bytes for a mask, if they are 0 and 1
    compare(torch_function(row), a, b, mine=telensor_function(row))
    if row in list(rows_like(OPERAND, OPERAND)) and not row["name"].startswith("logical"):
        for number in (0, 1, 2, -1, 3, 2.5, -0.5, 0.0, INF, -INF, NAN, True, False):
            # Integers: torch ends the process at min / -1, and converts what has no integer value in some way.
            if not values.is_floating_point() and (number in (0, -1, INF, -INF) or number != number):
                continue
            # torch's pow takes the square root of 32 bits and more, which knows no -inf; telensor's always.
            some = values[values > 0] if row["name"] == "pow" and values.dtype in NARROW else values
            compare(torch_function(row), some, number, mine=telensor_function(row))


INTEGER_DIVISIONS = ["floor_divide", "remainder", "fmod"]


@pytest.mark.parametrize("dtype", DTYPES["int_bool"][:-1])
@pytest.mark.parametrize("name", INTEGER_DIVISIONS)
def test_integer_division_by_zero_is_an_error(name, dtype):
    a = torch.tensor([1, 2, 3], dtype=getattr(torch, dtype))
    b = torch.tensor([1, 0, 3], dtype=getattr(torch, dtype))
    compare(getattr(torch, name), a, b, mine=getattr(telensor, name))
    compare(getattr(torch, name), a, 0, mine=getattr(telensor, name))


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_the_least_integer_by_minus_one(dtype):
    """torch ends the process here; the quotient wraps as in numpy, and nothing is left over."""
    least = torch.iinfo(getattr(torch, dtype)).min
    for minus_one in (-1, telensor.tensor([-1], dtype=getattr(telensor, dtype))):
        x = telensor.tensor([least], dtype=getattr(telensor, dtype))
        assert telensor.floor_divide(x, minus_one).tolist() == [least]
        assert telensor.div(x, minus_one, rounding_mode="trunc").tolist() == [least]
        assert telensor.remainder(x, minus_one).tolist() == [0]
        assert telensor.fmod(x, minus_one).tolist() == [0]


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8"])
def test_powers_of_integers(dtype):
    t = getattr(torch, dtype)
    base = torch.tensor([0, 1, 2, 3, 5, 7] + ([-1, -2, -3] if t != torch.uint8 else []), dtype=t)
    exponents = torch.tensor([0, 1, 2, 3, 7, 40, 63, 64, 100], dtype=t)
    a, b = (x.reshape(-1) for x in torch.meshgrid(base, exponents, indexing="ij"))
    compare(torch.pow, a, b, mine=telensor.pow)
    if t != torch.uint8:
        kept = base[base != 0]
        pairs = torch.meshgrid(kept, -exponents[:5], indexing="ij")
        compare(torch.pow, *(x.reshape(-1) for x in pairs), mine=telensor.pow)
    compare(torch.pow, base, -1, mine=telensor.pow)
    compare(torch.pow, base, 0.5, mine=telensor.pow)


CONVERSIONS = list(itertools.product(DTYPES["all"], DTYPES["all"]))


@pytest.mark.parametrize("source,target", CONVERSIONS, ids=["-".join(c) for c in CONVERSIONS])
def test_conversion(source, target):
    values = special(source)
    to = getattr(torch, target)
    if values.is_floating_point() and not to.is_floating_point and to != torch.bool:
        # What C++ leaves open for numbers outside of the type is open here too.
        x, info = values.double(), torch.iinfo(to)
        values = values[(x > float(info.min) - 0.5) & (x < min(info.max, 2**62))]
    compare(lambda x: x.to(getattr(torch, target)), values, mine=lambda x: x.to(getattr(telensor, target)))


@pytest.mark.parametrize("dtype", DTYPES["number"])
def test_clamp(dtype):
    values = special(dtype)
    for limits in ((-1, 1), (2, 1), (None, 0), (0, None), (-0.5, 2.5), (INF, -INF), (NAN, 1), (1, NAN)):
        if values.is_floating_point() or all(isinstance(x, (int, type(None))) for x in limits):
            if dtype == "uint8" and -1 in limits:
                continue
            compare(lambda x: torch.clamp(x, *limits), values, mine=lambda x: telensor.clamp(x, *limits))
    if values.is_floating_point():
        a, b = (x.reshape(-1) for x in torch.meshgrid(values, values, indexing="ij"))
        compare(lambda x, y, z: torch.clamp(x, y, z), a, b, b.flip(0),
                mine=lambda x, y, z: telensor.clamp(x, y, z))


@pytest.mark.parametrize("dtype", DTYPES["all"])
@pytest.mark.parametrize("descending", [False, True])
def test_sort(dtype, descending):
    values = special(dtype)
    values = torch.cat([values, values.flip(0)])
    compare(lambda x: torch.sort(x, descending=descending, stable=True), values,
            mine=lambda x: telensor.sort(x, descending=descending))


REDUCTIONS = ["sum", "prod", "mean", "amax", "amin", "max", "min", "argmax", "argmin", "any", "all", "var", "std",
              "norm", "logsumexp", "cumsum", "softmax", "log_softmax", "nonzero", "unbind"]
INPUTS = {
    "nan": lambda: torch.tensor([[1.0, NAN, 3.0], [2.0, 5.0, -INF]]),
    "ties": lambda: torch.tensor([[2.0, 2.0, 1.0], [1.0, 2.0, 2.0]]),
    "infinities": lambda: torch.tensor([[INF, INF, 1.0], [-INF, -INF, -INF]]),
    "zeros": lambda: torch.tensor([[0.0, -0.0, 0.0], [0.0, 0.0, 0.0]]),
    "one": lambda: torch.tensor([[7.0]]),
    "number": lambda: torch.tensor(7.0),
    "no rows": lambda: torch.empty(0, 3),
    "no columns": lambda: torch.empty(2, 0),
    "nothing": lambda: torch.empty(0),
    "large": lambda: torch.tensor([[3e38, 3e38, -3e38], [1e-40, 1e-40, 1e-40]]),
    "integers": lambda: torch.tensor([[2**62, 2**62, 2**62], [-5, 5, 0]]),
    "bytes": lambda: torch.tensor([[200, 100, 255], [0, 0, 1]], dtype=torch.uint8),
    "bools": lambda: torch.tensor([[True, False, True], [False, False, False]]),
    "halves": lambda: torch.tensor([[60000.0, 60000.0, 1.0], [6e-8, 6e-8, 0.0]], dtype=torch.bfloat16),
    "transposed": lambda: torch.arange(6.0).reshape(2, 3).t(),
    "expanded": lambda: torch.tensor([[1.0], [2.0]]).expand(2, 3),
}


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reduction(name, kind):
    if kind == "large" and name in ("prod", "norm", "std"):
        return  # torch overflows on the way to a result that is none
    for arguments in ((), (0,), (1,), (-1,), (-2,), (2,), (-3,), (0, True)):
        if name in ("nonzero", "unbind", "cumsum", "softmax", "log_softmax") and True in arguments[1:]:
            continue
        if name == "norm" and arguments:
            arguments = (2, *arguments)
        compare(lambda x: getattr(torch, name)(x, *arguments), INPUTS[kind](),
                mine=lambda x: getattr(telensor, name)(x, *arguments))


@pytest.mark.parametrize("kind", INPUTS)
def test_norms(kind):
    # Where telensor does better: no overflow on the way, no rounding to 16 bits; the least of nothing is infinity.
    powers = {"large": (0, 1, INF, -INF), "halves": (0, 1, 2, INF, -INF), "no rows": (0, 1, 2, 3, 0.5, INF),
              "no columns": (0, 1, 2, 3, 0.5, INF), "nothing": (0, 1, 2, 3, 0.5, INF)}
    for p, dim in itertools.product(powers.get(kind, (0, 1, 2, 3, 0.5, -1, INF, -INF)), (None, 0, 1)):
        compare(lambda x: torch.norm(x, p, dim), INPUTS[kind](), mine=lambda x: telensor.norm(x, p, dim))
    for unbiased, name in itertools.product((True, False), ("var", "std") if kind != "large" else ("var",)):
        compare(lambda x: getattr(x, name)(0, unbiased), INPUTS[kind](), mine=lambda x: getattr(x, name)(0, unbiased))
        compare(lambda x: getattr(x, name)(unbiased), INPUTS[kind](), mine=lambda x: getattr(x, name)(unbiased))


@pytest.mark.parametrize("kind", INPUTS)
def test_topk_and_cumsum(kind):
    for k, dim, largest in itertools.product((0, 1, 2, 4), (0, -1), (True, False)):
        # Which of equal elements it picks is open.
        compare(lambda x: torch.topk(x, k, dim, largest)[0], INPUTS[kind](),
                mine=lambda x: telensor.topk(x, k, dim, largest)[0])
    for dtype in ("int64", "float64", "int8"):
        compare(lambda x: torch.cumsum(x, 0, dtype=getattr(torch, dtype)), INPUTS["bytes"](),
                mine=lambda x: telensor.cumsum(x, 0, dtype=getattr(telensor, dtype)))
