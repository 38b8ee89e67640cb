"""NAdam."""

from __future__ import annotations

from typing import Any

from jitgrad.core.tensor import Tensor
from jitgrad.kernels.loops import adaptive_optimizers as loops
from jitgrad.optim.elementwise import ElementwiseOptimizer
from jitgrad.optim.kept_state import new_counter
from jitgrad.optim.optimizer import Group
from jitgrad.optim.options import check_at_least_zero, check_betas, check_rate
from jitgrad.optim.stateless import stateless

__all__ = ["NAdam", "nadam"]


class NAdam(ElementwiseOptimizer):
    """Adam with Nesterov's momentum.

    mu_t = beta1 (1 - 0.96^(t momentum_decay) / 2), M_t the product of all mu so far; m and v as Adam's, d the root of
    v / (1 - beta2^t), plus eps; p -= lr ((1 - mu_t) / (1 - M_t) g + mu_(t+1) / (1 - M_(t+1)) m) / d.
    ``decoupled_weight_decay`` shrinks p by 1 - lr * weight_decay instead of adding to the gradient.
    """

    _loop, _averages = loops.nadam, ("exp_avg", "exp_avg_sq")
    _counts_in_tensors = ("mu_product", "step")
    _captured = "params, mu_products and state_steps"

    def __init__(
        self, params: Any, lr: Any = 2e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, momentum_decay: float = 4e-3, decoupled_weight_decay: bool = False, *,
        foreach: bool | None = None, maximize: bool = False, capturable: bool = False, differentiable: bool = False,
    ):  # fmt: skip
        check_rate(lr)
        check_at_least_zero(eps, "epsilon value")
        check_betas(betas)
        check_at_least_zero(weight_decay, "weight_decay value")
        check_at_least_zero(momentum_decay, "momentum_decay value")
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize, "foreach": foreach,
            "capturable": capturable, "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _added_options(self) -> dict[str, Any]:
        return {
            "maximize": False, "foreach": None, "capturable": False, "differentiable": False,
            "decoupled_weight_decay": False,
        }  # fmt: skip

    def _new_state(self, param: Tensor, state: dict[str, Any], group: Group) -> None:
        state["step"], state["mu_product"] = new_counter(), new_counter(1.0)
        averages: dict[str, Any] = {}
        super()._new_state(param, averages, group)
        state.update({name: averages[name] for name in self._averages})

    def _numbers(self, group: Group) -> tuple[Any, ...]:
        return (
            group["lr"], *group["betas"], group["eps"], group["weight_decay"], group["momentum_decay"],
            group["decoupled_weight_decay"], group["maximize"],
        )  # fmt: skip


nadam = stateless(
    "nadam", loops.nadam, "exp_avgs exp_avg_sqs mu_products state_steps",
    "lr beta1 beta2 eps weight_decay momentum_decay decoupled_weight_decay maximize",
)  # fmt: skip
