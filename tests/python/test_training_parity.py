"""Training step by step as real PyTorch: from the same weights and batches, the loss of every step."""

import importlib.util
import pathlib
import sys

import numpy
import pytest
import telensor
import torch
from conftest import to_telensor

STEPS = 50
BATCH = 32
LIMITS = {"float32": 1e-4, "float64": 1e-10}
# Small steps: where two elements of a pooling window are equal but for rounding, another order of adding sends the
# gradient elsewhere. With SGD at twice these steps PyTorch differs from itself (with and without oneDNN) by 7e-3.
OPTIMIZERS = {
    "sgd": lambda module, parameters: module.optim.SGD(parameters, lr=0.005, momentum=0.9),
    "adam": lambda module, parameters: module.optim.Adam(parameters, lr=3e-4),
}
EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "fashion_mnist.py"


def example(backend):
    """The example as a module over one of the two libraries."""
    spec = importlib.util.spec_from_file_location(f"fashion_mnist_{backend}", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    argv, sys.argv = sys.argv, [str(EXAMPLE), "--backend", backend]
    try:
        spec.loader.exec_module(module)
    finally:
        sys.argv = argv
    return module


@pytest.fixture(scope="module")
def examples():
    return {torch: example("torch"), telensor: example("telensor")}


@pytest.fixture(scope="module")
def batches(examples):
    """STEPS batches of images in [0, 1] and labels: Fashion-MNIST's where it is installed."""
    count = STEPS * BATCH
    if pathlib.Path(examples[torch].args.data).is_dir():
        images = examples[torch].read_idx("train-images-idx3-ubyte.gz")[:count]
        labels = examples[torch].read_idx("train-labels-idx1-ubyte.gz")[:count]
    else:
        random = numpy.random.default_rng(0)
        images, labels = random.integers(0, 256, (count, 28, 28)), random.integers(0, 10, count)
    images = torch.from_numpy(images.astype(numpy.float64) / 255).reshape(STEPS, BATCH, 1, 28, 28)
    labels = torch.from_numpy(labels.astype(numpy.int64)).reshape(STEPS, BATCH)
    return list(zip(images, labels))


def mlp(module, examples):
    nn = module.nn
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))


def cnn(module, examples):
    net = examples[module].Net()
    net.dropout.p = 0.0  # the two libraries draw other numbers
    return net


def losses(module, model, optimizer, batches):
    """The loss of every step, before its update."""
    out = []
    for images, labels in batches:
        loss = module.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        out.append(loss.detach())
    return [loss.item() for loss in out]


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("build", [mlp, cnn])
def test_losses_of_every_step(build, optimizer, dtype, examples, batches):
    torch.manual_seed(0)
    reference = build(torch, examples).to(getattr(torch, dtype))
    mine = build(telensor, examples).to(getattr(telensor, dtype))
    mine.load_state_dict({name: to_telensor(value) for name, value in reference.state_dict().items()})
    data = [(images.to(getattr(torch, dtype)), labels) for images, labels in batches]
    want = losses(torch, reference, OPTIMIZERS[optimizer](torch, reference.parameters()), data)
    got = losses(telensor, mine, OPTIMIZERS[optimizer](telensor, mine.parameters()),
                 [(to_telensor(images), to_telensor(labels)) for images, labels in data])
    assert numpy.isfinite(want).all() and len(got) == STEPS
    assert abs(want[0] - want[-1]) > 0.1 * want[0], "nothing was learnt, so nothing is compared"
    worst = max(abs(g - w) / abs(w) for g, w in zip(got, want))
    print(f"largest relative difference {worst:.3g}, loss {want[0]:.3f} to {want[-1]:.3f}")  # shown by -rP
    assert worst <= LIMITS[dtype], f"relative difference {worst:.3g}"
