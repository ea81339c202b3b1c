"""Gradient mode: `no_grad`, `enable_grad`, `inference_mode` and `set_grad_enabled`.

The mode belongs to the calling thread and travels with every op. Each is a context manager and a decorator, of
functions and of generator functions; `set_grad_enabled(mode)` also acts as a plain call.
"""

import functools
import inspect

from . import _core

__all__ = ["no_grad", "enable_grad", "set_grad_enabled", "inference_mode", "is_grad_enabled"]


def is_grad_enabled():
    """True where ops of this thread are recorded for `backward`."""
    return _core._grad_enabled()


class _GradMode:
    """A gradient mode to enter. Reusable and nestable: every entry remembers what it found."""

    _mode = False

    def __init__(self):
        self._previous = []

    def _again(self):
        return type(self)()

    def __enter__(self):
        self._previous.append(_core._set_grad_enabled(self._mode))

    def __exit__(self, *exc_info):
        _core._set_grad_enabled(self._previous.pop())
        return False

    def __call__(self, function):
        if inspect.isclass(function):
            function.__init__ = self(function.__init__)
            return function
        if inspect.isgeneratorfunction(function):
            return self._wrap_generator(function)

        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            with self._again():
                return function(*args, **kwargs)

        return wrapper

    def _wrap_generator(self, function):
        # The mode holds only while the generator's own code runs, not between its yields.
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            generator = function(*args, **kwargs)
            resume = functools.partial(next, generator)
            try:
                while True:
                    try:
                        with self._again():
                            item = resume()
                    except StopIteration as stop:
                        return stop.value
                    try:
                        sent = yield item
                        resume = functools.partial(generator.send, sent)
                    except GeneratorExit:
                        with self._again():
                            generator.close()
                        raise
                    except BaseException as error:
                        resume = functools.partial(generator.throw, error)
            finally:
                with self._again():
                    generator.close()

        return wrapper


class _BareDecorator(_GradMode):
    """A mode that also decorates without brackets: `@no_grad` as well as `@no_grad()`."""

    def __new__(cls, function=None):
        self = super().__new__(cls)
        if function is None:
            return self
        self.__init__()
        return self(function)

    def __init__(self, function=None):
        super().__init__()


class no_grad(_BareDecorator):
    """Ops inside are not recorded: their results require no gradient."""


class enable_grad(_BareDecorator):
    """Ops inside are recorded, also within `no_grad`."""

    _mode = True


class inference_mode(_GradMode):
    """`no_grad` for code that never meets autograd again; `inference_mode(False)` records.

    Tensors made inside are ordinary tensors, so unlike in PyTorch they may be used in recorded ops later.
    """

    def __new__(cls, mode=True):
        if callable(mode) and not isinstance(mode, bool):
            return cls()(mode)
        return super().__new__(cls)

    def __init__(self, mode=True):
        super().__init__()
        self._mode = not mode

    def _again(self):
        return type(self)(not self._mode)


class set_grad_enabled(_GradMode):
    """Sets the mode at once; as a context manager it puts the former one back at the end."""

    def __init__(self, mode):
        super().__init__()
        self._mode = bool(mode)
        self._first = _core._set_grad_enabled(self._mode)
        self._entered = False

    def __enter__(self):
        if self._entered:
            super().__enter__()
            return
        self._entered = True
        self._previous.append(self._first)

    def _again(self):
        return type(self)(self._mode)

    def __call__(self, function):
        # Only a decorator, so the mode outside is as it was.
        _core._set_grad_enabled(self._first)
        return super().__call__(function)
