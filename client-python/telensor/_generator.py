"""Generator: a source of random numbers of its own, on the client, for samplers and splits."""

from . import _core

__all__ = ["Generator"]


class Generator:
    """Random orders that depend on nothing but their seed. Draws on the client, without asking the server.

    The ops' own numbers come from the session's generator, which `manual_seed` sets.
    """

    def __init__(self, device="cpu"):
        import random

        self._device = device
        self._random = random.Random(0)
        self._seed = 0

    @property
    def device(self):
        """The device it was made for; it draws on the client all the same."""
        return _core.device(self._device)

    def manual_seed(self, seed):
        """Starts again from `seed`, an int; returns the generator."""
        self._seed = int(seed)
        self._random.seed(self._seed)
        return self

    def seed(self):
        """Starts again from a number that nobody can foresee, and returns it."""
        import secrets

        self.manual_seed(secrets.randbits(63))
        return self._seed

    def initial_seed(self):
        """The seed last set."""
        return self._seed

    def get_state(self):
        """The state, for `set_state`; a nested tuple of numbers."""
        return self._seed, self._random.getstate()

    def set_state(self, state):
        """Goes on from a state that `get_state` gave."""
        self._seed, inner = state
        self._random.setstate(inner)

    def permutation(self, n):
        """0 .. n - 1 in a random order, as a list."""
        order = list(range(n))
        self._random.shuffle(order)
        return order

    def integers(self, high, count):
        """`count` integers in [0, high), as a list."""
        draw = self._random.randrange
        return [draw(high) for _ in range(count)]
