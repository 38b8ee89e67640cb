"""Sorting, and what is chosen by rank: topk, kthvalue, median."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.core import return_types
from jitgrad.core.errors import not_implemented_for
from jitgrad.core.layout import Layout, intern, normalize_dim
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch import table
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.registry import numpy_names, public
from jitgrad.kernels.launch import Kernel, launch
from jitgrad.kernels.loops import sort as kernels
from jitgrad.ops.creation.constants import full
from jitgrad.ops.reduction.along_dims import ChosenAlongDim, OneChosenAlongDim, sorted_along
from jitgrad.ops.reduction.extrema import ExtremumOfAll, MaxDim
from jitgrad.ops.reduction.reduction_plan import FULL, unrecorded
from jitgrad.ops.shape.copy import contiguous

__all__: list[str] = []


def _along_last(kernel: Kernel, x: Tensor, dim: int, width: int | None, flag: bool) -> tuple[Tensor, Tensor]:
    """Run a kernel of (rows, n) arrays along ``dim``; results are row-major with ``width`` there."""
    layout = x._layout
    d = normalize_dim(dim, layout.ndim)
    moved = unrecorded(x).transpose(d, -1) if layout.ndim else unrecorded(x)
    n = moved._layout.shape[-1] if layout.ndim else 1
    width = n if width is None else width
    shape = (*moved._layout.shape[:-1], width) if layout.ndim else ()
    values, index = np.empty(shape, layout.numpy_dtype), np.empty(shape, np.int64)
    if values.size:
        source = contiguous(moved)._data.reshape(-1, n)
        launch(kernel, source, values.reshape(-1, width), index.reshape(-1, width), flag)
    results = [wrap(a, intern(a.dtype, shape)) for a in (values, index)]
    if layout.ndim > 1 and d != layout.ndim - 1:
        results = [unrecorded(contiguous(r.transpose(d, -1))) for r in results]
    return results[0], results[1]


class Sort(ChosenAlongDim):
    """Sorted elements and their indices."""

    name = "_sort"
    reference = sorted_along

    def forward(x, dim=-1, descending=False):
        if x._layout.dtype.is_complex:
            raise RuntimeError(" Sort does not support complex dtypes on CPU")
        return return_types.sort(*_along_last(kernels.sort, x, dim, None, bool(descending)))


class StableSort(Sort):
    """Sorted elements and their indices, asked to be stable, as they always are; a node that PyTorch names apart."""

    name, grad_name = "_stable_sort", "SortBackward1"


@public
@numpy_names
def sort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool | None = None) -> Any:
    """(values, indices) in order along ``dim``. Equal elements keep their order; NaN is largest."""
    op = Sort if stable is None else StableSort
    return op.apply(input, dim, descending)


@public
@numpy_names
def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """Indices (int64) that sort along ``dim``. Equal elements keep their order; NaN is largest."""
    return Sort.apply(input.detach(), dim, descending).indices


@public
@takes_out
def msort(input: Tensor) -> Tensor:
    """The elements in order along the first dim."""
    return Sort.apply(input, 0, False).values


INSERTED = 64  # so many are found by insertion; for more the whole row is sorted


def _chosen(x: Tensor, dim: int, k: int, largest: bool) -> tuple[Tensor, Tensor]:
    if k <= INSERTED:
        return _along_last(kernels.select, x, dim, k, largest)
    values, index = _along_last(kernels.sort, x, dim, None, largest)
    values, index = (unrecorded(contiguous(t.narrow(dim, 0, k))) for t in (values, index))
    return values, index


def _first_sorted(x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    values, index = sorted_along(x, dim, largest)
    return values.take(range(k), dim), index.take(range(k), dim)


class Topk(ChosenAlongDim, public=True):
    """(values, indices) of the ``k`` largest, or smallest, elements along ``dim``, in order.

    RuntimeError unless ``dim`` has that many.
    """

    samples = cases(lambda: (draw(3, 6), 2), lambda: (draw(3, 9), 2, 1, False), lambda: (draw(4, 3).t(), 1, 0))
    reference = _first_sorted

    def forward(x, k, dim=-1, largest=True, sorted=True):
        if x._layout.dtype.is_complex or x._layout.numpy_dtype == np.bool_:
            kind = "complex" if x._layout.dtype.is_complex else "bool"
            raise RuntimeError(f"{' ' * (kind == 'complex')}topk does not support {kind} dtypes on CPU")
        n = x._layout.shape[normalize_dim(dim, x._layout.ndim)] if x._layout.ndim else 1
        if not 0 <= k <= n:
            raise RuntimeError("selected index k out of range")
        return return_types.topk(*_chosen(x, dim, int(k), bool(largest)))


def _at_rank(x: Tensor, rank: int, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    """Value and index of the element that stands at ``rank`` (from 0) in sorted order."""
    values, index = _along_last(kernels.sort, x, dim, None, False)
    if not x._layout.ndim:
        return values, index
    parts = [t.narrow(dim, rank, 1) for t in (values, index)]
    parts = [unrecorded(contiguous(p if keepdim else p.squeeze(dim))) for p in parts]
    return parts[0], parts[1]


def _ranked(rank: Callable[[Any, int], Any]) -> Callable[..., Any]:
    """The reference of a choice by rank, ``rank(values, axis)`` of the sorted values: a number, or one for each row."""

    def reference(x: Any, dim: int | None, keepdim: bool = False) -> Any:
        values, index = sorted_along(x, dim)
        axis = 0 if dim is None or not x.ndim else dim
        at = np.broadcast_to(rank(values, axis), values.take([0], axis).shape)
        chosen = [np.take_along_axis(t, at, axis) for t in (values, index)]
        return tuple([t if keepdim else t.squeeze(axis) for t in chosen])

    return reference


class Kthvalue(OneChosenAlongDim, public=True):
    """(values, indices) of the ``k``-th smallest elements along ``dim``, k counted from 1."""

    samples = cases(lambda: (draw(3, 4), 2), lambda: (draw(3, 4), 3, 0, True))
    reference = lambda x, k, dim=-1, keepdim=False: _ranked(lambda *_: k - 1)(x, dim, keepdim)

    def forward(x, k, dim=-1, keepdim=False):
        n = x._layout.shape[normalize_dim(dim, x._layout.ndim)] if x._layout.ndim else 1
        if not 1 <= k <= n:
            raise RuntimeError("kthvalue(): selected number k out of range for dimension " f"{dim % max(x.ndim, 1)}")
        return return_types.kthvalue(*_at_rank(x, k - 1, dim, keepdim))


# -- medians ---------------------------------------------------------------------------------------------


def _check_median(name: str, x: Layout) -> None:
    if x.dtype.is_complex or x.numpy_dtype == np.bool_:
        raise not_implemented_for(name, x.dtype)


def _check_median_dim(x: Tensor, dim: int) -> int:
    """The size of the dim, which must not be 0."""
    n = x._layout.shape[normalize_dim(dim, x._layout.ndim)] if x._layout.ndim else 1
    if not n:
        raise IndexError(f"median(): Expected reduction dim {dim % x.ndim} to have non-zero size.")
    return n


class MedianDim(OneChosenAlongDim):
    """The lower of the two middle elements along a dim, and its index; the first NaN if there is one."""

    grad_name = "MedianBackward1"
    reference = _ranked(lambda values, axis: (values.shape[axis] - 1) // 2)

    def forward(x, dim, keepdim=False):
        _check_median("median_out", x._layout)
        n = _check_median_dim(x, dim)
        values, index = _at_rank(x, (n - 1) // 2, dim, keepdim)
        if x._layout.dtype.is_floating_point:
            top = MaxDim.forward(x, dim, keepdim)
            broken = top.values.isnan()
            values = table.where(broken, top.values, values)
            index = table.where(broken, top.indices, index)
        return return_types.median(values, index)


class NanMedianDim(OneChosenAlongDim):
    """The lower of the two middle elements along a dim that are not NaN, and its index."""

    name, grad_name = "nanmedian_dim", "NanmedianBackward1"
    reference = _ranked(lambda values, axis: ((~np.isnan(values)).sum(axis, keepdims=True) - 1).clip(0) // 2)

    def forward(x, dim, keepdim=False):
        return return_types.nanmedian(*_nanmedian(unrecorded(x), dim, keepdim))


def _nanmedian(x: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    _check_median("median_out", x._layout)
    _check_median_dim(x, dim)
    values, index = _along_last(kernels.sort, x, dim, None, False)  # NaN last
    if not x._layout.ndim:
        return values, index
    rank = ((~values.isnan()).sum(dim, True) - 1).clamp(min=0) // 2
    found = [t.gather(dim, rank) for t in (values, index)]
    found = found if keepdim else [unrecorded(contiguous(t.squeeze(dim))) for t in found]
    return found[0], found[1]


class Median(ExtremumOfAll, along=MedianDim):
    """The lower of the two middle elements; NaN if there is one."""

    name = "median_all"

    def forward(x):
        _check_median("median_cpu", x._layout)
        flat = unrecorded(x).reshape(-1)
        if not flat._layout.numel:
            return full((), float("nan"), dtype=x.dtype)
        values, _ = _along_last(kernels.sort, flat, 0, None, False)
        last = values.select(0, flat._layout.numel - 1)
        middle = values.select(0, (flat._layout.numel - 1) // 2)
        if x._layout.dtype.is_floating_point:
            middle = table.where(last.isnan(), last, middle)
        return unrecorded(contiguous(middle.clone()))


class NanMedian(ExtremumOfAll, along=NanMedianDim):
    """The lower of the two middle elements that are not NaN; NaN if there is none."""

    name, grad_name = "nanmedian_all", "NanmedianBackward0"

    def forward(x):
        if not x._layout.numel:
            return full((), float("nan"), dtype=x.dtype)
        return _nanmedian(unrecorded(x).reshape(-1), 0, False)[0]


@public
@numpy_names
def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The median of what is not NaN; with ``dim`` (values, indices) along it."""
    return NanMedian.apply(input) if dim is None else NanMedianDim.apply(input, dim, keepdim)


@public
@numpy_names
def median(input: Tensor, dim: Any = FULL, keepdim: bool = False) -> Any:
    """The lower of the two middle elements of all; with ``dim`` (values, indices) along it.

    NaN wins.
    """
    return Median.apply(input) if dim is FULL else MedianDim.apply(input, dim, keepdim)
