"""Largest and smallest elements, and where they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.core import dtypes, return_types
from jitgrad.core.errors import invalid_combination, not_implemented_for
from jitgrad.core.layout import Layout, as_int, intern
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch import table
from jitgrad.dispatch.batch_rules import BatchedCall, over_dims
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.planned import Launches, Read, Written, planned, row_major
from jitgrad.dispatch.registry import numpy_names, public
from jitgrad.dispatch.sizes import as_flag, dims_argument
from jitgrad.kernels.launch import launch
from jitgrad.kernels.loops import extrema as kernels
from jitgrad.ops.reduction.along_dims import OneChosenAlongDim, Reduction, ReductionOfAll, over_axes
from jitgrad.ops.reduction.reduction_plan import FULL, ReductionPlan, plan_reduction, unrecorded, with_reduced_dims
from jitgrad.ops.reduction.sums import SumDim
from jitgrad.ops.shape.copy import cast

__all__ = ["Amax", "Amin", "ExtremumOfAll", "MaxDim"]

EXTREMES = (kernels.extreme_rows, kernels.extreme_columns)


def _check(op: str, x: Layout, dim: Any) -> None:
    """There must be something to choose from, of a dtype that has an order."""
    if x.dtype.is_complex:
        if op.startswith("arg"):
            raise RuntimeError(f"{op}(): does not support complex input")
        # max and min along a dim, too, fail in PyTorch's kernel for all elements.
        raise not_implemented_for({"max": "max_all", "min": "min_all"}.get(op, op), x.dtype)
    if x.numel:  # then no dim is empty
        return
    if dim is None or dim == ():
        if op == "aminmax":
            raise RuntimeError(
                "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity."
            )
        words = f"{op}(): Expected reduction dim to be specified for input.numel() == 0."
        if op.startswith("arg"):
            raise IndexError(words)
        raise RuntimeError(f"{words} Specify the reduction dim with the 'dim' argument.")
    given = dim if isinstance(dim, (tuple, list)) else (dim,)
    for name, d in zip(given, plan_reduction(x, dim).dims, strict=True):
        if x.ndim and not x.shape[d]:
            raise IndexError(f"{op}(): Expected reduction dim {name} to have non-zero size.")


def _orderable(x: Tensor) -> Tensor:
    """Bools as bytes, since kernels compare numbers; anything else as it is."""
    return _seen_as(x, np.uint8) if x._layout.numpy_dtype == np.bool_ else x


def _seen_as(x: Tensor, dtype: Any) -> Tensor:
    """The same memory, unrecorded, as another dtype of one byte."""
    layout = x._layout
    return wrap(x._data.view(dtype), intern(np.dtype(dtype), layout.shape, layout.strides, layout.device))


def _extremes(x: Layout, dim: Any, keepdim: bool, op: str, largest: bool) -> Any:
    """The plan of the largest or smallest elements over ``dim``; errors speak of ``op``."""
    _check(op, x, dim)
    plan = plan_reduction(x, dim, keepdim)
    if x.numpy_dtype == np.bool_:
        return lambda x, *_: _extreme(x, plan, largest)
    return plan.launches(EXTREMES, x.numpy_dtype, largest)


def _with_places(x: Layout, dim: Any, keepdim: bool, op: str, largest: bool, results: Any) -> Any:
    """The plan of ``results`` of the extrema along one dim, or of all, and their places; errors speak of ``op``."""
    _check(op, x, dim)
    plan = plan_reduction(x, dim, keepdim)
    if x.numpy_dtype == np.bool_ or not plan.short:
        return lambda x, *_: results(*_located(x, plan, largest))
    arrays = plan.blocks_of("x"), Written(0, plan.target), Written(1, plan.target)
    layouts = plan.layout(x.numpy_dtype), plan.layout(np.dtype(np.int64))
    if plan.flat:
        return Launches([(kernels.find_rows, *arrays, largest)], layouts, 2, results)
    found = plan.launches(EXTREMES, x.numpy_dtype, largest)
    return Launches([*found.launches, (kernels.locate_columns, *arrays)], layouts, 2, results)


def _extreme(x: Tensor, plan: ReductionPlan, largest: bool) -> Tensor:
    """The extrema, in the dtype of ``x``."""
    numbers = _orderable(x)
    out = plan.reduce(EXTREMES, numbers, numbers._layout.numpy_dtype, largest)
    return out if numbers is x else _seen_as(out, np.bool_)


def _located(x: Tensor, plan: ReductionPlan, largest: bool) -> tuple[Tensor, Tensor]:
    """Extrema along one dim (or all), and their places: found by a second pass, or by one over each row.

    The first pass compares values only, which compilers vectorise; the second ends at the first hit.
    """
    numbers = _orderable(x)
    dtype, index = numbers._layout.numpy_dtype, plan.empty(np.dtype(np.int64))
    places = index._data.reshape(plan.target)
    if plan.flat and not plan.cuts():
        out = plan.empty(dtype)
        launch(kernels.find_rows, plan.read(numbers), out._data.reshape(plan.target), places, largest)
    else:
        out = plan.reduce(EXTREMES, numbers, dtype, largest)
        kernel = kernels.locate_rows if plan.flat else kernels.locate_columns
        launch(kernel, plan.read(numbers), out._data.reshape(plan.target), places)
    return out if numbers is x else _seen_as(out, np.bool_), index


# -- extrema: equal elements share the gradient ---------------------------------------------------------


def shared(g: Tensor, out: Tensor, x: Tensor, dim: Any, keepdim: bool) -> Tensor:
    """The gradient of an extremum, in differentiable ops: equal parts of ``g`` for the elements equal to ``out``."""
    layout = x._layout
    # Which elements are equal to the extremum is a constant wherever the gradient has a derivative: no graph for that.
    value = with_reduced_dims(out.detach(), layout, dim, keepdim)
    x = x.detach()
    hit = (x == value) | (x.isnan() & value.isnan())
    hits = SumDim.apply(cast(hit, g._layout.dtype), plan_reduction(layout, dim).dims, True)
    # Not a product with 0: the infinite tangent of an element that is no extremum would make the result's NaN.
    return table.where(hit, with_reduced_dims(g, layout, dim, keepdim) / hits, 0)


@planned("g", "out", "x")
def _shared_kernel(g, out, x, dim):
    plan = plan_reduction(x, dim)
    if not plan.natural:
        return lambda g, out, x, dim: _shared_blocks(g, out, x, plan)
    shape, result = plan.blocks[::2], intern(x.numpy_dtype, x.shape, None, x.device)
    arrays = row_major("out", out, shape), row_major("g", g, shape)
    return Launches([(kernels.share, Read("x", plan.blocks), *arrays, Written(0, plan.blocks))], [result])


def _shared_blocks(g: Tensor, out: Tensor, x: Tensor, plan: ReductionPlan) -> Tensor:
    blocks, shape = plan.read(x).reshape(plan.blocks), plan.blocks[::2]
    # In the order in which x was read; ``tensor`` puts the dims back.
    result = np.empty(plan.blocks, x._layout.numpy_dtype)
    launch(kernels.share, blocks, plan.written(out).reshape(shape), plan.written(g).reshape(shape), result)
    return plan.tensor(result, x._layout)


class Extremum(Reduction, abstract=True):
    """Base of extrema over ``dim`` that are values alone: equal elements share the gradient."""

    def grad_x(g, out, x, dim, keepdim):
        return shared(g, out, x, dim, keepdim)

    def kernel_x(g, out, x, dim):
        return _shared_kernel(g, out, x, dim)


class Amax(Extremum, public=True):
    """The largest elements over ``dim``, an int, several, or () for all.

    Equal elements share the gradient. NaN wins. IndexError where a reduced dim is empty.
    """

    reference = over_axes(np.max)

    def plan(x_layout, dim=(), keepdim=False):
        return _extremes(x_layout, dims_argument(dim), as_flag(keepdim), "amax", True)


class Amin(Extremum, public=True):
    """The smallest elements over ``dim``, an int, several, or () for all.

    Equal elements share the gradient. NaN wins. IndexError where a reduced dim is empty.
    """

    reference = over_axes(np.min)

    def plan(x_layout, dim=(), keepdim=False):
        return _extremes(x_layout, dims_argument(dim), as_flag(keepdim), "amin", False)


class Aminmax(Reduction, public=True):
    """The smallest and the largest element, of all or along ``dim``."""

    multiple_results = True
    samples = cases(lambda: (draw(3, 4),), lambda: (draw(3, 4), 0, True))
    reference = over_axes(lambda x, **along: (np.min(x, **along), np.max(x, **along)))

    def plan(x_layout, dim=None, keepdim=False):
        _check("aminmax", x_layout, dim)
        plan = plan_reduction(x_layout, dim, keepdim)
        if x_layout.numpy_dtype == np.bool_ or not plan.short:
            return lambda x: return_types.aminmax(_extreme(x, plan, False), _extreme(x, plan, True))
        kernel, out = EXTREMES[0 if plan.flat else 1], plan.layout(x_layout.numpy_dtype)
        launches = [(kernel, plan.blocks_of("x"), Written(k, plan.target), k == 1) for k in range(2)]
        return Launches(launches, [out, out], 2, return_types.aminmax)

    def grad_x(g, out, x, dim, keepdim):
        # Either result may be without a gradient, where the loss uses the other only.
        parts = [shared(h, o, x, dim, keepdim) for h, o in zip(g, out, strict=True) if h is not None]
        return parts[0] if len(parts) == 1 else parts[0] + parts[1]


# -- extrema along a dim: the first of equal elements is chosen ------------------------------------------


def _located_in(find: Any, locate: Any) -> Any:
    return over_axes(lambda x, axis, keepdims: (find(x, axis, keepdims=keepdims), locate(x, axis, keepdims=keepdims)))


class MaxDim(OneChosenAlongDim):
    """The largest elements along a dim, and their indices."""

    grad_name = "MaxBackward0"
    reference = _located_in(np.max, np.argmax)

    def plan(x_layout, dim, keepdim=False):
        return _with_places(x_layout, dim, keepdim, "max", True, return_types.max)


class MinDim(OneChosenAlongDim):
    """The smallest elements along a dim, and their indices."""

    grad_name = "MinBackward0"
    reference = _located_in(np.min, np.argmin)

    def plan(x_layout, dim, keepdim=False):
        return _with_places(x_layout, dim, keepdim, "min", False, return_types.min)


# -- of all elements -------------------------------------------------------------------------------------


class ExtremumOfAll(ReductionOfAll, abstract=True):
    """Base of the one element of all that an order chooses: elements equal to it share the gradient."""

    def grad_x(g, out, x):
        return shared(g, out, x, None, False)

    def kernel_x(g, out, x):
        return _shared_kernel(g, out, x, None)


class Max(ExtremumOfAll, along=MaxDim):
    """The largest element."""

    name, grad_name = "max_all", "MaxBackward1"

    def plan(x_layout):
        return _extremes(x_layout, None, False, "max", True)


class Min(ExtremumOfAll, along=MinDim):
    """The smallest element."""

    name, grad_name = "min_all", "MinBackward1"

    def plan(x_layout):
        return _extremes(x_layout, None, False, "min", False)


@public
@numpy_names
def max(input: Tensor, dim: Any = FULL, keepdim: bool = False, *, other: Tensor | None = None) -> Any:
    """The largest element; with ``dim`` (values, indices) along it; with a tensor, ``maximum``.

    NaN wins. Among equal elements the first is taken along a dim, while all share the gradient of
    the full maximum. RuntimeError where there is no element.
    """
    if dim is FULL and other is None:
        return Max.apply(input)
    if isinstance(dim, Tensor) or other is not None:
        return table.maximum(input, dim if other is None else other)
    if keepdim is not False and keepdim is not True:  # 1 would find the plan of True
        keepdim = as_flag(keepdim)
    return MaxDim.apply(input, dim if type(dim) is int else _one_dim("max", dim), keepdim)


@public
@numpy_names
def min(input: Tensor, dim: Any = FULL, keepdim: bool = False, *, other: Tensor | None = None) -> Any:
    """The smallest element; with ``dim`` (values, indices) along it; with a tensor, ``minimum``.

    NaN wins. Among equal elements the first is taken along a dim, while all share the gradient of
    the full minimum. RuntimeError where there is no element.
    """
    if dim is FULL and other is None:
        return Min.apply(input)
    if isinstance(dim, Tensor) or other is not None:
        return table.minimum(input, dim if other is None else other)
    if keepdim is not False and keepdim is not True:  # 1 would find the plan of True
        keepdim = as_flag(keepdim)
    return MinDim.apply(input, dim if type(dim) is int else _one_dim("min", dim), keepdim)


def _one_dim(op: str, dim: Any) -> int:
    try:
        return as_int(dim)
    except TypeError:
        raise invalid_combination(op, (dim,)) from None


def _place_batched(call: BatchedCall) -> Tensor:
    """Each sample becomes a row where ``dim`` is None: the place counts in the sample, not in the batch."""
    if call["dim"] is not None:
        return over_dims("dim")(call)
    found = call.run(x=call["x"].reshape(call.size, -1), dim=1, keepdim=False)
    return found.reshape(call.size, *(1,) * call.ndim("x")) if call["keepdim"] else found


def _second(values: Tensor, places: Tensor) -> Tensor:
    return places


def _place_in(x: Any, dim: int | None, keepdim: bool, largest: bool) -> Any:
    return (np.argmax if largest else np.argmin)(x, dim, keepdims=keepdim)


class Place(Reduction):
    """Where the largest or smallest element is, along ``dim`` or of all."""

    batch = _place_batched
    samples = cases(lambda: (draw(2, 3), 1, False, True), lambda: (draw(2, 3), None, False, False))
    reference = _place_in

    def plan(x_layout, dim, keepdim, largest):
        op = "argmax" if largest else "argmin"
        if x_layout.dtype is dtypes.bool_:
            raise RuntimeError(f"{op}(): does not support bool input")
        # Not every choice of dims reads memory in row-major order, in which the place in all elements counts.
        if dim is None and not x_layout.contiguous:
            return lambda x: Place.apply(unrecorded(x).contiguous(), dim, keepdim, largest)
        return _with_places(x_layout, dim, keepdim, op, largest, _second)


@public
@numpy_names
def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Indices (int64) of the largest elements along ``dim``, or of the largest of all.

    The first of equal ones; the first NaN if there is one.
    """
    if keepdim is not False and keepdim is not True:  # 1 would find the plan of True
        keepdim = as_flag(keepdim)
    return Place.apply(input, dim if dim is None or type(dim) is int else as_int(dim), keepdim, True)


@public
@numpy_names
def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Indices (int64) of the smallest elements along ``dim``, or of the smallest of all.

    The first of equal ones; the first NaN if there is one.
    """
    if keepdim is not False and keepdim is not True:  # 1 would find the plan of True
        keepdim = as_flag(keepdim)
    return Place.apply(input, dim if dim is None or type(dim) is int else as_int(dim), keepdim, False)
