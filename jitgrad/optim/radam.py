"""RAdam."""

from __future__ import annotations

from typing import Any

from jitgrad.kernels.loops import adaptive_optimizers as loops
from jitgrad.optim.elementwise import ElementwiseOptimizer
from jitgrad.optim.optimizer import Group
from jitgrad.optim.options import check_at_least_zero, check_betas, check_rate
from jitgrad.optim.stateless import stateless

__all__ = ["RAdam", "radam"]


class RAdam(ElementwiseOptimizer):
    """Adam whose adaptive rate is rectified.

    With r = 2 / (1 - beta2) - 1 and r_t = r - 2 t beta2^t / (1 - beta2^t) the step is Adam's times
    sqrt((r_t - 4) (r_t - 2) r / ((r - 4) (r - 2) r_t)) where r_t > 5, and else lr times the corrected mean.
    ``decoupled_weight_decay`` shrinks p by 1 - lr * weight_decay instead of adding to the gradient.
    """

    _loop, _averages = loops.radam, ("exp_avg", "exp_avg_sq")

    def __init__(
        self, params: Any, lr: Any = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, decoupled_weight_decay: bool = False, *, foreach: bool | None = None,
        maximize: bool = False, capturable: bool = False, differentiable: bool = False,
    ):  # fmt: skip
        check_rate(lr)
        check_at_least_zero(eps, "epsilon value")
        check_betas(betas)
        check_at_least_zero(weight_decay, "weight_decay value")
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "foreach": foreach, "capturable": capturable, "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _added_options(self) -> dict[str, Any]:
        return {
            "foreach": None, "maximize": False, "differentiable": False, "decoupled_weight_decay": False,
            "capturable": False,
        }  # fmt: skip

    def _numbers(self, group: Group) -> tuple[Any, ...]:
        return (
            group["lr"], *group["betas"], group["eps"], group["weight_decay"], group["decoupled_weight_decay"],
            group["maximize"],
        )  # fmt: skip


radam = stateless(
    "radam", loops.radam, "exp_avgs exp_avg_sqs state_steps",
    "lr beta1 beta2 eps weight_decay decoupled_weight_decay maximize",
)  # fmt: skip
