"""Losses with a margin, and likelihoods of Poisson's and the normal distribution: sums of rows of the table.

What PyTorch also has at its top level takes ``reduction`` as a number there: 0 for none, 1 for mean, 2 for sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from jitgrad.core.dtypes import float32, promote_types
from jitgrad.core.errors import invalid_combination, not_implemented_for
from jitgrad.core.grad_mode import no_grad
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.layout import broadcast_shapes
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.operand_checks import check_result_cast
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import as_flag, float_argument
from jitgrad.kernels.elementwise import losses as rows
from jitgrad.ops.nn.loss import reduced, reduction_name
from jitgrad.ops.shape.copy import cast

__all__ = ["REDUCTIONS", "at_top", "functional", "named", "not_derived"]

REDUCTIONS = ("none", "mean", "sum")


def functional(function: Callable[..., Any]) -> Callable[..., Any]:
    """Publish a function of ``jitgrad.nn.functional``."""
    return public(function, module="nn.functional")


def at_top(function: Callable[..., Any]) -> Callable[..., Any]:
    """Publish a function of ``jitgrad`` alone."""
    return public(function, method_too=False)


def not_derived(op: str, **tensors: Any) -> None:
    """RuntimeError if one of these arguments of ``op``, to which PyTorch has no gradient, requires it."""
    for name, tensor in tensors.items():
        if isinstance(tensor, Tensor) and tensor._requires_grad and grad_state.enabled:
            raise RuntimeError(
                f"The function '{op}' is not differentiable with respect to argument '{name}'. This input cannot have "
                "requires_grad True."
            )


def named(reduction: int) -> str:
    """The reduction of that number."""
    return REDUCTIONS[reduction] if reduction in (0, 1, 2) else "none"


def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """log(1 + exp(-target * input)), for targets 1 and -1."""
    reduction = reduction_name(reduction, size_average, reduce)
    not_derived("soft_margin_loss", target=target)
    shape, dtype = input._layout.shape, input._layout.dtype
    if target._layout.shape != shape and broadcast_shapes(shape, target._layout.shape) != shape:
        raise RuntimeError(
            f"output with shape {list(shape)} doesn't match the broadcast shape "
            f"{list(broadcast_shapes(shape, target._layout.shape))}"
        )
    check_result_cast(promote_types(promote_types(dtype, target._layout.dtype), float32), dtype)
    return reduced(cast(rows.SoftMargin.apply(input, target), dtype), reduction)


def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Binary cross entropy of sigmoid(input), times ``weight``, averaged over the last dim, that of classes.

    ValueError for an unknown reduction.
    """
    if size_average is not None or reduce is not None:
        reduction = reduction_name(reduction, size_average, reduce)
    if not input._layout.dtype.is_floating_point:
        raise not_implemented_for("log_sigmoid_cpu", input._layout.dtype)
    loss = rows.SoftMarginOfClass.apply(target, input)
    if weight is not None:
        loss = loss * weight
    loss = loss.sum(-1) / input.size(-1)
    if reduction not in REDUCTIONS:
        raise ValueError(f"{reduction} is not valid")
    return reduced(loss, reduction)


def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """input where the target is 1, max(0, margin - input) where it is -1."""
    reduction = reduction_name(reduction, size_average, reduce)
    return _hinge_embedding(input, target, margin, reduction)


def _hinge_embedding(x: Tensor, target: Tensor, margin: float, reduction: str) -> Tensor:
    margin = float_argument("hinge_embedding_loss", "margin", 3, margin)
    if target._layout.dtype.is_floating_point and x._layout.dtype.is_floating_point:
        target = cast(target, x._layout.dtype)  # of which only 1 and -1 count: the loss has the dtype of x
    if target._requires_grad:
        target = target.detach()
    return reduced(rows.HingeEmbedding.apply(target, x, margin), reduction)


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """max(0, margin - target * (input1 - input2)). RuntimeError where the numbers of dims differ."""
    reduction = reduction_name(reduction, size_average, reduce)
    if input1.dim() != input2.dim() or input1.dim() != target.dim():
        raise RuntimeError(
            f"margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: "
            f"{input1.size()}, input2: {input2.size()}, target: {target.size()} "
        )
    return _margin_ranking(input1, input2, target, margin, reduction)


