"""telensor.nn against PyTorch's: results, gradients, state, names, text."""

import copy
import inspect
import math
import pickle
import re
import subprocess
import sys
import warnings
from collections import OrderedDict

import pytest

import telensor
import telensor.nn.functional as F
from compare import assert_same, assert_same_module, ours, theirs, torch
from telensor import nn

TF = torch.nn.functional


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)
    telensor.manual_seed(0)


X4 = (2, 4, 7, 6)
MODULES = [
    ("Linear", (4, 3), {}, (5, 4)),
    ("Linear", (4, 3), {"bias": False}, (2, 3, 4)),
    ("Conv2d", (4, 6, 3), {}, X4),
    ("Conv2d", (4, 6, (3, 2)), {"stride": 2, "padding": (1, 2), "dilation": 2, "groups": 2}, X4),
    ("Conv2d", (4, 6, 3), {"padding": "same", "bias": False}, X4),
    ("Conv2d", (4, 6, 4), {"padding": "same"}, X4),
    ("Conv2d", (4, 6, 3), {"padding": "valid"}, X4),
    ("Conv2d", (4, 6, 3), {"padding": 1}, (4, 7, 6)),
    ("Conv2d", (4, 2, 3), {"padding": 1, "padding_mode": "reflect"}, X4),
    ("Conv2d", (4, 2, 3), {"padding": 1, "padding_mode": "circular"}, X4),
    ("Conv2d", (4, 2, 3), {"padding": 2, "padding_mode": "replicate"}, X4),
    ("Conv1d", (4, 6, 3), {"stride": 2, "padding": 1}, (2, 4, 9)),
    ("Conv1d", (4, 6, 2), {"padding": "same"}, (4, 9)),
    ("BatchNorm1d", (4,), {}, (5, 4)),
    ("BatchNorm1d", (4,), {"affine": False}, (5, 4, 3)),
    ("BatchNorm2d", (4,), {}, X4),
    ("BatchNorm2d", (4,), {"momentum": None}, X4),
    ("BatchNorm2d", (4,), {"track_running_stats": False}, X4),
    ("LayerNorm", (6,), {}, X4),
    ("LayerNorm", ((7, 6),), {"elementwise_affine": False}, X4),
    ("GroupNorm", (2, 4), {}, X4),
    ("GroupNorm", (1, 4), {"affine": False}, (3, 4)),
    ("ReLU", (), {}, X4),
    ("ReLU6", (), {}, X4),
    ("Hardtanh", (), {}, X4),
    ("LeakyReLU", (0.2,), {}, X4),
    ("ELU", (), {"alpha": 0.5}, X4),
    ("GELU", (), {}, X4),
    ("GELU", (), {"approximate": "tanh"}, X4),
    ("SiLU", (), {}, X4),
    ("Mish", (), {}, X4),
    ("PReLU", (), {}, X4),
    ("PReLU", (4,), {}, X4),
    ("Sigmoid", (), {}, X4),
    ("Tanh", (), {}, X4),
    ("Softmax", (1,), {}, X4),
    ("LogSoftmax", (), {"dim": -1}, X4),
    ("LogSigmoid", (), {}, X4),
    ("Softplus", (), {"beta": 2}, X4),
    ("Softsign", (), {}, X4),
    ("MaxPool2d", (2,), {}, X4),
    ("MaxPool2d", (3,), {"stride": 2, "padding": 1, "ceil_mode": True}, (4, 7, 6)),
    ("AvgPool2d", (2,), {}, X4),
    ("AvgPool2d", (3, 2, 1), {"count_include_pad": False}, X4),
    ("AdaptiveAvgPool2d", (1,), {}, X4),
    ("AdaptiveAvgPool2d", ((3, None),), {}, X4),
    ("Flatten", (), {}, X4),
    ("Unflatten", (1, (2, 2)), {}, X4),
    ("Identity", (), {}, X4),
    ("ZeroPad2d", ((1, 0, 2, 1),), {}, X4),
    ("ConstantPad2d", (1, 2.5), {}, X4),
    ("ReflectionPad2d", (2,), {}, X4),
    ("ReplicationPad2d", (1,), {}, X4),
]


