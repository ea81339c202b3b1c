"""Numbers at the edges of their types against real PyTorch: ranges, bounds of random numbers, special values."""

import itertools

import pytest
import telensor
import torch
from conftest import to_torch

FLOATS = ["float16", "bfloat16", "float32", "float64"]
INTS = ["uint8", "int8", "int16", "int32", "int64"]


def result(module, function):
    """What `function(module)` gives, or the class of error it raises."""
    try:
        out = function(module)
        if module is telensor:
            out = to_torch(out)
        return out
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError) as error:
        return error


def agree(function, **tolerance):
    """Compares with real PyTorch, errors included."""
    want, got = result(torch, function), result(telensor, function)
    if isinstance(want, Exception) or isinstance(got, Exception):
        assert isinstance(want, Exception) and isinstance(got, Exception), f"torch: {want}, telensor: {got}"
        return
    assert got.dtype == want.dtype and got.shape == want.shape
    torch.testing.assert_close(got, want, equal_nan=True, **(tolerance or {"rtol": 0, "atol": 0}))


# --- arange ---

BOUNDS = [0, 5, -3, 0.5, 5.5, 7.999999]
STEPS = [1, 3, -1, 0, 1.5, -0.5, 0.1, -2.5, 2.9999999]


@pytest.mark.parametrize("dtype", [None, *INTS, *FLOATS])
def test_arange(dtype):
    made = []
    for start, end, step in itertools.product(BOUNDS, BOUNDS, STEPS):
        call = lambda m: m.arange(start, end, step, dtype=getattr(m, dtype) if dtype else None)
        want = result(torch, call)
        if isinstance(want, Exception):
            with pytest.raises(RuntimeError):
                call(telensor)
        else:
            made.append((call(telensor), want, (start, end, step)))
    assert len(made) > 100
    for got, want, case in made:
        assert tuple(got.shape) == tuple(want.shape), case
    got = to_torch(telensor.cat([g for g, _, _ in made]))
    want = torch.cat([w for _, w, _ in made])
    # torch rounds the first of every eight floats and adds the rest: the last bit may differ.
    digits = {"float16": 1e-3, "bfloat16": 1e-2, "float64": 1e-15}.get(dtype, 3e-7)
    exact = dtype in INTS
    torch.testing.assert_close(got, want, rtol=0 if exact else digits, atol=0 if exact else digits)


@pytest.mark.parametrize("bounds", [(2**53, 2**53 + 5), (-2**63, -2**63 + 3), (2**62, 2**62 + 10, 3)])
def test_arange_of_large_integers(bounds):
    agree(lambda m: m.arange(*bounds))


# --- random numbers ---


@pytest.mark.parametrize("dtype", FLOATS)
def test_rand_stays_below_one(dtype):
    telensor.manual_seed(0)
    x = telensor.rand(1 << 20, dtype=getattr(telensor, dtype))
    least, most, mean = x.min().item(), x.max().item(), x.double().mean().item()
    assert 0 <= least < 1e-2 and 0.99 < most < 1
    assert abs(mean - 0.5) < 3e-3


@pytest.mark.parametrize("bounds", [(1, 2), (-1, 1), (0.1, 0.3), (1000, 1001), (-2, -1), (0, 65504), (1, 1 + 2**-8)])
@pytest.mark.parametrize("dtype", FLOATS)
def test_uniform_stays_below_its_bound(dtype, bounds):
    telensor.manual_seed(0)
    x = telensor.empty(1 << 18, dtype=getattr(telensor, dtype)).uniform_(*bounds)
    least, most = (torch.tensor(b, dtype=getattr(torch, dtype)).item() for b in bounds)
    if most > least:
        assert (x.max() < bounds[1]).item(), x.max().item()
        assert (x.min() >= least).item()


@pytest.mark.parametrize("bounds", [(1, 0), (-1e5, 1), (0, 1e5), (-3e38, 3e38), (-1e39, 0), (float("nan"), 1),
                                    (0, float("inf")), (-40000, 40000), (1, 1)])
@pytest.mark.parametrize("dtype", FLOATS)
def test_bounds_that_uniform_refuses(dtype, bounds):
    want = result(torch, lambda m: m.empty(3, dtype=getattr(m, dtype)).uniform_(*bounds))
    got = result(telensor, lambda m: m.empty(3, dtype=getattr(m, dtype)).uniform_(*bounds))
    assert isinstance(want, Exception) == isinstance(got, Exception), (want, got)


def test_bernoulli_and_dropout_at_the_ends():
    telensor.manual_seed(0)
    for dtype in FLOATS:
        ends = telensor.tensor([0.0, 1.0], dtype=getattr(telensor, dtype)).repeat(1 << 16)
        assert (telensor.bernoulli(ends) == ends).all().item()
        ones = telensor.ones(1 << 16, dtype=getattr(telensor, dtype))
        assert not telensor.dropout(ones, 1.0, True).any().item()
        kept = telensor.dropout(ones, 0.5, True)
        assert ((kept == 0) | (kept == 2)).all().item() and 0.45 < (kept == 0).float().mean().item() < 0.55


RANGES = {"uint8": (0, 256), "int8": (-128, 128), "int16": (-2**15, 2**15), "int32": (-2**31, 2**31),
          "int64": (-2**63, 2**63 - 1)}


@pytest.mark.parametrize("dtype", INTS)
def test_randint_over_the_whole_type(dtype):
    low, high = RANGES[dtype]
    telensor.manual_seed(0)
    x = telensor.randint(low, high, (1 << 16,), dtype=getattr(telensor, dtype))
    assert low <= x.min().item() <= low + (high - low) // 256
    assert high - 1 - (high - low) // 256 <= x.max().item() <= high - 1
    for bounds in ((low, high + 1), (low - 1, high), (3, 3), (high, high)):
        if dtype != "int64":
            agree(lambda m: m.randint(*bounds, (0,), dtype=getattr(m, dtype)))
            agree(lambda m: m.randint_like(m.zeros(3, dtype=getattr(m, dtype)), *bounds))
            agree(lambda m: m.randint_like(m.zeros(3), *bounds, dtype=getattr(m, dtype)))
            agree(lambda m: m.randint_like(m.zeros(3, dtype=getattr(m, dtype)), 0))
    assert set(telensor.randint(-2, 3, (1000,), dtype=getattr(telensor, dtype)).tolist()
               if low < 0 else range(-2, 3)) == {-2, -1, 0, 1, 2}


@pytest.mark.parametrize("dtype,most", [("uint8", 256), ("int8", 128), ("int16", 32768), ("float16", 2049),
                                        ("bfloat16", 257)])
def test_randperm_of_a_type_too_small(dtype, most):
    x = telensor.randperm(most, dtype=getattr(telensor, dtype))
    assert sorted(x.tolist()) == list(range(most))
    with pytest.raises(RuntimeError):
        telensor.randperm(most + 1, dtype=getattr(telensor, dtype))
    if dtype != "bfloat16":  # torch gives some numbers twice there
        agree(lambda m: m.randperm(most + 1, dtype=getattr(m, dtype)))


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "float64"])
def test_prod_of_a_given_dtype(dtype):
    agree(lambda m: m.prod(m.tensor([[1.5, 2], [3, 200]]), dtype=getattr(m, dtype)))
    agree(lambda m: m.prod(m.tensor([[1.5, 2], [3, 4]]), 1, dtype=getattr(m, dtype)))
