"""Taking tensors from PyTorch to telensor and back, and comparing them."""

import numpy
import pytest

import telensor

torch = pytest.importorskip("torch")

TOLERANCE = {torch.float32: (1e-4, 1e-5), torch.float64: (1e-7, 1e-9), torch.float16: (1e-2, 1e-3)}


def ours(t, requires_grad=False):
    """A telensor tensor of a PyTorch one's numbers."""
    data = telensor.from_numpy(numpy.array(t.detach().numpy()))
    return data.requires_grad_() if requires_grad else data


def theirs(t):
    """A PyTorch tensor of a telensor one's numbers."""
    return torch.from_numpy(numpy.array(t.detach().cpu().numpy()))


def assert_same(mine, reference, what=""):
    """One size, one dtype, and numbers within PyTorch's tolerances."""
    mine = theirs(mine)
    assert tuple(mine.shape) == tuple(reference.shape), what
    assert mine.dtype == reference.dtype, what
    rtol, atol = TOLERANCE.get(reference.dtype, (0, 0))
    assert torch.allclose(mine, reference.detach(), rtol, atol, equal_nan=True), f"{what}\n{mine}\n{reference}"


def load_from(module, reference):
    """Gives a telensor module the state of a PyTorch one."""
    state = {key: ours(value) for key, value in reference.state_dict().items()}
    assert list(module.state_dict()) == list(state)
    assert repr(module.load_state_dict(state)) == "<All keys matched successfully>"


def assert_same_module(module, reference, *inputs, train=True):
    """One forward and backward pass of both give the same result, gradients and state."""
    load_from(module, reference)
    module.train(train), reference.train(train)
    floating = [i for i, x in enumerate(inputs) if x.is_floating_point()]
    xs = [x.detach().clone().requires_grad_(i in floating) for i, x in enumerate(inputs)]
    ys = [ours(x, i in floating) for i, x in enumerate(xs)]
    expected, got = reference(*xs), module(*ys)
    assert_same(got, expected, "output")
    seed = torch.randn(expected.shape, dtype=expected.dtype)
    expected.backward(seed)
    got.backward(ours(seed))
    for i in floating:
        assert_same(ys[i].grad, xs[i].grad, f"gradient of input {i}")
    for (name, p), (_, q) in zip(module.named_parameters(), reference.named_parameters()):
        assert_same(p.grad, q.grad, f"gradient of {name}")
    for (name, p), (_, q) in zip(module.named_buffers(), reference.named_buffers()):
        assert_same(p, q, name)