@pytest.mark.parametrize("name, args, kwargs, shape", MODULES)
def test_module(name, args, kwargs, shape):
    mine, reference = getattr(nn, name)(*args, **kwargs), getattr(torch.nn, name)(*args, **kwargs)
    assert repr(mine) == repr(reference)
    x = torch.randn(shape) * 3
    for train in (True, False):
        assert_same_module(mine, reference, x, train=train)
        mine.zero_grad(), reference.zero_grad(set_to_none=True)


@pytest.mark.parametrize("name, kwargs", [("ReLU", {}), ("SiLU", {}), ("LeakyReLU", {}), ("ELU", {}), ("Mish", {}),
                                          ("Hardtanh", {}), ("ReLU6", {})])
def test_in_place_activation(name, kwargs):
    x = torch.randn(3, 4)
    a, b = x.clone().requires_grad_(), ours(x, True)
    c, d = a * 2, b * 2
    getattr(torch.nn, name)(**kwargs)(c).sum().backward()
    result = getattr(nn, name)(inplace=True, **kwargs)(d)
    assert result is d
    result.sum().backward()
    assert_same(b.grad, a.grad)
    assert repr(getattr(nn, name)(inplace=True)) == repr(getattr(torch.nn, name)(inplace=True))


LOSSES = [
    ("CrossEntropyLoss", {}, "class"),
    ("CrossEntropyLoss", {"label_smoothing": 0.1, "ignore_index": 1}, "class"),
    ("CrossEntropyLoss", {"weight": 4}, "class"),
    ("CrossEntropyLoss", {}, "probability"),
    ("NLLLoss", {}, "class"),
    ("MSELoss", {}, "same"),
    ("L1Loss", {}, "same"),
    ("SmoothL1Loss", {"beta": 0.5}, "same"),
    ("HuberLoss", {"delta": 0.7}, "same"),
    ("BCELoss", {}, "probability"),
    ("BCEWithLogitsLoss", {"pos_weight": 4}, "probability"),
]


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name, kwargs, target", LOSSES)
def test_loss(name, kwargs, target, reduction):
    weights = {k: torch.rand(v) + 0.5 for k, v in kwargs.items() if "weight" in k}
    reference = getattr(torch.nn, name)(reduction=reduction, **{**kwargs, **weights})
    mine = getattr(nn, name)(reduction=reduction, **{**kwargs, **{k: ours(w) for k, w in weights.items()}})
    assert repr(mine) == repr(reference)
    x = torch.rand(5, 4) if name == "BCELoss" else torch.randn(5, 4)
    y = torch.randint(0, 4, (5,)) if target == "class" else torch.rand(5, 4)
    a, b = x.clone().requires_grad_(), ours(x, True)
    expected, got = reference(a, y), mine(b, ours(y))
    assert_same(got, expected)
    expected.sum().backward()
    got.sum().backward()
    assert_same(b.grad, a.grad)


def test_loss_sizes():
    with pytest.warns(UserWarning, match="Using a target size"):
        F.mse_loss(telensor.zeros(2, 1), telensor.zeros(2))
    with pytest.raises(ValueError, match="Target size"):
        F.binary_cross_entropy_with_logits(telensor.zeros(2, 1), telensor.zeros(2))
    with pytest.raises(ValueError, match="Using a target size"):
        F.binary_cross_entropy(telensor.zeros(2, 1), telensor.zeros(2))


