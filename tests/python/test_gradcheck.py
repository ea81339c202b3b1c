"""The gradient of every differentiable op of the table against differences of the op itself, in float64; and its
gradient's gradient likewise, and against real PyTorch's."""

import pytest
import telensor
import telensor._core as core
import torch
from conftest import to_telensor, to_torch
from samples import Call, draws
from telensor.autograd import GradcheckError, grad, gradcheck, gradgradcheck
from test_ops import flat, named, telensor_function, torch_function

ROWS = [row for row in core._op_rows() if row["differentiable"]]
# The gradients of these hold where mean and deviation are those of the input, as the ops that issue them see to.
STATISTICS = {"T[4,3], T[4,3], T[3], T[3], T+[3], True, 1e-5":
              "T[4,3], T[4,3], T[3], t1.mean(0), (t1.var(0, False) + 1e-5).rsqrt(), True, 1e-5",
              "T[2,4], T[2,4], [4], T[4], T[2], T+[2], 1e-5":
              "T[2,4], T[2,4], [4], T[4], t1.mean(1), (t1.var(1, False) + 1e-5).rsqrt(), 1e-5"}
SAMPLES = [(row, STATISTICS.get(sample, sample)) for row in ROWS for sample in row["samples"].split("\n") if sample]
IDS = [f"{row['name']}-{sample}" for row, sample in SAMPLES]


def all_results(row, call, op, leaves):
    """The op as a function of the tensors named by `leaves`."""
    constants = {name: to_telensor(value) for name, value in call.arrays.items() if name not in leaves}

    def run(*tensors):
        # An op that writes its argument gets a copy, as leaves must not change.
        values = [t.clone() for t in tensors] if row["base_name"].endswith("_") else tensors
        args, kwargs = named(*call.arguments_of({**constants, **dict(zip(leaves, values))}), telensor)
        if draws(row):
            telensor.manual_seed(1)  # the same numbers every time
        return flat(op(*args, **kwargs))

    return run


def function(row, call, op, leaves):
    """The same, with those results alone that have a gradient."""
    run = all_results(row, call, op, leaves)
    return lambda *tensors: tuple(r for r in run(*tensors)[:1 if row["first_result_only"] else None] if r.requires_grad)


def differentiable_tensors(row, call):
    """Names of a call's float64 tensors that a gradient can flow into."""
    names = []
    for name, array in call.arrays.items():
        if array.dtype == torch.float64:
            # It may reach the call through other functions, as in T[2,3].t().
            args, kwargs = call.arguments(lambda t: t.clone().requires_grad_(t is array))
            given = dict(zip(row["params"], args), **kwargs)
            values = [given[p] for p in row["differentiable_inputs"] if p in given]
            tensors = [t for v in values for t in (v if isinstance(v, (list, tuple)) else [v])]
            if any(isinstance(t, torch.Tensor) and t.requires_grad for t in tensors):
                names.append(name)
    return names


def leaves_of(call, names):
    return [to_telensor(call.arrays[name], requires_grad=True) for name in names]


@pytest.mark.parametrize("row", ROWS, ids=[row["name"] for row in ROWS])
def test_every_input_has_a_sample(row):
    assert row["samples"], f"the op {row['name']} is differentiable and has no sample in proto/ops"
    covered = set()
    for sample in row["samples"].split("\n"):
        args, kwargs = Call(sample, "float64").arguments(lambda t: t)
        for name, value in {**dict(zip(row["params"], args)), **kwargs}.items():
            tensors = value if isinstance(value, (list, tuple)) else [value]
            if any(isinstance(t, torch.Tensor) and t.dtype == torch.float64 for t in tensors):
                covered.add(name)
    missing = set(row["differentiable_inputs"]) - covered
    assert not missing, f"no sample of {row['name']} has a float64 tensor for {sorted(missing)}"


@pytest.mark.parametrize("row,sample", SAMPLES, ids=IDS)
def test_gradients(row, sample):
    call = Call(sample, "float64")
    names = differentiable_tensors(row, call)
    if not names:
        return  # a sample of other dtypes; test_every_input_has_a_sample sees that others have float64
    run = function(row, call, telensor_function(row), names)
    leaves = leaves_of(call, names)
    assert gradcheck(run, leaves)
    assert gradgradcheck(run, leaves)


IN_PLACE = [(row, sample) for row, sample in SAMPLES
            if row["inplace"] and hasattr(telensor.Tensor, row["base_name"] + "_")]


@pytest.mark.parametrize("row,sample", IN_PLACE, ids=[f"{row['name']}_-{sample}" for row, sample in IN_PLACE])
def test_gradients_in_place(row, sample):
    call = Call(sample, "float64")
    names = differentiable_tensors(row, call)
    args, _ = call.arguments(lambda t: t)
    result_size = function(row, call, telensor_function(row), names)(*leaves_of(call, names)) if names else ()
    if not result_size or not torch.is_tensor(args[0]) or result_size[0].shape != args[0].shape:
        return  # a number as self, or a result that does not fit into it
    in_place = lambda self, *rest, **named_rest: getattr(self.clone(), row["base_name"] + "_")(*rest, **named_rest)
    results = []
    for op in (telensor_function(row), in_place):
        leaves = leaves_of(call, names)
        out, = function(row, call, op, names)(*leaves)
        weights = to_telensor(torch.linspace(0.5, 1.5, out.numel(), dtype=torch.float64).reshape(tuple(out.shape)))
        results.append([out, *grad((out * weights).sum(), leaves)])
    for a, b in zip(*results):
        torch.testing.assert_close(to_torch(a), to_torch(b))


