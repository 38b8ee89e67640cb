"""Losses that compare element by element: squares, absolute values, divergence; and what all losses share."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.errors import not_implemented_for
from jitgrad.core.layout import Layout, broadcast_shapes, intern
from jitgrad.core.storage import empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.core.user_frame import user_level
from jitgrad.dispatch import table
from jitgrad.dispatch.batch_rules import over_losses
from jitgrad.dispatch.copying import copy_to_layout
from jitgrad.dispatch.declaration_checks import refuse
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.operand_checks import check_result_cast
from jitgrad.dispatch.planned import Launches, Number, Written, planned, row_major
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import as_flag, float_argument
from jitgrad.dispatch.strides import result_strides
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels import threads
from jitgrad.kernels.launch import launch
from jitgrad.kernels.loops import loss as kernels
from jitgrad.kernels.loops.reduction import STREAMED, sum_rows
from jitgrad.ops.pointwise.arithmetic import xlogy
from jitgrad.ops.reduction.reduction_plan import unrecorded
from jitgrad.ops.shape.copy import cast, contiguous

__all__ = [
    "PointwiseLoss", "flat_array", "loss_gradient", "loss_values", "matched", "per_element", "reduced",
    "reduced_array", "reduction_name", "weighted",
]  # fmt: skip


def reduction_name(reduction: str, size_average: bool | None = None, reduce: bool | None = None) -> str:
    """Check ``reduction``; the two older arguments, if given, decide it with a warning."""
    if size_average is not None or reduce is not None:
        reduction = "none" if reduce is False else "sum" if size_average is False else "mean"
        warnings.warn(
            f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead.",
            stacklevel=user_level(),
        )
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return reduction


def reduced(values: Tensor, reduction: str) -> Tensor:
    """The elements' losses as they are, their mean, or their sum."""
    return values if reduction == "none" else values.mean() if reduction == "mean" else values.sum()


def weighted(values: Tensor, weight: Tensor, reduction: str) -> Tensor:
    """The elements' losses times ``weight``, or their sum, or their mean, which divides by the sum of the weights."""
    values = values * weight
    return values.sum() / weight.sum() if reduction == "mean" else reduced(values, reduction)


def per_element(g: Tensor, layout: Layout, reduction: str) -> Tensor:
    """The gradient of each element's loss, given that of the reduced loss: for a mean of n elements g / n."""
    if reduction == "none":
        return g
    return g.expand(layout.shape) / layout.numel if reduction == "mean" else g.expand(layout.shape)


def flat_array(x: Tensor) -> Any:
    """The values of a tensor, in row-major order, as an array of one dim: what the kernels of losses take."""
    return contiguous(unrecorded(x))._data.reshape(-1)


@planned("x", "target", numbers=("option",))
def _values(loops, x, target, reduction, option):
    if not x.dtype.is_floating_point:
        raise not_implemented_for(f"{loops.each.name.removesuffix('_each')}_cpu", x.dtype)
    if reduction != "none" and x.numel >= STREAMED:
        return _large_loss
    shape = (x.numel,) if reduction == "none" else (1, x.numel)
    arrays = row_major("x", x, shape), row_major("target", target, shape)
    if reduction == "none":
        # PyTorch's formula of logits begins with the target, whose strides the result has if the two differ.
        strides = result_strides([target, x] if loops is kernels.LOGITS else [x, target], x.shape)
        result = intern(x.numpy_dtype, x.shape, strides if x.device == "cpu" else None)
        if not result.contiguous:
            return lambda loops, x, target, reduction, option: _each_along(result, loops, x, target, option)
        return Launches([(loops.each, *arrays, Written(0, shape), Number("option"))], [result])
    total = loops.total, *arrays, Written(0, (1,)), Number("option"), _scale(x, reduction)
    return Launches([total], [intern(x.numpy_dtype, ())])


def _each_along(layout: Layout, loops: kernels.Pointwise, x: Tensor, target: Tensor, option: float) -> Tensor:
    """The losses of the elements as a tensor of a dense ``layout``, computed in the order of its memory."""
    data = empty_for(layout)
    arrays = [copy_to_layout(unrecorded(t), layout)._data.ravel("K") for t in (x, target)]
    launch(loops.each, *arrays, data.ravel("K"), option)
    return wrap(data, layout)


def _scale(x: Layout, reduction: str) -> float:
    """What the sum of the elements' losses is multiplied by; the mean of nothing is NaN, as PyTorch's."""
    return (1 / x.numel if x.numel else np.nan) if reduction == "mean" else 1.0


def loss_values(
    loops: kernels.Pointwise, x: Tensor, target: Tensor, reduction: str, option: float = 0.0
) -> Tensor:  # fmt: skip
    """The losses of the elements of ``x`` and ``target``, which are of one shape and dtype, or their mean or sum."""
    # One type of number for all, or kernels would be compiled once for ints and once for floats.
    return _values(loops, x, target, reduction, float(option))


