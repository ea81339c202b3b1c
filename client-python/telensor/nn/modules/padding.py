"""ZeroPad2d, ConstantPad2d, ReflectionPad2d, ReplicationPad2d."""

from .. import functional as F
from .module import Module

__all__ = ["ZeroPad2d", "ConstantPad2d", "ReflectionPad2d", "ReplicationPad2d"]


class _Pad2d(Module):
    """padding: a number, or (left, right, top, bottom)."""

    _mode = "constant"

    def __init__(self, padding):
        super().__init__()
        self.padding = (padding,) * 4 if isinstance(padding, int) else tuple(padding)

    def forward(self, input):
        return F.pad(input, self.padding, self._mode, getattr(self, "value", 0))

    def extra_repr(self):
        return f"{self.padding}"


class ConstantPad2d(_Pad2d):
    """Puts `value` around. input: (N, C, H, W) or (C, H, W)."""

    def __init__(self, padding, value):
        super().__init__(padding)
        self.value = value

    def extra_repr(self):
        return f"padding={self.padding}, value={self.value}"


class ZeroPad2d(_Pad2d):
    """Puts zeros around. input: (N, C, H, W) or (C, H, W)."""


class ReflectionPad2d(_Pad2d):
    """Puts a mirror image around, without the edge itself. input: (N, C, H, W) or (C, H, W)."""

    _mode = "reflect"


class ReplicationPad2d(_Pad2d):
    """Puts copies of the edge around. input: (N, C, H, W) or (C, H, W)."""

    _mode = "replicate"
