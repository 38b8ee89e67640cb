"""Adamax."""

from __future__ import annotations

from typing import Any

from jitgrad.kernels.loops import adaptive_optimizers as loops
from jitgrad.optim.elementwise import ElementwiseOptimizer
from jitgrad.optim.optimizer import Group
from jitgrad.optim.options import check_at_least_zero, check_betas, check_rate
from jitgrad.optim.stateless import stateless

__all__ = ["Adamax", "adamax"]


class Adamax(ElementwiseOptimizer):
    """Adam with the largest gradient so far, which decays, in the place of the root of the mean square.

    g = gradient + weight_decay * p; m += (1 - beta1) (g - m); u = max(beta2 u, |g| + eps);
    p -= lr / (1 - beta1^t) * m / u.
    """

    _loop, _averages = loops.adamax, ("exp_avg", "exp_inf")

    def __init__(
        self, params: Any, lr: Any = 2e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, foreach: bool | None = None, *, maximize: bool = False, differentiable: bool = False,
        capturable: bool = False,
    ):  # fmt: skip
        check_rate(lr)
        check_at_least_zero(eps, "epsilon value")
        check_betas(betas)
        check_at_least_zero(weight_decay, "weight_decay value")
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _added_options(self) -> dict[str, Any]:
        return {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}

    def _numbers(self, group: Group) -> tuple[Any, ...]:
        return (group["lr"], *group["betas"], group["eps"], group["weight_decay"], group["maximize"])


adamax = stateless(
    "adamax", loops.adamax, "exp_avgs exp_infs state_steps",
    "lr beta1 beta2 eps weight_decay maximize",
)  # fmt: skip
