"""ASGD."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.core.tensor import Tensor
from jitgrad.kernels.loops import adaptive_optimizers as loops
from jitgrad.optim.elementwise import ElementwiseOptimizer
from jitgrad.optim.kept_state import new_counter
from jitgrad.optim.optimizer import Group
from jitgrad.optim.options import as_number, check_at_least_zero, check_rate
from jitgrad.optim.stateless import stateless

__all__ = ["ASGD", "asgd"]


class ASGD(ElementwiseOptimizer):
    """Averaged stochastic gradient descent.

    g = gradient + weight_decay * p; p = p (1 - lambd eta) - eta g; ax += mu (p - ax); then
    eta = lr / (1 + lambd lr t)^alpha and mu = 1 / max(1, t - t0). ``state[p]["ax"]`` is the average.
    """

    _loop, _averages = loops.asgd, ("ax",)
    _counts_in_tensors = ("mu", "eta", "step")
    _captured = "params, mus, etas, and state_steps"

    def __init__(
        self, params: Any, lr: Any = 1e-2, lambd: float = 1e-4, alpha: float = 0.75, t0: float = 1e6,
        weight_decay: float = 0, foreach: bool | None = None, maximize: bool = False, differentiable: bool = False,
        capturable: bool = False,
    ):  # fmt: skip
        check_rate(lr)
        check_at_least_zero(weight_decay, "weight_decay value")
        defaults = {
            "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _added_options(self) -> dict[str, Any]:
        return {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}

    def _new_state(self, param: Tensor, state: dict[str, Any], group: Group) -> None:
        state["step"], state["eta"] = new_counter(), new_counter(as_number(group["lr"]))
        state["mu"] = new_counter(1.0)
        state["ax"] = jitgrad.zeros_like(param, requires_grad=False)

    def _numbers(self, group: Group) -> tuple[Any, ...]:
        return (
            group["lr"], group["lambd"], group["alpha"], group["t0"], group["weight_decay"], group["maximize"],
        )  # fmt: skip


asgd = stateless(
    "asgd", loops.asgd, "axs mus etas state_steps",
    "lr lambd alpha t0 weight_decay maximize",
)  # fmt: skip
