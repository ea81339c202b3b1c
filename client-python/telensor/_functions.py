"""Functions of the package that are Python over public ops, and what PyTorch programs call that needs no work here."""

from . import _core

__all__ = [
    "numel", "is_floating_point", "meshgrid", "compile", "get_default_device", "session_stats", "vstack", "hstack",
    "broadcast_tensors", "std_mean", "var_mean", "concat", "clip", "scalar_tensor", "get_num_threads",
    "set_num_threads", "set_float32_matmul_precision", "get_float32_matmul_precision",
]


def numel(input):
    """How many elements a tensor has."""
    return input.numel()


def is_floating_point(input):
    """Whether a tensor's dtype is a floating one."""
    return input.dtype.is_floating_point


def meshgrid(*tensors, indexing="ij"):
    """Coordinates of a grid. tensors: 0-dim or 1-dim, of one dtype -> as many views of one size.

    indexing: 'ij' for matrix order, 'xy' for Cartesian, which swaps the first two dimensions.
    """
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tuple(tensors[0])
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    if not tensors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    for t in tensors:
        if t.dim() > 1:
            raise RuntimeError("torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got dimension "
                               f"{t.dim()}")
    swap = indexing == "xy" and len(tensors) > 1
    if swap:
        tensors = (tensors[1], tensors[0], *tensors[2:])
    sizes = [t.numel() for t in tensors]
    rank = len(sizes)
    grids = [t.reshape([-1 if d == i else 1 for d in range(rank)]).expand(sizes) for i, t in enumerate(tensors)]
    if swap:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


def broadcast_tensors(*tensors):
    """The tensors expanded to the size they broadcast to."""
    rank = max((t.dim() for t in tensors), default=0)
    sizes = [1] * rank
    for t in tensors:
        for d, n in enumerate(t.shape, rank - t.dim()):
            if n != 1 and sizes[d] not in (1, n):
                raise RuntimeError(f"The size of tensor a ({sizes[d]}) must match the size of tensor b ({n}) "
                                   f"at non-singleton dimension {d}")
            sizes[d] = n if n != 1 else sizes[d]
    return tuple(t.expand(sizes) for t in tensors)


def vstack(tensors):
    """Tensors joined along rows; 0-dim and 1-dim ones count as a row."""
    return _core.cat([t.reshape(1, -1) if t.dim() < 2 else t for t in tensors], 0)


def hstack(tensors):
    """Tensors joined along columns (1-dim ones: along their only dimension)."""
    tensors = [t.reshape(1) if t.dim() == 0 else t for t in tensors]
    return _core.cat(tensors, 0 if tensors and tensors[0].dim() == 1 else 1)


def concat(tensors, dim=0):
    """`cat`."""
    return _core.cat(tensors, dim)


def clip(input, min=None, max=None):
    """`clamp`."""
    return _core.clamp(input, min, max)


def var_mean(input, dim=None, unbiased=True, keepdim=False):
    """(variance, mean) over `dim`, or over all elements."""
    return input.var(dim, unbiased, keepdim), input.mean(dim, keepdim)


def std_mean(input, dim=None, unbiased=True, keepdim=False):
    """(standard deviation, mean) over `dim`, or over all elements."""
    return input.std(dim, unbiased, keepdim), input.mean(dim, keepdim)


def scalar_tensor(value, *, dtype=None, device=None):
    """A 0-dim tensor, of the default dtype unless told otherwise."""
    return _core.full((), value, dtype=_core.get_default_dtype() if dtype is None else dtype, device=device)


def get_default_device():
    """The device that the server makes tensors on where none is named."""
    return _core._default_device()


def session_stats():
    """What this program's session has done: a dict of name to int.

    ops: commands sent. batches: messages they went in. blocked_round_trips: how often the program waited for an answer.
    """
    return dict(_core._session_stats())


def compile(model=None, **options):
    """`model` itself: telensor already sends ops ahead, so there is nothing to compile. Also a decorator."""
    if model is None:
        return lambda function: function
    return model


def get_num_threads():
    """1: the client computes nothing; how many threads the server uses is its own configuration."""
    return 1


def set_num_threads(count):
    """Does nothing: how many threads the server uses is its own configuration."""


_matmul_precision = "highest"


def get_float32_matmul_precision():
    """What `set_float32_matmul_precision` was last told."""
    return _matmul_precision


def set_float32_matmul_precision(precision):
    """Remembers the wish. float32 products always have float32 precision here."""
    global _matmul_precision
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError(f"'{precision}' is not one of 'highest', 'high' and 'medium'")
    _matmul_precision = precision
