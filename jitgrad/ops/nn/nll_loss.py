"""Likelihood of classes: negative log-likelihood and cross entropy."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from jitgrad.core.dtypes import int64
from jitgrad.core.errors import expected_scalar_type, not_implemented_for, scalar_type
from jitgrad.core.layout import Layout, intern
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch import table
from jitgrad.dispatch.batch_rules import BatchedCall, one_by_one
from jitgrad.dispatch.foresight import foresee
from jitgrad.dispatch.op_samples import cases, draw, draw_ints
from jitgrad.dispatch.planned import Launches, Written, planned, row_major
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import int_argument
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.compile_ahead import begun
from jitgrad.kernels.launch import check, launch
from jitgrad.kernels.loops import fill
from jitgrad.kernels.loops import loss as kernels
from jitgrad.ops.creation.constants import filled_like, new
from jitgrad.ops.nn.loss import reduced, reduced_array, reduction_name
from jitgrad.ops.pointwise.where_clamp import constant_in
from jitgrad.ops.reduction.reduction_plan import unrecorded
from jitgrad.ops.reduction.softmax import LogSoftmax
from jitgrad.ops.shape.copy import cast

__all__: list[str] = []

IGNORED = -100


def _weights(weight: Layout | None, dtype: np.dtype[Any]) -> Any:
    """The factors of the classes as an array; an empty one, which kernels take for ones, where there are none."""
    return np.empty(0, dtype) if weight is None else row_major("weight", weight, (weight.numel,))


def _blocks(layout: Layout) -> tuple[int, int, int]:
    """The sizes (n, classes, places) of log-probabilities; places are those of an image."""
    if layout.ndim == 1:
        return 1, layout.shape[0], 1
    return layout.shape[0], layout.shape[1], intern(layout.numpy_dtype, layout.shape[2:]).numel


def _in_range(losses: Tensor, wrong: Tensor) -> Tensor:
    """``losses``; IndexError for a target that is no class, which kernels, as they can't raise, note as (1, target)."""
    check(wrong._data, _refuse)
    return losses


def _refuse(wrong: np.ndarray) -> NoReturn:
    raise IndexError(f"Target {wrong[1]} is out of bounds.")


def _nll_batched(call: BatchedCall) -> Any:
    """All samples' targets as one vector: the loss of each, then the reduction over each sample."""
    reduction, n = call["reduction"], call.ndim("x")
    if "weight" in call.batched or n not in (1, 2) or reduction not in ("none", "sum", "mean"):
        return one_by_one(call)
    x, target = call.whole("x"), call.whole("target")
    rows = x.reshape(-1, x._layout.shape[-1])
    changed = {"target": target.reshape(-1), "reduction": "none"}
    losses = call.run(x=rows, **changed)
    if reduction == "none":
        return losses.reshape(target._layout.shape)
    total = losses.reshape(call.size, -1).sum(1)
    if reduction == "sum":
        return total
    # The loss of log-probabilities -1 is the target's weight, and 0 where the target is ignored.
    weights = call.run(x=filled_like(rows.detach(), -1.0), **changed)
    return total / weights.reshape(call.size, -1).sum(1)


def _reference(x: Any, target: Any, weight: Any = None, reduction: str = "mean", ignore_index: int = IGNORED) -> Any:
    x, target = (x[None], target.reshape(1)) if x.ndim == 1 else (x, target)
    counted = target != ignore_index
    classes = np.where(counted, target, 0)
    weights = counted * (np.ones(x.shape[1]) if weight is None else weight)[classes]
    losses = -np.take_along_axis(x, classes[:, None], 1)[:, 0] * weights
    return losses.sum() / weights.sum() if reduction == "mean" else reduced_array(losses, reduction)


class ClassLikelihood(Structured, abstract=True):
    """Minus the log-probability of each target class, times its weight; a mean divides by the sum of these weights.

    x is (n, classes, ...), target (n, ...), or x (classes,) and target one number.
    """

    reference = _reference

    def plan(x_layout, target_layout, weight_layout=None, reduction="mean", ignore_index=IGNORED):
        _check(x_layout, target_layout, weight_layout)
        n, classes, places = _blocks(x_layout)
        dtype = x_layout.numpy_dtype
        arrays = (
            row_major("x", x_layout, (n, classes, places)),
            row_major("target", target_layout, (n, places)),
            _weights(weight_layout, dtype),
        )
        wrong = intern(np.dtype(np.int64), (2,))
        if reduction == "none":
            launch = kernels.nll_each, *arrays, Written(0, (n, places)), Written(1), ignore_index
            return Launches([launch], [intern(dtype, target_layout.shape), wrong], 2, _in_range)
        launch = kernels.nll_total, *arrays, Written(0, (1,)), Written(1), ignore_index, reduction == "mean"
        return Launches([launch], [intern(dtype, ()), wrong], 2, _in_range)

    def grad_x(g, x, target, weight, reduction, ignore_index):
        layout = x._layout
        dim = min(layout.ndim, 2) - 1
        target = unrecorded(target)
        target = table.where(target != ignore_index, cast(target, int64), -1)  # -1 is no class: all zeros
        share = cast(_one_hot(target, layout.shape[dim], dim), layout.dtype)
        if weight is not None:
            share = share * weight.reshape(-1, *[1] * (layout.ndim - dim - 1))
        if reduction == "mean":
            total = share.sum()
            share = share / table.where(total == 0, 1, total)  # where no target counts, the gradient is 0
        return constant_in(-share * (g.unsqueeze(dim) if reduction == "none" else g), x)

    @planned("g", "x", "target", "weight?")
    def kernel_x(g, x, target, weight, reduction, ignore_index):
        n, classes, places = _blocks(x)
        arrays = row_major("g", g, (g.numel,)), row_major("target", target, (n, places))
        options = _weights(weight, x.numpy_dtype), Written(0, (n, classes, places)), ignore_index, reduction == "mean"
        return Launches([(kernels.nll_gradient, *arrays, *options)], [intern(x.numpy_dtype, x.shape)])


