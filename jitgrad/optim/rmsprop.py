"""RMSprop."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.core.tensor import Tensor
from jitgrad.kernels.loops import optimizer as loops
from jitgrad.optim.elementwise import ElementwiseOptimizer
from jitgrad.optim.optimizer import Group
from jitgrad.optim.options import check_at_least_zero, check_rate
from jitgrad.optim.stateless import stateless

__all__ = ["RMSprop", "rmsprop"]


class RMSprop(ElementwiseOptimizer):
    """Divides the gradient by the root of the running mean of its square.

    g = gradient + weight_decay * p; v = alpha v + (1 - alpha) g^2; with ``centered`` the square of
    g's running mean is taken off v; p -= lr * g / (sqrt(v) + eps), or with momentum
    b = momentum b + g / (sqrt(v) + eps); p -= lr * b.
    """

    _loop, _averages = loops.rmsprop, ("square_avg",)

    def __init__(
        self, params: Any, lr: Any = 1e-2, alpha: float = 0.99, eps: float = 1e-8, weight_decay: float = 0,
        momentum: float = 0, centered: bool = False, capturable: bool = False, foreach: bool | None = None,
        maximize: bool = False, differentiable: bool = False,
    ):  # fmt: skip
        check_rate(lr)
        check_at_least_zero(eps, "epsilon value")
        check_at_least_zero(momentum, "momentum value")
        check_at_least_zero(weight_decay, "weight_decay value")
        check_at_least_zero(alpha, "alpha value")
        defaults = {
            "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
            "weight_decay": weight_decay, "capturable": capturable, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _added_options(self) -> dict[str, Any]:
        return {
            "momentum": 0, "centered": False, "foreach": None, "maximize": False, "differentiable": False,
            "capturable": False,
        }  # fmt: skip

    def _new_state(self, param: Tensor, state: dict[str, Any], group: Group) -> None:
        super()._new_state(param, state, group)
        for name in (*["momentum_buffer"] * (group["momentum"] > 0), *["grad_avg"] * group["centered"]):
            state[name] = jitgrad.zeros_like(param, requires_grad=False)

    def _names(self, group: Group) -> tuple[str, ...]:
        # The kernel takes arrays for all kinds of state, and leaves those alone whose option is off: any array will do.
        mean = "grad_avg" if group["centered"] else "square_avg"
        buffer = "momentum_buffer" if group["momentum"] > 0 else "square_avg"
        return ("square_avg", mean, buffer, "step")

    def _numbers(self, group: Group) -> tuple[Any, ...]:
        return (
            group["lr"], group["alpha"], group["eps"], group["weight_decay"], group["momentum"], group["centered"],
            group["maximize"],
        )  # fmt: skip


rmsprop = stateless(
    "rmsprop", loops.rmsprop, "square_avgs grad_avgs momentum_buffer_list state_steps",
    "lr alpha eps weight_decay momentum centered maximize",
)  # fmt: skip
