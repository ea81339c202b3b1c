"""Layers and losses at their edges against real PyTorch, errors included: padding, windows beyond the border, ignored
targets, rows of -inf, single elements, no elements."""

import itertools

import numpy
import pytest
import telensor
import torch
from test_special_values import INF, NAN, compare


def random(*sizes, seed=0):
    return torch.from_numpy(numpy.random.default_rng(seed).standard_normal(sizes))


def functional(name, *args, tensors=(), **kwargs):
    """Compares nn.functional.<name>(*tensors, *args, **kwargs)."""
    compare(lambda *t: getattr(torch.nn.functional, name)(*t, *args, **kwargs), *tensors, atol=1e-12,
            mine=lambda *t: getattr(telensor.nn.functional, name)(*t, *args, **kwargs))


CONVOLUTIONS = list(itertools.product((1, 2, (2, 1)), (0, 1, (1, 2), 3), (1, 2, (1, 3)), (1, 2)))


@pytest.mark.parametrize("stride,padding,dilation,groups", CONVOLUTIONS)
def test_conv2d(stride, padding, dilation, groups):
    for kernel in ((1, 1), (3, 2), (5, 5), (9, 9)):
        tensors = (random(2, 4, 7, 6), random(6, 4 // groups, *kernel), random(6))
        functional("conv2d", stride=stride, padding=padding, dilation=dilation, groups=groups, tensors=tensors)


@pytest.mark.parametrize("case", [
    ((2, 4, 5, 5), (6, 3, 3, 3), {}), ((2, 4, 5, 5), (6, 4, 3, 3), {"groups": 3}),
    ((2, 4, 5, 5), (5, 2, 3, 3), {"groups": 2}),
    ((0, 4, 5, 5), (6, 4, 3, 3), {}), ((2, 4, 2, 2), (6, 4, 3, 3), {}), ((4, 5, 5), (6, 4, 3, 3), {}),
    ((2, 4, 5, 5), (6, 4, 3, 3), {"stride": 0}), ((2, 4, 5, 5), (6, 4, 3, 3), {"padding": -1}),
    ((2, 4, 5, 5), (6, 4, 3, 3), {"dilation": 0}), ((5, 5), (6, 4, 3, 3), {}),
    ((2, 4, 5, 5), (6, 4, 3, 3), {"padding": "same"})],
    ids=str)
def test_convolutions_at_their_limits(case):
    sizes, weight, options = case
    functional("conv2d", tensors=(random(*sizes), random(*weight)), **options)


WINDOWS = [(k, s, p, c) for k, s, p, c in itertools.product((1, 2, 3, (3, 2)), (None, 1, 2, 3), (0, 1), (False, True))]


@pytest.mark.parametrize("kernel,stride,padding,ceil", WINDOWS)
def test_pooling(kernel, stride, padding, ceil):
    x = random(2, 3, 7, 6)
    special = x.clone()
    special[0, 0] = -INF
    special[0, 1, 2, 3] = NAN
    special[1, 0, 0, 0] = INF
    for image in (x, special, x[0], x.transpose(2, 3), x[:, :1].expand(2, 3, 7, 6), x[:0]):
        functional("max_pool2d", kernel, stride, padding, ceil_mode=ceil, tensors=(image,))
        for include, divisor in ((True, None), (False, None), (True, 5)):
            if image is not special:
                functional("avg_pool2d", kernel, stride, padding, ceil, include, divisor, tensors=(image,))
    functional("max_pool2d", kernel, stride, padding, 2, ceil, tensors=(x,))


@pytest.mark.parametrize("arguments", [(0,), (2, 0), (2, 1, 2), (8,), (2, 2, -1), (2, 2, 1, 0)], ids=str)
def test_pooling_that_is_refused(arguments):
    functional("max_pool2d", *arguments, tensors=(random(1, 1, 5, 5),))
    if len(arguments) < 4:
        functional("avg_pool2d", *arguments, tensors=(random(1, 1, 5, 5),))


@pytest.mark.parametrize("size", [1, 2, (3, 5), 7, (None, 2), 0], ids=str)
def test_adaptive_pooling(size):
    for image in (random(2, 3, 7, 6), random(3, 5, 4), random(2, 3, 1, 1)):
        functional("adaptive_avg_pool2d", size, tensors=(image,))


@pytest.mark.parametrize("sizes", [(4, 3), (4, 3, 2, 2), (1, 3), (1, 3, 1, 1), (2, 3, 1), (0, 3), (0, 3, 2, 2),
                                   (1, 3, 2)], ids=str)
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm(sizes, training):
    def run(module):
        return lambda x, mean, var, w, b: (
            module.nn.functional.batch_norm(x, mean, var, w, b, training, 0.3, 1e-5), mean, var)

    compare(run(torch), random(*sizes), random(3), random(3).abs(), random(3), random(3), mine=run(telensor))


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4), (4, 4), (3,), ()], ids=str)
def test_layer_norm(shape):
    functional("layer_norm", shape, tensors=(random(2, 3, 4),))
    functional("layer_norm", (1,), tensors=(random(3, 1),))
    functional("layer_norm", (4,), tensors=(random(0, 4),))


