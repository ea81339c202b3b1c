"""telensor.optim against PyTorch's: every step's parameters, saved states, schedules."""

import copy
import math
import warnings

import pytest

import telensor
from compare import assert_same, ours, torch
from telensor import nn, optim


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


OPTIMIZERS = [
    ("SGD", dict(lr=0.1)),
    ("SGD", dict(lr=0.1, momentum=0.9)),
    ("SGD", dict(lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.01)),
    ("SGD", dict(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01)),
    ("SGD", dict(lr=0.1, momentum=0.5, maximize=True)),
    ("Adam", dict()),
    ("Adam", dict(lr=0.05, betas=(0.8, 0.9), eps=1e-4, weight_decay=0.1)),
    ("Adam", dict(lr=0.05, amsgrad=True)),
    ("Adam", dict(lr=0.05, maximize=True)),
    ("AdamW", dict()),
    ("AdamW", dict(lr=0.05, weight_decay=0.2, amsgrad=True)),
]


def pair_of_parameters():
    values = [torch.randn(3, 4), torch.randn(5), torch.randn(())]
    return [v.clone().requires_grad_() for v in values], [ours(v, True) for v in values]


def step_both(reference, mine, a, b, skip=()):
    for i, (p, q) in enumerate(zip(a, b)):
        g = torch.randn(p.shape)
        p.grad, q.grad = (None, None) if i in skip else (g.clone(), ours(g))
    reference.step()
    mine.step()
    for p, q in zip(a, b):
        assert_same(q, p)


@pytest.mark.parametrize("name, options", OPTIMIZERS)
def test_steps(name, options):
    a, b = pair_of_parameters()
    reference, mine = getattr(torch.optim, name)(a, **options), getattr(optim, name)(b, **options)
    for step in range(6):
        step_both(reference, mine, a, b, skip=(1,) if step in (0, 2) else ())
    same_structure(mine.state_dict(), reference.state_dict())


def same_structure(mine, reference):
    assert set(mine) == set(reference) == {"state", "param_groups"}
    for m, r in zip(mine["param_groups"], reference["param_groups"]):
        assert m["params"] == r["params"] and m["lr"] == r["lr"]
    # Old PyTorch notes that SGD has no momentum; new PyTorch and telensor note nothing.
    kept = [i for i, state in reference["state"].items() if any(v is not None for v in state.values())]
    assert sorted(mine["state"]) == sorted(kept)
    for i, state in reference["state"].items():
        for key, value in state.items():
            if isinstance(value, torch.Tensor) and key != "step":
                assert_same(mine["state"][i][key], value, key)
            elif value is not None:
                assert float(mine["state"][i][key]) == float(value)


@pytest.mark.parametrize("name, options", OPTIMIZERS)
def test_state_goes_on(name, options):
    a, b = pair_of_parameters()
    reference, mine = getattr(torch.optim, name)(a, **options), getattr(optim, name)(b, **options)
    step_both(reference, mine, a, b)
    # PyTorch's own state, with its tensors of steps, goes into a new optimizer.
    state = copy.deepcopy(reference.state_dict())
    for entry in state["state"].values():
        entry.update({k: ours(v) for k, v in entry.items() if isinstance(v, torch.Tensor)})
    other = getattr(optim, name)(b, lr=7.0)
    other.load_state_dict(state)
    step_both(reference, other, a, b)
    step_both(reference, other, a, b)


def test_one_command_a_step(monkeypatch):
    calls = []
    op = telensor._core._op
    monkeypatch.setattr(telensor._core, "_op", lambda name, *args: calls.append(name) or op(name, *args))
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    for optimizer in (optim.SGD(net.parameters(), 0.1, momentum=0.9), optim.AdamW(net.parameters())):
        for _ in range(3):
            optimizer.zero_grad()
            net(telensor.randn(5, 3)).sum().backward()
            calls.clear()
            optimizer.step()
            assert len(calls) == 1


def test_groups():
    a, b = pair_of_parameters()
    options = [{"lr": 0.5}, {}]
    reference = torch.optim.SGD([{"params": a[:1], **options[0]}, {"params": a[1:]}], lr=0.1, momentum=0.9)
    mine = optim.SGD([{"params": b[:1], **options[0]}, {"params": b[1:]}], lr=0.1, momentum=0.9)
    for _ in range(2):
        step_both(reference, mine, a, b)
    for optimizer in (reference, mine):
        optimizer.param_groups[1]["lr"] = 0.01
    step_both(reference, mine, a, b)


def test_zero_grad_and_closure():
    p = telensor.ones(2, requires_grad=True)
    optimizer = optim.SGD([p], lr=0.5)

    def closure():
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with telensor.no_grad():
        assert float(optimizer.step(closure)) == 2.0
    assert p.tolist() == [0, 0]
    optimizer.zero_grad(set_to_none=False)
    assert p.grad.tolist() == [0, 0]
    optimizer.zero_grad()
    assert p.grad is None


