"""Optimizer: the base, with parameter groups and the state of each parameter."""

import functools
from collections import OrderedDict, defaultdict
from copy import deepcopy

from .. import _core
from ..nn.modules.module import clear_gradients

__all__ = ["Optimizer"]

Tensor = _core.Tensor


class _Required:
    def __repr__(self):
        return "<required parameter>"


required = _Required()


def _counted(step):
    """`step`, counted for the learning-rate schedules."""

    @functools.wraps(step)
    def wrapper(self, *args, **kwargs):
        self._step_count += 1
        return step(self, *args, **kwargs)

    wrapper._counts = True
    return wrapper


class Optimizer:
    """Changes parameters by their gradients.

    params: an iterable of tensors, of dicts {"params": tensors, option: value}, or of (name, tensor).
    defaults: the options of groups that do not set their own.
    `param_groups`: a list of dicts, read at every step. `state`: a dict of each parameter's own.
    """

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        step = cls.__dict__.get("step")
        if step is not None and not hasattr(step, "_counts"):
            cls.step = _counted(step)

    def __init__(self, params, defaults):
        if isinstance(params, Tensor):
            raise TypeError("params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                            f"{type(params).__name__}")
        self.defaults = defaults
        self.state = defaultdict(dict)
        self.param_groups = []
        self._step_count = 0
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, param_group):
        """Adds a dict {"params": tensors, option: value}. Raises TypeError, ValueError for what can't be optimized."""
        if not isinstance(param_group, dict):
            raise TypeError("param group must be a dict")
        group = dict(param_group)
        params = group["params"]
        if isinstance(params, Tensor):
            params = [params]
        elif isinstance(params, (set, frozenset)):
            raise TypeError("optimizer parameters need to be organized in ordered collections, but the ordering of "
                            "tensors in sets will change between runs. Please use a list instead.")
        params = [p[1] if isinstance(p, tuple) and len(p) == 2 and isinstance(p[0], str) else p for p in params]
        for p in params:
            if not isinstance(p, Tensor):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {type(p).__name__}")
            if not p.is_leaf:
                raise ValueError("can't optimize a non-leaf Tensor")
        group["params"] = params
        for name, default in self.defaults.items():
            if default is required and name not in group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            group.setdefault(name, default)
        if len({id(p) for p in params}) != len(params):
            raise ValueError("optimizer contains a parameter group with duplicate parameters")
        taken = {id(p) for g in self.param_groups for p in g["params"]}
        if any(id(p) in taken for p in params):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(group)

    def zero_grad(self, set_to_none=True):
        """Drops the gradients, or sets them to zero in place."""
        clear_gradients((p for group in self.param_groups for p in group["params"]), set_to_none)

    def step(self, closure=None):
        """One step. closure: clears the gradients, computes the loss and its gradients, and returns the loss."""
        raise NotImplementedError

    def _loss_of(self, closure):
        """What `closure` returns, computed with gradients on."""
        if closure is None:
            return None
        previous = _core._set_grad_enabled(True)
        try:
            return closure()
        finally:
            _core._set_grad_enabled(previous)

    # --- saving ---

    def state_dict(self):
        """{"state": {index: state}, "param_groups": [options and indices]}: PyTorch's structure."""
        order = {}
        groups = []
        for group in self.param_groups:
            packed = {k: v for k, v in group.items() if k != "params"}
            packed["params"] = [order.setdefault(id(p), len(order)) for p in group["params"]]
            groups.append(packed)
        state = {order.get(id(k), k) if isinstance(k, Tensor) else k: v for k, v in self.state.items()}
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict):
        """Takes over what `state_dict` gave. Tensors go to their parameter's device and floating dtype.

        Raises ValueError where the groups do not fit.
        """
        saved = state_dict["param_groups"]
        if len(saved) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(a["params"]) != len(b["params"]) for a, b in zip(self.param_groups, saved)):
            raise ValueError("loaded state dict contains a parameter group that doesn't match the size of optimizer's "
                             "group")
        own = {}
        for group, loaded in zip(self.param_groups, saved):
            own.update(zip(loaded["params"], group["params"]))
        state = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in own:
                state[own[key]] = {k: self._fitted(own[key], k, v) for k, v in value.items()}
            else:
                state[key] = deepcopy(value)
        self.param_groups = [{**{k: deepcopy(v) for k, v in loaded.items() if k != "params"}, "params": group["params"]}
                             for group, loaded in zip(self.param_groups, saved)]
        self.state = state
        self._fill_defaults()

    def _fill_defaults(self):
        """Options that a file from another version lacks."""
        for group in self.param_groups:
            for name, value in self.defaults.items():
                group.setdefault(name, value)

    def _fitted(self, parameter, key, value):
        if not isinstance(value, Tensor):
            return deepcopy(value)
        if key == "step":
            return int(value.item())  # a tensor in PyTorch's files
        dtype = parameter.dtype if parameter.dtype.is_floating_point else value.dtype
        return value.detach().to(parameter.device, dtype).clone()

    def __getstate__(self):
        return {"defaults": self.defaults, "state": dict(self.state), "param_groups": self.param_groups}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.state = defaultdict(dict, self.state)
        self._step_count = 0

    def __repr__(self):
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {k}: {group[k]}" for k in sorted(group) if k != "params"]
        return "\n".join(lines) + "\n)"

    # --- for optimizers of one command ---

    @staticmethod
    def _buckets(group, key=lambda p: None):
        """Parameters with a gradient, by dtype, device and `key`: what one command can do together."""
        buckets = OrderedDict()
        for p in group["params"]:
            grad = p.grad
            if grad is not None:
                buckets.setdefault((p.dtype, p.device, key(p)), []).append((p, grad))
        return ((k[2], members) for k, members in buckets.items())


def check_options(**options):
    """Raises ValueError for a negative option, in PyTorch's words."""
    for name, value in options.items():
        if not 0.0 <= value:
            raise ValueError(f"Invalid learning rate: {value}" if name == "lr" else f"Invalid {name} value: {value}")
