"""Losses that compare element by element: squares, absolute values, binary cross entropy, divergence."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.errors import not_implemented_for
from jitgrad.core.layout import Layout, broadcast_shapes, intern
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.batch_rules import over_losses
from jitgrad.dispatch.op_samples import draw
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels import threads
from jitgrad.kernels.launch import SPLIT_SIZE, launch
from jitgrad.kernels.loops import loss as kernels
from jitgrad.kernels.loops.reduction import sum_rows
from jitgrad.ops.pointwise.arithmetic import xlogy
from jitgrad.ops.reduction.reduction_plan import unrecorded
from jitgrad.ops.shape.copy import cast, contiguous

__all__ = ["reduction_name"]


def reduction_name(reduction: str, size_average: bool | None = None, reduce: bool | None = None) -> str:
    """Check ``reduction``; the two older arguments, if given, decide it with a warning."""
    if size_average is not None or reduce is not None:
        reduction = "none" if reduce is False else "sum" if size_average is False else "mean"
        warnings.warn(
            f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead.",
            stacklevel=4,
        )
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return reduction


def reduced(values: Tensor, reduction: str) -> Tensor:
    """The elements' losses as they are, their mean, or their sum."""
    return values if reduction == "none" else values.mean() if reduction == "mean" else values.sum()


def per_element(g: Tensor, layout: Layout, reduction: str) -> Tensor:
    """The gradient that reaches each element: ``g``, its n-th part for a mean."""
    if reduction == "none":
        return g
    return g.expand(layout.shape) / layout.numel if reduction == "mean" else g.expand(layout.shape)


def flat_array(x: Tensor) -> Any:
    return contiguous(unrecorded(x))._data.reshape(-1)


def loss_values(pair: kernels.Pointwise, x: Tensor, target: Tensor, reduction: str, option: float = 0.0) -> Tensor:
    layout = x._layout
    if not layout.dtype.is_floating_point:
        name = pair.each.name.removesuffix("_each")
        raise not_implemented_for(f"{name}_cpu", layout.dtype)
    a, b = flat_array(x), flat_array(target)
    if reduction == "none":
        result = intern(layout.numpy_dtype, layout.shape)
        data = np.empty(result.shape, result.numpy_dtype)
        launch(pair.each, a, b, data.reshape(-1), option)
        return wrap(data, result)
    scale = (1 / layout.numel if layout.numel else np.nan) if reduction == "mean" else 1.0
    data = np.empty((), layout.numpy_dtype)
    _total(pair, a, b, data.reshape(1), option, scale)
    return wrap(data, intern(layout.numpy_dtype, ()))


CHUNKS = 16


def _total(pair: kernels.Pointwise, x: Any, target: Any, out: Any, option: float, scale: float) -> None:
    """One total; by way of several where threads may share the work."""
    if x.size < SPLIT_SIZE or x.size % CHUNKS or threads.get_num_threads() == 1:
        launch(pair.total, x.reshape(1, -1), target.reshape(1, -1), out, option, scale)
        return
    parts = np.empty(CHUNKS, x.dtype)
    launch(pair.total, x.reshape(CHUNKS, -1), target.reshape(CHUNKS, -1), parts, option, scale)
    launch(sum_rows, parts.reshape(1, -1), out)


def loss_gradient(
    pair: kernels.Pointwise, g: Tensor, x: Tensor, target: Tensor, reduction: str, option: float = 0.0
) -> Tensor:  # fmt: skip
    layout = intern(x._layout.numpy_dtype, x._layout.shape)
    data = np.empty(layout.shape, layout.numpy_dtype)
    arrays = flat_array(g), flat_array(x), flat_array(target), data.reshape(-1)
    if reduction == "none":
        launch(pair.gradient, *arrays, option)
    else:
        launch(pair.total_gradient, *arrays, option, 1 / max(layout.numel, 1) if reduction == "mean" else 1.0)
    return wrap(data, layout)


def _samples() -> Iterator[Any]:
    yield (draw(3, 4), draw(3, 4, seed=1)), {}
    yield (draw(3, 4), draw(3, 4, seed=1), "sum"), {}
    yield (draw(4, 3).t(), draw(3, 4, seed=1), "none"), {}


class MseLoss(Structured):
    """Squares of differences."""

    batch = over_losses
    name, samples = "_mse_loss", staticmethod(_samples)

    def forward(x, target, reduction="mean"):
        return loss_values(kernels.MSE, x, target, reduction)

    def grad_x(g, x, target, reduction):
        return per_element(g, x._layout, reduction) * (2 * (x - target))

    def grad_target(g, x, target, reduction):
        return per_element(g, x._layout, reduction) * (2 * (target - x))

    def kernel_x(g, x, target, reduction):
        return loss_gradient(kernels.MSE, g, x, target, reduction)

    def kernel_target(g, x, target, reduction):
        return loss_gradient(kernels.MSE, g, target, x, reduction)


