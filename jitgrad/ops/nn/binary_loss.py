"""Binary cross entropy, of probabilities and of logits."""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from jitgrad.core.errors import not_implemented_for, scalar_type
from jitgrad.core.layout import Layout, broadcast_shapes
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch import table
from jitgrad.dispatch.batch_rules import over_losses
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.launch import check, launch
from jitgrad.kernels.loops import loss as kernels
from jitgrad.ops.nn.loss import (
    flat_array,
    loss_gradient,
    loss_values,
    matched,
    per_element,
    reduced,
    reduced_array,
    reduction_name,
)  # fmt: skip
from jitgrad.ops.reduction.reduction_plan import unrecorded

__all__: list[str] = []


def _check_probabilities(name: str, x: Tensor) -> None:
    found = np.zeros(1, np.int64)
    launch(kernels.outside_unit, flat_array(x), found)
    check(found, _refuse, name)


def _refuse(_: np.ndarray, name: str) -> NoReturn:
    raise RuntimeError(f"all elements of {name} should be between 0 and 1")


def _weighted_values(
    loops: kernels.Pointwise, x: Tensor, target: Tensor, weight: Tensor | None, reduction: str
) -> Tensor:  # fmt: skip
    """``loss_values`` times ``weight``; a mean divides by the number of elements, not by the sum of the weights."""
    if weight is None:
        return loss_values(loops, x, target, reduction)
    return reduced(loss_values(loops, x, target, "none") * unrecorded(weight), reduction)


def _weighted_gradient(
    loops: kernels.Pointwise, g: Tensor, x: Tensor, target: Tensor, weight: Tensor | None, reduction: str
) -> Tensor:  # fmt: skip
    """The gradient of ``_weighted_values`` with respect to x."""
    if weight is None:
        return loss_gradient(loops, g, x, target, reduction)
    return loss_gradient(loops, _per_element(g, x._layout, weight, reduction), x, target, "none")


def _per_element(g: Tensor, layout: Layout, weight: Tensor | None, reduction: str) -> Tensor:
    g = per_element(g, layout, reduction)
    return g if weight is None else g * weight


def _chances(seed: int) -> Tensor:
    """A sample's probabilities or targets."""
    return draw(3, 4, low=0.1, high=0.9, seed=seed)


class BinaryCrossEntropy(Structured):
    """-(target * log(x) + (1 - target) * log(1 - x)), with logarithms of at least -100."""

    name, batch = "_binary_cross_entropy", over_losses
    samples = cases(
        lambda: (_chances(0), _chances(1)),
        lambda: (_chances(0), _chances(1), None, "none"),
        lambda: (_chances(0), _chances(1), draw(4, low=0.5, seed=2), "sum"),
    )

    def reference(x, target, weight=None, reduction="mean"):
        losses = (target - 1) * np.log1p(-x) - target * np.log(x)
        return reduced_array(losses if weight is None else losses * weight, reduction)

    def forward(x, target, weight=None, reduction="mean"):
        if target._layout.dtype is not x._layout.dtype:
            got, wanted = scalar_type(target._layout.dtype), scalar_type(x._layout.dtype)
            raise RuntimeError(f"Found dtype {got} but expected {wanted}")
        if not x._layout.dtype.is_floating_point:
            raise not_implemented_for("binary_cross_entropy", x._layout.dtype)
        _check_probabilities("input", x)
        _check_probabilities("target", target)
        return _weighted_values(kernels.BINARY, x, target, weight, reduction)

    def grad_x(g, x, target, weight, reduction):
        g = _per_element(g, x._layout, weight, reduction)
        return g * table.binary_cross_entropy_slope(x, target)

    # Unlike the loss it has no bound, as in PyTorch.
    def grad_target(g, x, target, weight, reduction):
        return -_per_element(g, x._layout, weight, reduction) * table.logit(x)

    def kernel_x(g, x, target, weight, reduction):
        return _weighted_gradient(kernels.BINARY, g, x, target, weight, reduction)


class BinaryCrossEntropyWithLogits(Structured):
    """Binary cross entropy of sigmoid(x), computed without forming it."""

    name, batch = "_binary_cross_entropy_with_logits", over_losses
    samples = cases(
        lambda: (draw(3, 4), _chances(1)),
        lambda: (draw(3, 4), _chances(1), None, None, "none"),
        lambda: (draw(3, 4), _chances(1), draw(4, low=0.5, seed=2), None, "sum"),
        lambda: (draw(3, 4), _chances(1), None, draw(4, low=0.5, seed=3)),
    )

    def reference(x, target, weight=None, pos_weight=None, reduction="mean"):
        positive = target if pos_weight is None else target * pos_weight
        losses = positive * np.log1p(np.exp(-x)) + (1 - target) * np.log1p(np.exp(x))
        return reduced_array(losses if weight is None else losses * weight, reduction)

    def forward(x, target, weight=None, pos_weight=None, reduction="mean"):
        if pos_weight is None:
            return _weighted_values(kernels.LOGITS, x, target, weight, reduction)
        x, target, pos_weight = unrecorded(x), unrecorded(target), unrecorded(pos_weight)
        # No kernel takes pos_weight, a tensor that broadcasts: the formula in ops, on unrecorded tensors.
        losses = (1 - target) * x - _emphasis(target, pos_weight) * table.logsigmoid(x)
        return reduced(losses if weight is None else losses * unrecorded(weight), reduction)

    def grad_x(g, x, target, weight, pos_weight, reduction):
        g = _per_element(g, x._layout, weight, reduction)
        chance = table.sigmoid(x)
        if pos_weight is None:
            return g * (chance - target)
        return g * (_emphasis(target, pos_weight) * chance - pos_weight * target)

    def grad_target(g, x, target, weight, pos_weight, reduction):
        g = _per_element(g, x._layout, weight, reduction)
        if pos_weight is None:
            return -g * x
        # The derivative in target of (1 - target) x - emphasis * logsigmoid(x).
        return g * ((pos_weight - 1) * -table.logsigmoid(x) - x)

    def kernel_x(g, x, target, weight, pos_weight, reduction):
        if pos_weight is None:
            return _weighted_gradient(kernels.LOGITS, g, x, target, weight, reduction)
        return BinaryCrossEntropyWithLogits.grad_x(g, x, target, weight, pos_weight, reduction)


def _emphasis(target: Tensor, pos_weight: Tensor) -> Tensor:
    """The factor of log(1 + exp(-x)) in the loss: ``pos_weight`` for a target of 1, 1 for one of 0."""
    return (pos_weight - 1) * target + 1


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
