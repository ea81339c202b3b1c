"""The session's random numbers: one seed for all its devices, and the same numbers on each."""

import secrets

from . import _core

__all__ = ["manual_seed", "seed", "initial_seed", "default_generator"]

_seed = 0  # a new session's


def manual_seed(seed):
    """Starts the session's random numbers again from `seed`, an int of 64 bits; returns `default_generator`."""
    global _seed
    seed = int(seed)
    if not -(1 << 63) <= seed < 1 << 64:
        raise RuntimeError(f"Overflow when unpacking long: manual_seed takes 64 bits, got {seed}")
    _core.manual_seed(seed % (1 << 64))
    _seed = seed % (1 << 64)
    return default_generator


def seed():
    """Starts again from a number that nobody can foresee, and returns it."""
    manual_seed(secrets.randbits(63))
    return _seed


def initial_seed():
    """The seed last set; 0 in a new session."""
    return _seed


class _SessionGenerator:
    """The session's generator on the server, as far as a client names it."""

    def manual_seed(self, seed):
        return manual_seed(seed)

    def seed(self):
        return seed()

    def initial_seed(self):
        return _seed


default_generator = _SessionGenerator()