@pytest.mark.parametrize("row,sample", SAMPLES, ids=IDS)
def test_a_recorded_op_gives_what_an_unrecorded_one_does(row, sample):
    """A fused row has a kernel for one and a formula for the other."""
    call = Call(sample, "float64")
    names = differentiable_tensors(row, call)
    run = all_results(row, call, telensor_function(row), names)
    recorded = run(*leaves_of(call, names))
    with telensor.no_grad():
        plain = run(*leaves_of(call, names))
    assert len(plain) == len(recorded) > 0
    for p, r in zip(plain, recorded):
        torch.testing.assert_close(to_torch(p), to_torch(r), equal_nan=True)


def weighted(module, results, start):
    """A number that depends on every element of `results`."""
    total = None
    for r in results:
        weights = torch.linspace(start, start + 1, r.numel(), dtype=torch.float64).reshape(tuple(r.shape))
        term = (r * (weights if module is torch else to_telensor(weights))).sum()
        total = term if total is None else total + term
    return total


def double_backward(module, run, leaves):
    """Gradients, and gradients of a number made of them: of every leaf, zeros where there is none."""
    results = run(*leaves)
    engine = torch.autograd if module is torch else telensor.autograd
    first = engine.grad(weighted(module, results, 0.5), leaves, create_graph=True, allow_unused=True)
    recorded = [(g * g) for g in first if g is not None and g.requires_grad]
    second = [None] * len(leaves)
    if recorded:
        second = engine.grad(weighted(module, recorded, -0.7), leaves, allow_unused=True)
    zeros = lambda x: torch.zeros(tuple(x.shape), dtype=torch.float64)
    convert = lambda t: t.detach() if module is torch else to_torch(t)
    return [zeros(x) if g is None else convert(g) for gs in (first, second) for g, x in zip(gs, leaves)]


@pytest.mark.parametrize("row,sample", SAMPLES, ids=IDS)
def test_double_backward_as_torch(row, sample):
    oracle = torch_function(row)
    call = Call(sample, "float64")
    names = differentiable_tensors(row, call)
    if oracle is None or draws(row) or not names:
        return

    def reference(*tensors):
        values = [t.clone() for t in tensors] if row["base_name"].endswith("_") else tensors
        constants = {name: value for name, value in call.arrays.items() if name not in names}
        args, kwargs = named(*call.arguments_of({**constants, **dict(zip(names, values))}), torch)
        return tuple(r for r in flat(oracle(*args, **kwargs)) if r.requires_grad)

    try:
        want = double_backward(torch, reference, [call.arrays[n].clone().requires_grad_() for n in names])
    except (RuntimeError, TypeError) as error:
        if len(names) > 1 and "differentiable" in str(error):
            names[1:] = []  # torch has the gradient of the first input alone
            want = double_backward(torch, reference, [call.arrays[n].clone().requires_grad_() for n in names])
        else:
            pytest.skip(f"torch 1.13 refuses: {error}"[:120])
    got = double_backward(telensor, function(row, call, telensor_function(row), names), leaves_of(call, names))
    for g, w in zip(got, want):
        torch.testing.assert_close(g, w, rtol=1e-9, atol=1e-11)


ZEROS = [[], [1], [0, 3], [0, 1, 2], [0, 1, 2, 3]]


@pytest.mark.parametrize("dim", [None, 0, -1])
@pytest.mark.parametrize("zeros", ZEROS)
def test_prod_of_zeros(zeros, dim):
    """The first row has zeros at the given places, the second has none."""
    values = torch.tensor([[0.5, -1.5, 2.0, 1.25], [1.5, 0.75, -0.5, 2.5]], dtype=torch.float64)
    values[0, zeros] = 0
    results = []
    for module, convert in ((torch, lambda t: t.clone().requires_grad_()), (telensor, lambda t: to_telensor(t, True))):
        product = lambda x: (x.prod() if dim is None else x.prod(dim),)
        results.append(double_backward(module, product, [convert(values)]))
    for want, got in zip(*results):
        torch.testing.assert_close(got, want)
    # Differences of a product are exact but for rounding, at zeros too.
    run = lambda x: x.prod() if dim is None else x.prod(dim, keepdim=True)
    assert gradcheck(run, [to_telensor(values, True)]) and gradgradcheck(run, [to_telensor(values, True)])


def test_prod_of_a_zero_number():
    x = telensor.zeros((), requires_grad=True)
    x.prod().backward()
    assert x.grad.item() == 1


def test_a_wrong_gradient_is_found():
    x = telensor.tensor([0.5, -1.5], dtype=telensor.float64, requires_grad=True)
    with pytest.raises(GradcheckError):
        gradcheck(lambda x: x * x.detach(), (x,))
    with pytest.raises(GradcheckError):
        gradgradcheck(lambda x: x * x * x.detach(), (x,))
