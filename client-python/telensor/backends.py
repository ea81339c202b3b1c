"""Flags that PyTorch programs set. They are kept and change nothing: telensor's results are deterministic as it is."""


class _Flags:
    """A bag of flags that remembers what it is told."""

    def __init__(self, **flags):
        self.__dict__.update(flags)


cudnn = _Flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False)
cuda = _Flags(matmul=_Flags(allow_tf32=False))
mps = _Flags(is_available=lambda: False, is_built=lambda: False)
