"""Stochastic gradient descent."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.core.grad_mode import no_grad
from jitgrad.core.tensor import Tensor
from jitgrad.kernels.launch import Loop
from jitgrad.kernels.loops import optimizer as loops
from jitgrad.optim.elementwise import ElementwiseOptimizer
from jitgrad.optim.fused_step import update
from jitgrad.optim.optimizer import Group
from jitgrad.optim.options import as_number, check_at_least_zero, check_fused, check_rate

__all__ = ["SGD", "sgd"]


class SGD(ElementwiseOptimizer):
    """Stochastic gradient descent, with momentum if asked.

    g = gradient + weight_decay * p; b = momentum * b + (1 - dampening) * g, at the first step b = g;
    p -= lr * b, or with ``nesterov`` p -= lr * (g + momentum * b). ``maximize`` turns the gradient's
    sign. ``foreach`` and ``fused`` are kept for PyTorch's sake: the step is one fused kernel, unless it is
    ``differentiable``. A sparse gradient changes the elements that it has; it goes with no weight decay.
    """

    _loop, _counts_in_tensors = loops.sgd, ()

    def __init__(
        self, params: Any, lr: Any = 1e-3, momentum: float = 0, dampening: float = 0, weight_decay: Any = 0,
        nesterov: bool = False, *, maximize: bool = False, foreach: bool | None = None, differentiable: bool = False,
        fused: bool | None = None,
    ):  # fmt: skip
        check_rate(lr)
        check_at_least_zero(momentum, "momentum value")
        check_at_least_zero(weight_decay, "weight_decay value")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay, "nesterov": nesterov,
            "maximize": maximize, "foreach": foreach, "differentiable": differentiable, "fused": fused,
        }  # fmt: skip
        super().__init__(params, defaults)
        check_fused(fused, foreach, differentiable)

    def _added_options(self) -> dict[str, Any]:
        return {"nesterov": False, "maximize": False, "foreach": None, "differentiable": False, "fused": False}

    def _loop_of(self, group: Group) -> Loop:
        return loops.sgd_momentum if group["momentum"] else loops.sgd

    def _numbers(self, group: Group, first: bool = True) -> tuple[Any, ...]:
        lr, decay, maximize = group["lr"], group["weight_decay"], group["maximize"]
        if not group["momentum"]:
            return lr, decay, maximize
        return lr, group["momentum"], group["dampening"], decay, group["nesterov"], maximize, first

    def _update(self, group: Group) -> None:
        params, loop = self._moved(group), self._loop_of(group)
        if loop is loops.sgd:
            self._launch(group, loop, [params, [p._grad for p in params]], self._numbers(group))
            return
        # A parameter's first gradient becomes its buffer: those that have no buffer yet take a launch of their own.
        for first in (False, True):
            chosen = [p for p in params if (self.state[p].get("momentum_buffer") is None) is first]
            for p in chosen if first else ():
                self.state[p]["momentum_buffer"] = jitgrad.zeros_like(p, requires_grad=False)
            if chosen:
                buffers = [self.state[p]["momentum_buffer"] for p in chosen]
                columns: list[list[Any]] = [chosen, [p._grad for p in chosen], buffers]
                self._launch(group, loop, columns, self._numbers(group, first))

    def _moved(self, group: Group) -> list[Tensor]:
        params = [p for p in group["params"] if p._grad is not None]
        for p in params if group["fused"] else ():
            self._check_fused_param(p, group)
        if True not in [p._grad.is_sparse for p in params]:
            return params
        for p in params:
            if p._grad.is_sparse:
                self._update_sparse(p, group)
        return [p for p in params if not p._grad.is_sparse]

    @no_grad()
    def _update_sparse(self, param: Tensor, group: Group) -> None:
        """The step for a sparse gradient; with momentum the buffer is sparse, too, until its first dense gradient."""
        grad: Any = param._grad
        grad, momentum = -grad if group["maximize"] else grad, group["momentum"]
        if group["weight_decay"] != 0:
            grad = grad.add(param, alpha=group["weight_decay"])
        if momentum != 0:
            state = self.state[param]
            buffer = state.get("momentum_buffer")
            if buffer is None:
                buffer = state["momentum_buffer"] = grad.clone().detach()
            else:
                buffer.mul_(momentum).add_(grad, alpha=1 - group["dampening"])
            grad = grad.add(buffer, alpha=momentum) if group["nesterov"] else buffer
        param.add_(grad, alpha=-as_number(group["lr"]))


@no_grad()
def sgd(
    params: list[Tensor], d_p_list: list[Tensor], momentum_buffer_list: list[Tensor | None],
    has_sparse_grad: bool = False, foreach: bool | None = None, fused: bool | None = None, grad_scale: Any = None,
    found_inf: Any = None, *, weight_decay: float, momentum: float, lr: Any, dampening: float, nesterov: bool,
    maximize: bool,
) -> None:  # fmt: skip
    """One step of SGD on all parameters, in place; buffers that are None are made, in the list."""
    lr, decay = as_number(lr), as_number(weight_decay)
    if momentum == 0:
        update(loops.sgd, [params, d_p_list], lr, decay, maximize)
        return
    for first in (False, True):
        chosen = [k for k, buffer in enumerate(momentum_buffer_list) if (buffer is None) is first]
        for k in chosen if first else ():
            momentum_buffer_list[k] = jitgrad.zeros_like(params[k], requires_grad=False)
        columns: list[Any] = [[column[k] for k in chosen] for column in (params, d_p_list, momentum_buffer_list)]
        numbers = (as_number(momentum), as_number(dampening), decay)
        update(loops.sgd_momentum, columns, lr, *numbers, nesterov, maximize, first)