ROWS = {
    "numbers": random(4, 3), "minus infinity": torch.full((4, 3), -INF), "infinity": torch.tensor([[INF, 1, 2]] * 4),
    "nan": torch.tensor([[NAN, 1, 2]] * 4), "large": torch.tensor([[1e38, -1e38, 3e38]] * 4), "no rows": random(0, 3),
    "no columns": random(4, 0), "partly": torch.tensor([[-INF, 0.0, 1.0]] * 4), "one": random(4, 1),
}


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax(name, kind):
    for dim in (0, 1, -1, 2):
        functional(name, dim, tensors=(ROWS[kind],))
    functional(name, 0, tensors=(torch.tensor(3.0),))


TARGETS = {"plain": [0, 2, 1, 2], "ignored": [0, -100, 1, -100], "all ignored": [-100] * 4, "too large": [0, 3, 1, 1],
           "negative": [0, -1, 1, 1]}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_class_losses(target, reduction):
    x, t, w = random(4, 3), torch.tensor(TARGETS[target]), random(3).abs()
    functional("nll_loss", reduction=reduction, tensors=(x, t))
    functional("nll_loss", reduction=reduction, tensors=(x, t, w))
    functional("nll_loss", reduction=reduction, ignore_index=2, tensors=(x, t, w))
    for smoothing in (0.0, 0.1, 1.0):
        functional("cross_entropy", reduction=reduction, label_smoothing=smoothing, tensors=(x, t))
        functional("cross_entropy", reduction=reduction, label_smoothing=smoothing, tensors=(x, t, w))
        functional("cross_entropy", reduction=reduction, label_smoothing=smoothing, ignore_index=1, tensors=(x, t))
    functional("cross_entropy", reduction=reduction, tensors=(x[0], t[0]))
    images, labels = random(2, 3, 2, 2), t.reshape(2, 2, 1).expand(2, 2, 2)
    functional("cross_entropy", reduction=reduction, tensors=(images, labels))
    functional("cross_entropy", reduction=reduction, label_smoothing=0.2, tensors=(x, random(4, 3).softmax(1), w))
    functional("cross_entropy", reduction=reduction, label_smoothing=0.2, tensors=(x, t, torch.zeros(3, dtype=x.dtype)))


@pytest.mark.parametrize("case", [((4, 3), (5,)), ((4, 3), (4, 1)), ((3,), (1,)), ((0, 3), (0,)),
                                  ((4, 3, 2), (4, 3))], ids=str)
def test_targets_of_a_wrong_size(case):
    for name in ("nll_loss", "cross_entropy"):
        functional(name, tensors=(random(*case[0]), torch.zeros(case[1], dtype=torch.int64)))


def test_target_of_a_wrong_type():
    for dtype in (torch.int32, torch.bool, torch.float32):
        functional("nll_loss", tensors=(random(4, 3), torch.zeros(4, dtype=dtype)))


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "smooth_l1_loss"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none", "other"])
def test_losses(name, reduction):
    for a, b in ((random(2, 3), random(2, 3, seed=1)), (random(0), random(0)), (random(2, 3), random(3)),
                 (torch.tensor([INF, NAN, -INF]), torch.tensor([INF, 1.0, 2.0])), (random(2), random(3))):
        functional(name, reduction=reduction, tensors=(a, b))


@pytest.mark.parametrize("index", [[0, 1], [], [4], [5], [-1]], ids=str)
def test_indices(index):
    i = torch.tensor(index, dtype=torch.int64)
    x = random(5, 2)
    compare(lambda a, b: torch.index_select(a, 0, b), x, i, mine=lambda a, b: telensor.index_select(a, 0, b))
    compare(lambda a, b: a[b], x, i)
    functional("embedding", tensors=(i, x))
    column = i.reshape(-1, 1)
    compare(lambda a, b: torch.gather(a, 0, b), x, column, mine=lambda a, b: telensor.gather(a, 0, b))
    compare(lambda a, b: torch.scatter(a, 0, b, 1.5), x, column, mine=lambda a, b: telensor.scatter(a, 0, b, 1.5))
    functional("one_hot", 5, tensors=(i,))


EMPTY = [torch.empty(0), torch.empty(0, 3), torch.empty(2, 0, 3), torch.tensor(2.0)]


@pytest.mark.parametrize("x", EMPTY, ids=lambda t: str(tuple(t.shape)))
def test_shapes_of_nothing_and_of_numbers(x):
    for name, *args in (("reshape", (-1,)), ("reshape", (0, -1)), ("flatten",), ("squeeze",), ("unsqueeze", -1),
                        ("unsqueeze", 3), ("t",), ("transpose", 0, -1), ("flip", (0,)), ("unbind", 0), ("split", 2),
                        ("chunk", 2), ("chunk", 0), ("narrow", 0, 0, 1), ("select", 0, 0), ("diag",),
                        ("nonzero",), ("clone",)):
        if hasattr(telensor.Tensor, name):
            compare(lambda t: getattr(t, name)(*args), x)
    for other in EMPTY:
        for name in ("add", "mul", "matmul", "mm", "maximum"):
            compare(getattr(torch, name), x, other, mine=getattr(telensor, name))
        compare(lambda a, b: torch.cat([a, b]), x, other, mine=lambda a, b: telensor.cat([a, b]))
        compare(lambda a, b: torch.stack([a, b]), x, other, mine=lambda a, b: telensor.stack([a, b]))
