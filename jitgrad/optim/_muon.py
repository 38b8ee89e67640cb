"""Muon."""

from __future__ import annotations

import math
from typing import Any

import jitgrad
from jitgrad.core.grad_mode import no_grad
from jitgrad.core.tensor import Tensor
from jitgrad.optim.optimizer import Group, Optimizer
from jitgrad.optim.options import as_number, check_rate

__all__ = ["Muon"]

Coefficients = tuple[float, float, float]


class Muon(Optimizer):
    """Momentum whose step, a matrix, is made nearly orthogonal: all singular values become about 1.

    b += (1 - momentum) (g - b); u = g + momentum (b - g) with ``nesterov``, else b; p shrinks by
    1 - lr * weight_decay; p -= lr' * O(u), where O is ``ns_steps`` steps of a Newton-Schulz iteration in bfloat16.
    lr' is lr sqrt(max(1, rows / columns)), or lr 0.2 sqrt(max(rows, columns)) with adjust_lr_fn "match_rms_adamw".
    ValueError for parameters that are no matrices.
    """

    def __init__(
        self, params: Any, lr: Any = 1e-3, weight_decay: float = 0.1, momentum: float = 0.95, nesterov: bool = True,
        ns_coefficients: Coefficients = (3.4445, -4.775, 2.0315), eps: float = 1e-7, ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ):  # fmt: skip
        check_rate(lr, "Learning rate should be >= 0 but is: {}")
        if not momentum >= 0.0:
            raise ValueError(f"momentum should be >= 0 but is: {momentum}")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight decay should be >= 0 but is: {weight_decay}")
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        defaults = {
            "lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
            "ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn,
        }  # fmt: skip
        super().__init__(params, defaults)
        for group in self.param_groups:
            for param in group["params"]:
                if param.ndim != 2:
                    raise ValueError(
                        f"Muon only supports 2D parameters whereas we found a parameter with size: {param.size()}"
                    )

    @no_grad()
    def _update(self, group: Group) -> None:
        params = [p for p in group["params"] if p._grad is not None]
        for param in params:
            if param.is_complex():
                raise RuntimeError("Muon does not support complex parameters")
            if param._grad.is_sparse:
                raise RuntimeError("Muon does not support sparse gradients")
            if "momentum_buffer" not in self.state[param]:
                self.state[param]["momentum_buffer"] = jitgrad.zeros_like(param._grad)
        lr, momentum = as_number(group["lr"]), group["momentum"]
        for param in params:
            grad: Tensor = param._grad
            if grad.ndim != 2:
                raise ValueError("Param gradient must be a 2D matrix")
            buffer = self.state[param]["momentum_buffer"].lerp_(grad, 1 - momentum)
            update = grad.lerp(buffer, momentum) if group["nesterov"] else buffer
            update = _orthogonal(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
            param.mul_(1 - lr * group["weight_decay"])
            param.add_(update, alpha=-lr * _ratio(group["adjust_lr_fn"], *param.shape))


def _orthogonal(update: Tensor, coefficients: Coefficients, steps: int, eps: float) -> Tensor:
    """A matrix with the same singular vectors and singular values of about 1, in bfloat16.

    x / |x|, then ``steps`` times x = a x + (b x x' + c (x x')^2) x.
    """
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    tall = update.size(0) > update.size(1)
    x = update.bfloat16()
    x = x.t() if tall else x  # the smaller of both products is the cheaper one
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.t()
        x = jitgrad.addmm(x, jitgrad.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.t() if tall else x


def _ratio(rule: str | None, rows: int, columns: int) -> float:
    """The factor of the learning rate for a matrix of this shape."""
    if rule == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1, rows / columns))