class SmoothL1Loss(Structured):
    """Squares of small differences, absolute values of others."""

    batch = over_losses
    name, samples = "_smooth_l1_loss", staticmethod(_samples)

    def forward(x, target, reduction="mean", beta=1.0):
        return loss_values(kernels.SMOOTH_L1, x, target, reduction, float(beta))

    def grad_x(g, x, target, reduction, beta):
        return per_element(g, x._layout, reduction) * ((x - target) / beta).clamp(-1, 1)

    def grad_target(g, x, target, reduction, beta):
        return per_element(g, x._layout, reduction) * ((target - x) / beta).clamp(-1, 1)

    def kernel_x(g, x, target, reduction, beta):
        return loss_gradient(kernels.SMOOTH_L1, g, x, target, reduction, float(beta))

    def kernel_target(g, x, target, reduction, beta):
        return loss_gradient(kernels.SMOOTH_L1, g, target, x, reduction, float(beta))


class HuberLoss(Structured):
    """Squares of small differences, ``delta`` times absolute values of others."""

    batch = over_losses
    name, samples = "_huber_loss", staticmethod(_samples)

    def forward(x, target, reduction="mean", delta=1.0):
        return loss_values(kernels.HUBER, x, target, reduction, float(delta))

    def grad_x(g, x, target, reduction, delta):
        return per_element(g, x._layout, reduction) * (x - target).clamp(-delta, delta)

    def grad_target(g, x, target, reduction, delta):
        return per_element(g, x._layout, reduction) * (target - x).clamp(-delta, delta)

    def kernel_x(g, x, target, reduction, delta):
        return loss_gradient(kernels.HUBER, g, x, target, reduction, float(delta))

    def kernel_target(g, x, target, reduction, delta):
        return loss_gradient(kernels.HUBER, g, target, x, reduction, float(delta))


def _warned_sizes(input: Tensor, target: Tensor) -> None:
    if input._layout.shape != target._layout.shape:
        warnings.warn(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}). This will "
            "likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
            stacklevel=4,
        )


def matched(input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Both in the shape that they broadcast to, and in their common dtype."""
    a, b = input._layout, target._layout
    if a.shape != b.shape:
        shape = broadcast_shapes(a.shape, b.shape)
        input = input if a.shape == shape else input.expand(shape)
        target = target if b.shape == shape else target.expand(shape)
    if a.dtype is not b.dtype:
        common = dtypes.promote_types(a.dtype, b.dtype)
        input, target = cast(input, common), cast(target, common)
    return input, target


def mse_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """(input - target)**2, as its mean, its sum or element by element; ``weight`` multiplies.

    Warns where shapes differ, and broadcasts them.
    """
    reduction = reduction_name(reduction, size_average, reduce)
    _warned_sizes(input, target)
    x, y = matched(input, target)
    if weight is None:
        return MseLoss.apply(x, y, reduction)
    values = (x - y) ** 2 * weight
    return values.sum() / weight.sum() if reduction == "mean" else reduced(values, reduction)


def l1_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """|input - target|, as its mean, its sum or element by element; ``weight`` multiplies.

    Warns where shapes differ, and broadcasts them.
    """
    reduction = reduction_name(reduction, size_average, reduce)
    _warned_sizes(input, target)
    x, y = matched(input, target)
    if weight is None:
        return reduced((x - y).abs(), reduction)
    values = (x - y).abs() * weight
    return values.sum() / weight.sum() if reduction == "mean" else reduced(values, reduction)


def smooth_l1_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", beta: float = 1.0,
) -> Tensor:  # fmt: skip
    """With d = |input - target|: d**2 / (2 beta) where d < beta, else d - beta / 2.

    RuntimeError for a negative ``beta``; 0 gives ``l1_loss``.
    """
    reduction = reduction_name(reduction, size_average, reduce)
    _warned_sizes(input, target)
    x, y = matched(input, target)
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    if beta == 0:
        return reduced((x - y).abs(), reduction)
    return SmoothL1Loss.apply(x, y, reduction, beta)


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:  # fmt: skip
    """With d = |input - target|: d**2 / 2 where d <= delta, else delta * (d - delta / 2).

    RuntimeError unless ``delta`` is positive.
    """
    reduction = reduction_name(reduction)
    _warned_sizes(input, target)
    x, y = matched(input, target)
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    if weight is None:
        return HuberLoss.apply(x, y, reduction, delta)
    values = weight * HuberLoss.apply(x, y, "none", delta)
    return values.sum() / weight.sum() if reduction == "mean" else reduced(values, reduction)


def kl_div(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", log_target: bool = False,
) -> Tensor:  # fmt: skip
    """target * (log(target) - input); with ``log_target`` the target, too, is given as a logarithm.

    "batchmean" divides the sum by the first dim's size: the divergence as mathematics has it. "mean"
    divides by the number of elements, and warns.
    """
    if reduction == "mean" and size_average is None and reduce is None:
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size."
            "'batchmean' divides only by the batch size, and aligns with the KL div math definition."
            "'mean' will be changed to behave the same as 'batchmean' in the next major release.",
            stacklevel=2,
        )
    batch = reduction == "batchmean"
    reduction = reduction_name("sum" if batch else reduction, size_average, reduce)
    if log_target:
        values = target.exp() * (target - input)
    else:
        values = xlogy(target, target) - target * input
    total = reduced(values, reduction)
    return total / input.shape[0] if batch and input._layout.ndim else total


for _function in (mse_loss, l1_loss, smooth_l1_loss, huber_loss, kl_div):
    public(_function, method_too=False)