def _large_loss(loops: kernels.Pointwise, x: Tensor, target: Tensor, reduction: str, option: float) -> Tensor:
    """A sum or mean that threads may share."""
    layout = x._layout
    data = np.empty((), layout.numpy_dtype)
    _total(loops, flat_array(x), flat_array(target), data.reshape(1), option, _scale(layout, reduction))
    return wrap(data, intern(layout.numpy_dtype, ()))


CHUNKS = 16


def _total(loops: kernels.Pointwise, x: Any, target: Any, out: Any, option: float, scale: float) -> None:
    """``scale`` times the sum of the elements' losses; by way of CHUNKS sums where threads may share the work.

    Their number does not depend on that of the threads, so that two or more threads give the same result.
    """
    if x.size < STREAMED or x.size % CHUNKS or threads.get_num_threads() == 1:
        launch(loops.total, x.reshape(1, -1), target.reshape(1, -1), out, option, scale)
        return
    parts = np.empty(CHUNKS, x.dtype)
    launch(loops.total, x.reshape(CHUNKS, -1), target.reshape(CHUNKS, -1), parts, option, scale)
    launch(sum_rows, parts.reshape(1, -1), out)


@planned("g", "x", "target", numbers=("option",))
def _slopes(loops, g, x, target, reduction, option):
    shape = (x.numel,)
    arrays = row_major("g", g, (g.numel,)), row_major("x", x, shape), row_major("target", target, shape)
    result = [intern(x.numpy_dtype, x.shape)]
    if reduction == "none":
        return Launches([(loops.gradient, *arrays, Written(0, shape), Number("option"))], result)
    scale = 1 / max(x.numel, 1) if reduction == "mean" else 1.0
    return Launches([(loops.total_gradient, *arrays, Written(0, shape), Number("option"), scale)], result)


def loss_gradient(
    loops: kernels.Pointwise, g: Tensor, x: Tensor, target: Tensor, reduction: str, option: float = 0.0
) -> Tensor:  # fmt: skip
    """The gradient of ``loss_values`` with respect to x; ``g`` has one element unless ``reduction`` is "none"."""
    return _slopes(loops, g, x, target, reduction, float(option))


# -- losses that are the same for x and target exchanged ------------------------------------------------


