"""Module: the base of all networks."""

import copy
from collections import OrderedDict

from ... import _core
from ..parameter import Buffer, Parameter
from .hooks import RemovableHandle
from .state import StateDict

__all__ = ["Module"]

Tensor = _core.Tensor


def _hooked(hook, with_kwargs):
    # The dictionary of hooks holds pairs, so that hooks with keyword arguments keep their place in the order.
    return (hook, with_kwargs)


def _convert_arguments(args, kwargs):
    """What `Module.to` was asked for: (device, dtype)."""
    device = kwargs.pop("device", None)
    dtype = kwargs.pop("dtype", None)
    other = kwargs.pop("tensor", None)
    kwargs.pop("non_blocking", None)
    kwargs.pop("memory_format", None)
    if kwargs:
        raise TypeError(f"to() got an unexpected keyword argument '{next(iter(kwargs))}'")
    for arg in args:
        if isinstance(arg, Tensor):
            other = arg
        elif isinstance(arg, _core.dtype):
            dtype = arg
        elif isinstance(arg, bool) or arg is None:
            continue  # non_blocking, or no device
        else:
            device = arg if isinstance(arg, _core.device) else _core.device(arg)
    if other is not None:
        device, dtype = other.device, other.dtype
    if device is not None and not isinstance(device, _core.device):
        device = _core.device(device)
    if dtype is not None and not dtype.is_floating_point:
        raise TypeError(f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}")
    return device, dtype