def test_embedding():
    reference, mine = torch.nn.Embedding(6, 3, padding_idx=-2), nn.Embedding(6, 3, padding_idx=-2)
    assert repr(mine) == repr(reference)
    assert float(mine.weight[4].abs().sum()) == 0
    assert_same_module(mine, reference, torch.tensor([[1, 4, 1], [5, 0, 4]]))
    table = telensor.rand(4, 2)
    assert not nn.Embedding.from_pretrained(table).weight.requires_grad


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.block = nn.Sequential(nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
        self.heads = nn.ModuleList([nn.Linear(36, 3), nn.Linear(36, 3)])
        self.named = nn.ModuleDict({"a": nn.Dropout(0.1), "b": nn.Identity()})
        self.scale = nn.Parameter(telensor.ones(3))
        self.register_buffer("offset", telensor.zeros(3), persistent=False)

    def forward(self, x):
        x = self.block(self.norm(self.conv(x)))
        return sum(head(x) for head in self.heads) * self.scale + self.offset


def their_net():
    """The same class, with PyTorch's names."""
    space = {"nn": torch.nn, "telensor": torch}
    exec(compile(inspect.getsource(Net), "their_net", "exec"), space)
    return space["Net"]()


def test_network():
    mine, reference = Net(), their_net()
    reference_text = repr(reference)
    # Since 2.0 PyTorch shows runs of equal modules as one.
    reference_text = re.sub(r"\(0\): (Linear\(.*\))\n    \(1\): \1", r"(0-1): 2 x \1", reference_text)
    assert repr(mine) == reference_text
    for method in ("named_parameters", "named_buffers", "named_children", "named_modules"):
        assert [n for n, _ in getattr(mine, method)()] == [n for n, _ in getattr(reference, method)()]
    assert_same_module(mine, reference, torch.randn(2, 1, 6, 6))
    assert mine.state_dict()._metadata == reference.state_dict()._metadata
    visited = []
    mine.apply(lambda m: visited.append(type(m).__name__))
    expected = []
    reference.apply(lambda m: expected.append(type(m).__name__))
    assert visited == expected


def test_load_errors():
    mine, reference = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1)), torch.nn.Sequential(torch.nn.Linear(2, 3),
                                                                                        torch.nn.Linear(3, 1))
    state = reference.state_dict()
    state["1.weight"] = torch.zeros(2, 2)
    state["x"] = state.pop("0.bias")
    with pytest.raises(RuntimeError) as expected:
        reference.load_state_dict(state)
    with pytest.raises(RuntimeError) as got:
        mine.load_state_dict(OrderedDict((k, ours(v)) for k, v in state.items()))
    assert str(got.value) == str(expected.value)
    del state["1.weight"]
    result = mine.load_state_dict({k: ours(v) for k, v in state.items()}, strict=False)
    assert result.missing_keys == ["0.bias", "1.weight"] and result.unexpected_keys == ["x"]


def test_state_shares_memory_and_loads_in_place():
    layer = nn.Linear(2, 2)
    state = layer.state_dict()
    weight = layer.weight
    with telensor.no_grad():
        layer.weight.fill_(3)
    assert state["weight"].tolist() == [[3, 3], [3, 3]] and not state["weight"].requires_grad
    layer.load_state_dict({"weight": telensor.ones(2, 2), "bias": telensor.ones(2)})
    assert layer.weight is weight and layer.weight.tolist() == [[1, 1], [1, 1]]


def test_parameter():
    p = nn.Parameter(telensor.arange(3.0))
    assert isinstance(p, telensor.Tensor) and isinstance(p, nn.Parameter) and p.is_leaf and p.requires_grad
    assert type(p * 2) is telensor.Tensor
    assert repr(p) == "Parameter containing:\ntensor([0., 1., 2.], requires_grad=True)"
    q = copy.deepcopy(p)
    assert isinstance(q, nn.Parameter) and q is not p
    with telensor.no_grad():
        q.zero_()
    assert p.tolist() == [0, 1, 2]
    r = pickle.loads(pickle.dumps(nn.Parameter(p.detach(), requires_grad=False)))
    assert isinstance(r, nn.Parameter) and not r.requires_grad and r.tolist() == [0, 1, 2]


