"""gradcheck: compares gradients with differences of the function itself.

Differences are taken for all elements of an input before anything is read, and read together: a few round trips an
output, however many elements there are.
"""

from .. import _core
from . import grad

__all__ = ["gradcheck", "gradgradcheck", "GradcheckError"]


class GradcheckError(RuntimeError):
    """What `gradcheck` raises: gradients and differences are not the same."""


def _tuple(value):
    return (value,) if isinstance(value, _core.Tensor) else tuple(value)


def _differentiable(outputs):
    return [o for o in _tuple(outputs) if isinstance(o, _core.Tensor) and o.dtype.is_floating_point and o.requires_grad]


def _moved(x, i, step):
    """`x` with element i moved by `step`, a leaf."""
    flat = x.detach().clone().reshape(-1)
    flat.narrow(0, i, 1).add_(step)
    return flat.reshape(x.shape).requires_grad_()


def _numerical(func, inputs, which, n_outputs, eps):
    """Jacobians by central differences: for each output a tensor (elements of the input, elements of the output)."""
    x = inputs[which]
    rows = [[] for _ in range(n_outputs)]

    def at(i, step):
        arguments = list(inputs)
        arguments[which] = _moved(x, i, step)
        return [o.detach().clone() for o in _differentiable(func(*arguments))]

    for i in range(x.numel()):
        for row, up, down in zip(rows, at(i, eps), at(i, -eps)):
            row.append(((up - down) / (2 * eps)).reshape(-1))
    return [_core.stack(row) if row else None for row in rows]


def _analytical(output, x):
    """The Jacobian by `grad`: (elements of the input, elements of the output)."""
    columns = []
    for i in range(output.numel()):
        seed = _core.zeros_like(output.detach()).reshape(-1)
        seed.narrow(0, i, 1).fill_(1)
        g, = grad(output, x, seed.reshape(output.shape), retain_graph=True, allow_unused=True)
        columns.append(_core.zeros_like(x.detach()).reshape(-1) if g is None else g.detach().reshape(-1))
    return _core.stack(columns, 1) if columns else None


def _differ(numerical, analytical, atol, rtol):
    """How far two Jacobians are apart, as a tensor of one bool: a lazy answer, to be read with others."""
    close = (numerical - analytical).abs() <= atol + rtol * numerical.abs()
    return close.all()


def gradcheck(func, inputs, *, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True, nondet_tol=0.0):
    """Whether the gradients of `func` are those of its differences. True, else GradcheckError (or False).

    func: a function of tensors that returns one or several. inputs: its arguments; those that require gradients
    are checked and should be float64. eps: how far elements move. atol, rtol: how far results may be apart.
    """
    inputs = _tuple(inputs)
    checked = [i for i, x in enumerate(inputs) if isinstance(x, _core.Tensor) and x.requires_grad]
    if not checked:
        raise ValueError("gradcheck expects at least one input tensor to require gradient, but none of them have "
                         "requires_grad=True.")
    outputs = _differentiable(func(*inputs))
    if not outputs:
        raise RuntimeError("gradcheck: no output of the function requires a gradient")
    cases = []
    for i in checked:
        numerical = _numerical(func, inputs, i, len(outputs), eps)
        for o, (output, n) in enumerate(zip(outputs, numerical)):
            if n is None or output.numel() == 0:
                continue
            a = _analytical(output, inputs[i])
            cases.append((o, i, n, a, _differ(n, a, atol, rtol)))
    if not cases:
        return True
    agree = _core.stack([c[4] for c in cases]).tolist()  # one read
    for (o, i, n, a, _), good in zip(cases, agree):
        if not good:
            if not raise_exception:
                return False
            raise GradcheckError(f"Jacobian mismatch for output {o} with respect to input {i},\n"
                                 f"numerical:{n!r}\nanalytical:{a!r}\n")
    return True


def gradgradcheck(func, inputs, grad_outputs=None, *, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True):
    """`gradcheck` of the gradients of `func`, by random grad_outputs unless given."""
    inputs = _tuple(inputs)
    outputs = _differentiable(func(*inputs))
    if grad_outputs is None:
        grad_outputs = [_core.randn_like(o.detach()).requires_grad_() for o in outputs]
    seeds = _tuple(grad_outputs)
    n = len(inputs)

    def gradients(*arguments):
        xs, gs = arguments[:n], arguments[n:]
        wanted = [x for x in xs if isinstance(x, _core.Tensor) and x.requires_grad]
        found = grad(_differentiable(func(*xs)), wanted, gs, create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None and g.requires_grad)

    return gradcheck(gradients, (*inputs, *seeds), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception)
