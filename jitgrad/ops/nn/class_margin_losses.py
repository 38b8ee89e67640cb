"""Margins between the scores of classes: of one target class, and of several."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from jitgrad.core.dtypes import int64
from jitgrad.core.errors import expected_scalar_type, not_implemented_for
from jitgrad.core.layout import Layout, intern
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch import table
from jitgrad.dispatch.batch_rules import BatchedCall, one_by_one
from jitgrad.dispatch.op_samples import cases, draw, draw_ints
from jitgrad.dispatch.planned import Launches, Written, planned, row_major
from jitgrad.dispatch.settled import settled
from jitgrad.dispatch.sizes import number_argument
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.launch import check
from jitgrad.kernels.loops import class_margin as kernels
from jitgrad.ops.creation.from_data import tensor
from jitgrad.ops.creation.ranges import arange
from jitgrad.ops.nn.loss import reduced, reduction_name
from jitgrad.ops.nn.margin_losses import functional, not_derived
from jitgrad.ops.shape.copy import cast

__all__ = ["MultiMargin", "MultilabelMargin"]


def _rows_batched(call: BatchedCall) -> Any:
    """All samples' rows as those of one matrix."""
    if call.batched - {"x", "target"}:
        return one_by_one(call)
    x, target = call.whole("x"), call.whole("target")
    flat = call.run(x=x.reshape(-1, x._layout.shape[-1]), target=target.reshape(-1, *target._layout.shape[2:]))
    return flat.reshape(call.size, -1)


def _weights(weight: Layout | None, dtype: np.dtype[Any]) -> Any:
    """The factors of the classes, none for ones."""
    return np.empty(0, dtype) if weight is None else row_major("weight", weight, weight.shape)


def _in_range(losses: Tensor, wrong: Tensor) -> Tensor:
    check(wrong._data, _refuse_one)
    return losses


def _all_in_range(losses: Tensor, wrong: Tensor) -> Tensor:
    check(wrong._data, _refuse_several)
    return losses


def _refuse_one(_: np.ndarray) -> NoReturn:
    raise RuntimeError("target out of range")


def _refuse_several(_: np.ndarray) -> NoReturn:
    raise RuntimeError("argument #2 'target' is out of range")


def _per_row(x: Layout) -> list[Layout]:
    """The layouts of one loss a row, and of the target that is wrong."""
    return [intern(x.numpy_dtype, x.shape[:1]), intern(np.dtype(np.int64), (2,))]


def _one_class(x: Any, target: Any, weight: Any = None, squared: bool = False, margin: float = 1.0) -> Any:
    rows, own = np.arange(len(x)), target
    z = np.maximum(margin - x[rows, own][:, None] + x, 0) ** (2 if squared else 1)
    z[rows, own] = 0
    return z.sum(1) / x.shape[1] * (1 if weight is None else weight[own])


class MultiMargin(Structured):
    """For each row of x and its target class the sum of its margins to the other classes, over their number."""

    batch, reference = _rows_batched, _one_class
    name, grad_name = "_multi_margin", "MultiMarginLossBackward0"
    samples = cases(
        lambda: (draw(4, 3), draw_ints(4, below=3)),
        lambda: (draw(4, 3), draw_ints(4, below=3), draw(3, low=0.5, seed=1).detach(), True, 0.7),
    )

    def plan(x_layout, target_layout, weight_layout=None, squared=False, margin=1.0):
        arrays = (
            row_major("x", x_layout, x_layout.shape),
            row_major("target", target_layout, target_layout.shape),
            _weights(weight_layout, x_layout.numpy_dtype),
        )
        return Launches([(kernels.multi_margin, *arrays, Written(0), Written(1), squared, margin)], _per_row(x_layout),
                        2, _in_range)  # fmt: skip

    def grad_x(g, x, target, weight, squared, margin):
        own = target.unsqueeze(1)
        z = margin - x.gather(1, own) + x
        counted = (z > 0) & (arange(x.shape[1]) != own)
        factor = g if weight is None else g * weight.index_select(0, target)
        slopes = table.where(counted, 2 * z if squared else 1, 0) * (factor / x.shape[1]).unsqueeze(1)
        return slopes.scatter_add(1, own, -slopes.sum(1, True))

    @planned("g", "x", "target", "weight?")
    def kernel_x(g, x, target, weight, squared, margin):
        arrays = row_major("g", g, g.shape), row_major("x", x, x.shape), row_major("target", target, target.shape)
        options = _weights(weight, x.numpy_dtype), Written(0), squared, margin
        return Launches([(kernels.multi_margin_gradient, *arrays, *options)], [intern(x.numpy_dtype, x.shape)])


def _several_classes(x: Any, target: Any) -> Any:
    losses = []
    for row, given in zip(x, target, strict=True):
        own = list(given[: np.argmax(given < 0) if (given < 0).any() else len(given)])
        others = [i for i in range(len(row)) if i not in own]
        losses.append(sum(max(0, 1 - row[t] + row[i]) for t in own for i in others) / len(row))
    return np.array(losses)


