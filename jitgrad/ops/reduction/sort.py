"""Sorting, and what is chosen by rank: topk, kthvalue, median."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.core import return_types
from jitgrad.core.errors import not_implemented_for
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.layout import Layout, as_int, contiguous_strides, intern, normalize_dim
from jitgrad.core.storage import empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.copying import copy_to_layout, copying, preserved_layout
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.planned import Launches, Read, Written, row_major
from jitgrad.dispatch.registry import numpy_names, public
from jitgrad.dispatch.sizes import as_flag
from jitgrad.kernels.launch import Kernel, launch
from jitgrad.kernels.loops import sort as kernels
from jitgrad.ops.creation.constants import full
from jitgrad.ops.reduction.along_dims import ChosenAlongDim, OneChosenAlongDim, sorted_along
from jitgrad.ops.reduction.extrema import ExtremumOfAll
from jitgrad.ops.reduction.reduction_plan import FULL, unrecorded
from jitgrad.ops.shape.copy import contiguous
from jitgrad.ops.shape.permute import Permute

__all__: list[str] = []


def _along_last(
    kernel: Kernel, x: Layout, dim: int, width: int | None, option: int, results: Any, drop: bool = False
) -> Any:
    """The plan of a kernel of (rows, n) arrays along ``dim``: ``results`` of values and indices, of size ``width``.

    Row-major; ``width`` None is n, and then the dims are in the order in memory of those of ``x``, as PyTorch has it.
    ``option`` is the kernel's last argument. drop: without ``dim``, which has a ``width`` of 1. A tensor of no dims is
    one row of one element.
    """
    d, order = normalize_dim(dim, x.ndim), list(range(x.ndim))
    if order:
        order[d], order[-1] = order[-1], d
    sizes = [x.shape[k] for k in order]
    n = sizes[-1] if order else 1
    chosen = n if width is None else width
    shape, rows = ((*sizes[:-1], chosen) if order else ()), math.prod(sizes[:-1])
    if kernel is kernels.sort and (n <= SHORT or (n <= kernels.INSERTED and rows == 1)):
        kernel = kernels.sort_short
    if kernel is kernels.sort_short and width is None and x.contiguous and x.plain and x.numel and x.ndim > 1:
        shape = math.prod(x.shape[:d]), n, math.prod(x.shape[d + 1 :])
        layouts = [intern(dtype, x.shape) for dtype in (x.numpy_dtype, np.dtype(np.int64))]
        arrays = row_major("x", x, shape), Written(0, shape), Written(1, shape), option
        return Launches([(kernels.sort_short_along, *arrays)], layouts, 2, results)
    if width == 1 and x.ndim > 1 and x.device == "cpu" and x.numel:
        return _one_each(kernel, x, d, option, results, drop)
    in_order = order == sorted(order)
    strides = preserved_layout(x).strides if width is None else None
    moved = not in_order or strides not in (None, contiguous_strides(x.shape))
    layouts = [intern(dtype, shape) for dtype in (x.numpy_dtype, np.dtype(np.int64))]
    arrays = row_major("x", x, (rows, n)), Written(0, (rows, chosen)), Written(1, (rows, chosen)), option
    if in_order and not moved and layouts[0].plain and layouts[0].numel:
        shown = [intern(r.numpy_dtype, r.shape[:-1]) for r in layouts] if drop else layouts
        return Launches([(kernel, *arrays)], shown, 2, results)

    def run(x: Tensor) -> Any:
        found = [empty_for(r) for r in layouts]
        if layouts[0].numel:
            source = contiguous(Permute.forward(unrecorded(x), tuple(order)))._data
            launch(kernel, source.reshape(rows, n), *[a.reshape(rows, chosen) for a in found], option)
        values, index = map(wrap, found, layouts)
        values, index = (_moved(values, order, strides), _moved(index, order, strides)) if moved else (values, index)
        return results(unrecorded(values.squeeze(d)), unrecorded(index.squeeze(d))) if drop else results(values, index)

    return run


def _one_each(kernel: Kernel, x: Layout, d: int, option: int, results: Any, drop: bool) -> Launches:
    """`_along_last` for kernels that choose one element of each row; x is copied first if dim ``d`` is not the last."""
    n, order = x.shape[d], [*(k for k in range(x.ndim) if k != d), d]
    rows = x.numel // n
    if x.contiguous and d == x.ndim - 1:
        source = Read("x", (rows, n))
    else:
        moved = intern(x.numpy_dtype, *[tuple([of[k] for k in order]) for of in (x.shape, x.strides)])
        copy = copying(moved, intern(x.numpy_dtype, moved.shape))
        source = Read("x", lambda x: copy(wrap(x._data.transpose(order), moved))._data.reshape(rows, n))
    shape = (*x.shape[:d], *(() if drop else (1,)), *x.shape[d + 1 :])
    layouts = [intern(dtype, shape) for dtype in (x.numpy_dtype, np.dtype(np.int64))]
    return Launches([(kernel, source, Written(0, (rows, 1)), Written(1, (rows, 1)), option)], layouts, 2, results)


# Rows up to this length are sorted by insertion; of a single one, up to all that it can take.
SHORT = 16


def _moved(x: Tensor, order: Sequence[int], strides: tuple[int, ...] | None) -> Tensor:
    """``x`` with its dims in another order, in memory of these strides; None: row-major."""
    shape = tuple([x._layout.shape[d] for d in order])
    return copy_to_layout(Permute.forward(x, tuple(order)), intern(x._layout.numpy_dtype, shape, strides))


class Sort(ChosenAlongDim):
    """Sorted elements and their indices."""

    name = "_sort"
    reference = sorted_along

    def plan(x_layout, dim=-1, descending=False):
        if x_layout.dtype.is_complex:
            raise RuntimeError(" Sort does not support complex dtypes on CPU")
        return _along_last(kernels.sort, x_layout, dim, None, as_flag(descending), return_types.sort)


class StableSort(Sort):
    """Sorted elements and their indices, asked to be stable, as they always are; a node that PyTorch names apart."""

    name, grad_name = "_stable_sort", "SortBackward1"


@public
@numpy_names
def sort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool | None = None) -> Any:
    """(values, indices) in order along ``dim``. Equal elements keep their order; NaN is largest."""
    op = Sort if stable is None else StableSort
    as_flag(stable is None or stable)
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


def _chosen(x: Layout, dim: int, k: int, largest: bool) -> Any:
    if k <= kernels.INSERTED:  # for more the row is sorted
        return _along_last(kernels.select, x, dim, k, largest, return_types.topk)

    def run(x: Tensor) -> Any:
        return return_types.topk(*[unrecorded(contiguous(t.narrow(dim, 0, k))) for t in
                                   Sort.forward(unrecorded(x), dim, largest)])  # fmt: skip

    return run


def _first_sorted(x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    values, index = sorted_along(x, dim, largest)
    return values.take(range(k), dim), index.take(range(k), dim)


class Topk(ChosenAlongDim, public=True):
    """(values, indices) of the ``k`` largest, or smallest, elements along ``dim``, in order.

    RuntimeError unless ``dim`` has that many.
    """

    samples = cases(lambda: (draw(3, 6), 2), lambda: (draw(3, 9), 2, 1, False), lambda: (draw(4, 3).t(), 1, 0))
    reference = _first_sorted

    def plan(x_layout, k, dim=-1, largest=True, sorted=True):
        if x_layout.dtype.is_complex or x_layout.numpy_dtype == np.bool_:
            # The blank in front is PyTorch's.
            kind = "complex" if x_layout.dtype.is_complex else "bool"
            raise RuntimeError(f"{' ' * (kind == 'complex')}topk does not support {kind} dtypes on CPU")
        n, k = x_layout.shape[normalize_dim(dim, x_layout.ndim)] if x_layout.ndim else 1, as_int(k)
        if not 0 <= k <= n:
            raise RuntimeError("selected index k out of range")
        as_flag(sorted)
        k = k if x_layout.ndim else 1  # a tensor without dims has one element to choose, whatever k
        return _chosen(x_layout, dim, k, as_flag(largest))


def _one_along(kernel: Kernel, x: Layout, dim: int, keepdim: bool, option: int, results: Any) -> Any:
    """The plan of value and index of the one element along ``dim`` that a kernel chooses."""
    return _along_last(kernel, x, dim, 1, option, results, drop=not as_flag(keepdim) and x.ndim > 0)


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

    def plan(x_layout, k, dim=-1, keepdim=False):
        _check_median("kthvalue_cpu", x_layout)
        ndim = x_layout.ndim
        n, k = x_layout.shape[normalize_dim(dim, ndim)] if ndim else 1, as_int(k)
        if not 1 <= k <= n:
            raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {dim % max(ndim, 1)}")
        return _one_along(kernels.kth, x_layout, dim, keepdim, k - 1, return_types.kthvalue)


def _commonest(x: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """The reference of Mode."""
    rows = np.moveaxis(x.reshape(x.shape or (1,)), dim, -1)
    values = np.empty(rows.shape[:-1], x.dtype)
    for k in np.ndindex(values.shape):
        found, counts = np.unique(rows[k], return_counts=True)
        values[k] = found[np.argmax(counts)]
    index = rows.shape[-1] - 1 - np.argmax((rows == values[..., None])[..., ::-1], -1)
    results = [np.expand_dims(t, dim) if keepdim else t for t in (values, index)] if x.ndim else [values, index]
    return tuple(results)


class Mode(OneChosenAlongDim):
    """(values, indices) of the commonest elements along a dim, the smallest of several; the index is the last."""

    name = "_mode"
    reference = _commonest

    def plan(x_layout, dim=-1, keepdim=False):
        if x_layout.dtype.is_complex:
            raise not_implemented_for("mode_cpu", x_layout.dtype)
        d, shape = normalize_dim(dim, x_layout.ndim), x_layout.shape
        if shape and not shape[d]:
            raise IndexError(f"mode(): Expected reduction dim {d} to have non-zero size.")
        return _one_along(kernels.mode, x_layout, dim, keepdim, 0, return_types.mode)


@public
@numpy_names
def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    """(values, indices) of the commonest elements along ``dim``, the smallest of those that are equally common."""
    return Mode.apply(input, dim, keepdim)


# -- medians ---------------------------------------------------------------------------------------------


def _check_median(name: str, x: Layout) -> None:
    """NotImplementedError, of the kernel ``name``, for dtypes of which PyTorch chooses no element by its rank."""
    if x.dtype.is_complex or x.numpy_dtype == np.bool_:
        raise not_implemented_for(name, x.dtype)


def _median(x: Layout, dim: int, keepdim: bool, skip_nan: bool, results: Any) -> Any:
    """The plan of values and indices of the lower of the two middle elements along ``dim``.

    With ``skip_nan`` of those that are not NaN; otherwise the first NaN is taken where there is one.
    """
    _check_median("median_out", x)
    d = normalize_dim(dim, x.ndim)
    if x.ndim and not x.shape[d]:
        raise IndexError(f"median(): Expected reduction dim {d} to have non-zero size.")
    short = not x.ndim or x.shape[d] <= kernels.FEW
    return _one_along(kernels.median_short if short else kernels.median, x, dim, keepdim, skip_nan, results)


class MedianDim(OneChosenAlongDim):
    """The lower of the two middle elements along a dim, and its index; the first NaN if there is one."""

    grad_name = "MedianBackward1"
    reference = _ranked(lambda values, axis: (values.shape[axis] - 1) // 2)

    def plan(x_layout, dim, keepdim=False):
        return _median(x_layout, dim, keepdim, False, return_types.median)


class NanMedianDim(OneChosenAlongDim):
    """The lower of the two middle elements along a dim that are not NaN, and its index."""

    name, grad_name = "nanmedian_dim", "NanmedianBackward1"
    reference = _ranked(lambda values, axis: ((~np.isnan(values)).sum(axis, keepdims=True) - 1).clip(0) // 2)

    def plan(x_layout, dim, keepdim=False):
        return _median(x_layout, dim, keepdim, True, return_types.nanmedian)


def _median_of_nothing(op: str, x: Tensor) -> Tensor:
    """NaN in the dtype of ``x``: as a bool True, as an integer of 32 or 64 bits the least one, as a smaller one 0.

    That is what x86 processors make of NaN; smaller integers are the last bits of the conversion to 32.
    """
    dtype = x._layout.dtype
    if dtype.is_complex and x._requires_grad and grad_state.enabled:
        raise RuntimeError(f"{op} does not support automatic differentiation for outputs with complex dtype.")
    value: float = float("nan")
    if dtype.category < 2:
        value = dtype.category == 0 or (int(np.iinfo(dtype.numpy).min) if dtype.itemsize >= 4 else 0)
    return full((), value, dtype=dtype)


def _median_of_all(x: Layout, along: Any, skip_nan: bool) -> Any:
    """The plan of the lower of the two middle elements of all."""
    if not x.numel:
        return lambda x: _median_of_nothing("nanmedian" if skip_nan else "median", x)
    if not skip_nan:
        _check_median("median_cpu", x)
    if x.contiguous:
        if x.numel > kernels.FEW:
            values = kernels.median_value, Read("x", (1, x.numel)), Written(0, (1, 1)), skip_nan
            return Launches([values], [intern(x.numpy_dtype, (), None, x.device)])
        flat = intern(x.numpy_dtype, (x.numel,), None, x.device)
        found = _median(flat, 0, False, skip_nan, lambda values, _: values)
        if isinstance(found, Launches):
            return found
    return lambda x: along.forward(unrecorded(x).reshape(-1), 0, False)[0]


class Median(ExtremumOfAll, along=MedianDim):
    """The lower of the two middle elements; NaN if there is one."""

    name = "median_all"

    def plan(x_layout):
        return _median_of_all(x_layout, MedianDim, False)


class NanMedian(ExtremumOfAll, along=NanMedianDim):
    """The lower of the two middle elements that are not NaN; NaN if there is none."""

    name, grad_name = "nanmedian_all", "NanmedianBackward0"

    def plan(x_layout):
        return _median_of_all(x_layout, NanMedianDim, True)


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