def test_copies_of_modules():
    net = Net()
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        for (name, p), (_, q) in zip(net.state_dict().items(), other.state_dict().items()):
            assert p is not q and telensor.equal(p, q), name
        assert all(isinstance(p, nn.Parameter) for p in other.parameters())


def test_conversion():
    net = Net()
    weight = net.conv.weight
    net(telensor.randn(2, 1, 6, 6)).sum().backward()
    assert net.double() is net
    assert net.conv.weight is weight and weight.dtype == telensor.float64 and weight.grad.dtype == telensor.float64
    assert net.norm.running_mean.dtype == telensor.float64 and net.norm.num_batches_tracked.dtype == telensor.int64
    assert net.to(telensor.float32).scale.dtype == telensor.float32
    assert net.to("cpu", telensor.float16).scale.dtype == telensor.float16
    with pytest.raises(TypeError, match="only accepts floating point"):
        net.to(telensor.int64)


def test_registration_rules():
    module = nn.Module()
    with pytest.raises(KeyError, match="name can.*t contain"):
        module.register_parameter("a.b", None)
    with pytest.raises(KeyError, match="already exists"):
        module.register_buffer("training", None)
    with pytest.raises(TypeError, match="is not a Module subclass"):
        module.add_module("x", 3)
    module.w = nn.Parameter(telensor.ones(1))
    with pytest.raises(TypeError, match="cannot assign 'int' as parameter 'w'"):
        module.w = 3
    module.w = None
    assert list(module.parameters()) == [] and module.w is None
    with pytest.raises(AttributeError, match="'Module' object has no attribute 'nothing'"):
        module.nothing

    class Early(nn.Module):
        def __init__(self):
            self.w = nn.Parameter(telensor.ones(1))

    with pytest.raises(AttributeError, match=re.escape("cannot assign parameters before Module.__init__() call")):
        Early()


def test_hooks_run_in_order():
    layer, calls = nn.Identity(), []
    pre = layer.register_forward_pre_hook(lambda m, args: calls.append("pre") or (args[0] + 1,))
    layer.register_forward_hook(lambda m, args, out: calls.append("post") or out * 2)
    layer.register_forward_hook(lambda m, args, kwargs, out: calls.append(len(kwargs)), with_kwargs=True)
    assert float(layer(telensor.tensor(1.0))) == 4.0
    pre.remove()
    assert float(layer(telensor.tensor(1.0))) == 2.0
    assert calls == ["pre", "post", 0, "post", 0]


def test_containers():
    a, b, c = nn.Linear(1, 1), nn.ReLU(), nn.Identity()
    chain = nn.Sequential(OrderedDict(first=a, second=b))
    assert chain.first is a and chain[-1] is b and len(chain[:1]) == 1
    modules = nn.ModuleList([a, b])
    modules.insert(1, c)
    assert [*modules] == [a, c, b] and list(modules._modules) == ["0", "1", "2"]
    del modules[0]
    assert modules[0] is c and len(modules) == 2
    with pytest.raises(IndexError, match="index 5 is out of range"):
        modules[5]
    values = nn.ParameterList([telensor.zeros(2), nn.Parameter(telensor.ones(1))])
    reference = torch.nn.ParameterList([torch.zeros(2), torch.nn.Parameter(torch.ones(1))])
    assert [n for n, _ in values.named_parameters()] == ["0", "1"]
    assert repr(values).count("Parameter containing") == repr(reference).count("Parameter containing") == 2


def test_train_reaches_overrides():
    class Frozen(nn.BatchNorm1d):
        def train(self, mode=True):
            return super().train(False)

    net = nn.Sequential(Frozen(2), nn.Dropout())
    net.train()
    assert not net[0].training and net[1].training