class MultilabelMargin(Structured):
    """For each row of x the sum of the margins of its target classes to all others, over the number of classes."""

    batch, reference = _rows_batched, _several_classes
    name, grad_name = "_multilabel_margin", "MultilabelMarginLossBackward0"
    samples = cases(lambda: (draw(2, 3), tensor([[0, -1, 1], [2, 1, -1]])), lambda: (draw(1, 2), tensor([[1, 0]])))

    def plan(x_layout, target_layout):
        arrays = row_major("x", x_layout, x_layout.shape), row_major("target", target_layout, target_layout.shape)
        return Launches([(kernels.multilabel_margin, *arrays, Written(0), Written(1))], _per_row(x_layout), 2,
                        _all_in_range)  # fmt: skip

    def grad_x(g, x, target):
        classes = x.shape[1]
        listed = cast(target >= 0, int64).cumprod(1)  # 1 before the first -1
        places = target.clamp(min=0)
        chosen = x.detach().new_zeros(x.shape).scatter_add(1, places, cast(listed, x.dtype))
        z = 1 - x.gather(1, places).unsqueeze(2) + x.unsqueeze(1)  # (n, targets, classes)
        counted = (z > 0) & (listed != 0).unsqueeze(2) & (chosen == 0).unsqueeze(1)
        slopes = cast(counted, x.dtype) * (g / classes).reshape(-1, 1, 1)
        return slopes.sum(1).scatter_add(1, places, -slopes.sum(2))

    @planned("g", "x", "target")
    def kernel_x(g, x, target):
        arrays = row_major("g", g, g.shape), row_major("x", x, x.shape), row_major("target", target, target.shape)
        layout = [intern(x.numpy_dtype, x.shape)]
        return Launches([(kernels.multilabel_margin_gradient, *arrays, Written(0))], layout)


# -- arguments --------------------------------------------------------------------------------------------


def _rows(input: Tensor) -> Tensor:
    """The scores as rows; a vector, or a number, is one. RuntimeError where there are no classes."""
    if input.ndim > 2 or (input.ndim and not input.shape[-1]):
        raise RuntimeError(
            f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(input.shape)}"
        )
    return input if input.ndim == 2 else input.reshape(1, -1)


def _check_dtypes(op: str, input: Tensor, target: Tensor) -> None:
    if not input._layout.dtype.is_floating_point:
        raise not_implemented_for(op, input._layout.dtype)
    if target._layout.dtype is not int64:
        raise expected_scalar_type(int64, target._layout.dtype)


@functional
def multi_margin_loss(
    input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0, weight: Tensor | None = None,
    size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """The sum of max(0, margin - input[target] + input[i])**p over other classes i, over the number of classes.

    input: (n, classes) or (classes,), target: classes (n,). ``weight`` has a factor for each target class.
    """
    reduction = reduction_name(reduction, size_average, reduce)
    result: Tensor = _checked_margin(input, target, weight, p, margin, reduction)
    return result


@settled(3)
def _checked_margin(input: Tensor, target: Tensor, weight: Tensor | None, p: int, margin: Any, reduction: str) -> Any:
    """What ``multi_margin_loss`` calls, and its arguments after the three tensors."""
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    margin = float(number_argument("multi_margin_loss", "margin", 4, margin))
    x = _rows(input)
    n, classes = x.shape
    if target.ndim > 1 or target.numel() != n:
        raise RuntimeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples (batch "
            f"size). Expected target size [{n}], but got {list(target.shape)}. Input has shape {list(input.shape)}."
        )
    if weight is not None and weight.numel() != classes:
        raise RuntimeError(f"inconsistent weight size, expected {classes} but got {list(weight.shape)}")
    _check_dtypes("multi_margin_loss_cpu_kernel", input, target)
    if weight is not None and weight.dtype is not input.dtype:
        raise expected_scalar_type(input.dtype, weight.dtype)
    return _margins, (x is input, n if not target.ndim else None, p == 2, margin, reduction)


def _margins(
    input: Tensor, target: Tensor, weight: Tensor | None, rows: bool, alone: int | None, squared: bool, margin: float,
    reduction: str,
) -> Tensor:  # fmt: skip
    """The reduced losses. rows: whether the input is a matrix; alone: the number of rows for a target without dims."""
    if weight is not None:
        not_derived("multi_margin_loss", weight=weight)
    x = input if rows else _rows(input)
    if alone is None:
        return reduced(MultiMargin.apply(x, target, weight, squared, margin), reduction)
    return reduced(MultiMargin.apply(x, target.reshape(alone), weight, squared, margin).squeeze(0), reduction)


@functional
def multilabel_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """The sum of max(0, 1 - input[t] + input[i]) over target classes t and all others i, over the number of classes.

    target, of input's shape, lists classes in each row, until -1 or the row's end.
    """
    reduction = reduction_name(reduction, size_average, reduce)
    x = _rows(input)
    if target.shape != input.shape and not (input.ndim == 0 and target.numel() == 1):
        raise RuntimeError(f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}")
    _check_dtypes("multilabel_margin_loss_forward_out_frame", input, target)
    losses = MultilabelMargin.apply(x, target if input.ndim == 2 else target.reshape(x.shape))
    return reduced(losses if input.ndim == 2 else losses.squeeze(0), reduction)
