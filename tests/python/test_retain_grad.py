"""retain_grad() beside real PyTorch: results that keep their gradients."""

import gc

import pytest
import telensor
import torch


def leaf(m, *values):
    return m.tensor(values or (1.0, 2.0, 3.0), requires_grad=True)


def middle(m):
    x = leaf(m)
    y = x * 2
    y.retain_grad()
    (y * y).sum().backward()
    return y.retains_grad, x.retains_grad, y.is_leaf, y.grad.tolist(), x.grad.tolist()


def twice(m):
    x = leaf(m)
    y = x * 2
    y.retain_grad()
    y.retain_grad()
    z = (y * y).sum()
    z.backward(retain_graph=True)
    z.backward()
    return y.grad.tolist(), x.grad.tolist()


def root(m):
    x = leaf(m)
    y = (x * x).sum()
    y.retain_grad()
    y.backward()
    return y.grad.tolist()


def several(m):
    x = leaf(m)
    a = x.exp()
    b = a * x
    c = b.sum()
    kept = [a, b, c]
    for t in kept:
        t.retain_grad()
    (c * c).backward()
    return [t.grad.tolist() for t in kept]


def seed_is_copied(m):
    x = leaf(m)
    y = x * 1
    y.retain_grad()
    seed = m.ones(3)
    y.backward(seed)
    seed.mul_(7)
    return y.grad.tolist()


def broadcast(m):
    x = leaf(m)
    y = x.reshape(3, 1) * m.ones(1, 4)
    y.retain_grad()
    y.sum().backward()
    return y.grad.tolist(), tuple(y.grad.shape), y.grad.is_contiguous() or m is torch


def not_reached(m):
    x = leaf(m)
    y, z = x * 2, x * 3
    y.retain_grad()
    z.sum().backward()
    return y.grad is None, x.grad.tolist()


def second_output(m):
    x = leaf(m, 3.0, 1.0, 2.0)
    first, second = (x * 1).split([1, 2])
    second.retain_grad()
    (second * m.tensor([5.0, 6.0])).sum().backward()
    return second.grad.tolist(), x.grad.tolist()


def create_graph(m):
    x = leaf(m)
    y = x * x
    y.retain_grad()
    (y * y * y).sum().backward(create_graph=True)
    return y.grad.requires_grad, m.autograd.grad(y.grad.sum(), x)[0].tolist()


def of_a_leaf(m):
    x = leaf(m)
    x.retain_grad()
    (x * 2).sum().backward()
    return x.retains_grad, x.grad.tolist()


def dropped(m):
    x = leaf(m)
    y = x * 2
    y.retain_grad()
    z = (y * y).sum()
    del y
    gc.collect()
    z.backward()
    return x.grad.tolist()


def without_grad(m):
    try:
        m.ones(2).retain_grad()
    except RuntimeError as error:
        return str(error)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("program", [middle, twice, root, several, seed_is_copied, broadcast, not_reached, second_output,
                                     create_graph, of_a_leaf, dropped, without_grad])
def test_retain_grad(program):
    want = program(torch)
    assert program(telensor) == want