def test_batch_norm_checks():
    with pytest.raises(ValueError, match=r"expected 4D input \(got 2D input\)"):
        nn.BatchNorm2d(3)(telensor.zeros(2, 3))
    with pytest.raises(ValueError, match="Expected more than 1 value per channel when training"):
        nn.BatchNorm1d(3)(telensor.zeros(1, 3))


def test_dropout():
    x = telensor.ones(100, 50)
    for module in (nn.Dropout(0.25), nn.Dropout2d(0.25)):
        shape = (100, 50) if isinstance(module, nn.Dropout) else (100, 50, 2, 3)
        y = module(x if len(shape) == 2 else telensor.ones(shape))
        values = theirs(y)
        assert values.unique().tolist() == [0, pytest.approx(4 / 3)]
        assert abs(values.mean().item() - 1) < 0.05
    assert bool((values.amax((2, 3)) == values.amin((2, 3))).all())  # whole channels
    assert module.eval()(x) is x
    with pytest.raises(ValueError, match="dropout probability has to be between 0 and 1"):
        nn.Dropout(1.5)


def test_softmax_without_dim():
    for shape in [(3,), (2, 3), (2, 3, 4), (2, 3, 4, 5)]:
        x = torch.randn(shape)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = TF.softmax(x)
        with pytest.warns(UserWarning, match="Implicit dimension choice for softmax"):
            assert_same(F.softmax(ours(x)), expected)


@pytest.mark.parametrize("pad, mode", [((1, 2), "constant"), ((-1, 2, 0, 3), "constant"), ((1, 1, 2, 0), "reflect"),
                                       ((3, 1, 0, 1), "replicate"), ((2, 1, 1, 2), "circular"), ((0, 0), "constant")])
def test_pad(pad, mode):
    x = torch.randn(2, 3, 4, 5)
    if mode != "constant" and len(pad) < 4:
        x = x[0]
    a, b = x.clone().requires_grad_(), ours(x, True)
    expected, got = TF.pad(a, pad, mode), F.pad(b, pad, mode)
    assert_same(got, expected)
    (expected ** 2).sum().backward()
    (got ** 2).sum().backward()
    assert_same(b.grad, a.grad)


def test_functions():
    x, y = torch.randn(3, 5), torch.randn(3, 5)
    assert_same(F.normalize(ours(x)), TF.normalize(x))
    assert_same(F.normalize(ours(x), p=1, dim=0), TF.normalize(x, p=1, dim=0))
    assert_same(F.cosine_similarity(ours(x), ours(y)), TF.cosine_similarity(x, y))
    labels = torch.tensor([[1, 0], [3, 2]])
    assert_same(F.one_hot(ours(labels)), TF.one_hot(labels))
    images = torch.randn(2, 3, 6, 6)
    values, indices = F.max_pool2d(ours(images), 2, return_indices=True)
    expected = TF.max_pool2d(images, 2, return_indices=True)
    assert_same(values, expected[0]), assert_same(indices, expected[1])
    with pytest.raises(RuntimeError, match="padding='same' is not supported for strided convolutions"):
        F.conv2d(ours(images), telensor.zeros(1, 3, 3, 3), padding="same", stride=2)
    q, k, v = (torch.randn(2, 4, 5, 8) for _ in range(3))
    mask = torch.ones(5, 5).tril().bool()
    expected = (q @ k.transpose(-2, -1) / math.sqrt(8)).masked_fill(~mask, -math.inf).softmax(-1) @ v
    assert_same(F.scaled_dot_product_attention(ours(q), ours(k), ours(v), is_causal=True), expected)
    assert_same(F.scaled_dot_product_attention(ours(q), ours(k), ours(v), ours(mask)), expected)


