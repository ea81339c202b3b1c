"""Raw bytes of tensors, little-endian and row-major, to and from the host."""

import math

from . import _core

_SMALL = 1 << 20


def dtype_name(dtype):
    """"float32"."""
    return str(dtype).rpartition(".")[2]


def read_bytes(tensors):
    """The bytes of each tensor. Small ones of a kind are joined on the server and read together."""
    results = [None] * len(tensors)
    groups = {}
    for i, t in enumerate(tensors):
        small = t.numel() * t.element_size() <= _SMALL
        groups.setdefault((t.dtype, str(t.device)) if small else i, []).append(i)
    before = _core._set_grad_enabled(False)
    try:
        for members in groups.values():
            _read_group([tensors[i].detach() for i in members], members, results)
    finally:
        _core._set_grad_enabled(before)
    return results


def _read_group(tensors, places, results):
    if len(tensors) == 1:
        results[places[0]] = bytes(tensors[0]._bytes())
        return
    joined = memoryview(_core.cat([t.reshape(-1) for t in tensors])._bytes())
    start = 0
    for t, place in zip(tensors, places):
        end = start + t.numel() * t.element_size()
        results[place] = bytes(joined[start:end])
        start = end


def from_bytes(data, dtype, shape, device):
    """A tensor of bytes. Raises ValueError where they do not fit."""
    if math.prod(shape) == 0:
        return _core.empty(list(shape), dtype=dtype, device=device)
    return _core._rebuild_tensor(bytes(data), list(shape), dtype_name(dtype), False).to(device)


def rebuild_tensor(data, sizes, dtype, requires_grad):
    """What a pickled tensor names: a function that pickle finds, which a compiled one is not."""
    return _core._rebuild_tensor(data, sizes, dtype, requires_grad)
