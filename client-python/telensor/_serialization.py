"""save and load: state dictionaries, and any structure of dicts, lists, tuples, tensors and plain values.

A file is 8 bytes "TELENSR1", the header's length (8 bytes, little-endian), the header (JSON, in UTF-8, padded with
spaces) and the tensors' bytes, each little-endian, row-major and 64-byte aligned. The header holds the structure and
for each tensor its dtype, sizes and place. There is no code in a file, and `load` runs none.
Tensors that share memory are written each on its own.
"""

import io
import json
import math
import os
import re
import struct
import tempfile

from . import _core
from ._host_bytes import dtype_name, from_bytes, read_bytes

__all__ = ["save", "load"]

_MAGIC = b"TELENSR1"
_ALIGN = 64
_MAX_HEADER = 256 << 20
_MAX_DEPTH = 64
_READ_TOGETHER = 64 << 20
# Name: bytes of an element.
_DTYPES = {"bool": 1, "uint8": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8, "float16": 2, "bfloat16": 2,
           "float32": 4, "float64": 8}


class _Writer:
    """Turns a structure into JSON, and notes its tensors."""

    def __init__(self):
        self.tensors = []
        self._seen = {}

    def encode(self, value, path="", depth=0):
        """`value` as JSON: plain values as they are, all else as {kind: content}."""
        if depth > _MAX_DEPTH:
            raise ValueError(f"save: {path or 'the object'} is nested deeper than {_MAX_DEPTH}")
        if value is None or isinstance(value, (bool, str)) or type(value) is int:
            return value
        if isinstance(value, _core.Tensor):
            return self._tensor(value)
        if isinstance(value, float):
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, int):
            return int(value)

        def members(values):
            return [self.encode(v, f"{path}[{i}]", depth + 1) for i, v in enumerate(values)]

        if isinstance(value, dict):
            kind = "ordered" if type(value).__name__ == "OrderedDict" else "dict"
            pairs = [[self.encode(k, f"{path}, a key", depth + 1), self.encode(v, f"{path}[{k!r}]", depth + 1)]
                     for k, v in value.items()]
            metadata = getattr(value, "_metadata", None)
            if metadata is None:
                return {kind: pairs}
            return {kind: pairs, "metadata": self.encode(dict(metadata), f"{path}._metadata", depth + 1)}
        if isinstance(value, list):
            return {"list": members(value)}
        if isinstance(value, _core.Size):
            return {"size": list(value)}
        if isinstance(value, tuple):
            return {"tuple": members(value)}
        if isinstance(value, (set, frozenset)):
            return {"set": members(value)}
        if isinstance(value, bytes):
            return {"bytes": value.hex()}
        if isinstance(value, _core.dtype):
            return {"dtype": dtype_name(value)}
        if isinstance(value, _core.device):
            return {"device": str(value)}
        if hasattr(value, "item") and getattr(value, "shape", None) == ():
            return self.encode(value.item(), path, depth + 1)  # a numpy number
        where = f" at {path}" if path else ""
        hint = "; save module.state_dict()" if hasattr(value, "state_dict") else ""
        raise TypeError(f"save: can't write an object of type {type(value).__name__}{where}{hint}. A file holds "
                        "tensors, numbers, strings, bytes, dicts, lists, tuples and sets")

    def _tensor(self, tensor):
        index = self._seen.get(id(tensor))
        if index is None:
            index = self._seen[id(tensor)] = len(self.tensors)
            self.tensors.append(tensor)
        return {"tensor": index}


