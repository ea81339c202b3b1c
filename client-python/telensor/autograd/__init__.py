"""Gradients as functions: `grad`, `backward`, `gradcheck`."""

import importlib

from .. import _core
from .._grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = ["grad", "backward", "gradcheck", "gradgradcheck", "Variable", "no_grad", "enable_grad", "set_grad_enabled",
           "inference_mode"]


def _list(value):
    return [value] if isinstance(value, _core.Tensor) else list(value)


def _seeds(outputs, grad_outputs):
    if grad_outputs is None:
        return [None] * len(outputs)
    seeds = [grad_outputs] if isinstance(grad_outputs, _core.Tensor) else list(grad_outputs)
    if len(seeds) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(seeds)} gradients")
    return seeds


def grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, only_inputs=True,
         allow_unused=None, is_grads_batched=False, materialize_grads=False):
    """Gradients of the sum of `outputs` for `inputs`, a tuple; no tensor's `.grad` changes.

    grad_outputs: a factor for each output, of its size; may be None for outputs of one element. retain_graph: keep
    what was saved for another pass (default: as create_graph). create_graph: record the pass itself.
    allow_unused: None for an input that no output depends on, instead of RuntimeError; materialize_grads gives zeros.
    """
    if is_grads_batched:
        raise NotImplementedError("grad: is_grads_batched is not supported")
    if not only_inputs:
        raise ValueError("only_inputs argument is deprecated and is ignored now (defaults to True)")
    outputs, inputs = _list(outputs), _list(inputs)
    if not inputs:
        raise ValueError("grad requires non-empty inputs.")
    if allow_unused is None:
        allow_unused = materialize_grads
    retain_graph = create_graph if retain_graph is None else retain_graph
    result = _core._autograd_grad(outputs, inputs, _seeds(outputs, grad_outputs), bool(retain_graph),
                                  bool(create_graph), bool(allow_unused))
    if materialize_grads:
        result = [_core.zeros_like(x) if g is None else g for g, x in zip(result, inputs)]
    return tuple(result)


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, inputs=None):
    """Adds the gradients of the sum of `tensors` to the `.grad` of the leaves, or of `inputs` alone, which may be results.

    grad_tensors: a factor for each tensor, of its size; may be None for tensors of one element.
    """
    tensors = _list(tensors)
    seeds = _seeds(tensors, grad_tensors)
    retain_graph = create_graph if retain_graph is None else retain_graph
    if inputs is not None:
        inputs = _list(inputs)
        if not inputs:
            raise RuntimeError("'inputs' argument to backward() cannot be empty.")
        for x, g in zip(inputs, grad(tensors, inputs, seeds, retain_graph, create_graph, allow_unused=True)):
            if g is None:
                continue
            if x.grad is None:
                x.grad = g
            elif create_graph:
                x.grad = x.grad + g
            else:
                with no_grad():
                    x.grad.add_(g)
        return
    # Passes share parts of the graph, so all but the last keep it.
    for i, (t, seed) in enumerate(zip(tensors, seeds)):
        t.backward(seed, retain_graph=bool(retain_graph) or i + 1 < len(tensors), create_graph=bool(create_graph))


def Variable(data, requires_grad=False, volatile=None):
    """The tensor itself, as in PyTorch since 0.4; with requires_grad a leaf over its data."""
    return data.detach().requires_grad_() if requires_grad else data


def __getattr__(name):
    if name in ("gradcheck", "gradgradcheck", "GradcheckError"):
        module = importlib.import_module(f"{__name__}.gradcheck")
        # Importing puts the module where the function of its name belongs.
        globals()["gradcheck"] = module.gradcheck
        return getattr(module, name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
