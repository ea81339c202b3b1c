"""Containers: Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict."""

import operator
from collections import OrderedDict

from ... import _core
from ..parameter import Parameter
from .module import Module

__all__ = ["Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict"]


def _position(index, length):
    """A non-negative index as a string key. Raises IndexError."""
    index = operator.index(index)
    if not -length <= index < length:
        raise IndexError(f"index {index} is out of range")
    return str(index % length)


class _Numbered(Module):
    """Modules under the names '0', '1', ..., with the ways of a list."""

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def __contains__(self, module):
        return any(module is m for m in self._modules.values())

    def _key(self, index):
        return list(self._modules)[int(_position(index, len(self)))]

    def __setitem__(self, index, module):
        setattr(self, self._key(index), module)

    def __delitem__(self, index):
        keys = list(self._modules)
        for key in keys[index] if isinstance(index, slice) else [self._key(index)]:
            del self._modules[key]
        self._renumber(list(self._modules.items()))

    def _renumber(self, items):
        self._modules.clear()
        self._modules.update((str(i), m) for i, (_, m) in enumerate(items))

    def append(self, module):
        """Adds a module at the end; returns self."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules):
        """Adds modules at the end; returns self."""
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index, module):
        """Puts a module in before `index`."""
        items = list(self._modules.values())
        items.insert(index, module)
        self._renumber(list(enumerate(items)))
        return self

    def pop(self, index):
        """Takes a module out and returns it."""
        module = self[index]
        del self[index]
        return module

    def __add__(self, other):
        return type(self)()._filled([*self, *other])

    def __iadd__(self, other):
        return self.extend(other)

    def _filled(self, modules):
        for module in modules:
            self.append(module)
        return self


class Sequential(_Numbered):
    """Modules one after the other: Sequential(a, b, ...) or Sequential(OrderedDict(name=a, ...))."""

    def __init__(self, *args):
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for i, module in enumerate(args):
                self.add_module(str(i), module)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return self.__class__(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._key(index)]

    def __delitem__(self, index):
        keys = list(self._modules)
        for key in keys[index] if isinstance(index, slice) else [self._key(index)]:
            del self._modules[key]
        if all(key.isdigit() for key in keys):
            self._renumber(list(self._modules.items()))

    def forward(self, input):
        for module in self._modules.values():
            input = module(input)
        return input


class ModuleList(_Numbered):
    """A list of modules, which the module that holds it registers."""

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return self.__class__(list(self._modules.values())[index])
        return self._modules[self._key(index)]

    def __repr__(self):
        # Runs of equal modules are one line, "(0-3): 4 x Linear(...)", as PyTorch has it since 2.0.
        runs = []
        for i, text in enumerate(map(repr, self)):
            if runs and runs[-1][2] == text:
                runs[-1][1] = i
            else:
                runs.append([i, i, text])
        if not runs:
            return f"{self._get_name()}()"
        lines = []
        for first, last, text in runs:
            name = f"({first}): " if first == last else f"({first}-{last}): {last - first + 1} x "
            lines.append("  " + name + text.replace("\n", "\n  "))
        return f"{self._get_name()}(\n" + "\n".join(lines) + "\n)"


class ModuleDict(Module):
    """A dictionary of modules, which the module that holds it registers."""

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key):
        return self._modules[key]

    def __setitem__(self, key, module):
        self.add_module(key, module)

    def __delitem__(self, key):
        del self._modules[key]

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules)

    def __contains__(self, key):
        return key in self._modules

    def keys(self):
        """The names."""
        return self._modules.keys()

    def values(self):
        """The modules."""
        return self._modules.values()

    def items(self):
        """(name, module) pairs."""
        return self._modules.items()

    def pop(self, key):
        """Takes a module out and returns it."""
        return self._modules.pop(key)

    def clear(self):
        """Takes all modules out."""
        self._modules.clear()

    def update(self, modules):
        """Adds modules from a mapping or from (name, module) pairs."""
        for key, module in modules.items() if hasattr(modules, "items") else modules:
            self[key] = module


def _as_parameter(value):
    return Parameter(value) if isinstance(value, _core.Tensor) and not isinstance(value, Parameter) else value


def _describe(key, value):
    if isinstance(value, Parameter):
        device = "" if str(value.device) == "cpu" else f" ({value.device})"
        return f"  ({key}): Parameter containing: [torch.{str(value.dtype).rpartition('.')[2]} of size " \
               f"{'x'.join(map(str, value.shape))}{device}]"
    return f"  ({key}): Object of type: {type(value).__name__}"


class ParameterList(Module):
    """A list of parameters; tensors put in become Parameters."""

    def __init__(self, values=None):
        super().__init__()
        if values is not None:
            self.extend(values)

    def __len__(self):
        return len(self._parameters)

    def __iter__(self):
        return iter(self._parameters.values())

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return self._parameters[_position(index, len(self))]

    def __setitem__(self, index, value):
        self.register_parameter(_position(index, len(self)), _as_parameter(value))

    def append(self, value):
        """Adds a parameter at the end; returns self."""
        self.register_parameter(str(len(self)), _as_parameter(value))
        return self

    def extend(self, values):
        """Adds parameters at the end; returns self."""
        for value in list(values):
            self.append(value)
        return self

    def __iadd__(self, values):
        return self.extend(values)

    def extra_repr(self):
        return "\n".join(_describe(k, v) for k, v in self._parameters.items())

    def __call__(self, *args, **kwargs):
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dictionary of parameters; tensors put in become Parameters."""

    def __init__(self, parameters=None):
        super().__init__()
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key):
        return self._parameters[key]

    def __setitem__(self, key, value):
        self.register_parameter(key, _as_parameter(value))

    def __delitem__(self, key):
        del self._parameters[key]

    def __len__(self):
        return len(self._parameters)

    def __iter__(self):
        return iter(self._parameters)

    def __contains__(self, key):
        return key in self._parameters

    def keys(self):
        """The names."""
        return self._parameters.keys()

    def values(self):
        """The parameters."""
        return self._parameters.values()

    def items(self):
        """(name, parameter) pairs."""
        return self._parameters.items()

    def update(self, parameters):
        """Adds parameters from a mapping or from (name, tensor) pairs."""
        for key, value in parameters.items() if hasattr(parameters, "items") else parameters:
            self[key] = value

    def extra_repr(self):
        return "\n".join(_describe(k, v) for k, v in self._parameters.items())

    def __call__(self, *args, **kwargs):
        raise RuntimeError("ParameterDict should not be called.")
