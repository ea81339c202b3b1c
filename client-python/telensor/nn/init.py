"""Initialisation: fills a tensor in place, outside the graph, and returns it. Numbers are drawn on the server."""

import functools
import math
import warnings

from .. import _core

__all__ = [
    "calculate_gain", "uniform_", "normal_", "trunc_normal_", "constant_", "ones_", "zeros_", "eye_",
    "xavier_uniform_", "xavier_normal_", "kaiming_uniform_", "kaiming_normal_", "sparse_", "dirac_",
]


def _without_grad(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        previous = _core._set_grad_enabled(False)
        try:
            return function(*args, **kwargs)
        finally:
            _core._set_grad_enabled(previous)

    return wrapper


def calculate_gain(nonlinearity, param=None):
    """How much a nonlinearity shrinks its input's spread; `param` is leaky_relu's negative slope (0.01)."""
    if nonlinearity in ("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
                        "conv_transpose3d", "sigmoid"):
        return 1
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "selu":
        return 3.0 / 4
    if nonlinearity == "leaky_relu":
        if param is None:
            slope = 0.01
        elif isinstance(param, (int, float)) and not isinstance(param, bool):
            slope = param
        else:
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


def _fans(tensor):
    """(fan_in, fan_out) of a weight: (out, in, *kernel)."""
    if tensor.dim() < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    area = math.prod(tensor.shape[2:])
    return tensor.shape[1] * area, tensor.shape[0] * area


_calculate_fan_in_and_fan_out = _fans


@_without_grad
def uniform_(tensor, a=0.0, b=1.0, generator=None):
    """Uniform in [a, b)."""
    return tensor.uniform_(a, b)


@_without_grad
def normal_(tensor, mean=0.0, std=1.0, generator=None):
    """Normal."""
    return tensor.normal_(mean, std)


@_without_grad
def constant_(tensor, val):
    """Every element `val`."""
    return tensor.fill_(val)


def ones_(tensor):
    """Ones."""
    return constant_(tensor, 1.0)


def zeros_(tensor):
    """Zeros."""
    return constant_(tensor, 0.0)


@_without_grad
def eye_(tensor):
    """The identity. tensor: a matrix."""
    if tensor.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    return tensor.copy_(_core.eye(*tensor.shape, dtype=tensor.dtype, device=tensor.device))


@_without_grad
def dirac_(tensor, groups=1):
    """A convolution that gives back its input. tensor: (out, in / groups, *kernel) of 3 to 5 dimensions."""
    rank = tensor.dim()
    if rank not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.shape[0] % groups:
        raise ValueError("dim 0 must be divisible by groups")
    tensor.zero_()
    per_group = tensor.shape[0] // groups
    n = min(per_group, tensor.shape[1])
    rows = [g * per_group + d for g in range(groups) for d in range(n)]
    columns = [d for _ in range(groups) for d in range(n)]
    middle = tensor
    for size in tensor.shape[2:]:
        middle = middle.select(2, size // 2)  # a view: (out, in / groups)
    for row, column in zip(rows, columns):
        middle[row, column] = 1
    return tensor


def _erfinv(y):
    """The inverse of erf, for |y| < 1 in float64: Giles' polynomial, then two steps of Newton's method."""
    w = -((1 - y) * (1 + y)).log()
    small, large = w - 2.5, w.clamp(min=5).sqrt() - 3

    def polynomial(x, coefficients):
        p = _core.full_like(x, coefficients[0])
        for c in coefficients[1:]:
            p = p * x + c
        return p

    near = polynomial(small, (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
                              -0.00125372503, -0.00417768164, 0.246640727, 1.50140941))
    far = polynomial(large, (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
                             -0.0076224613, 0.00943887047, 1.00167406, 2.83297682))
    x = _core.where(w < 5, near, far) * y
    for _ in range(2):
        x = x - (x.erf() - y) / ((-(x * x)).exp() * (2 / math.sqrt(math.pi)))
    return x


@_without_grad
def trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0, generator=None):
    """Normal, limited to [a, b], by the inverse of the distribution function."""

    def phi(x):
        return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0

    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn("mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may be "
                      "incorrect.", stacklevel=3)
    low, high = 2 * phi((a - mean) / std) - 1, 2 * phi((b - mean) / std) - 1
    y = _core.empty_like(tensor, dtype=_core.float64).uniform_(low, high)
    # An end at +-1 has no finite inverse.
    y = y.clamp(min=-1 + 1e-15, max=1 - 1e-15)
    return tensor.copy_((_erfinv(y) * (std * math.sqrt(2.0)) + mean).clamp(min=a, max=b))


@_without_grad
def xavier_uniform_(tensor, gain=1.0, generator=None):
    """Uniform in +-gain * sqrt(6 / (fan_in + fan_out))."""
    bound = gain * math.sqrt(3.0) * math.sqrt(2.0 / sum(_fans(tensor)))
    return tensor.uniform_(-bound, bound)


@_without_grad
def xavier_normal_(tensor, gain=1.0, generator=None):
    """Normal with std gain * sqrt(2 / (fan_in + fan_out))."""
    return tensor.normal_(0.0, gain * math.sqrt(2.0 / sum(_fans(tensor))))


def _kaiming_std(tensor, a, mode, nonlinearity):
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    fan = _fans(tensor)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def _is_empty(tensor):
    if 0 not in tensor.shape:
        return False
    warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
    return True


@_without_grad
def kaiming_uniform_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """Uniform in +-gain * sqrt(3 / fan); `a` is leaky_relu's negative slope."""
    if _is_empty(tensor):
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return tensor.uniform_(-bound, bound)


@_without_grad
def kaiming_normal_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """Normal with std gain / sqrt(fan); `a` is leaky_relu's negative slope."""
    if _is_empty(tensor):
        return tensor
    return tensor.normal_(0.0, _kaiming_std(tensor, a, mode, nonlinearity))


@_without_grad
def sparse_(tensor, sparsity, std=0.01, generator=None):
    """Normal, with a share `sparsity` of every column zero. tensor: a matrix."""
    if tensor.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    tensor.normal_(0.0, std)
    rows = tensor.shape[0]
    order = _core.rand(*tensor.shape, device=tensor.device).argsort(0).argsort(0)
    return tensor.masked_fill_(order < math.ceil(sparsity * rows), 0)
