"""Parameter: a tensor that a module trains. Buffer: one that it keeps."""

from .. import _core
from .._repr import tensor_repr

__all__ = ["Parameter", "Buffer"]


class Parameter(_core.Tensor):
    """A leaf tensor that a Module lists in `parameters()` once it is its attribute.

    data: any tensor; the parameter shares its memory and not its history. Ops on a parameter give plain tensors.
    Raises RuntimeError where a gradient is asked of an integer tensor.
    """

    def __new__(cls, data=None, requires_grad=True):
        if data is None:
            data = _core.empty(0)
        if not isinstance(data, _core.Tensor):
            raise TypeError(f"Parameter: data must be a Tensor, got {type(data).__name__}")
        return _core.Tensor._make_subclass(cls, data.detach(), requires_grad)

    def __repr__(self):
        return "Parameter containing:\n" + tensor_repr(self)

    def __deepcopy__(self, memo):
        found = memo.get(id(self))
        if found is None:
            found = memo[id(self)] = type(self)(self.detach().clone(), self.requires_grad)
        return found

    def __reduce_ex__(self, protocol):
        return _rebuild, (type(self), self.detach(), self.requires_grad)


def _rebuild(cls, data, requires_grad):
    return cls(data, requires_grad)


class Buffer:
    """Marks a tensor as a buffer: `self.mean = Buffer(tensor)` is `register_buffer("mean", tensor)`."""

    def __init__(self, data=None, *, persistent=True):
        self.data = _core.empty(0) if data is None else data
        self.persistent = persistent