def _describe(tensors):
    """The headers of tensors, with their places after one another, and how long all are."""
    entries, start = [], 0
    for t in tensors:
        name = dtype_name(t.dtype)
        if name not in _DTYPES:
            raise TypeError(f"save: no tensors of dtype {t.dtype}")
        length = t.numel() * t.element_size()
        entry = {"dtype": name, "shape": list(t.shape), "start": start, "bytes": length, "device": str(t.device)}
        if t.requires_grad:
            entry["requires_grad"] = True
        if type(t).__name__ == "Parameter":
            entry["parameter"] = True
        entries.append(entry)
        start += -(-length // _ALIGN) * _ALIGN
    return entries, start


def _chunks(tensors):
    """The bytes of tensors, in order: read together where they are small."""
    batch, size = [], 0
    for t in tensors:
        length = t.numel() * t.element_size()
        if batch and size + length > _READ_TOGETHER:
            yield from read_bytes(batch)
            batch, size = [], 0
        batch.append(t.detach())
        size += length
    if batch:
        yield from read_bytes(batch)


def _write(obj, file):
    writer = _Writer()
    tree = writer.encode(obj)
    entries, _ = _describe(writer.tensors)
    header = json.dumps({"tensors": entries, "object": tree}, separators=(",", ":"), allow_nan=False).encode()
    header += b" " * (-(len(_MAGIC) + 8 + len(header)) % _ALIGN)
    file.write(_MAGIC + struct.pack("<Q", len(header)) + header)
    for data in _chunks(writer.tensors):
        file.write(data)
        file.write(bytes(-len(data) % _ALIGN))


def save(obj, f, *unused, **ignored):
    """Writes `obj` to a path, or to a file open for writing bytes.

    obj: tensors, numbers, strings, bytes, and dicts, lists, tuples and sets of them; such as a state_dict. A path
    is written aside and then put in place, so a file is never half one. Raises TypeError for other objects.
    """
    if hasattr(f, "write"):
        _write(obj, f)
        return
    path = os.path.realpath(os.fspath(f))
    fd, aside = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".telensor-")
    try:
        with os.fdopen(fd, "wb") as file:
            _write(obj, file)
            file.flush()
            os.fsync(file.fileno())
        try:
            mode = os.stat(path).st_mode & 0o7777
        except FileNotFoundError:
            umask = os.umask(0)
            os.umask(umask)
            mode = 0o666 & ~umask
        os.chmod(aside, mode)
        os.replace(aside, path)
    except BaseException:
        os.unlink(aside)
        raise


class _Bad(ValueError):
    """The file is not one that `save` wrote."""


def _is_dtype(value):
    return isinstance(value, str) and value in _DTYPES


def _is_count(value):
    return type(value) is int and 0 <= value < 1 << 63


_DEVICE = re.compile(r"cpu|cuda(:[0-9]{1,2})?")


def _check_entry(entry, length, free):
    """(dtype, shape, start, bytes) of a tensor's header, within bytes `free` to `length` of the body."""
    if not isinstance(entry, dict) or not _is_dtype(entry.get("dtype")):
        raise _Bad("a tensor of unknown dtype")
    shape, start, size = entry.get("shape"), entry.get("start"), entry.get("bytes")
    if not isinstance(shape, list) or len(shape) > _MAX_DEPTH or not all(map(_is_count, shape)):
        raise _Bad("a tensor with bad sizes")
    if not _is_count(start) or not _is_count(size) or start + size > length or start < free:
        raise _Bad("a tensor outside its place in the file, which may be cut short")
    device = entry.get("device", "cpu")
    if not isinstance(device, str) or not _DEVICE.fullmatch(device):
        raise _Bad("a tensor on a bad device")
    if math.prod(shape) * _DTYPES[entry["dtype"]] != size:
        raise _Bad("a tensor whose sizes and length disagree")
    return getattr(_core, entry["dtype"]), shape, start, size


class _Reader:
    """Turns JSON into a structure, and makes its tensors."""

    def __init__(self, tensors):
        self.tensors = tensors

    def decode(self, node, depth=0):
        """The value that `node` stands for. Raises _Bad."""
        if depth > _MAX_DEPTH + 1:
            raise _Bad("nested too deep")
        if node is None or isinstance(node, (bool, int, float, str)):
            return node
        if not isinstance(node, dict) or not node:
            raise _Bad("not a value")
        kind, content = next(iter(node.items()))
        make = getattr(self, f"_make_{kind}", None)
        if make is None:
            raise _Bad(f"a value of unknown kind {kind!r}")
        try:
            value = make(content, depth + 1)
            if "metadata" in node and kind in ("dict", "ordered"):
                value = self._with_metadata(value, self.decode(node["metadata"], depth + 1))
            return value
        except _Bad:
            raise
        except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
            raise _Bad(f"a bad value of kind {kind!r}") from error

    def _members(self, content, depth):
        if not isinstance(content, list):
            raise _Bad("not a list")
        return [self.decode(x, depth) for x in content]

    def _make_tensor(self, content, depth):
        if not _is_count(content):
            raise _Bad("a tensor without a number")
        return self.tensors[content]

    def _make_float(self, content, depth):
        if content not in ("nan", "inf", "-inf"):
            raise _Bad("a bad number")
        return float(content)

    def _make_dict(self, content, depth):
        return {self.decode(k, depth): self.decode(v, depth) for k, v in content}

    def _make_ordered(self, content, depth):
        from collections import OrderedDict

        return OrderedDict((self.decode(k, depth), self.decode(v, depth)) for k, v in content)

    def _with_metadata(self, value, metadata):
        from collections import OrderedDict

        if not isinstance(value, OrderedDict):
            value = OrderedDict(value)
        value._metadata = OrderedDict(metadata)
        return value

    def _make_list(self, content, depth):
        return self._members(content, depth)

    def _make_tuple(self, content, depth):
        return tuple(self._members(content, depth))

    def _make_set(self, content, depth):
        return set(self._members(content, depth))

    def _make_size(self, content, depth):
        if not isinstance(content, list) or not all(map(_is_count, content)):
            raise _Bad("bad sizes")
        return _core.Size(content)

    def _make_bytes(self, content, depth):
        return bytes.fromhex(content)

    def _make_dtype(self, content, depth):
        if not _is_dtype(content):
            raise _Bad("an unknown dtype")
        return getattr(_core, content)

    def _make_device(self, content, depth):
        if not _DEVICE.fullmatch(content):
            raise _Bad("a bad device")
        return _core.device(content)


