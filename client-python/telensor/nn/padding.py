"""`pad`: elements put around a tensor, or with negative sizes cut off."""

from .. import _core

__all__ = ["pad"]


def _constant(input, dim, before, after, value):
    def block(n):
        return input.new_full([n if d == dim else s for d, s in enumerate(input.shape)], value)

    kept = input
    size = input.shape[dim]
    if before < 0 or after < 0:
        start, length = max(0, -before), size + min(0, before) + min(0, after)
        if length < 0:
            raise RuntimeError(f"The input size {size}, plus negative padding {before} and {after}, resulted in a "
                               f"negative output size, which is invalid. Check dimension {dim} of your input.")
        kept = input.narrow(dim, start, length)
    pieces = ([block(before)] if before > 0 else []) + [kept] + ([block(after)] if after > 0 else [])
    return kept if len(pieces) == 1 else _core.cat(pieces, dim)


def _source(mode, size, before, after):
    """Which index of a dimension stands at each place of the padded one."""
    places = range(-before, size + after)
    if mode == "replicate":
        return [min(max(i, 0), size - 1) for i in places]
    if mode == "circular":
        return [i % size for i in places]
    last = size - 1
    return [last - abs(last - abs(i)) for i in places]


def pad(input, pad, mode="constant", value=None):
    """Pads the last len(pad) / 2 dimensions. pad: (before, after) of the last dimension, then of the one before, ...

    mode: 'constant' (with `value`, 0 by default), 'reflect', 'replicate' or 'circular'. Negative sizes cut off, in
    mode 'constant'. Raises RuntimeError where sizes do not fit.
    """
    if len(pad) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(pad) // 2 > input.dim():
        raise RuntimeError(f"Padding length should be less than or equal to two times the input dimension but got "
                           f"padding length {len(pad)} and input of dimension {input.dim()}")
    if mode not in ("constant", "reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if mode != "constant" and value:
        raise ValueError(f"Padding mode \"{mode}\" doesn't take in value argument")
    changed = False
    for i in range(len(pad) // 2):
        dim, before, after = input.dim() - 1 - i, int(pad[2 * i]), int(pad[2 * i + 1])
        if before == 0 and after == 0:
            continue
        changed = True
        if mode == "constant":
            input = _constant(input, dim, before, after, 0 if value is None else value)
            continue
        size = input.shape[dim]
        if before < 0 or after < 0:
            raise RuntimeError(f"pad: mode '{mode}' needs sizes of at least 0, got {before} and {after}")
        if mode == "reflect" and max(before, after) >= size:
            raise RuntimeError(f"Padding size should be less than the corresponding input dimension, but got: padding "
                               f"({before}, {after}) at dimension {dim} of input {list(input.shape)}")
        if mode == "circular" and max(before, after) > size:
            raise RuntimeError("Padding value causes wrapping around more than once.")
        index = _core.tensor(_source(mode, size, before, after), dtype=_core.int64, device=input.device)
        input = input.index_select(dim, index)
    return input if changed else input.clone()