@pytest.mark.parametrize("norm", [2.0, 1.0, math.inf])
def test_clipping(norm):
    grads = [torch.randn(3, 4), torch.randn(5) * 10]
    a = [torch.zeros_like(g).requires_grad_() for g in grads]
    b = [ours(p, True) for p in a]
    for p, q, g in zip(a, b, grads):
        p.grad, q.grad = g.clone(), ours(g)
    assert_same(nn.utils.clip_grad_norm_(b, 1.5, norm), torch.nn.utils.clip_grad_norm_(a, 1.5, norm))
    for p, q in zip(a, b):
        assert_same(q.grad, p.grad)
    nn.utils.clip_grad_value_(b, 0.1), torch.nn.utils.clip_grad_value_(a, 0.1)
    for p, q in zip(a, b):
        assert_same(q.grad, p.grad)


def test_parameters_as_vector():
    layer = nn.Linear(3, 2)
    vector = nn.utils.parameters_to_vector(layer.parameters())
    assert tuple(vector.shape) == (8,)
    nn.utils.vector_to_parameters(telensor.arange(8.0), layer.parameters())
    assert layer.weight.tolist() == [[0, 1, 2], [3, 4, 5]] and layer.bias.tolist() == [6, 7]


INITS = [
    ("uniform_", (-2.0, 3.0)), ("normal_", (1.0, 2.0)), ("constant_", (0.3,)), ("ones_", ()), ("zeros_", ()),
    ("eye_", ()), ("xavier_uniform_", (1.5,)), ("xavier_normal_", ()), ("kaiming_uniform_", (math.sqrt(5),)),
    ("kaiming_normal_", (0.1, "fan_out")), ("trunc_normal_", (0.5, 1.5, -1.0, 2.0)), ("sparse_", (0.3,)),
]


@pytest.mark.parametrize("name, args", INITS)
def test_init(name, args):
    mine, reference = telensor.empty(400, 300), torch.empty(400, 300)
    assert getattr(nn.init, name)(mine, *args) is mine
    getattr(torch.nn.init, name)(reference, *args)
    got = theirs(mine)
    spread = max(reference.std().item(), 1e-6)
    assert abs(got.mean() - reference.mean()) < 0.02 * spread
    assert abs(got.std() - reference.std()) <= 0.02 * spread
    for q in (0.05, 0.5, 0.95):
        assert abs(got.flatten()[:100000].quantile(q) - reference.flatten()[:100000].quantile(q)) < 0.03 * spread + 1e-6
    if name == "trunc_normal_" or "normal" not in name and name != "sparse_":
        assert abs(got.max() - reference.max()) < 0.1 * spread + 1e-6


def test_default_initialisation():
    for mine, reference in [(nn.Linear(300, 400), torch.nn.Linear(300, 400)),
                            (nn.Conv2d(32, 64, 3), torch.nn.Conv2d(32, 64, 3))]:
        for p, q in zip(mine.parameters(), reference.parameters()):
            bound = 1 / math.sqrt(math.prod(mine.weight.shape[1:]))
            assert abs(theirs(p).std() - bound / math.sqrt(3)) < 0.15 * bound
            assert theirs(p).abs().max() <= bound and abs(theirs(p).abs().max() - q.abs().max()) < 0.1 * bound


def test_init_errors():
    with pytest.raises(ValueError, match="fewer than 2 dimensions"):
        nn.init.xavier_uniform_(telensor.empty(3))
    with pytest.raises(ValueError, match="Unsupported nonlinearity nothing"):
        nn.init.calculate_gain("nothing")
    for args in [("relu",), ("tanh",), ("leaky_relu", 0.2), ("linear",), ("selu",)]:
        assert nn.init.calculate_gain(*args) == torch.nn.init.calculate_gain(*args)


