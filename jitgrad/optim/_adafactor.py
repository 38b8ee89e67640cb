"""Adafactor."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.core.grad_mode import no_grad
from jitgrad.core.tensor import Tensor
from jitgrad.optim.kept_state import new_counter
from jitgrad.optim.optimizer import Group, Optimizer
from jitgrad.optim.options import as_number, check_rate

__all__ = ["Adafactor"]


class Adafactor(Optimizer):
    """Adam without momentum whose second moments of a matrix are kept as those of its rows and columns alone.

    With w = t^beta2_decay, r and c the running means (by w) of the squared gradient over rows and columns, the estimate
    of the second moment is v = r c / max(mean(r), eps1); of a vector it is its own running mean. u = g / sqrt(v);
    p -= max(eps2, RMS(p)) min(lr, 1 / sqrt(t)) u / max(1, RMS(u) / d), after p has shrunk by 1 - lr * weight_decay.
    """

    _counts_in_tensors = ("step",)

    def __init__(
        self, params: Any, lr: Any = 1e-2, beta2_decay: float = -0.8, eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0, weight_decay: float = 0.0, *, foreach: bool | None = None, maximize: bool = False,
    ):  # fmt: skip
        check_rate(lr, "Learning rate should be >= 0 but is: {}")
        if not beta2_decay <= 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None and not eps[0] >= 0.0:
            raise ValueError(f"epsilon1 should be >= 0 but is: {eps[0]}")
        if not eps[1] >= 0.0:
            raise ValueError(f"epsilon2 should be >= 0 but is: {eps[1]}")
        if not d >= 1.0:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight_decay should be >= 0 but is: {weight_decay}")
        defaults = {
            "lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _added_options(self) -> dict[str, Any]:
        return {"foreach": None}

    def _new_state(self, grad: Tensor, state: dict[str, Any]) -> None:
        state["step"] = new_counter()
        if grad.dim() > 1:
            *batch, rows, columns = grad.shape
            state["row_var"] = grad.new_zeros((*batch, rows, 1))
            state["col_var"] = grad.new_zeros((*batch, 1, columns))
        else:
            state["variance"] = jitgrad.zeros_like(grad)

    @no_grad()
    def _update(self, group: Group) -> None:
        params = [p for p in group["params"] if p._grad is not None]
        for param in params:
            if param.is_complex():
                raise RuntimeError("Adafactor does not support complex parameters")
            if param._grad.is_sparse:
                raise RuntimeError("Adafactor does not support sparse gradients")
            if not self.state[param]:
                self._new_state(param._grad, self.state[param])
        for param in params:
            self._update_one(param, self.state[param], group)

    def _update_one(self, param: Tensor, state: dict[str, Any], group: Group) -> None:
        grad: Any = param._grad
        grad = -grad if group["maximize"] else grad
        lr, (eps1, eps2) = as_number(group["lr"]), group["eps"]
        eps1 = jitgrad.finfo(param.dtype).eps if eps1 is None else eps1
        state["step"] += 1
        # Numbers as tensors without dims, in float64 as Python's: to read them would wait for a device.
        step = state["step"].double()
        rate = step.rsqrt().clamp(max=lr)
        alpha = (param.norm(2).double() / param.numel() ** 0.5).clamp(min=eps2) * rate
        if group["weight_decay"] != 0:
            param.mul_(1 - lr * group["weight_decay"])
        update = _variance(grad, state, step ** group["beta2_decay"], eps1).clamp_(min=eps1 * eps1).rsqrt_().mul_(grad)
        denominator = (update.norm(2).double() / (update.numel() ** 0.5 * group["d"])).clamp(min=1.0)
        param.sub_(update * (alpha / denominator).to(param.dtype))


def _variance(grad: Tensor, state: dict[str, Any], weight: Tensor, eps1: float) -> Tensor:
    """The estimate of the second moment, in new memory; the means are advanced in place."""
    weight = weight.to(grad.dtype)
    if grad.dim() <= 1:
        return state["variance"].lerp_(grad * grad, weight).clone()
    rows, columns = state["row_var"], state["col_var"]
    rows.lerp_(grad.norm(dim=-1, keepdim=True).square_().div_(grad.size(-1)), weight)
    columns.lerp_(grad.norm(dim=-2, keepdim=True).square_().div_(grad.size(-2)), weight)
    return (rows @ columns).div_(rows.mean(dim=-2, keepdim=True).clamp_(min=eps1))
