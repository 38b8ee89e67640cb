"""SparseAdam."""

from __future__ import annotations

import math
from typing import Any

import jitgrad
from jitgrad.core.grad_mode import no_grad
from jitgrad.core.tensor import Tensor
from jitgrad.optim.optimizer import Group, Optimizer
from jitgrad.optim.options import as_number, check_betas

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Adam for sparse gradients: only elements that the gradient has are changed, and their running means.

    For those m += (1 - beta1) (g - m); v += (1 - beta2) (g^2 - v);
    p -= lr sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + eps). RuntimeError for dense gradients, ValueError for
    sparse or complex parameters.
    """

    def __init__(
        self, params: Any, lr: Any = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        maximize: bool = False,
    ):  # fmt: skip
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not lr > 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps > 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        check_betas(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        places = [([k, j], p) for k, g in enumerate(self.param_groups) for j, p in enumerate(g["params"])]
        if sparse := [place for place, p in places if p.is_sparse]:
            raise ValueError(f"Sparse params at indices {sparse}: SparseAdam requires dense parameter tensors")
        if complex_ := [place for place, p in places if p.is_complex()]:
            raise ValueError(f"Complex params at indices {complex_}: SparseAdam does not support complex parameters")

    @no_grad()
    def _update(self, group: Group) -> None:
        params = [p for p in group["params"] if p._grad is not None]
        for param in params:
            if not param._grad.is_sparse:
                raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
            state = self.state[param]
            if not state:
                state["step"] = 0
                state["exp_avg"] = jitgrad.zeros_like(param, requires_grad=False)
                state["exp_avg_sq"] = jitgrad.zeros_like(param, requires_grad=False)
            state["step"] += 1
        for param in params:
            self._update_one(param, self.state[param], group)

    def _update_one(self, param: Tensor, state: dict[str, Any], group: Group) -> None:
        grad: Any = param._grad
        grad = (-grad if group["maximize"] else grad).coalesce()
        where, values = tuple(grad._indices()), grad._values()
        if values.numel() == 0:
            return
        beta1, beta2 = group["betas"]
        mean, square = state["exp_avg"][where], state["exp_avg_sq"][where]
        mean = mean + (values - mean) * (1 - beta1)
        square = square + (values.pow(2) - square) * (1 - beta2)
        state["exp_avg"][where], state["exp_avg_sq"][where] = mean, square
        rate = as_number(group["lr"]) * math.sqrt(1 - beta2 ** state["step"]) / (1 - beta1 ** state["step"])
        param[where] = param[where] - rate * mean / square.sqrt().add_(group["eps"])
