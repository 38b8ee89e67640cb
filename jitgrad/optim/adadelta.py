"""Adadelta."""

from __future__ import annotations

from typing import Any

from jitgrad.kernels.loops import adaptive_optimizers as loops
from jitgrad.optim.elementwise import ElementwiseOptimizer
from jitgrad.optim.optimizer import Group
from jitgrad.optim.options import check_at_least_zero, check_rate
from jitgrad.optim.stateless import stateless

__all__ = ["Adadelta", "adadelta"]


class Adadelta(ElementwiseOptimizer):
    """Scales the gradient by the root of the ratio of two running means: of squared steps, and of its own square.

    g = gradient + weight_decay * p; v = rho v + (1 - rho) g^2; d = sqrt(u + eps) / sqrt(v + eps) * g;
    u = rho u + (1 - rho) d^2; p -= lr * d.
    """

    _loop, _averages = loops.adadelta, ("square_avg", "acc_delta")
    _captured_on = ("cuda", "xpu", "hpu", "privateuseone")

    def __init__(
        self, params: Any, lr: Any = 1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0,
        foreach: bool | None = None, *, capturable: bool = False, maximize: bool = False, differentiable: bool = False,
    ):  # fmt: skip
        check_rate(lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        check_at_least_zero(eps, "epsilon value")
        check_at_least_zero(weight_decay, "weight_decay value")
        defaults = {
            "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "capturable": capturable, "foreach": foreach, "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _added_options(self) -> dict[str, Any]:
        return {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}

    def _numbers(self, group: Group) -> tuple[Any, ...]:
        return (group["lr"], group["rho"], group["eps"], group["weight_decay"], group["maximize"])


adadelta = stateless(
    "adadelta", loops.adadelta, "square_avgs acc_deltas state_steps",
    "lr rho eps weight_decay maximize",
)  # fmt: skip