def _margin_ranking(x: Tensor, y: Tensor, target: Tensor, margin: float, reduction: str) -> Tensor:
    margin = float_argument("margin_ranking_loss", "margin", 4, margin)
    if not (x._layout.dtype.is_floating_point and y._layout.dtype.is_floating_point):
        return reduced((-target * (x - y) + margin).clamp_min(0), reduction)
    return reduced(rows.MarginRanking.apply(x, y, target, margin), reduction)


def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool = True, full: bool = False, size_average: bool | None = None,
    eps: float = 1e-8, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """exp(input) - target * input, or without ``log_input`` input - target * log(input + eps).

    ``full`` adds Stirling's formula for log(target!). ValueError for an unknown reduction.
    """
    reduction = reduction_name(reduction, size_average, reduce)
    return _poisson(input, target, log_input, full, eps, reduction)


def _poisson(x: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: str) -> Tensor:
    if as_flag(log_input):
        loss = rows.PoissonNllLog.apply(target, x)
    else:
        loss = rows.PoissonNll.apply(x, target, float_argument("poisson_nll_loss", "eps", 5, eps))
    if as_flag(full):  # PyTorch adds in place: the loss keeps its dtype beside a wider logarithm
        loss = (loss + rows.Stirling.apply(target)).to(loss.dtype)
    return reduced(loss, reduction)


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """(log(var) + (input - target)**2 / var) / 2, with variances of at least ``eps``.

    ``full`` adds log(2 pi) / 2. ``var`` may be a number, or lack input's last dim, or have size 1 in one dim.
    ValueError for other shapes, negative variances, and an unknown reduction.
    """
    if isinstance(var, float):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = input.new_full(input.shape, var)
    elif not isinstance(var, Tensor):
        raise invalid_combination("any", (var < 0,))
    elif (var < 0).any():
        raise ValueError("var has negative entry/entries")
    if var.size() != input.size():
        var = _fitting(var, input)
    if reduction not in REDUCTIONS:
        raise ValueError(f"{reduction} is not valid")
    var = var.clone()
    with no_grad():  # not recorded: the gradient of a variance below ``eps`` is that of ``eps``, not 0
        var.clamp_(min=eps)
    loss = rows.GaussianNll.apply(input, target, var)
    return reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)


def _fitting(var: Tensor, input: Tensor) -> Tensor:
    """Variances in a shape that broadcasts to that of ``input``: shared along its last dim, or along one other."""
    if input.size()[:-1] == var.size():
        return var.unsqueeze(-1)
    if input.ndim == var.ndim and sum(y for x, y in zip(input.size(), var.size(), strict=True) if x != y) == 1:
        return var
    raise ValueError("var is of incorrect size")


for _function in (
    soft_margin_loss, multilabel_soft_margin_loss, hinge_embedding_loss, margin_ranking_loss, poisson_nll_loss,
    gaussian_nll_loss,
):  # fmt: skip
    functional(_function)


# -- the same at the top level -------------------------------------------------------------------------


def _top_hinge(input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 1) -> Tensor:
    """``nn.functional.hinge_embedding_loss``, with the reduction as a number."""
    return _hinge_embedding(input, target, margin, named(reduction))


def _top_ranking(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:  # fmt: skip
    """``nn.functional.margin_ranking_loss``, with the reduction as a number."""
    return _margin_ranking(input1, input2, target, margin, named(reduction))


def _top_poisson(
    input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int
) -> Tensor:  # fmt: skip
    """``nn.functional.poisson_nll_loss``, with the reduction as a number."""
    return _poisson(input, target, log_input, full, eps, named(reduction))


public(_top_hinge, "hinge_embedding_loss", method_too=False)
public(_top_ranking, "margin_ranking_loss", method_too=False)
public(_top_poisson, "poisson_nll_loss", method_too=False)
