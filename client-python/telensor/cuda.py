"""The server's GPUs, under the names PyTorch gives them. Questions about memory wait for the server's answer."""

from . import _core, random

__all__ = [
    "is_available", "device_count", "current_device", "get_device_name", "set_device", "synchronize", "empty_cache",
    "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "memory_stats",
    "reset_peak_memory_stats", "manual_seed", "manual_seed_all", "is_initialized", "init",
]


def _names():
    return [name for name in _core._devices() if name.startswith("cuda")]


def is_available():
    """Whether the server has a GPU."""
    return bool(_names())


def device_count():
    """How many GPUs this session may use."""
    return len(_names())


def is_initialized():
    """True: the server's devices are ready before a session opens."""
    return True


def init():
    """Does nothing: the server's devices are ready before a session opens."""


def _index(device):
    """The index of a GPU named by None, an int, a string or a device. Raises ValueError for another kind of device."""
    if device is None:
        return 0
    if isinstance(device, int):
        index = device
    else:
        device = _core.device(device)
        if device.type != "cuda":
            raise ValueError(f"Expected a cuda device, but got: {device}")
        index = device.index or 0
    if not 0 <= index < max(1, device_count()):
        raise RuntimeError(f"CUDA error: invalid device ordinal: cuda:{index} of {device_count()} devices")
    return index


def current_device():
    """The GPU that "cuda" means: 0."""
    return 0


def set_device(device):
    """Accepts the current device. Raises RuntimeError for another one."""
    if _index(device) != current_device():
        raise RuntimeError("cuda.set_device: only cuda:0 can be the current device; name other devices in .to()")


def get_device_name(device=None):
    """The name of a GPU."""
    name = f"cuda:{_index(device)}"
    return next((d["description"] for d in _core._status()["devices"] if d["name"] == name), name)


def synchronize(device=None):
    """Waits until the server has done all that this session sent."""
    _core.synchronize()


def empty_cache():
    """Does nothing: the server's allocator serves all its users, and gives cached memory back when it needs to."""


def memory_stats(device=None):
    """Every counter of the device's allocator, a dict of name to int, under PyTorch's names."""
    _index(device)
    return dict(sorted(_core._status()["memory"].items()))


# Peaks are the server's, for all its users; a reset is remembered here as the figure to start from.
_floor = {}


def _figure(name, device):
    return memory_stats(device).get(name, 0)


def _peak(name, device):
    stats = memory_stats(device)
    peak, current = stats.get(f"{name}.all.peak", 0), stats.get(f"{name}.all.current", 0)
    return current if _floor.get(name) == peak else peak


def memory_allocated(device=None):
    """Bytes in blocks that tensors use."""
    return _figure("allocated_bytes.all.current", device)


def max_memory_allocated(device=None):
    """The most bytes that blocks in use have had."""
    return _peak("allocated_bytes", device)


def memory_reserved(device=None):
    """Bytes that the allocator holds, in use and cached."""
    return _figure("reserved_bytes.all.current", device)


def max_memory_reserved(device=None):
    """The most bytes that the allocator has held."""
    return _peak("reserved_bytes", device)


def reset_peak_memory_stats(device=None):
    """Peaks start again from what is in use now, as far as this client sees.

    The server's peaks are for all its users, so it keeps them: after a reset a peak is what is in use, until the
    server's own one is passed.
    """
    stats = memory_stats(device)
    for name in ("allocated_bytes", "reserved_bytes"):
        _floor[name] = stats.get(f"{name}.all.peak", 0)


def manual_seed(seed):
    """Seeds the session's random numbers: one seed for all devices."""
    random.manual_seed(seed)


manual_seed_all = manual_seed
