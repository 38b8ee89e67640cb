"""Rprop."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.core.tensor import Tensor
from jitgrad.kernels.loops import adaptive_optimizers as loops
from jitgrad.optim.elementwise import ElementwiseOptimizer
from jitgrad.optim.optimizer import Group
from jitgrad.optim.options import as_number, check_rate
from jitgrad.optim.stateless import stateless

__all__ = ["Rprop", "rprop"]


class Rprop(ElementwiseOptimizer):
    """Resilient propagation: only the gradient's sign counts, and each element has a step size of its own.

    The size, ``lr`` at first, is multiplied by etas[1] where the gradient keeps its sign and by etas[0] where it turns,
    and stays within ``step_sizes``; p -= size * sign(gradient), but where the sign turns p stays for one step.
    """

    _loop, _averages = loops.rprop, ("prev",)

    def __init__(
        self, params: Any, lr: Any = 1e-2, etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50), *, capturable: bool = False, foreach: bool | None = None,
        maximize: bool = False, differentiable: bool = False,
    ):  # fmt: skip
        check_rate(lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        defaults = {
            "lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _added_options(self) -> dict[str, Any]:
        return {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}

    def _new_state(self, param: Tensor, state: dict[str, Any], group: Group) -> None:
        super()._new_state(param, state, group)
        rate = as_number(group["lr"])
        start = complex(rate, rate) if param.is_complex() else rate
        state["step_size"] = jitgrad.full_like(param, start, requires_grad=False)

    def _names(self, group: Group) -> tuple[str, ...]:
        return ("prev", "step_size", "step")

    def _numbers(self, group: Group) -> tuple[Any, ...]:
        return (*group["etas"], *group["step_sizes"], group["maximize"])


rprop = stateless(
    "rprop", loops.rprop, "prevs step_sizes state_steps",
    "etaminus etaplus step_size_min step_size_max maximize",
)  # fmt: skip
