"""Comparing whole tensors: `isclose`, `allclose`, `equal`. The last two wait for the answer."""

from . import _core

__all__ = ["isclose", "allclose", "equal"]


def _check_same_dtype(name, input, other):
    if input.dtype != other.dtype:
        raise RuntimeError(f"{name}: tensors must have one dtype, got {input.dtype} and {other.dtype}")


def isclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """True where |input - other| <= atol + rtol * |other|.

    input, other: tensors of one dtype, broadcast against each other. Infinities are close only to themselves.
    Raises ValueError for a negative tolerance, RuntimeError where dtypes differ.
    """
    _check_same_dtype("isclose", input, other)
    if rtol < 0:
        raise ValueError(f"rtol must be greater than or equal to zero, but got {rtol}")
    if atol < 0:
        raise ValueError(f"atol must be greater than or equal to zero, but got {atol}")
    close = input == other
    if not input.dtype.is_floating_point:
        if rtol == 0 and atol == 0:
            return close
        input, other = input.to(_core.float64), other.to(_core.float64)
    elif equal_nan:
        close = close | ((input != input) & (other != other))
    error = (input - other).abs()
    return close | (error.isfinite() & (error <= atol + (rtol * other).abs()))


def allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether `isclose` holds everywhere, as a bool."""
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


def equal(input, other):
    """Whether both tensors have one size and equal elements, as a bool. NaN equals nothing."""
    if tuple(input.shape) != tuple(other.shape):
        return False
    return bool((input == other).all())
