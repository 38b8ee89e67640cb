"""Adagrad."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.core.grad_mode import no_grad
from jitgrad.core.tensor import Tensor
from jitgrad.kernels.loops import optimizer as loops
from jitgrad.optim.elementwise import ElementwiseOptimizer
from jitgrad.optim.kept_state import new_counter
from jitgrad.optim.optimizer import Group
from jitgrad.optim.options import as_number, check_at_least_zero, check_fused, check_rate
from jitgrad.optim.stateless import stateless

__all__ = ["Adagrad", "adagrad"]


class Adagrad(ElementwiseOptimizer):
    """Divides the gradient by the root of the sum of its squares so far.

    g = gradient + weight_decay * p; s += g^2; p -= lr / (1 + (t - 1) lr_decay) * g / (sqrt(s) + eps). A sparse gradient
    changes the elements that it has; it goes with no weight decay.
    """

    _loop = loops.adagrad

    def __init__(
        self, params: Any, lr: Any = 1e-2, lr_decay: float = 0, weight_decay: float = 0,
        initial_accumulator_value: float = 0, eps: float = 1e-10, foreach: bool | None = None, *,
        maximize: bool = False, differentiable: bool = False, fused: bool | None = None,
    ):  # fmt: skip
        check_rate(lr)
        check_at_least_zero(lr_decay, "lr_decay value")
        check_at_least_zero(weight_decay, "weight_decay value")
        check_at_least_zero(initial_accumulator_value, "initial_accumulator_value value")
        check_at_least_zero(eps, "epsilon value")
        defaults = {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "fused": fused,
        }  # fmt: skip
        super().__init__(params, defaults)
        check_fused(fused, foreach, differentiable)
        for group in self.param_groups:  # as in PyTorch, state_dict has the state before the first step
            for param in group["params"]:
                self._new_state(param, self.state[param], group)

    def _added_options(self) -> dict[str, Any]:
        return {"foreach": None, "maximize": False, "differentiable": False, "fused": None}

    def _new_state(self, param: Tensor, state: dict[str, Any], group: Group) -> None:
        value = group["initial_accumulator_value"]
        state["step"] = new_counter(0.0, group["fused"])
        # The rule treats a complex number as two real ones: both sums start from the value.
        start = complex(value, value) if param.is_complex() else value
        state["sum"] = jitgrad.full_like(param, start, requires_grad=False)

    def share_memory(self) -> None:
        """Move the state to memory that processes share."""
        for group in self.param_groups:
            for param in group["params"]:
                self.state[param]["sum"].share_memory_()

    def _names(self, group: Group) -> tuple[str, ...]:
        return ("sum", "step")

    def _numbers(self, group: Group) -> tuple[Any, ...]:
        return (group["lr"], group["lr_decay"], group["weight_decay"], group["eps"], group["maximize"])

    def _moved(self, group: Group) -> list[Tensor]:
        params = [p for p in group["params"] if p._grad is not None]
        if True in [p._grad.is_sparse for p in params]:
            for p in params:
                if p._grad.is_sparse:
                    self._update_sparse(p, group)
            return [p for p in params if not p._grad.is_sparse]
        for p in params if group["fused"] else ():
            self._check_fused_param(p, group)
        return params

    @no_grad()
    def _update_sparse(self, param: Tensor, group: Group) -> None:
        if group["weight_decay"] != 0:
            raise RuntimeError("weight_decay option is not compatible with sparse gradients")
        state, lr = self.state[param], as_number(group["lr"])
        if not state:
            self._new_state(param, state, group)
        state["step"] += 1
        grad: Any = param._grad
        grad = (-grad if group["maximize"] else grad).coalesce()
        where, values = tuple(grad._indices()), grad._values()
        total = state["sum"][where] + values * values
        state["sum"][where] = total
        rate = lr / (1 + (state["step"].item() - 1) * as_number(group["lr_decay"]))
        param[where] = param[where] - rate * values / (total.sqrt() + group["eps"])


adagrad = stateless(
    "adagrad", loops.adagrad, "state_sums state_steps",
    "lr lr_decay weight_decay eps maximize",
)  # fmt: skip