def _one_hot(target: Tensor, classes: int, dim: int) -> Tensor:
    """Whether each class is the target's, along a new dim."""
    numbers = new(int64, (classes,), target.device)
    launch(fill.arange, numbers._data, 0, 1)
    return target.unsqueeze(dim) == numbers.reshape(-1, *[1] * (target._layout.ndim - dim))


class NllLoss(ClassLikelihood):
    """Minus the log-probabilities of the target classes."""

    name, batch = "_nll_loss", _nll_batched
    samples = cases(
        lambda: (draw(5, 3), draw_ints(5, below=3)),
        lambda: (draw(5, 3), draw_ints(5, below=3), draw(3, low=0.5, seed=1), "mean", 1),
        lambda: (draw(5, 3), draw_ints(5, below=3), draw(3, low=0.5, seed=1), "sum"),
        lambda: (draw(5, 3), draw_ints(5, below=3), None, "none"),
    )


class NllLoss2D(ClassLikelihood):
    """Minus the log-probabilities of the target classes, at every place of an image."""

    name = "_nll_loss2d"
    samples = cases(
        lambda: (draw(2, 3, 2, 2), draw_ints(2, 2, 2, below=3)),
        lambda: (draw(2, 3, 2, 2), draw_ints(2, 2, 2, below=3), draw(3, low=0.5, seed=1), "none", 1),
    )


def _check(x: Layout, target: Layout, weight: Layout | None) -> None:
    if x.ndim < 4 and target.ndim > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    _check_dtypes(x, target)
    if x.ndim > 1 and target.shape != (x.shape[0], *x.shape[2:]):
        if x.ndim == 4:  # PyTorch's message lacks the bracket
            raise RuntimeError(f"size mismatch (got input: {list(x.shape)} , target: {list(target.shape)}")
        raise RuntimeError(f"size mismatch (got input: {list(x.shape)}, target: {list(target.shape)})")
    _check_weight(x, weight)


def _check_dtypes(x: Layout, target: Layout) -> None:
    if target.dtype.name not in ("int64", "uint8"):
        raise RuntimeError(f"expected target dtype to be Long or Byte, but got {scalar_type(target.dtype)}")
    if not x.dtype.is_floating_point:
        raise not_implemented_for("nll_loss_out_frame", x.dtype)


def _check_weight(x: Layout, weight: Layout | None, promotes: bool = False) -> None:
    """RuntimeError for a weight that is not one number a class, or unless ``promotes`` of another dtype."""
    if weight is None:
        return
    classes = x.shape[-1] if x.ndim == 1 else x.shape[1]
    if weight.shape != (classes,):
        raise RuntimeError(
            f"weight tensor should be defined either for all {classes} classes or no classes but got weight tensor "
            f"of shape: {list(weight.shape)}"
        )
    if weight.dtype is not x.dtype and not promotes:
        raise expected_scalar_type(x.dtype, weight.dtype)


def _nll(x: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, reduction: str) -> Tensor:
    """One or two dims go as they are, four are an image, all others are laid out as one."""
    if type(ignore_index) is not int:
        ignore_index = int_argument("nll_loss", "ignore_index", 5, ignore_index)
    ndim = x._layout.ndim
    if ndim == 0:
        raise ValueError("Expected 1 or more dimensions (got 0)")
    if ndim != 1 and target._layout.ndim and x._layout.shape[0] != target._layout.shape[0]:
        raise ValueError(
            f"Expected input batch_size ({x.shape[0]}) to match target batch_size ({target.shape[0]})."
        )
    target = _of_one_sample(x, target)
    if ndim <= 2:
        return NllLoss.apply(x, target, weight, reduction, ignore_index)
    if ndim == 4:
        return NllLoss2D.apply(x, target, weight, reduction, ignore_index)
    expected = [x.shape[0], *x.shape[2:]]
    if list(target.shape) != expected:
        raise RuntimeError(f"Expected target size {expected}, got {list(target.shape)}")
    places = x._layout.numel // max(x.shape[0] * x.shape[1], 1)  # max: for empty ones
    image = x.reshape(x.shape[0], x.shape[1], 1, places)
    out = NllLoss2D.apply(image, target.reshape(x.shape[0], 1, places), weight, reduction, ignore_index)
    return out.view(expected) if reduction == "none" else out


