"""Adam and AdamW."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.core.tensor import Tensor
from jitgrad.kernels.loops import optimizer as loops
from jitgrad.optim.fused_step import update
from jitgrad.optim.optimizer import Optimizer, as_number, check_at_least_zero, check_one_form, new_counter

__all__ = ["Adam", "AdamW"]


class Adam(Optimizer):
    """Adam: steps along the gradient's running mean over the root of its running mean square.

    g = gradient + weight_decay * p; m += (1 - beta1) (g - m); v = beta2 v + (1 - beta2) g^2;
    p -= lr / (1 - beta1^t) * m / (sqrt(v / (1 - beta2^t)) + eps). ``amsgrad`` divides by the largest
    v so far. ``decoupled_weight_decay`` shrinks p by 1 - lr * weight_decay instead of adding to g.
    ``maximize`` turns the gradient's sign. ``foreach``, ``capturable``, ``differentiable`` and
    ``fused`` are kept for PyTorch's sake: the step is always one fused kernel.
    """

    _counts_in_tensors = True

    def __init__(
        self, params: Any, lr: Any = 1e-3, betas: tuple[Any, Any] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, amsgrad: bool = False, *, foreach: bool | None = None, maximize: bool = False,
        capturable: bool = False, differentiable: bool = False, fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ):  # fmt: skip
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        check_at_least_zero(lr, "learning rate")
        check_at_least_zero(eps, "epsilon value")
        for k in range(2):
            if not 0.0 <= betas[k] < 1.0:
                raise ValueError(f"Invalid beta parameter at index {k}: {betas[k]}")
        check_at_least_zero(weight_decay, "weight_decay value")
        check_one_form(foreach, fused)
        defaults = {
            "lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
            "maximize": maximize, "foreach": foreach, "capturable": capturable, "differentiable": differentiable,
            "fused": fused, "decoupled_weight_decay": decoupled_weight_decay,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _added_options(self) -> dict[str, Any]:
        return {
            "amsgrad": False, "maximize": False, "foreach": None, "capturable": False, "differentiable": False,
            "fused": None, "decoupled_weight_decay": False,
        }  # fmt: skip

    def _new_state(self, param: Tensor, state: dict[str, Any], amsgrad: bool) -> None:
        state["step"] = new_counter()
        state["exp_avg"] = jitgrad.zeros_like(param, requires_grad=False)
        state["exp_avg_sq"] = jitgrad.zeros_like(param, requires_grad=False)
        if amsgrad:
            state["max_exp_avg_sq"] = jitgrad.zeros_like(param, requires_grad=False)

    def _update(self, group: dict[str, Any]) -> None:
        params = [p for p in group["params"] if p._grad is not None]
        states = [self.state[p] for p in params]
        amsgrad = group["amsgrad"]
        for param, state in zip(params, states, strict=True):
            if not state:
                self._new_state(param, state, amsgrad)
        # The kernel reads and writes the third kind of state for AMSGrad only, but takes an array there in any case:
        # the second kind once more.
        names = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq" if amsgrad else "exp_avg_sq", "step")
        beta1, beta2 = group["betas"]
        update(
            loops.adam, [params, [p._grad for p in params], *[[s[name] for s in states] for name in names]],
            as_number(group["lr"]), as_number(beta1), as_number(beta2), as_number(group["eps"]),
            as_number(group["weight_decay"]), group["decoupled_weight_decay"], amsgrad, group["maximize"],
        )  # fmt: skip


class AdamW(Adam):
    """Adam whose weight decay shrinks the parameters by 1 - lr * weight_decay at each step."""

    def __init__(
        self, params: Any, lr: Any = 1e-3, betas: tuple[Any, Any] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False, foreach: bool | None = None,
        capturable: bool = False, differentiable: bool = False, fused: bool | None = None,
    ):  # fmt: skip
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize, capturable=capturable,
            differentiable=differentiable, fused=fused, decoupled_weight_decay=True,
        )  # fmt: skip

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True
