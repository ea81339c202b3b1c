"""`finfo` and `iinfo`: the limits of a dtype."""

from . import _core

__all__ = ["finfo", "iinfo"]

# dtype: bits, bits of the fraction, exponent of the largest power of two, of the smallest normal number
_FLOATS = {
    "float16": (16, 10, 15, -14),
    "bfloat16": (16, 7, 127, -126),
    "float32": (32, 23, 127, -126),
    "float64": (64, 52, 1023, -1022),
}
_INTEGERS = {"uint8": (8, False), "int8": (8, True), "int16": (16, True), "int32": (32, True), "int64": (64, True)}


def _name(dtype):
    return str(dtype).rpartition(".")[2]


class finfo:
    """Limits of a floating dtype (default: the default dtype): bits, eps, max, min, tiny, resolution."""

    def __init__(self, type=None):
        name = _name(_core.get_default_dtype() if type is None else type)
        if name not in _FLOATS:
            raise TypeError(f"torch.finfo() requires a floating point input type. Use torch.iinfo to handle '{name}'")
        self.bits, fraction, top, bottom = _FLOATS[name]
        self.dtype = name
        self.eps = 2.0**-fraction
        self.max = (2.0 - self.eps) * 2.0**top
        self.min = -self.max
        self.tiny = self.smallest_normal = 2.0**bottom
        self.resolution = 10.0 ** -int(fraction * 0.30102999566398120)

    def __repr__(self):
        return (f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
                f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})")


class iinfo:
    """Limits of an integer dtype: bits, min, max."""

    def __init__(self, type):
        name = _name(type)
        if name not in _INTEGERS:
            raise TypeError(f"torch.iinfo() requires an integer input type. Use torch.finfo to handle '{name}'")
        self.bits, signed = _INTEGERS[name]
        self.dtype = name
        self.max = 2 ** (self.bits - signed) - 1
        self.min = -(2 ** (self.bits - 1)) if signed else 0

    def __repr__(self):
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"
