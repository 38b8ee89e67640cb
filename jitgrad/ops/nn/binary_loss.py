"""Binary cross entropy, of probabilities and of logits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from jitgrad.core.errors import scalar_type
from jitgrad.core.layout import broadcast_shapes
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch import table
from jitgrad.dispatch.batch_rules import over_losses
from jitgrad.dispatch.op_samples import draw
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.launch import launch
from jitgrad.kernels.loops import loss as kernels
from jitgrad.ops.nn.loss import flat_array, loss_gradient, loss_values, matched, per_element, reduced, reduction_name
from jitgrad.ops.reduction.reduction_plan import unrecorded

__all__: list[str] = []


def _in_unit(name: str, x: Tensor) -> None:
    found = np.empty(1, np.bool_)
    launch(kernels.outside_unit, flat_array(x), found)
    if found[0]:
        raise RuntimeError(f"all elements of {name} should be between 0 and 1")


def _weighted(values: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    return reduced(values if weight is None else values * unrecorded(weight), reduction)


def _times(g: Tensor, weight: Tensor | None) -> Tensor:
    return g if weight is None else g * weight


class BinaryCrossEntropy(Structured):
    """-(target * log(x) + (1 - target) * log(1 - x)), with logarithms of at least -100."""

    batch = over_losses
    name = "_binary_cross_entropy"

    def forward(x, target, weight=None, reduction="mean"):
        if target._layout.dtype is not x._layout.dtype:
            got, wanted = scalar_type(target._layout.dtype), scalar_type(x._layout.dtype)
            raise RuntimeError(f"Found dtype {got} but expected {wanted}")
        _in_unit("input", x)
        _in_unit("target", target)
        if weight is None:
            return loss_values(kernels.BINARY, x, target, reduction)
        return _weighted(loss_values(kernels.BINARY, x, target, "none"), weight, reduction)

    def grad_x(g, x, target, weight, reduction):
        g = _times(per_element(g, x._layout, reduction), weight)
        return g * (x - target) / ((1 - x) * x).clamp(min=1e-12)

    def grad_target(g, x, target, weight, reduction):
        g = _times(per_element(g, x._layout, reduction), weight)
        return g * ((1 - x).log().clamp(min=-100) - x.log().clamp(min=-100))

    def kernel_x(g, x, target, weight, reduction):
        if weight is None:
            return loss_gradient(kernels.BINARY, g, x, target, reduction)
        return BinaryCrossEntropy.grad_x(g, x, target, weight, reduction)

    @staticmethod
    def samples() -> Iterator[Any]:
        x, target = draw(3, 4, low=0.1, high=0.9), draw(3, 4, low=0.1, high=0.9, seed=1)
        yield (x, target), {}
        yield (x, target, None, "none"), {}
        yield (x, target, draw(4, low=0.5, seed=2), "sum"), {}


class BinaryCrossEntropyWithLogits(Structured):
    """Binary cross entropy of sigmoid(x), computed without forming it."""

    batch = over_losses
    name = "_binary_cross_entropy_with_logits"

    def forward(x, target, weight=None, pos_weight=None, reduction="mean"):
        if weight is None and pos_weight is None:
            return loss_values(kernels.LOGITS, x, target, reduction)
        if pos_weight is None:
            return _weighted(loss_values(kernels.LOGITS, x, target, "none"), weight, reduction)
        x, target, emphasis = unrecorded(x), unrecorded(target), _emphasis(unrecorded(target), unrecorded(pos_weight))
        soft = table.where(x < 0, -x, 0) + (-x.abs()).exp().log1p()  # log(1 + exp(-x))
        return _weighted((1 - target) * x + emphasis * soft, weight, reduction)

    def grad_x(g, x, target, weight, pos_weight, reduction):
        g = _times(per_element(g, x._layout, reduction), weight)
        chance = x.sigmoid()
        if pos_weight is None:
            return g * (chance - target)
        return g * (_emphasis(target, pos_weight) * chance - pos_weight * target)

    def grad_target(g, x, target, weight, pos_weight, reduction):
        g = _times(per_element(g, x._layout, reduction), weight)
        if pos_weight is None:
            return -g * x
        return g * ((pos_weight - 1) * -_log_sigmoid(x) - x)

    def kernel_x(g, x, target, weight, pos_weight, reduction):
        if weight is None and pos_weight is None:
            return loss_gradient(kernels.LOGITS, g, x, target, reduction)
        return BinaryCrossEntropyWithLogits.grad_x(g, x, target, weight, pos_weight, reduction)

    @staticmethod
    def samples() -> Iterator[Any]:
        x, target = draw(3, 4), draw(3, 4, low=0.1, high=0.9, seed=1)
        yield (x, target), {}
        yield (x, target, None, None, "none"), {}
        yield (x, target, draw(4, low=0.5, seed=2), None, "sum"), {}
        yield (x, target, None, draw(4, low=0.5, seed=3)), {}


def _emphasis(target: Tensor, pos_weight: Tensor) -> Tensor:
    return (pos_weight - 1) * target + 1


def _log_sigmoid(x: Tensor) -> Tensor:
    return table.where(x < 0, x, 0) - (-x.abs()).exp().log1p()


def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """-(target * log(input) + (1 - target) * log(1 - input)) of probabilities, times ``weight``.

    ValueError where shapes differ; RuntimeError for what is not between 0 and 1, and where dtypes
    differ.
    """
    reduction = reduction_name(reduction, size_average, reduce)
    if target._layout.shape != input._layout.shape:
        raise ValueError(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}) is "
            "deprecated. Please ensure they have the same size."
        )
    if weight is not None:
        weight = weight.expand(broadcast_shapes(target.shape, weight.shape))
    return BinaryCrossEntropy.apply(input, target, weight, reduction)


def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean", pos_weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Binary cross entropy of sigmoid(input), finite for every finite input, times ``weight``.

    ``pos_weight`` multiplies the term of positive targets. ValueError where shapes differ.
    """
    reduction = reduction_name(reduction, size_average, reduce)
    if target._layout.shape != input._layout.shape:
        raise ValueError(
            f"Target size ({target.size()}) must be the same as input size ({input.size()})"
        )
    if target._layout.dtype.category < 2:
        raise RuntimeError(
            f"result type {scalar_type(input._layout.dtype)} can't be cast to the desired output type "
            f"{scalar_type(target._layout.dtype)}"
        )
    x, y = matched(input, target)
    return BinaryCrossEntropyWithLogits.apply(x, y, weight, pos_weight, reduction)


for _function in (binary_cross_entropy, binary_cross_entropy_with_logits):
    public(_function, method_too=False)