def _of_one_sample(x: Tensor, target: Tensor) -> Tensor:
    """``target``; as a number where ``x`` is one sample without a batch and its class stands in a vector of one."""
    if not x._layout.ndim == target._layout.ndim == 1:
        return target
    if target._layout.numel != 1:
        raise ValueError(f"For 1D input, 1D target must have size 1, but got target size: {target._layout.numel}")
    return target.reshape(())


def nll_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    ignore_index: int = IGNORED, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Minus ``input``, log-probabilities (n, classes, ...), at the classes ``target`` (n, ...).

    ``weight`` has a factor per class, by whose sum the mean divides. Targets equal to
    ``ignore_index`` count nothing. IndexError for a target that is no class.
    """
    return _nll(input, target, weight, ignore_index, reduction_name(reduction, size_average, reduce))


def cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    ignore_index: int = IGNORED, reduce: bool | None = None, reduction: str = "mean", label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """Cross entropy of softmax(input), (n, classes, ...), and ``target``.

    The target holds classes (n, ...), or probabilities in the shape of the input. ``weight`` has a
    factor per class. ``label_smoothing`` moves that part of the target evenly to all classes.
    """
    reduction = reduction_name(reduction, size_average, reduce)
    dim = 0 if input._layout.ndim == 1 else 1
    if input._layout.shape == target._layout.shape and input._layout.ndim:
        if not target._layout.dtype.is_floating_point:
            title = scalar_type(target._layout.dtype)
            raise RuntimeError(f"Expected floating point type for target with class probabilities, got {title}")
        if ignore_index >= 0:
            raise RuntimeError("ignore_index is not supported for floating point target")
        _check_smoothing(label_smoothing)
        return _of_probabilities(LogSoftmax.apply(input, dim), target, weight, reduction, label_smoothing, dim)
    _check_smoothing(label_smoothing)
    if label_smoothing == 0:
        if begun():
            foresee(_of_classes, input, target, weight, ignore_index, reduction, dim)
        return _of_classes(input, target, weight, ignore_index, reduction, dim)
    x = LogSoftmax.apply(input, dim)
    return _smoothed(x, target, weight, ignore_index, reduction, label_smoothing, dim)


def _of_classes(
    input: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, reduction: str, dim: int
) -> Tensor:  # fmt: skip
    x = LogSoftmax.apply(input, dim)  # logarithms at once: the softmax of a very unlikely class is 0
    return _nll(x, target, weight, ignore_index, reduction)


def _check_smoothing(share: float) -> None:
    if not 0.0 <= share <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {share:g}")


def _along_classes(weight: Tensor, x: Tensor, dim: int) -> Tensor:
    """The factors of the classes in a shape that broadcasts to that of ``x``, whose classes are dim ``dim``."""
    return weight.view([-1] + [1] * (x._layout.ndim - dim - 1))


def _of_probabilities(
    x: Tensor, target: Tensor, weight: Tensor | None, reduction: str, smoothing: float, dim: int
) -> Tensor:  # fmt: skip
    """Cross entropy of log-probabilities ``x`` with a target that holds probabilities of all classes."""
    classes = x.shape[dim]
    if smoothing > 0:
        target = target * (1 - smoothing) + smoothing / classes
    values = x * target
    if weight is not None:
        _check_weight(x._layout, weight._layout, promotes=True)
        values = values * _along_classes(weight, x, dim)
    if reduction == "none":
        return -values.sum(dim)
    return -values.sum() / (x._layout.numel // max(classes, 1)) if reduction == "mean" else -values.sum()


def _smoothed(
    x: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, reduction: str, smoothing: float, dim: int
) -> Tensor:  # fmt: skip
    """Cross entropy with the targets that ``smoothing`` makes: 1 - smoothing of the class, the rest even over all."""
    classes, target = x.shape[dim], _of_one_sample(x, target)
    likely = _nll(x, target, weight, ignore_index, reduction)
    spread = -(x if weight is None else x * _along_classes(weight, x, dim)).sum(dim)
    ignored: Any = target == ignore_index
    spread = spread.masked_fill(ignored, 0.0)
    if reduction == "mean":
        counted = ~ignored
        if weight is None:
            spread = spread.sum() / counted.sum()
        else:  # the mean divides by the weights of the targets
            shares = -_nll(unrecorded(x) * 0 + _along_classes(weight, x, dim), target, None, ignore_index, "sum")
            spread = spread.sum() / shares
    else:
        spread = reduced(spread, reduction)
    return likely * (1 - smoothing) + spread * (smoothing / classes)


for _function in (nll_loss, cross_entropy):
    public(_function, method_too=False)
