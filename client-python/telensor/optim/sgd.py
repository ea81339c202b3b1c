"""SGD."""

from .. import _core
from .optimizer import Optimizer, check_options, required

__all__ = ["SGD"]


class SGD(Optimizer):
    """Gradient descent, with momentum: one command a step for each parameter group.

    v = momentum * v + (1 - dampening) * (g + weight_decay * p), where the first v is the gradient itself;
    p -= lr * v, or with nesterov lr * (g + momentum * v).
    """

    def __init__(self, params, lr=required, momentum=0, dampening=0, weight_decay=0, nesterov=False, *, maximize=False,
                 foreach=None, differentiable=False, fused=None):
        if differentiable:
            raise NotImplementedError("SGD: differentiable=True is not supported")
        if lr is not required:
            check_options(lr=lr)
        check_options(momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, dict(lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay,
                                      nesterov=nesterov, maximize=maximize, foreach=foreach,
                                      differentiable=differentiable))

    def step(self, closure=None):
        loss = self._loss_of(closure)
        for group in self.param_groups:
            momentum = float(group["momentum"])
            # What has no buffer yet is a command of its own, in practice only in the first step.
            key = (lambda p: self.state[p].get("momentum_buffer") is None) if momentum else (lambda p: False)
            for first, members in self._buckets(group, key):
                self._update(group, momentum, members, first)
        return loss

    def _update(self, group, momentum, members, first):
        tensors = [p for p, _ in members] + [g for _, g in members]
        if momentum:
            for p, _ in members:
                if first:
                    self.state[p]["momentum_buffer"] = _core.empty_like(p.detach())
                tensors.append(self.state[p]["momentum_buffer"])
        _core._op("_sgd_step_", tensors, 3 if momentum else 2, float(group["lr"]), momentum, float(group["dampening"]),
                  float(group["weight_decay"]), bool(group["nesterov"]), bool(group["maximize"]), first)
