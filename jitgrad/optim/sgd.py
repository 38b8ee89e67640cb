"""Stochastic gradient descent."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.core.tensor import Tensor
from jitgrad.kernels.loops import optimizer as loops
from jitgrad.optim.fused_step import update
from jitgrad.optim.optimizer import Optimizer, as_number, check_at_least_zero, check_one_form

__all__ = ["SGD"]


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum if asked.

    g = gradient + weight_decay * p; b = momentum * b + (1 - dampening) * g, at the first step b = g;
    p -= lr * b, or with ``nesterov`` p -= lr * (g + momentum * b). ``maximize`` turns the gradient's
    sign. ``foreach``, ``fused`` and ``differentiable`` are kept for PyTorch's sake: the step is
    always one fused kernel.
    """

    def __init__(
        self, params: Any, lr: Any = 1e-3, momentum: float = 0, dampening: float = 0, weight_decay: float = 0,
        nesterov: bool = False, *, maximize: bool = False, foreach: bool | None = None, differentiable: bool = False,
        fused: bool | None = None,
    ):  # fmt: skip
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        check_at_least_zero(lr, "learning rate")
        check_at_least_zero(momentum, "momentum value")
        check_at_least_zero(weight_decay, "weight_decay value")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        check_one_form(foreach, fused)
        defaults = {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay, "nesterov": nesterov,
            "maximize": maximize, "foreach": foreach, "differentiable": differentiable, "fused": fused,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _added_options(self) -> dict[str, Any]:
        return {"nesterov": False, "maximize": False, "foreach": None, "differentiable": False, "fused": False}

    def _update(self, group: dict[str, Any]) -> None:
        params = [p for p in group["params"] if p._grad is not None]
        lr, decay, maximize = as_number(group["lr"]), as_number(group["weight_decay"]), group["maximize"]
        if group["momentum"] == 0:
            update(loops.sgd, [params, [p._grad for p in params]], lr, decay, maximize)
            return
        # A parameter's first gradient becomes its buffer: those that have no buffer yet take a launch of their own.
        for first in (False, True):
            chosen = [p for p in params if (self.state[p].get("momentum_buffer") is None) is first]
            if chosen:
                self._update_momentum(chosen, group, first, lr, decay, maximize)

    def _update_momentum(
        self, params: list[Tensor], group: dict[str, Any], first: bool, lr: float, decay: float, maximize: bool
    ) -> None:
        if first:
            for p in params:
                self.state[p]["momentum_buffer"] = jitgrad.empty_like(p, requires_grad=False)
        buffers = [self.state[p]["momentum_buffer"] for p in params]
        grads: list[Any] = [p._grad for p in params]
        update(
            loops.sgd_momentum, [params, grads, buffers], lr, as_number(group["momentum"]),
            as_number(group["dampening"]), decay, group["nesterov"], maximize, first,
        )  # fmt: skip
