"""How tensors print, against PyTorch, character by character."""

import itertools
import math

import pytest

import telensor
from compare import ours, torch
from telensor._repr import tensor_repr

SHAPES = [(), (1,), (3,), (7,), (40,), (1000,), (1001,), (0,), (0, 3), (2, 0, 3), (2, 3), (3, 4, 5), (10, 10, 11),
          (2, 600), (600, 2), (1, 1, 1, 1), (2, 2, 2, 2), (8, 9, 10, 7), (30, 40)]
DTYPES = ["float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"]


@pytest.fixture(autouse=True)
def seeded_and_default():
    torch.manual_seed(0)
    yield
    for package in (telensor, torch):
        package.set_printoptions(profile="default", sci_mode=None)


def same_text(reference):
    if reference.dtype == torch.bfloat16:  # numpy has no such type
        mine = ours(reference.float()).to(telensor.bfloat16)
    else:
        mine = ours(reference)
    if reference.requires_grad:
        mine.requires_grad_()
    assert tensor_repr(mine) == repr(reference)
    assert repr(mine) == tensor_repr(mine)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_numbers(shape, dtype):
    dtype = getattr(torch, dtype)
    for scale in (1, 1e-6, 1e9, 100):
        x = torch.randn(shape, dtype=torch.float64) * scale
        for y in (x, x.round()):
            if not dtype.is_floating_point:
                y = y.remainder(100)
            same_text(y.to(dtype))
    same_text(torch.zeros(shape, dtype=dtype))


@pytest.mark.parametrize("values", [
    [math.nan], [math.inf, -math.inf], [1.0, math.nan], [1.5, math.inf, -2.25], [1e10, math.nan, 1e-10],
    [-0.0, 0.0], [0.0001, 0.1], [0.00009, 0.1], [1e8, 1.0], [1e8 + 1e3, 1.0], [1e9], [123456.0], [1000.0, 1.0],
    [1001.0, 1.0], [0.99999], [-1.0, 10.0], [3.4e38], [1e-45],
])
def test_special_values(values):
    same_text(torch.tensor(values))
    same_text(torch.tensor(values, dtype=torch.float64))
    same_text(torch.tensor(values * 3).reshape(3, -1))


def test_gradient_suffixes():
    x = torch.randn(3, 4)
    same_text(x.clone().requires_grad_())
    same_text(torch.randn(7, 7).requires_grad_())
    a, b = x.clone().requires_grad_(), ours(x).requires_grad_()
    for f in (lambda t: t * 2, lambda t: t.exp().sum(), lambda t: t.reshape(2, 6)[0]):
        # Names of nodes are the table's; what stands around them is PyTorch's.
        mine, reference = tensor_repr(f(b)), repr(f(a))
        assert mine.partition("grad_fn=<")[0] == reference.partition("grad_fn=<")[0]
        assert mine.endswith(">)") and "Backward0" in mine


def test_gradient_mode_is_left_alone():
    x = telensor.ones(2000, requires_grad=True)
    repr(x)
    assert telensor.is_grad_enabled() and x.grad_fn is None


OPTIONS = [dict(precision=2), dict(edgeitems=1, threshold=5), dict(linewidth=40), dict(profile="full"),
           dict(profile="short"), dict(precision=8, linewidth=120)]


@pytest.mark.parametrize("options, sci_mode", itertools.product(OPTIONS, [None, True, False]), ids=str)
def test_options(options, sci_mode):
    for package in (telensor, torch):
        package.set_printoptions(sci_mode=sci_mode, **options)
    for t in [torch.randn(5), torch.randn(3, 4) * 1e5, torch.arange(12.0), torch.arange(1200) * 1000.0,
              torch.randn(20, 30), torch.tensor(math.inf), torch.tensor([1.0, 1e9]), torch.arange(30)]:
        same_text(t)


def test_only_edges_are_read(monkeypatch):
    sizes = []
    monkeypatch.setattr("telensor._repr._flat", lambda nested, depth, flat=telensor._repr._flat:
                        sizes.append(len(flat(nested, depth))) or flat(nested, depth))
    tensor_repr(telensor.zeros(100, 200, 300))
    assert sizes == [6 * 6 * 6]


def test_unknown_profile():
    with pytest.raises(ValueError, match="profile must be one of"):
        telensor.set_printoptions(profile="wide")
