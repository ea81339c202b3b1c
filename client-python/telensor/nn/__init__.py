"""Neural networks: modules, losses, initialisation and the functions behind them."""

from . import functional, init, modules, parameter, utils
from .modules import *  # noqa: F403
from .parameter import Buffer, Parameter
