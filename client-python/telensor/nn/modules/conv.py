"""Conv1d and Conv2d."""

import math

from ... import _core
from .. import functional as F
from .. import init
from ..parameter import Parameter
from .module import Module

__all__ = ["Conv1d", "Conv2d"]

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


def _tuple(value, n):
    return (value,) * n if isinstance(value, int) else tuple(value)


class _Conv(Module):
    """What the convolutions share. `_rank`: over how many dimensions they run."""

    _rank = 0

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
                 padding_mode="zeros", device=None, dtype=None):
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups:
            raise ValueError("out_channels must be divisible by groups")
        if isinstance(padding, str) and padding not in ("same", "valid"):
            raise ValueError(f"Invalid padding string {padding!r}, should be one of {{'same', 'valid'}}")
        if padding_mode not in _PADDING_MODES:
            raise ValueError(f"padding_mode must be one of {set(_PADDING_MODES)}, but got "
                             f"padding_mode='{padding_mode}'")
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride, self.dilation = (_tuple(v, self._rank) for v in (kernel_size, stride, dilation))
        self.padding = padding if isinstance(padding, str) else _tuple(padding, self._rank)
        if padding == "same" and any(s != 1 for s in self.stride):
            raise ValueError("padding='same' is not supported for strided convolutions")
        self.padding_mode = padding_mode
        self.weight = Parameter(
            _core.empty(out_channels, in_channels // groups, *self.kernel_size, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(_core.empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self):
        """Uniform in +-1/sqrt(inputs of one output)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in = self.weight.shape[1] * math.prod(self.kernel_size)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def _edges(self):
        """The padding as F.pad wants it: last dimension first, before and after."""
        edges = []
        for d in reversed(range(self._rank)):
            if self.padding == "valid":
                before, total = 0, 0
            elif self.padding == "same":
                total = self.dilation[d] * (self.kernel_size[d] - 1)
                before = total // 2
            else:
                before, total = self.padding[d], 2 * self.padding[d]
            edges += [before, total - before]
        return edges

    def forward(self, input):
        padding = self.padding
        if self.padding_mode != "zeros":
            input, padding = F.pad(input, self._edges(), mode=self.padding_mode), 0
        return self._convolve(input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)

    def extra_repr(self):
        ones, zeros = (1,) * self._rank, (0,) * self._rank
        parts = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
        if self.padding != zeros:
            parts.append(f"padding={self.padding}")
        if self.dilation != ones:
            parts.append(f"dilation={self.dilation}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)


class Conv1d(_Conv):
    """1-D cross-correlation. input: (N, in, L) or (in, L) -> (N, out, L'); weight: (out, in / groups, k).

    padding: a number, a tuple, 'valid' or 'same'.
    """

    _rank = 1
    _convolve = staticmethod(F.conv1d)


class Conv2d(_Conv):
    """2-D cross-correlation. input: (N, in, H, W) or (in, H, W) -> (N, out, H', W').

    weight: (out, in / groups, kh, kw), bias: (out). padding: a number, a tuple, 'valid' or 'same'.
    """

    _rank = 2
    _convolve = staticmethod(F.conv2d)