def _target(map_location, saved):
    """The device for a tensor that was on `saved`."""
    if map_location is None:
        return saved
    if isinstance(map_location, dict):
        return map_location.get(saved, saved)
    return str(map_location)


def _make_tensor(entry, data, dtype, shape, map_location):
    target = _core.device(_target(map_location, entry.get("device", "cpu")))
    tensor = from_bytes(data, dtype, shape, target)
    if entry.get("parameter") is True:
        from .nn import Parameter

        return Parameter(tensor, entry.get("requires_grad") is True)
    return tensor.requires_grad_() if entry.get("requires_grad") is True else tensor


def _read_exactly(file, n):
    data = file.read(n)
    if len(data) != n:
        raise _Bad("it is cut short")
    return data


def _read(file, name, map_location):
    start = file.read(len(_MAGIC))
    if start[:4] == b"PK\x03\x04":
        raise ValueError(f"load: {name} is a file of PyTorch's own format, which can hold code. Convert it with "
                         "PyTorch: {k: v.numpy() for k, v in torch.load(path).items()}, and save that as tensors")
    if start != _MAGIC:
        raise ValueError(f"load: {name} is no telensor file: it starts with {start!r}, want {_MAGIC!r}")
    try:
        length, = struct.unpack("<Q", _read_exactly(file, 8))
        if length > _MAX_HEADER:
            raise _Bad(f"a header of {length} bytes; at most {_MAX_HEADER} are read")
        try:
            header = json.loads(_read_exactly(file, length))
        except (ValueError, RecursionError) as error:
            if isinstance(error, _Bad):
                raise
            raise _Bad("a header that is no JSON") from error
        if not isinstance(header, dict) or not isinstance(header.get("tensors"), list) or "object" not in header:
            raise _Bad("a header without tensors and object")
        body = file.tell()
        end = file.seek(0, io.SEEK_END)
        # All is checked before the first tensor is made.
        places, free = [], 0
        for entry in header["tensors"]:
            places.append(_check_entry(entry, end - body, free))
            free = places[-1][2] + places[-1][3]
        tensors = []
        for entry, (dtype, shape, begin, size) in zip(header["tensors"], places):
            file.seek(body + begin)
            tensors.append(_make_tensor(entry, _read_exactly(file, size), dtype, shape, map_location))
        return _Reader(tensors).decode(header["object"])
    except _Bad as error:
        raise ValueError(f"load: {name} is damaged or not a telensor file: {error}") from error


def load(f, map_location=None, weights_only=True, **ignored):
    """Reads what `save` wrote, from a path or from a file open for reading bytes that can seek.

    map_location: a device for all tensors, or a dict from saved to wanted device names; by default each goes where it
    was. Nothing in a file is run. Raises ValueError for what is not a telensor file, or is damaged.
    """
    if callable(map_location) and not isinstance(map_location, (str, _core.device)):
        raise TypeError("load: map_location must be a device, its name, a dict of names or None; telensor tensors have "
                        "no storage to hand to a function")
    if hasattr(f, "read"):
        return _read(f, getattr(f, "name", "the file"), map_location)
    path = os.fspath(f)
    with open(path, "rb") as file:
        return _read(file, path, map_location)
