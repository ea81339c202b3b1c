"""Optimizers, each one command a step, and schedules of their learning rates."""

from . import lr_scheduler
from .adam import Adam, AdamW
from .optimizer import Optimizer
from .sgd import SGD