def test_errors():
    p = telensor.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match="Invalid learning rate: -1"):
        optim.SGD([p], lr=-1)
    with pytest.raises(ValueError, match="Nesterov momentum requires a momentum and zero dampening"):
        optim.SGD([p], lr=1, nesterov=True)
    with pytest.raises(ValueError, match="didn't specify a value of required optimization parameter lr"):
        optim.SGD([p])
    with pytest.raises(ValueError, match="Invalid beta parameter at index 1: 1.0"):
        optim.Adam([p], betas=(0.9, 1.0))
    with pytest.raises(ValueError, match="optimizer got an empty parameter list"):
        optim.Adam([])
    with pytest.raises(TypeError, match="should be an iterable of Tensors or dicts"):
        optim.Adam(p)
    with pytest.raises(ValueError, match="can't optimize a non-leaf Tensor"):
        optim.Adam([p * 2])
    with pytest.raises(ValueError, match="some parameters appear in more than one parameter group"):
        optim.SGD([{"params": [p]}, {"params": [p]}], lr=1)
    with pytest.raises(ValueError, match="different number of parameter groups"):
        optim.SGD([p], lr=1).load_state_dict({"state": {}, "param_groups": []})


SCHEDULES = [
    ("StepLR", dict(step_size=3, gamma=0.5)),
    ("MultiStepLR", dict(milestones=[2, 5, 5], gamma=0.5)),
    ("ExponentialLR", dict(gamma=0.9)),
    ("CosineAnnealingLR", dict(T_max=5, eta_min=0.01)),
    ("LinearLR", dict(start_factor=0.25, total_iters=6)),
    ("ConstantLR", dict(factor=0.5, total_iters=4)),
    ("LambdaLR", dict(lr_lambda=lambda epoch: 0.95**epoch)),
    ("MultiplicativeLR", dict(lr_lambda=lambda epoch: 0.95)),
]


@pytest.mark.parametrize("name, options", SCHEDULES)
def test_schedule(name, options):
    a, b = pair_of_parameters()
    optimizers = [package.SGD([{"params": p[:1]}, {"params": p[1:], "lr": 0.3}], lr=0.1)
                  for package, p in ((torch.optim, a), (optim, b))]
    schedulers = [getattr(o.lr_scheduler, name)(x, **options) for o, x in zip((torch.optim, optim), optimizers)]
    for epoch in range(14):
        if epoch == 7:
            state = schedulers[1].state_dict()
            schedulers[1] = getattr(optim.lr_scheduler, name)(copy.copy(optimizers[1]), **options)
            for group, rate in zip(optimizers[1].param_groups, state["_last_lr"]):
                group["lr"] = rate
            schedulers[1].optimizer = optimizers[1]
            schedulers[1].load_state_dict(state)
        for o, s in zip(optimizers, schedulers):
            o.step(), s.step()
        assert schedulers[1].get_last_lr() == schedulers[0].get_last_lr()
        assert [g["lr"] for g in optimizers[1].param_groups] == [g["lr"] for g in optimizers[0].param_groups]


def test_sequence_of_schedules():
    rates = []
    for package, p in ((torch.optim, torch.ones(1, requires_grad=True)), (optim, telensor.ones(1, requires_grad=True))):
        optimizer = package.SGD([p], lr=1.0)
        parts = [package.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=3),
                 package.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)]
        schedule = package.lr_scheduler.SequentialLR(optimizer, parts, milestones=[4])
        rates.append([])
        for _ in range(8):
            rates[-1].append(optimizer.param_groups[0]["lr"])
            optimizer.step(), schedule.step()
    assert rates[1] == pytest.approx(rates[0])


@pytest.mark.parametrize("options", [dict(patience=1), dict(mode="max", factor=0.5, patience=0, cooldown=2),
                                     dict(threshold_mode="abs", threshold=0.2, patience=0, min_lr=0.01)])
def test_plateau(options):
    rates = []
    for package, p in ((torch.optim, torch.ones(1, requires_grad=True)), (optim, telensor.ones(1, requires_grad=True))):
        optimizer = package.SGD([p], lr=1.0)
        schedule = package.lr_scheduler.ReduceLROnPlateau(optimizer, **options)
        rates.append([])
        for figure in [5, 4, 4, 4.1, 4.2, 3.9, 3.85, 6, 7, 8, 1, 1, 1, 1, math.inf, 0]:
            schedule.step(figure)
            rates[-1].append(optimizer.param_groups[0]["lr"])
    assert rates[1] == rates[0]


def test_order_of_steps():
    optimizer = optim.SGD([telensor.ones(1, requires_grad=True)], lr=1)
    schedule = optim.lr_scheduler.StepLR(optimizer, 1)
    with pytest.warns(UserWarning, match="before `optimizer.step"):
        schedule.step()
    optimizer.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        schedule.step()


def test_training_lowers_the_loss():
    telensor.manual_seed(0)
    x = telensor.randn(64, 4)
    y = (x @ telensor.tensor([[1.0], [-2.0], [0.5], [3.0]])) + 1
    for make in (lambda p: optim.SGD(p, 0.05, momentum=0.9), lambda p: optim.Adam(p, 0.1)):
        net = nn.Linear(4, 1)
        optimizer = make(net.parameters())
        for _ in range(100):
            loss = nn.functional.mse_loss(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        assert float(loss) < 0.01
