"""backward(inputs=...) beside real PyTorch: who gets a gradient, what is added to what, which errors come."""

import pytest
import telensor
import torch


def both(program):
    """A program's result with real PyTorch and with telensor: the same, or it fails."""
    def outcome(module):
        try:
            return program(module)
        except RuntimeError as error:
            return "error", str(error).split(".")[0]
    want, got = outcome(torch), outcome(telensor)
    assert got == want
    return want


def grads(*tensors):
    return [None if t.grad is None else t.grad.tolist() for t in tensors]


def leaves(module):
    return (module.tensor([1.0, 2.0], requires_grad=True), module.tensor([3.0, 4.0], requires_grad=True),
            module.tensor([5.0, 6.0], requires_grad=True))


def some(m):
    x, y, z = leaves(m)
    (x * y * z).sum().backward(inputs=[x, z])
    return grads(x, y, z)


def one(m):
    x, y, z = leaves(m)
    (x * y * z).sum().backward(inputs=y)
    return grads(x, y, z)


def adds(m):
    x, y, z = leaves(m)
    (x * y).sum().backward()
    before = x.grad
    (x * y * z).sum().backward(inputs=[x])
    return before.tolist(), grads(x, y, z)


def seed_and_graph(m):
    x, y, z = leaves(m)
    out = x * x * y
    out.backward(m.tensor([1.0, 10.0]), retain_graph=True, inputs=[x])
    out.backward(m.tensor([1.0, 1.0]), inputs=[y])
    return grads(x, y, z)


def unused(m):
    x, y, z = leaves(m)
    (x * y).sum().backward(inputs=[x, z])
    return grads(x, y, z)


def several_roots(m):
    x, y, z = leaves(m)
    m.autograd.backward([(x * y).sum(), x * z], [None, m.ones(2)], inputs=[x, z])
    return grads(x, y, z)


def second_pass(m):
    x, y, z = leaves(m)
    out = (x * x * y).sum()
    out.backward(inputs=[x])
    out.backward(inputs=[x])
    return grads(x)


def create_graph(m):
    x, y, z = leaves(m)
    (x * x * x * y).sum().backward(inputs=[x], create_graph=True)
    g = x.grad
    return g.requires_grad, m.autograd.grad(g.sum(), x)[0].tolist()


def no_inputs(m):
    x, y, z = leaves(m)
    (x * y).sum().backward(inputs=[])


@pytest.mark.parametrize("program", [some, one, adds, seed_and_graph, unused, several_roots, second_pass, create_graph,
                                     no_inputs])
def test_backward_for_inputs(program):
    both(program)
