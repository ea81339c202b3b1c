"""StateDict: how a module's tensors are named, saved and loaded."""

from collections import OrderedDict, namedtuple

from ... import _core


class IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """What `load_state_dict` did not find in the file, and what it found too much."""

    __slots__ = ()

    def __repr__(self):
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


def _quoted(keys):
    return ", ".join(f'"{key}"' for key in keys)


class StateDict:
    """The part of Module that deals with state dictionaries."""

    def state_dict(self, *, destination=None, prefix="", keep_vars=False):
        """An ordered dict of name to tensor: parameters and persistent buffers, PyTorch's names.

        Tensors share memory with the module and are detached unless keep_vars.
        """
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = getattr(destination, "_metadata", None)
        if metadata is not None:
            metadata[prefix[:-1]] = {"version": self._version}
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        return destination

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        for name, tensor in self._named_state():
            destination[prefix + name] = tensor if keep_vars else tensor.detach()

    def _named_state(self):
        """This module's own parameters and persistent buffers."""
        for name, parameter in self._parameters.items():
            if parameter is not None:
                yield name, parameter
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                yield name, buffer

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                              error_msgs):
        """Copies this module's own tensors from `state_dict`, and notes what does not fit."""
        own = dict(self._named_state())
        for name, tensor in own.items():
            key = prefix + name
            if key not in state_dict:
                if strict:
                    missing_keys.append(key)
                continue
            value = state_dict[key]
            if not isinstance(value, _core.Tensor):
                error_msgs.append(f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like '
                                  f"object from checkpoint but received {type(value)}")
                continue
            # Files from long ago have one element where there is no dimension now.
            if tensor.dim() == 0 and value.dim() == 1 and value.shape[0] == 1:
                value = value[0]
            if tuple(value.shape) != tuple(tensor.shape):
                error_msgs.append(f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, "
                                  f"the shape in current model is {tensor.shape}.")
                continue
            if local_metadata.get("assign_to_params_buffers"):
                self._assign(name, tensor, value)
                continue
            previous = _core._set_grad_enabled(False)
            try:
                tensor.copy_(value)
            except Exception as error:
                error_msgs.append(f'While copying the parameter named "{key}", whose dimensions in the model are '
                                  f"{tensor.shape} and whose dimensions in the checkpoint are {value.shape}, "
                                  f"an exception occurred : {error.args}.")
            finally:
                _core._set_grad_enabled(previous)
        if strict:
            self._find_unexpected(state_dict, prefix, own, unexpected_keys)

    def _find_unexpected(self, state_dict, prefix, own, unexpected_keys):
        for key in state_dict:
            if not key.startswith(prefix):
                continue
            name = key[len(prefix):]
            head, dot, _ = name.partition(".")
            if (dot and head not in self._modules) or (not dot and name not in own):
                unexpected_keys.append(key)

    def _assign(self, name, tensor, value):
        from ..parameter import Parameter

        if name in self._parameters:
            if not isinstance(value, Parameter):
                value = Parameter(value, tensor.requires_grad)
            self._parameters[name] = value
        else:
            self._buffers[name] = value

    def load_state_dict(self, state_dict, strict=True, assign=False):
        """Copies tensors by name into the module; nothing waits for the server.

        strict: names must be the same on both sides. assign: takes the tensors themselves instead of copying.
        Returns (missing_keys, unexpected_keys). Raises RuntimeError listing all that does not fit, TypeError where
        `state_dict` is no mapping.
        """
        if not hasattr(state_dict, "keys"):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        metadata = getattr(state_dict, "_metadata", None) or {}
        missing, unexpected, errors = [], [], []
        for name, module in self.named_modules(remove_duplicate=False):
            local = dict(metadata.get(name, {}))
            if assign:
                local["assign_to_params_buffers"] = True
            # Every module's notes come in the order of its own tensors, then of what stands below.
            module._load_from_state_dict(state_dict, f"{name}." if name else "", local, True, missing, unexpected,
                                         errors)
        if strict:
            if unexpected:
                errors.insert(0, f"Unexpected key(s) in state_dict: {_quoted(unexpected)}. ")
            if missing:
                errors.insert(0, f"Missing key(s) in state_dict: {_quoted(missing)}. ")
        if errors:
            raise RuntimeError("Error(s) in loading state_dict for {}:\n\t{}".format(type(self).__name__,
                                                                                   "\n\t".join(errors)))
        return IncompatibleKeys(missing, unexpected)
