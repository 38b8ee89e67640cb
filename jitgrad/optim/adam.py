"""Adam."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.core.tensor import Tensor
from jitgrad.kernels.loops import optimizer as loops
from jitgrad.optim.elementwise import ElementwiseOptimizer
from jitgrad.optim.optimizer import Group
from jitgrad.optim.options import check_at_least_zero, check_betas, check_fused, check_rate
from jitgrad.optim.stateless import stateless

__all__ = ["Adam", "adam"]


class Adam(ElementwiseOptimizer):
    """Adam: steps along the gradient's running mean over the root of its running mean square.

    g = gradient + weight_decay * p; m += (1 - beta1) (g - m); v = beta2 v + (1 - beta2) g^2;
    p -= lr / (1 - beta1^t) * m / (sqrt(v / (1 - beta2^t)) + eps). ``amsgrad`` divides by the largest
    v so far. ``decoupled_weight_decay`` shrinks p by 1 - lr * weight_decay instead of adding to g.
    ``maximize`` turns the gradient's sign. ``foreach`` and ``fused`` are kept for PyTorch's sake: the step is one
    fused kernel, unless it is ``differentiable``.
    """

    _loop, _averages = loops.adam, ("exp_avg", "exp_avg_sq")
    _sparse_advice = ", please consider SparseAdam instead"

    def __init__(
        self, params: Any, lr: Any = 1e-3, betas: tuple[Any, Any] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, amsgrad: bool = False, *, foreach: bool | None = None, maximize: bool = False,
        capturable: bool = False, differentiable: bool = False, fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ):  # fmt: skip
        if isinstance(lr, Tensor) and foreach and not capturable:
            raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
        check_rate(lr)
        check_at_least_zero(eps, "epsilon value")
        check_betas(betas)
        check_at_least_zero(weight_decay, "weight_decay value")
        betas = _checked_kind(betas, foreach and not capturable)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
            "maximize": maximize, "foreach": foreach, "capturable": capturable, "differentiable": differentiable,
            "fused": fused, "decoupled_weight_decay": decoupled_weight_decay,
        }  # fmt: skip
        super().__init__(params, defaults)
        check_fused(fused, foreach, differentiable)

    def _added_options(self) -> dict[str, Any]:
        return {
            "amsgrad": False, "maximize": False, "foreach": None, "capturable": False, "differentiable": False,
            "decoupled_weight_decay": False, "fused": None,
        }  # fmt: skip

    def _new_state(self, param: Tensor, state: dict[str, Any], group: Group) -> None:
        super()._new_state(param, state, group)
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = jitgrad.zeros_like(param, requires_grad=False)

    def _names(self, group: Group) -> tuple[str, ...]:
        # The kernel reads and writes the third kind of state for AMSGrad only, but takes an array there in any case:
        # the second kind once more.
        return ("exp_avg", "exp_avg_sq", "max_exp_avg_sq" if group["amsgrad"] else "exp_avg_sq", "step")

    def _numbers(self, group: Group) -> tuple[Any, ...]:
        beta1, beta2 = group["betas"]
        return (
            group["lr"], beta1, beta2, group["eps"], group["weight_decay"], group["decoupled_weight_decay"],
            group["amsgrad"], group["maximize"],
        )  # fmt: skip


def _checked_kind(betas: tuple[Any, Any], refused: Any) -> tuple[Any, ...]:
    """Both coefficients, tensors without dims; ValueError unless both are floats or both tensors of one element."""
    tensors = [isinstance(beta, Tensor) for beta in betas[:2]]
    if not all(tensors) and not all(isinstance(beta, float) for beta in betas[:2]):
        raise ValueError("betas must be either both floats or both Tensors")
    for k in range(2) if all(tensors) else ():
        if refused:
            raise ValueError(f"betas[{k}] as a Tensor is not supported for capturable=False and foreach=True")
        if betas[k].numel() != 1:
            raise ValueError(f"Tensor betas[{k}] must be 1-element")
    return tuple([beta.squeeze() if isinstance(beta, Tensor) and beta.dim() else beta for beta in betas])


adam = stateless(
    "adam", loops.adam, "exp_avgs exp_avg_sqs max_exp_avg_sqs state_steps",
    "lr beta1 beta2 eps weight_decay decoupled_weight_decay amsgrad maximize",
)  # fmt: skip
