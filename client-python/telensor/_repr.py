"""How tensors print: PyTorch's format, character by character.

Only what is shown is fetched: of a tensor of more than `threshold` elements, a small tensor of its edges, made on the
server and read once.
"""

import math

from . import _core

__all__ = ["set_printoptions", "tensor_repr"]


class _Options:
    """What `set_printoptions` sets."""

    precision = 4
    threshold = 1000
    edgeitems = 3
    linewidth = 80
    sci_mode = None


_PROFILES = {
    "default": (4, 1000, 3, 80),
    "short": (2, 1000, 2, 80),
    "full": (4, math.inf, 3, 80),
}


def set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None):
    """Sets how tensors print.

    precision: digits after the point. threshold: elements above which only the edges show. edgeitems: how many at
    each end of a dimension. linewidth: characters a line. profile: 'default', 'short' or 'full', overridden by the
    others. sci_mode: True or False to force or forbid powers of ten; None decides by the values.
    """
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(f"set_printoptions: profile must be one of {sorted(_PROFILES)}, got {profile!r}")
        _Options.precision, _Options.threshold, _Options.edgeitems, _Options.linewidth = _PROFILES[profile]
    if precision is not None:
        _Options.precision = precision
    if threshold is not None:
        _Options.threshold = threshold
    if edgeitems is not None:
        _Options.edgeitems = edgeitems
    if linewidth is not None:
        _Options.linewidth = linewidth
    _Options.sci_mode = sci_mode


class _Style:
    """How the numbers of one tensor are written, so that they line up: chosen from the values that show."""

    def __init__(self, values, floating):
        self.floating = floating
        self.kind = "integer"  # of a floating tensor: 'integer', 'fixed' or 'power'
        self.width = 1
        if not floating:
            self.width = max((len(str(v)) for v in values), default=1)
            return
        finite = [v for v in values if v != 0 and math.isfinite(v)]
        if finite:
            self._choose(finite)
        # Forced after the width is known, as PyTorch does.
        if _Options.sci_mode is True:
            self.kind = "power"
        elif _Options.sci_mode is False and self.kind == "power":
            self.kind = "integer" if all(v == math.ceil(v) for v in finite) else "fixed"

    def _choose(self, finite):
        smallest, largest = min(map(abs, finite)), max(map(abs, finite))
        whole = all(v == math.ceil(v) for v in finite)
        wide = largest / smallest > 1000.0 or largest > 1e8
        if wide or (not whole and smallest < 1e-4):
            self.kind = "power"
        elif not whole:
            self.kind = "fixed"
        self.width = max(1, *(len(self._digits(v)) for v in finite))

    def _digits(self, value):
        if self.kind == "power":
            return f"{value:.{_Options.precision}e}"
        if self.kind == "fixed":
            return f"{value:.{_Options.precision}f}"
        text = f"{value:.0f}"
        return text + "." if math.isfinite(value) else text

    def __call__(self, value):
        return (self._digits(value) if self.floating else str(value)).rjust(self.width)


def _edges(tensor):
    """`tensor` without what a summary leaves out. Long dimensions go first, so that little is copied."""
    edge = _Options.edgeitems
    for dim in sorted(range(tensor.dim()), key=lambda d: -tensor.shape[d]):
        n = tensor.shape[dim]
        if n > 2 * edge:
            if edge == 0:
                tensor = tensor.narrow(dim, 0, 0)
            else:
                tensor = _core.cat([tensor.narrow(dim, 0, edge), tensor.narrow(dim, n - edge, edge)], dim)
    return tensor


def _flat(nested, depth):
    """The numbers of a list of lists, `depth` deep."""
    if depth == 0:
        return [nested]
    for _ in range(depth - 1):
        nested = [x for inner in nested for x in inner]
    return nested


def _row(values, hidden, indent, style):
    """One line, or as many as needed, of numbers. hidden: after how many numbers '...' stands, or None."""
    width = style.width + 2  # ", "
    per_line = max(1, math.floor((_Options.linewidth - indent) / width))
    shown = [style(v) for v in values]
    if hidden is not None:
        shown.insert(hidden, " ...")
    lines = [", ".join(shown[i:i + per_line]) for i in range(0, len(shown), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _body(values, shape, indent, style, summarize):
    """The brackets. values: nested lists, of which summarised dimensions hold only the edges."""
    if not shape:
        return style(values)
    edge = _Options.edgeitems
    hidden = edge if summarize and shape[0] > 2 * edge else None
    if len(shape) == 1:
        return _row(values, hidden, indent, style)
    parts = [_body(v, shape[1:], indent + 1, style, summarize) for v in values]
    if hidden is not None:
        parts.insert(hidden, "...")
    return "[" + ("," + "\n" * (len(shape) - 1) + " " * (indent + 1)).join(parts) + "]"


def _with_suffixes(text, suffixes, indent):
    """Suffixes behind the numbers, on the last line while they fit."""
    last = len(text) - text.rfind("\n") + 1
    parts = [text]
    for suffix in suffixes:
        if last + len(suffix) + 2 > _Options.linewidth:
            parts.append(",\n" + " " * indent + suffix)
            last = indent + len(suffix)
        else:
            parts.append(", " + suffix)
            last += len(suffix) + 2
    return "".join(parts) + ")"


def _dtype_name(dtype):
    return "torch." + str(dtype).rpartition(".")[2]


def _gradient_suffix(tensor):
    fn = tensor.grad_fn
    if fn is not None:
        name = fn.name() if callable(getattr(fn, "name", None)) else str(fn).strip("<>")
        return f"grad_fn=<{name}>"
    return "requires_grad=True" if tensor.requires_grad else None


def tensor_repr(tensor):
    """What `repr(tensor)` gives. Waits for the numbers shown, or raises what went wrong in making them."""
    prefix = "tensor("
    shape = tuple(tensor.shape)
    dtype, floating = tensor.dtype, tensor.dtype.is_floating_point
    suffixes = []
    if str(tensor.device) != "cpu":
        suffixes.append(f"device='{tensor.device}'")
    default_dtype = _core.get_default_dtype()
    if 0 in shape:
        if len(shape) != 1:
            suffixes.append(f"size={shape}")
        if dtype != default_dtype:
            suffixes.append(f"dtype={_dtype_name(dtype)}")
        text = "[]"
    else:
        if dtype not in (default_dtype, _core.int64, _core.bool):
            suffixes.append(f"dtype={_dtype_name(dtype)}")
        summarize = math.prod(shape) > _Options.threshold
        before = _core._set_grad_enabled(False)
        try:
            shown = tensor.detach()
            values = (_edges(shown) if summarize else shown).tolist()
        finally:
            _core._set_grad_enabled(before)
        style = _Style(_flat(values, len(shape)), floating)
        text = _body(values, shape, len(prefix), style, summarize)
    gradient = _gradient_suffix(tensor)
    if gradient is not None:
        suffixes.append(gradient)
    return _with_suffixes(prefix + text, suffixes, len(prefix))