class Module(StateDict):
    """A network or a part of one: parameters, buffers, submodules and `forward`.

    Assigning a Parameter, a Module or a Buffer to an attribute registers it. Calling the module calls `forward`
    between the hooks.
    """

    training = True
    _version = 1

    def __init__(self):
        put = self.__dict__.__setitem__
        put("training", True)
        for name in ("_parameters", "_buffers", "_modules", "_forward_pre_hooks", "_forward_hooks"):
            put(name, OrderedDict())
        put("_non_persistent_buffers_set", set())

    # --- attributes ---

    def __getattr__(self, name):
        for kind in ("_parameters", "_buffers", "_modules"):
            found = self.__dict__.get(kind)
            if found is not None and name in found:
                return found[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def _forget(self, name, *keep):
        for kind in ("__dict__", "_buffers", "_modules", "_parameters"):
            if kind in keep:
                continue
            held = self.__dict__ if kind == "__dict__" else self.__dict__.get(kind)
            if held is not None and name in held:
                del held[name]
        if "_buffers" not in keep:
            self.__dict__.get("_non_persistent_buffers_set", set()).discard(name)

    def __setattr__(self, name, value):
        parameters = self.__dict__.get("_parameters")
        if isinstance(value, Parameter):
            if parameters is None:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, "_parameters")
            self.register_parameter(name, value)
            return
        if parameters is not None and name in parameters:
            if value is not None:
                raise TypeError(f"cannot assign '{type(value).__name__}' as parameter '{name}' "
                                "(torch.nn.Parameter or None expected)")
            parameters[name] = None
            return
        modules = self.__dict__.get("_modules")
        if isinstance(value, Module):
            if modules is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, "_modules")
            modules[name] = value
            return
        if modules is not None and name in modules:
            if value is not None:
                raise TypeError(f"cannot assign '{type(value).__name__}' as child module '{name}' "
                                "(torch.nn.Module or None expected)")
            modules[name] = None
            return
        if isinstance(value, Buffer):
            self._forget(name)
            self.register_buffer(name, value.data, value.persistent)
            return
        buffers = self.__dict__.get("_buffers")
        if buffers is not None and name in buffers:
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(f"cannot assign '{type(value).__name__}' as buffer '{name}' "
                                "(torch.Tensor or None expected)")
            buffers[name] = value
            return
        object.__setattr__(self, name, value)

    def __delattr__(self, name):
        for kind in ("_parameters", "_buffers", "_modules"):
            if name in self.__dict__.get(kind, ()):
                del self.__dict__[kind][name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self):
        names = {*object.__dir__(self), *self._parameters, *self._buffers, *self._modules}
        return sorted(n for n in names if not n[:1].isdigit())

    def __setstate__(self, state):
        self.__dict__.update(state)

    # --- registering ---

    def _check_name(self, kind, name, held):
        if held not in self.__dict__:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {type(name).__name__}")
        if "." in name:
            raise KeyError(f"{kind} name can't contain \".\"" if kind != "module"
                           else f'module name can\'t contain ".", got: {name}')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if hasattr(self, name) and name not in self.__dict__[held]:
            raise KeyError(f"attribute '{name}' already exists")

    def register_parameter(self, name, param):
        """Adds a Parameter, or None for a name that has none. Raises KeyError for a bad name, TypeError, ValueError."""
        self._check_name("parameter", name, "_parameters")
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(f"cannot assign '{type(param).__name__}' object to parameter '{name}' "
                            "(torch.nn.Parameter or None required)")
        if param is not None and param.grad_fn is not None:
            raise ValueError(f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created "
                             "explicitly. To express '{0}' as a function of another Tensor, compute the value in the "
                             "forward() method.".format(name))
        self._parameters[name] = param

    def register_buffer(self, name, tensor, persistent=True):
        """Adds a tensor that moves and is saved with the module but is not trained. Not saved unless persistent."""
        self._check_name("buffer", name, "_buffers")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"cannot assign '{type(tensor).__name__}' object to buffer '{name}' "
                            "(torch Tensor or None required)")
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name, module):
        """Adds a submodule. Raises TypeError where it is no Module, KeyError for a bad or taken name."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        self._check_name("module", name, "_modules")
        self._modules[name] = module

    def register_module(self, name, module):
        """`add_module`."""
        self.add_module(name, module)

    # --- walking ---

    def named_modules(self, memo=None, prefix="", remove_duplicate=True):
        """(name, module) of this module and all below it; each once unless told otherwise."""
        memo = set() if memo is None else memo
        # A stack, not recursion: depth is the user's.
        stack = [(prefix, self)]
        while stack:
            name, module = stack.pop()
            if module is None or (remove_duplicate and module in memo):
                continue
            if remove_duplicate:
                memo.add(module)
            yield name, module
            below = [(f"{name}.{n}" if name else n, m) for n, m in module._modules.items()]
            stack.extend(reversed(below))

    def modules(self):
        """This module and all below it, each once."""
        for _, module in self.named_modules():
            yield module

    def named_children(self):
        """(name, module) of the modules right below, each once."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self):
        """The modules right below, each once."""
        for _, module in self.named_children():
            yield module

    def _named_members(self, members, prefix, recurse, remove_duplicate):
        seen = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for module_name, module in modules:
            for name, value in members(module):
                if value is None or id(value) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(value))
                yield (f"{module_name}.{name}" if module_name else name), value

    def named_parameters(self, prefix="", recurse=True, remove_duplicate=True):
        """(name, Parameter), each once unless told otherwise."""
        return self._named_members(lambda m: m._parameters.items(), prefix, recurse, remove_duplicate)

    def parameters(self, recurse=True):
        """The Parameters, each once."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(self, prefix="", recurse=True, remove_duplicate=True):
        """(name, buffer), each once unless told otherwise."""
        return self._named_members(lambda m: m._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse=True):
        """The buffers, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def get_submodule(self, target):
        """The module of a dotted name; '' is this module. Raises AttributeError."""
        module = self
        for name in target.split(".") if target else []:
            if not hasattr(module, name):
                raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def _get_member(self, target, held, kind):
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
        if name not in module.__dict__[held]:
            raise AttributeError(f"`{name}` is not {kind}")
        return getattr(module, name)

    def get_parameter(self, target):
        """The Parameter of a dotted name. Raises AttributeError."""
        return self._get_member(target, "_parameters", "an nn.Parameter")

    def get_buffer(self, target):
        """The buffer of a dotted name. Raises AttributeError."""
        return self._get_member(target, "_buffers", "a buffer")

    # --- changing ---

    def apply(self, fn):
        """Calls `fn` on every module below, then on this one; returns self."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _apply(self, fn):
        """Replaces every parameter, gradient and buffer by what `fn` makes of it. Parameters stay the same objects."""
        previous = _core._set_grad_enabled(False)
        try:
            for module in self.modules():
                for parameter in module._parameters.values():
                    if parameter is None:
                        continue
                    grad = parameter.grad
                    changed = fn(parameter.data)
                    if grad is not None:
                        parameter.grad = None  # else its dtype would have to match in between
                    parameter.data = changed
                    if grad is not None:
                        parameter.grad = fn(grad)
                for name, buffer in module._buffers.items():
                    if buffer is not None:
                        module._buffers[name] = fn(buffer)
        finally:
            _core._set_grad_enabled(previous)
        return self

    def to(self, *args, **kwargs):
        """Moves and converts in place: to(device), to(dtype), to(device, dtype), to(tensor).

        Only floating parameters and buffers change dtype. Raises TypeError for another dtype.
        """
        device, dtype = _convert_arguments(args, dict(kwargs))

        def convert(t):
            wanted = dtype if dtype is not None and t.dtype.is_floating_point else t.dtype
            return t.to(t.device if device is None else device, wanted)

        return self._apply(convert)

    def _to_dtype(self, dtype):
        return self._apply(lambda t: t.to(dtype) if t.dtype.is_floating_point else t)

    def type(self, dst_type):
        """All parameters and buffers to one dtype."""
        return self._apply(lambda t: t.to(dst_type))

    def float(self):
        """Floating parameters and buffers to float32."""
        return self._to_dtype(_core.float32)

    def double(self):
        """Floating parameters and buffers to float64."""
        return self._to_dtype(_core.float64)

    def half(self):
        """Floating parameters and buffers to float16."""
        return self._to_dtype(_core.float16)

    def bfloat16(self):
        """Floating parameters and buffers to bfloat16."""
        return self._to_dtype(_core.bfloat16)

    def cuda(self, device=None):
        """Everything to a GPU."""
        if device is None or isinstance(device, int):
            device = f"cuda:{device or 0}"
        return self.to(_core.device(device))

    def cpu(self):
        """Everything to the server's CPU."""
        return self.to(_core.device("cpu"))

    def train(self, mode=True):
        """Training mode on, or off, for this module and all below; returns self."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self):
        """`train(False)`."""
        return self.train(False)

    def requires_grad_(self, requires_grad=True):
        """Whether gradients are recorded for the parameters; returns self."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none=True):
        """Drops the gradients, or sets them to zero in place."""
        clear_gradients(self.parameters(), set_to_none)

    def compile(self, *args, **kwargs):
        """Does nothing: see `telensor.compile`."""

    def share_memory(self):
        """Returns self: tensors live in the server."""
        return self

    # --- calling ---

    def forward(self, *args, **kwargs):
        """What the module computes. Subclasses write it."""
        raise NotImplementedError(f"Module [{type(self).__name__}] is missing the required \"forward\" function")

    def __call__(self, *args, **kwargs):
        if not self._forward_hooks and not self._forward_pre_hooks:
            return self.forward(*args, **kwargs)
        for hook, with_kwargs in list(self._forward_pre_hooks.values()):
            changed = hook(self, args, kwargs) if with_kwargs else hook(self, args)
            if changed is None:
                continue
            if with_kwargs:
                if not (isinstance(changed, tuple) and len(changed) == 2):
                    raise RuntimeError(f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), "
                                       f"but got {changed}.")
                args, kwargs = changed
            else:
                args = changed if isinstance(changed, tuple) else (changed,)
        result = self.forward(*args, **kwargs)
        for hook, with_kwargs in list(self._forward_hooks.values()):
            changed = hook(self, args, kwargs, result) if with_kwargs else hook(self, args, result)
            if changed is not None:
                result = changed
        return result

    @staticmethod
    def _register_hook(hooks, hook, prepend, with_kwargs):
        handle = RemovableHandle(hooks)
        hooks[handle.id] = _hooked(hook, with_kwargs)
        if prepend:
            hooks.move_to_end(handle.id, last=False)
        return handle

    def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False):
        """`hook(module, args)` before every forward; what it returns, unless None, replaces the arguments."""
        return self._register_hook(self._forward_pre_hooks, hook, prepend, with_kwargs)

    def register_forward_hook(self, hook, *, prepend=False, with_kwargs=False):
        """`hook(module, args, output)` after every forward; what it returns, unless None, replaces the output."""
        return self._register_hook(self._forward_hooks, hook, prepend, with_kwargs)

    # --- printing, copying ---

    def extra_repr(self):
        """What stands in the brackets of `repr`. Subclasses write it."""
        return ""

    def _get_name(self):
        return type(self).__name__

    def __repr__(self):
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): " + repr(m).replace("\n", "\n  ") for name, m in self._modules.items()]
        body = lines + children
        if not children and len(lines) <= 1:
            return f"{self._get_name()}({extra})"
        return f"{self._get_name()}(\n  " + "\n  ".join(body) + "\n)"

    def __copy__(self):
        other = self.__class__.__new__(self.__class__)
        other.__dict__.update(self.__dict__)
        for name in ("_parameters", "_buffers", "_modules"):
            other.__dict__[name] = copy.copy(self.__dict__[name])
        return other


def clear_gradients(parameters, set_to_none=True):
    """Drops the gradients of `parameters`, or sets them to zero in place and outside the graph."""
    for parameter in parameters:
        if parameter.grad is None:
            continue
        if set_to_none:
            parameter.grad = None
            continue
        grad = parameter.grad
        if grad.grad_fn is not None:
            grad.detach_()
        else:
            grad.requires_grad_(False)
        grad.zero_()
