"""Adam and AdamW."""

from .. import _core
from .optimizer import Optimizer, check_options

__all__ = ["Adam", "AdamW"]


class Adam(Optimizer):
    """Adam: one command a step for each parameter group.

    m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2; both corrected for their start at zero;
    p -= lr * m / (sqrt(v) + eps). weight_decay adds to the gradient. amsgrad takes the largest v so far.
    """

    _decoupled = False

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, *, foreach=None,
                 maximize=False, capturable=False, differentiable=False, fused=None):
        if differentiable:
            raise NotImplementedError(f"{type(self).__name__}: differentiable=True is not supported")
        check_options(lr=lr)
        if not 0.0 <= eps:
            raise ValueError(f"Invalid epsilon value: {eps}")
        for i, beta in enumerate(betas):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"Invalid beta parameter at index {i}: {beta}")
        check_options(weight_decay=weight_decay)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad,
                                      maximize=maximize, foreach=foreach, capturable=capturable,
                                      differentiable=differentiable))

    def step(self, closure=None):
        loss = self._loss_of(closure)
        for group in self.param_groups:
            # Parameters that missed steps have their own count, so their own command.
            for step, members in self._buckets(group, lambda p: self.state[p].get("step", 0)):
                self._update(group, int(step) + 1, members)
        return loss

    def _update(self, group, step, members):
        names = ["exp_avg", "exp_avg_sq"] + (["max_exp_avg_sq"] if group["amsgrad"] else [])
        states = []
        for p, _ in members:
            state = self.state[p]
            state["step"] = step
            for name in names:
                if name not in state:
                    state[name] = _core.zeros_like(p.detach())
            states.append(state)
        tensors = [p for p, _ in members] + [g for _, g in members]
        for name in names:
            tensors += [state[name] for state in states]
        beta1, beta2 = group["betas"]
        _core._op("_adam_step_", tensors, 2 + len(names), float(group["lr"]), float(beta1), float(beta2),
                  float(group["eps"]), float(group["weight_decay"]), self._decoupled, bool(group["amsgrad"]),
                  bool(group["maximize"]), step)


class AdamW(Adam):
    """Adam whose weight decay is apart from the gradient: p -= lr * weight_decay * p."""

    _decoupled = True

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, amsgrad=False, *,
                 maximize=False, foreach=None, capturable=False, differentiable=False, fused=None):
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize,
                         capturable=capturable, differentiable=differentiable, fused=fused)
