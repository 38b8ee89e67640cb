"""RMSprop and Adagrad."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.core.tensor import Tensor
from jitgrad.kernels.loops import optimizer as loops
from jitgrad.optim.fused_step import update
from jitgrad.optim.optimizer import Optimizer, as_number, check_at_least_zero, check_one_form, new_counter

__all__ = ["Adagrad", "RMSprop"]


class RMSprop(Optimizer):
    """Divides the gradient by the root of the running mean of its square.

    g = gradient + weight_decay * p; v = alpha v + (1 - alpha) g^2; with ``centered`` the square of
    g's running mean is taken off v; p -= lr * g / (sqrt(v) + eps), or with momentum
    b = momentum b + g / (sqrt(v) + eps); p -= lr * b.
    """

    _counts_in_tensors = True

    def __init__(
        self, params: Any, lr: Any = 1e-2, alpha: float = 0.99, eps: float = 1e-8, weight_decay: float = 0,
        momentum: float = 0, centered: bool = False, capturable: bool = False, foreach: bool | None = None,
        maximize: bool = False, differentiable: bool = False,
    ):  # fmt: skip
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        check_at_least_zero(lr, "learning rate")
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

    def _new_state(self, param: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        names = ["square_avg", *["momentum_buffer"] * (group["momentum"] > 0), *["grad_avg"] * group["centered"]]
        state["step"] = new_counter()
        for name in names:
            state[name] = jitgrad.zeros_like(param, requires_grad=False)

    def _update(self, group: dict[str, Any]) -> None:
        params = [p for p in group["params"] if p._grad is not None]
        states = [self.state[p] for p in params]
        for param, state in zip(params, states, strict=True):
            if not state:
                self._new_state(param, state, group)
        grads, steps = [p._grad for p in params], [s["step"] for s in states]
        squares = [s["square_avg"] for s in states]
        lr, alpha, eps = as_number(group["lr"]), as_number(group["alpha"]), as_number(group["eps"])
        decay, momentum, maximize = as_number(group["weight_decay"]), as_number(group["momentum"]), group["maximize"]
        # The kernel takes arrays for all kinds of state, and leaves those alone whose option is off: any array will do.
        means = [s.get("grad_avg", s["square_avg"]) for s in states]
        buffers = [s.get("momentum_buffer", s["square_avg"]) for s in states]
        update(
            loops.rmsprop, [params, grads, squares, means, buffers, steps], lr, alpha, eps, decay, momentum,
            group["centered"], maximize,
        )  # fmt: skip


class Adagrad(Optimizer):
    """Divides the gradient by the root of the sum of its squares so far.

    g = gradient + weight_decay * p; s += g^2; p -= lr / (1 + (t - 1) lr_decay) * g / (sqrt(s) + eps).
    """

    _counts_in_tensors = True

    def __init__(
        self, params: Any, lr: Any = 1e-2, lr_decay: float = 0, weight_decay: float = 0,
        initial_accumulator_value: float = 0, eps: float = 1e-10, foreach: bool | None = None, *,
        maximize: bool = False, differentiable: bool = False, fused: bool | None = None,
    ):  # fmt: skip
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        check_at_least_zero(lr, "learning rate")
        check_at_least_zero(lr_decay, "lr_decay value")
        check_at_least_zero(weight_decay, "weight_decay value")
        check_at_least_zero(initial_accumulator_value, "initial_accumulator_value value")
        check_at_least_zero(eps, "epsilon value")
        check_one_form(foreach, fused)
        defaults = {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "fused": fused,
        }  # fmt: skip
        super().__init__(params, defaults)
        for group in self.param_groups:  # as in PyTorch, state_dict has the state before the first step
            for param in group["params"]:
                self._new_state(param, self.state[param])

    def _new_state(self, param: Tensor, state: dict[str, Any]) -> None:
        value = self.defaults["initial_accumulator_value"]
        state["step"] = new_counter()
        # The rule treats a complex number as two real ones: both sums start from the value.
        start = complex(value, value) if param.is_complex() else value
        state["sum"] = jitgrad.full_like(param, start, requires_grad=False)

    def _update(self, group: dict[str, Any]) -> None:
        params = [p for p in group["params"] if p._grad is not None]
        states = [self.state[p] for p in params]
        for param, state in zip(params, states, strict=True):
            if not state:  # of a group that came later, or forgotten since
                self._new_state(param, state)
        update(
            loops.adagrad,
            [params, [p._grad for p in params], [s["sum"] for s in states], [s["step"] for s in states]],
            as_number(group["lr"]), as_number(group["lr_decay"]), as_number(group["weight_decay"]),
            as_number(group["eps"]), group["maximize"],
        )  # fmt: skip
