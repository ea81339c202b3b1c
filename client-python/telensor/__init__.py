"""telensor: PyTorch's API over tensors that live in a daemon. `import telensor as torch`.

The first tensor opens the session: with the server that `connect` or TELENSOR_ADDR names, else with a private one.
Importing neither connects nor loads numpy; `nn`, `optim`, `utils`, `autograd` and `cuda` load at first use.
"""

import importlib as _importlib
import os as _os
import sys as _sys

from . import _core
from ._core import *  # noqa: F403  the ops, Tensor, dtypes, device, Size, tensor(), connect() ...
from ._compare import allclose, equal, isclose
from ._functions import *  # noqa: F403
from ._generator import Generator
from ._grad_mode import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled
from ._repr import set_printoptions
from ._type_info import finfo, iinfo
from .random import default_generator, initial_seed, manual_seed, seed

__version__ = "0.1.0"

# An environment has its telensord beside its interpreter, whether it is activated or not.
_core._set_hints(_os.path.dirname(_sys.executable or ""), f"telensor-python {__version__}")

globals().pop("functional", None)  # `_core.functional` is for `nn.functional` alone

# Loaded at first use (PEP 562): what a small script does without, it does not wait for.
_MODULES = {"nn", "optim", "utils", "autograd", "cuda", "backends"}
_FUNCTIONS = {"save": "_serialization", "load": "_serialization"}


def __getattr__(name):
    if name in _MODULES:
        return _importlib.import_module(f"{__name__}.{name}")
    if name in _FUNCTIONS:
        value = getattr(_importlib.import_module(f"{__name__}.{_FUNCTIONS[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__():
    return sorted({*globals(), *_MODULES, *_FUNCTIONS})
