"""Largest and smallest elements, and where they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from jitgrad.core import dtypes, return_types
from jitgrad.core.errors import not_implemented_for
from jitgrad.core.layout import Layout, intern, normalize_dim
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch import table
from jitgrad.dispatch.batch_rules import BatchedCall, flattened, over_dims
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.registry import numpy_names, public
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.launch import launch
from jitgrad.kernels.loops import extrema as kernels
from jitgrad.ops.creation.constants import arange
from jitgrad.ops.reduction.reduction_plan import FULL, ReductionPlan, plan_reduction, unrecorded, with_reduced_dims
from jitgrad.ops.shape.copy import cast

__all__ = ["chosen_rule", "shared_rule"]

EXTREMES = (kernels.extreme_rows, kernels.extreme_columns)


def _check(op: str, x: Layout, dim: Any) -> None:
    """There must be something to choose from, of a dtype that has an order."""
    if x.dtype.is_complex:
        name = {"argmax": None, "argmin": None, "max": "max_all", "min": "min_all"}.get(op, op)
        if name is None:
            raise RuntimeError(f"{op}(): does not support complex input")
        raise not_implemented_for(name, x.dtype)
    if x.numel:
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
    for d in plan_reduction(x, dim).dims:
        if x.ndim and not x.shape[d]:
            raise IndexError(f"{op}(): Expected reduction dim {d} to have non-zero size.")


def _orderable(x: Tensor) -> Tensor:
    """Bools as bytes: kernels compare numbers."""
    layout = x._layout
    if layout.numpy_dtype != np.bool_:
        return x
    return wrap(x._data.view(np.uint8), intern(np.dtype(np.uint8), layout.shape, layout.strides, layout.device))


def _extreme(x: Tensor, plan: ReductionPlan, largest: bool) -> Tensor:
    """The extrema, in the dtype of ``x``."""
    out = plan.reduce(EXTREMES, _orderable(x), _orderable(x)._layout.numpy_dtype, largest)
    if x._layout.numpy_dtype != np.bool_:
        return out
    return wrap(out._data.view(np.bool_), intern(np.dtype(np.bool_), out._layout.shape, None, out._layout.device))


def _located(x: Tensor, plan: ReductionPlan, largest: bool) -> tuple[Tensor, Tensor]:
    """Extrema along one dim (or all), and their places."""
    out, index = _extreme(x, plan, largest), plan.empty(np.dtype(np.int64))
    kernel = kernels.locate_rows if plan.flat else kernels.locate_columns
    launch(kernel, plan.read(_orderable(x)), plan.written(_orderable(out)), plan.written(index))
    return out, index


def chosen_rule(g: Tensor, index: Tensor, layout: Layout, dim: int, keepdim: bool) -> Tensor:
    """Gradient of a choice along ``dim``, in differentiable ops: ``g`` at the place, zero elsewhere."""
    if not layout.ndim:
        return g
    d = normalize_dim(dim, layout.ndim)
    places = arange(layout.shape[d]).reshape(-1, *[1] * (layout.ndim - d - 1))
    here = with_reduced_dims(index, layout, dim, keepdim) == places
    return table.where(here, with_reduced_dims(g, layout, dim, keepdim), 0)


def _chosen_kernel(g: Tensor, index: Tensor, layout: Layout, dim: int) -> Tensor:
    plan = plan_reduction(layout, dim)
    out, flat = np.empty(plan.blocks, layout.numpy_dtype), plan.blocks[::2]
    launch(kernels.place, plan.written(g).reshape(flat), plan.written(index).reshape(flat), out)
    return plan.tensor(out, layout)


def shared_rule(g: Tensor, out: Tensor, x: Tensor, dim: Any, keepdim: bool) -> Tensor:
    """Equal elements share the gradient."""
    value = with_reduced_dims(out.detach(), x._layout, dim, keepdim)
    x = x.detach()
    hit = (x == value) | (x.isnan() & value.isnan())
    share = cast(hit, g._layout.dtype)
    share_of = share.sum(plan_reduction(x._layout, dim).dims, True)
    return with_reduced_dims(g, x._layout, dim, keepdim) * (share / share_of)


def _shared_kernel(g: Tensor, out: Tensor, x: Tensor, dim: Any) -> Tensor:
    plan = plan_reduction(x._layout, dim)
    blocks, flat = plan.read(x).reshape(plan.blocks), plan.blocks[::2]
    result = np.empty_like(blocks)
    launch(kernels.share, blocks, plan.written(out).reshape(flat), plan.written(g).reshape(flat), result)
    return plan.tensor(result, x._layout)


def _samples() -> Iterator[Any]:
    yield (draw(3, 4),), {}
    yield (draw(4, 3).t(),), {}
    yield (draw(),), {}


def _samples_dim() -> Iterator[Any]:
    yield (draw(3, 4), 1), {}
    yield (draw(2, 3, 4), 1, True), {}
    yield (draw(4, 3).t(), 0), {}
    yield (draw(), 0), {}


class Max(Structured):
    """The largest element."""

    batch = flattened(lambda x, **given: x.max(1, **given))
    name, grad_name = "max_all", "MaxBackward1"
    samples = staticmethod(_samples)

    def forward(x):
        _check("max", x._layout, None)
        return _extreme(x, plan_reduction(x._layout, None), True)

    def grad_x(g, out, x):
        return shared_rule(g, out, x, None, False)

    def kernel_x(g, out, x):
        return _shared_kernel(g, out, x, None)


class Min(Structured):
    """The smallest element."""

    batch = flattened(lambda x, **given: x.min(1, **given))
    name, grad_name = "min_all", "MinBackward1"
    samples = staticmethod(_samples)

    def forward(x):
        _check("min", x._layout, None)
        return _extreme(x, plan_reduction(x._layout, None), False)

    def grad_x(g, out, x):
        return shared_rule(g, out, x, None, False)

    def kernel_x(g, out, x):
        return _shared_kernel(g, out, x, None)


class MaxDim(Structured):
    """The largest elements along a dim, and their indices."""

    batch = over_dims("dim")
    grad_name, multiple_results = "MaxBackward0", True
    samples = staticmethod(_samples_dim)

    def forward(x, dim, keepdim=False):
        _check("max", x._layout, dim)
        return return_types.max(*_located(x, plan_reduction(x._layout, dim, keepdim), True))

    def grad_x(g, out, x_layout, dim, keepdim):
        return chosen_rule(g[0], out[1], x_layout, dim, keepdim)

    def kernel_x(g, out, x_layout, dim):
        return _chosen_kernel(g[0], out[1], x_layout, dim)


class MinDim(Structured):
    """The smallest elements along a dim, and their indices."""

    batch = over_dims("dim")
    grad_name, multiple_results = "MinBackward0", True
    samples = staticmethod(_samples_dim)

    def forward(x, dim, keepdim=False):
        _check("min", x._layout, dim)
        return return_types.min(*_located(x, plan_reduction(x._layout, dim, keepdim), False))

    def grad_x(g, out, x_layout, dim, keepdim):
        return chosen_rule(g[0], out[1], x_layout, dim, keepdim)

    def kernel_x(g, out, x_layout, dim):
        return _chosen_kernel(g[0], out[1], x_layout, dim)


class Amax(Structured, public=True):
    """The largest elements over ``dim``, an int, several, or () for all.

    Equal elements share the gradient. NaN wins. IndexError where a reduced dim is empty.
    """

    batch = over_dims("dim")
    samples = staticmethod(_samples_dim)

    def forward(x, dim=(), keepdim=False):
        _check("amax", x._layout, dim)
        return _extreme(x, plan_reduction(x._layout, dim, keepdim), True)

    def grad_x(g, out, x, dim, keepdim):
        return shared_rule(g, out, x, dim, keepdim)

    def kernel_x(g, out, x, dim):
        return _shared_kernel(g, out, x, dim)


class Amin(Structured, public=True):
    """The smallest elements over ``dim``, an int, several, or () for all.

    Equal elements share the gradient. NaN wins. IndexError where a reduced dim is empty.
    """

    batch = over_dims("dim")
    samples = staticmethod(_samples_dim)

    def forward(x, dim=(), keepdim=False):
        _check("amin", x._layout, dim)
        return _extreme(x, plan_reduction(x._layout, dim, keepdim), False)

    def grad_x(g, out, x, dim, keepdim):
        return shared_rule(g, out, x, dim, keepdim)

    def kernel_x(g, out, x, dim):
        return _shared_kernel(g, out, x, dim)


class Aminmax(Structured, public=True):
    """The smallest and the largest element, of all or along ``dim``."""

    batch = over_dims("dim")
    multiple_results = True

    def forward(x, dim=None, keepdim=False):
        _check("aminmax", x._layout, dim)
        plan = plan_reduction(x._layout, dim, keepdim)
        return return_types.aminmax(_extreme(x, plan, False), _extreme(x, plan, True))

    def grad_x(g, out, x, dim, keepdim):
        parts = [shared_rule(h, o, x, dim, keepdim) for h, o in zip(g, out, strict=True) if h is not None]
        return parts[0] if len(parts) == 1 else parts[0] + parts[1]

    @staticmethod
    def samples() -> Iterator[Any]:
        yield (draw(3, 4),), {}
        yield (draw(3, 4),), {"dim": 0, "keepdim": True}


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
    return MaxDim.apply(input, _one_dim("max", dim), keepdim)


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
    return MinDim.apply(input, _one_dim("min", dim), keepdim)


def _one_dim(op: str, dim: Any) -> int:
    if isinstance(dim, int):
        return dim
    got = f"!{type(dim).__name__}!"
    raise TypeError(
        f"{op}() received an invalid combination of arguments - got ({type(dim).__name__}), but expected one of:\n"
        f" * ()\n      didn't match because some of the arguments have invalid types: ({got})\n"
        f" * (Tensor other)\n      didn't match because some of the arguments have invalid types: ({got})\n"
        " * (int dim, bool keepdim = False)\n"
    )


def _place_lot(call: BatchedCall) -> Tensor:
    if call["dim"] is not None:
        return over_dims("dim")(call)
    found = call.run(x=call["x"].reshape(call.size, -1), dim=1, keepdim=False)
    return found.reshape(call.size, *(1,) * call.ndim("x")) if call["keepdim"] else found


class Place(Structured):
    """Where the largest or smallest element is, along ``dim`` or of all."""

    batch = _place_lot
    samples = cases(lambda: (draw(2, 3), 1, False, True), lambda: (draw(2, 3), None, False, False))

    def forward(x, dim, keepdim, largest):
        return _place("argmax" if largest else "argmin", x, dim, keepdim, largest)


def _place(op: str, x: Tensor, dim: int | None, keepdim: bool, largest: bool) -> Tensor:
    layout = x._layout
    if layout.dtype is dtypes.bool_:
        raise RuntimeError(f"{op}(): does not support bool input")
    _check(op, layout, dim)
    if dim is None and not layout.contiguous:
        x = unrecorded(x).contiguous()  # places count in row-major order, whatever the memory's
    return _located(x, plan_reduction(x._layout, dim, keepdim), largest)[1]


@public
@numpy_names
def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Indices (int64) of the largest elements along ``dim``, or of the largest of all.

    The first of equal ones; the first NaN if there is one.
    """
    return Place.apply(input, dim, keepdim, True)


@public
@numpy_names
def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Indices (int64) of the smallest elements along ``dim``, or of the smallest of all.

    The first of equal ones; the first NaN if there is one.
    """
    return Place.apply(input, dim, keepdim, False)