class PointwiseLoss(Structured, abstract=True):
    """A loss that compares ``x`` with ``target``, of one shape and dtype, element by element, and is symmetric.

    A subclass gives ``loops``, its kernels, and ``slope(x, target)``, which computes in differentiable ops the
    derivative of an element's loss in x; that in target is ``slope(target, x)``. A third parameter of ``slope`` is a
    number that the op, too, takes, after ``reduction``.
    """

    batch = over_losses
    loops: ClassVar[kernels.Pointwise]
    slope: ClassVar[Callable[..., Tensor]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        for name in ("loops", "slope"):
            if name not in vars(cls):
                remedy = "define loops, a kernels.Pointwise, and slope(x, target), the derivative in x"
                raise refuse(cls, f"a pointwise loss needs {name}", remedy)
        cls.slope = staticmethod(cls.slope)
        for rule in _rules(cls.loops, cls.slope):
            setattr(cls, rule.__name__, rule)
        super().__init_subclass__(**kwargs)


def _rules(loops: kernels.Pointwise, slope: Callable[..., Tensor]) -> list[Any]:
    """forward and the rules of a pointwise loss; the last of their parameters have the names that ``slope`` gives."""

    def forward(x, target, reduction, *option):
        return loss_values(loops, x, target, reduction, *option)

    def grad_x(g, x, target, reduction, *option):
        return per_element(g, x._layout, reduction) * slope(x, target, *option)

    def grad_target(g, x, target, reduction, *option):
        return per_element(g, x._layout, reduction) * slope(target, x, *option)

    def kernel_x(g, x, target, reduction, *option):
        return loss_gradient(loops, g, x, target, reduction, *option)

    def kernel_target(g, x, target, reduction, *option):
        return loss_gradient(loops, g, target, x, reduction, *option)

    x, target, *option = inspect.signature(slope).parameters.values()
    reduction = inspect.Parameter("reduction", inspect.Parameter.POSITIONAL_OR_KEYWORD, default="mean")
    taken = inspect.Signature([x, target, reduction, *option])
    g = inspect.Parameter("g", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    with_g = taken.replace(parameters=[g, *taken.parameters.values()])
    rules: list[Any] = [forward, grad_x, grad_target, kernel_x, kernel_target]
    for rule in rules:
        rule.__signature__ = taken if rule is forward else with_g
    return rules


def reduced_array(values: Any, reduction: str) -> Any:
    """``reduced``, of an array: for the references of losses."""
    return values if reduction == "none" else np.mean(values) if reduction == "mean" else np.sum(values)


class MseLoss(PointwiseLoss):
    """Squares of differences."""

    name, loops = "_mse_loss", kernels.MSE
    samples = cases(
        lambda: (draw(3, 4), draw(3, 4, seed=1)),
        lambda: (draw(3, 4), draw(3, 4, seed=1), "sum"),
        lambda: (draw(4, 3).t(), draw(3, 4, seed=1), "none"),
    )

    def reference(x, target, reduction="mean"):
        return reduced_array((x - target) ** 2, reduction)

    def slope(x, target):
        return 2 * (x - target)


def _bounded(d: Tensor, bound: float) -> Tensor:
    """``d`` kept between -bound and bound; unlike that of ``clamp`` the derivative at the bounds is 0, as PyTorch's."""
    return table.where(d.abs() < bound, d, table.clamp_numbers(d.detach(), -bound, bound))


class SmoothL1Loss(PointwiseLoss):
    """Squares of differences smaller than ``beta``, absolute values of others."""

    name, loops = "_smooth_l1_loss", kernels.SMOOTH_L1
    samples = cases(
        lambda: (draw(3, 4), draw(3, 4, seed=1)),
        lambda: (draw(3, 4), draw(3, 4, seed=1), "sum", 0.7),
        lambda: (draw(4, 3).t(), draw(3, 4, seed=1), "none", 2.5),
    )

    def reference(x, target, reduction="mean", beta=1.0):
        d = abs(x - target)
        return reduced_array(np.where(d < beta, d * d / (2 * beta), d - beta / 2), reduction)

    def slope(x, target, beta=1.0):
        return _bounded(x - target, beta) / beta


class HuberLoss(PointwiseLoss):
    """Squares of differences up to ``delta``, ``delta`` times absolute values of others."""

    name, loops = "_huber_loss", kernels.HUBER
    samples = cases(
        lambda: (draw(3, 4), draw(3, 4, seed=1)),
        lambda: (draw(3, 4), draw(3, 4, seed=1), "sum", 0.7),
        lambda: (draw(4, 3).t(), draw(3, 4, seed=1), "none", 2.5),
    )

    def reference(x, target, reduction="mean", delta=1.0):
        d = abs(x - target)
        return reduced_array(np.where(d <= delta, d * d / 2, delta * (d - delta / 2)), reduction)

    def slope(x, target, delta=1.0):
        return _bounded(x - target, delta)


def _warned_sizes(input: Tensor, target: Tensor) -> None:
    if input._layout.shape != target._layout.shape:
        warnings.warn(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}). This will "
            "likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
            stacklevel=user_level(),
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
    return weighted((x - y) ** 2, weight, reduction)


def l1_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """|input - target|, as its mean, its sum or element by element; ``weight`` multiplies.

    Warns where shapes differ, and broadcasts them.
    """
    reduction = reduction_name(reduction, size_average, reduce)
    _warned_sizes(input, target)
    if not (input._layout.dtype.category and target._layout.dtype.category):
        return (input - target).abs()  # bools, of which it says so
    x, y = matched(input, target)
    if weight is None:
        return reduced((x - y).abs(), reduction)
    return weighted((x - y).abs(), weight, reduction)


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
    beta = float_argument("smooth_l1_loss", "beta", 4, beta)
    if not beta >= 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    if beta == 0:  # the limit, in which the kernels would divide by 0
        return reduced((x - y).abs(), reduction)
    return SmoothL1Loss.apply(x, y, reduction, beta)


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: Any = 1.0, weight: Tensor | None = None
) -> Tensor:  # fmt: skip
    """With d = |input - target|: d**2 / 2 where d <= delta, else delta * (d - delta / 2).

    RuntimeError unless ``delta`` is positive.
    """
    reduction = reduction_name(reduction)
    _warned_sizes(input, target)
    x, y = matched(input, target)
    delta = float_argument("huber_loss", "delta", 4, delta)
    if not delta > 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    kept = input._layout.dtype  # unlike other losses, this one has the dtype of its input
    check_result_cast(x._layout.dtype, kept)
    if weight is None:
        return cast(HuberLoss.apply(x, y, reduction, delta), kept)
    return weighted(cast(HuberLoss.apply(x, y, "none", delta), kept), weight, reduction)


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
            stacklevel=user_level(),
        )
    if min(input._layout.dtype.category, target._layout.dtype.category) < 2:
        raise RuntimeError("kl_div: Integral inputs not supported.")
    batch = reduction == "batchmean"
    reduction = reduction_name("sum" if batch else reduction, size_average, reduce)
    # xlogy is 0 for a target of 0, where the logarithm is infinite.
    values = target.exp() * (target - input) if as_flag(log_target) else xlogy(target, target) - target * input
    total = reduced(values, reduction)
    return total / input.shape[0] if batch and input._layout.ndim else total


for _function in (mse_loss, l1_loss, smooth_l1_loss, huber_loss, kl_div):
    public(_function, method_too=False)
