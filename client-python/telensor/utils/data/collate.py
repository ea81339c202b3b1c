"""default_collate: how samples become a batch.

In two steps, so that the first can run in a worker process that has no server: `stack_host` makes numpy arrays of
numbers and arrays, `to_tensors` turns these into tensors, one upload each.
"""

import collections.abc
import sys

from ... import _core

__all__ = ["default_collate", "default_convert"]


class HostBatch:
    """Numbers of a batch on the host: a numpy array, or a flat list of Python numbers where numpy is missing."""

    __slots__ = ("values", "dtype")

    def __init__(self, values, dtype=None):
        self.values, self.dtype = values, dtype

    def tensor(self):
        """The tensor: one upload."""
        if self.dtype is None:
            return _core.from_numpy(self.values)
        return _core.tensor(self.values, dtype=getattr(_core, self.dtype))


def _numpy():
    """numpy if the program has it loaded: a sample can't be an array otherwise."""
    return sys.modules.get("numpy")


def _is_array(value):
    numpy = _numpy()
    return numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic))


def _stack_arrays(batch):
    numpy = _numpy()
    if batch[0].dtype.kind not in "biuf":
        raise TypeError(f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found "
                        f"{batch[0].dtype}")
    shapes = {numpy.shape(b) for b in batch}
    if len(shapes) > 1:
        first, other = list(batch[0].shape), next(list(b.shape) for b in batch if b.shape != batch[0].shape)
        raise RuntimeError(f"stack expects each tensor to be equal size, but got {first} at entry 0 and {other} at "
                           f"entry {next(i for i, b in enumerate(batch) if list(b.shape) == other)}")
    return HostBatch(numpy.stack(batch))


def stack_host(batch):
    """`batch`, a list of samples, as one structure whose leaves are HostBatch, tensors or lists of strings."""
    first = batch[0]
    if isinstance(first, _core.Tensor):
        return _core.stack(batch, 0)
    if _is_array(first):
        return _stack_arrays(batch)
    if isinstance(first, bool):
        return HostBatch(list(batch), "bool")
    if isinstance(first, float):
        return HostBatch(list(batch), "float64")
    if isinstance(first, int):
        return HostBatch(list(batch), "int64")
    if isinstance(first, (str, bytes)):
        return list(batch)
    if isinstance(first, collections.abc.Mapping):
        result = {key: stack_host([sample[key] for sample in batch]) for key in first}
        return _like(first, result)
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(stack_host(list(column)) for column in zip(*batch)))
    if isinstance(first, collections.abc.Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        return [stack_host(list(column)) for column in zip(*batch)]
    raise TypeError(f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found "
                    f"{type(first)}")


def _like(mapping, result):
    try:
        return type(mapping)(result)
    except TypeError:
        return result


def to_tensors(structure):
    """`structure` with every HostBatch as a tensor."""
    if isinstance(structure, HostBatch):
        return structure.tensor()
    if isinstance(structure, collections.abc.Mapping):
        return _like(structure, {key: to_tensors(value) for key, value in structure.items()})
    if isinstance(structure, tuple) and hasattr(structure, "_fields"):
        return type(structure)(*map(to_tensors, structure))
    if isinstance(structure, tuple):
        return tuple(map(to_tensors, structure))
    if isinstance(structure, list):
        return [to_tensors(value) for value in structure]
    return structure


def default_collate(batch):
    """A batch of a list of samples: tensors and arrays are stacked, numbers become tensors, structure is kept.

    int gives int64, float float64, bool bool; strings stay a list; dicts, tuples (as lists) and named tuples are
    collated by member. Raises TypeError for other samples, RuntimeError where sizes differ.
    """
    return to_tensors(stack_host(batch))


def default_convert(data):
    """What a DataLoader without batches does to a sample: numpy arrays become tensors, structure is kept."""
    if _is_array(data) and data.dtype.kind in "biuf":
        return _core.as_tensor(data)
    if isinstance(data, collections.abc.Mapping):
        return _like(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*map(default_convert, data))
    if isinstance(data, tuple):
        return [default_convert(d) for d in data]
    if isinstance(data, list):
        return [default_convert(d) for d in data]
    return data


def contains_tensor(structure):
    """Whether a tensor is somewhere in it."""
    if isinstance(structure, _core.Tensor):
        return True
    if isinstance(structure, collections.abc.Mapping):
        return any(map(contains_tensor, structure.values()))
    if isinstance(structure, (list, tuple)):
        return any(map(contains_tensor, structure))
    return False
