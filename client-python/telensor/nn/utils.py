"""Gradient clipping, and parameters as one vector. Nothing here waits for the server unless it says so."""

import math

from .. import _core

__all__ = ["clip_grad_norm_", "clip_grad_value_", "get_total_norm", "parameters_to_vector", "vector_to_parameters"]


def _gradients(parameters):
    if isinstance(parameters, _core.Tensor):
        parameters = [parameters]
    return [p.grad for p in parameters if p.grad is not None]


def get_total_norm(tensors, norm_type=2.0, error_if_nonfinite=False):
    """The p-norm of all tensors, seen as one vector: a 0-dim tensor. error_if_nonfinite waits to raise RuntimeError."""
    tensors = [t.detach() for t in tensors]
    if not tensors:
        return _core.tensor(0.0)
    device, p = tensors[0].device, float(norm_type)
    norms = _core.stack([t.norm(p).to(device) for t in tensors])
    total = norms.max() if p == math.inf else norms.min() if p == -math.inf else norms.norm(p)
    if error_if_nonfinite and not bool(total.isfinite()):
        raise RuntimeError(f"The total norm of order {p} for gradients from `parameters` is non-finite, so it cannot "
                           "be clipped. To disable this error and scale the gradients by the non-finite norm anyway, "
                           "set `error_if_nonfinite=False`")
    return total


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Scales all gradients in place so that their p-norm, seen as one vector, is at most max_norm.

    Returns the norm before, a 0-dim tensor. error_if_nonfinite waits to raise RuntimeError for an infinite or NaN norm.
    """
    gradients = _gradients(parameters)
    previous = _core._set_grad_enabled(False)
    try:
        total = get_total_norm(gradients, norm_type, error_if_nonfinite)
        if gradients:
            scale = (float(max_norm) / (total + 1e-6)).clamp(max=1.0)
            for g in gradients:
                g.detach().mul_(scale.to(g.device))
    finally:
        _core._set_grad_enabled(previous)
    return total


def clip_grad_value_(parameters, clip_value, foreach=None):
    """Limits every gradient in place to [-clip_value, clip_value]."""
    clip_value = float(clip_value)
    previous = _core._set_grad_enabled(False)
    try:
        for g in _gradients(parameters):
            g.detach().clamp_(min=-clip_value, max=clip_value)
    finally:
        _core._set_grad_enabled(previous)


def parameters_to_vector(parameters):
    """All parameters in one dimension."""
    return _core.cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec, parameters):
    """Cuts `vec` up into the parameters' data; the reverse of parameters_to_vector."""
    if not isinstance(vec, _core.Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__name__}")
    start = 0
    for p in parameters:
        n = p.numel()
        p.data = vec.narrow(0, start, n).view(*p.shape).detach() if p.dim() else vec[start].detach()
        start += n