def test_grad_modes():
    x = telensor.ones(2, requires_grad=True)

    @telensor.no_grad()
    def silent():
        with telensor.enable_grad():
            inner = (x * 2).requires_grad
        return inner, (x * 2).requires_grad

    @telensor.no_grad
    def bare():
        return (x * 2).requires_grad

    @telensor.no_grad()
    def generator():
        yield (x * 2).requires_grad
        yield (x * 2).requires_grad

    assert silent() == (True, False) and bare() is False and telensor.is_grad_enabled()
    seen = []
    for value in generator():
        seen.append((value, (x * 2).requires_grad))
    assert seen == [(False, True)] * 2
    with telensor.set_grad_enabled(False):
        assert not (x * 2).requires_grad
    assert telensor.is_grad_enabled()
    telensor.set_grad_enabled(False)
    assert not telensor.is_grad_enabled()
    telensor.set_grad_enabled(True)
    with telensor.inference_mode():
        assert not (x * 2).requires_grad
    with pytest.raises(KeyError):
        with telensor.no_grad():
            raise KeyError
    assert telensor.is_grad_enabled()


def test_autograd_functions():
    x = telensor.tensor([2.0, 3.0], requires_grad=True, dtype=telensor.float64)
    y = (x ** 3).sum()
    first, = telensor.autograd.grad(y, x, create_graph=True)
    second, = telensor.autograd.grad(first.sum(), x)
    assert second.tolist() == [12, 18] and x.grad is None
    with pytest.raises(RuntimeError):
        telensor.autograd.grad(x.sum(), telensor.ones(1, requires_grad=True))
    unused, = telensor.autograd.grad(x.sum(), telensor.ones(1, requires_grad=True), materialize_grads=True)
    assert unused.tolist() == [0]
    telensor.autograd.backward([x.sum(), (x * 2).sum()])
    assert x.grad.tolist() == [3, 3]


def test_gradcheck():
    a = telensor.randn(2, 3, dtype=telensor.float64, requires_grad=True)
    b = telensor.randn(3, 2, dtype=telensor.float64, requires_grad=True)
    assert telensor.autograd.gradcheck(lambda x, y: (x @ y).tanh(), (a, b))
    assert telensor.autograd.gradgradcheck(lambda x, y: (x @ y).sigmoid(), (a, b))
    with pytest.raises(telensor.autograd.GradcheckError, match="Jacobian mismatch for output 0"):
        telensor.autograd.gradcheck(lambda x: x.detach() * x, (a,))


def test_whole_tensor_comparisons():
    a = torch.tensor([1.0, math.nan, math.inf, -math.inf, 2.0])
    b = torch.tensor([1.0 + 1e-6, math.nan, math.inf, math.inf, 3.0])
    for equal_nan in (False, True):
        assert_same(telensor.isclose(ours(a), ours(b), equal_nan=equal_nan), torch.isclose(a, b, equal_nan=equal_nan))
    assert telensor.allclose(ours(a[:1]), ours(b[:1])) and not telensor.allclose(ours(a), ours(a))
    assert telensor.equal(ours(a[:1]), ours(a[:1])) and not telensor.equal(ours(a[:1]), ours(a[:2]))
    for grid in ("ij", "xy"):
        mine = telensor.meshgrid(telensor.arange(3), telensor.arange(4), indexing=grid)
        for x, y in zip(mine, torch.meshgrid(torch.arange(3), torch.arange(4), indexing=grid)):
            assert_same(x, y)
    for name in ("float16", "bfloat16", "float32", "float64"):
        mine, reference = telensor.finfo(getattr(telensor, name)), torch.finfo(getattr(torch, name))
        for field in ("bits", "eps", "max", "min", "tiny"):
            assert getattr(mine, field) == getattr(reference, field), (name, field)
        assert mine.resolution == pytest.approx(reference.resolution)
    assert telensor.iinfo(telensor.int8).min == -128 and telensor.iinfo(telensor.uint8).max == 255


def test_import_is_light():
    code = "import telensor, sys; print('torch' in sys.modules, 'numpy' in sys.modules, 'telensor.nn' in sys.modules)"
    shim, numpy, loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                                         check=True).stdout.split()
    assert loaded == "False"
    if shim == "True":
        pytest.skip("telensor._core is a stand-in made of PyTorch")
    assert numpy == "False"
