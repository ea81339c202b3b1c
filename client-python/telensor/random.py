"""The session's random numbers: `manual_seed`, `seed`, `initial_seed`."""

from ._core import initial_seed, manual_seed, seed

__all__ = ["manual_seed", "seed", "initial_seed"]
