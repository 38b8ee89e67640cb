"""Distinct elements, or slices along a dim: of all, or of those that follow each other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitgrad.core.dtypes import int64
from jitgrad.core.errors import not_implemented_for
from jitgrad.core.host_reads import announce_read, read_observers
from jitgrad.core.layout import Layout, normalize_dim
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.batch_rules import check_one_shape
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import as_flag, int_argument
from jitgrad.dispatch.underived import underived
from jitgrad.kernels.launch import launch
from jitgrad.kernels.loops import sort as sort_kernels
from jitgrad.kernels.loops import unique as kernels
from jitgrad.kernels.loops.search import sorted_values
from jitgrad.ops.creation.constants import new
from jitgrad.ops.reduction.reduction_plan import unrecorded
from jitgrad.ops.shape.copy import contiguous

__all__: list[str] = []

_NODES = {
    "_unique2": "Unique2Backward0", "unique_dim": "UniqueDimBackward0",
    "unique_consecutive": "UniqueConsecutiveBackward0",
}  # fmt: skip


def _distinct(x: Tensor, ordered: bool, inverse: bool, counts: bool) -> tuple[Tensor, Any, Any]:
    """(the first elements of runs, the number of each element's run, the lengths of runs), unrecorded.

    ordered: of the elements in order, not as they stand. The last two are None unless they are asked for.
    """
    flat = contiguous(x)._data.reshape(-1)
    order = np.empty(0, np.int64)
    if ordered and flat.size:
        source, flat = flat, np.empty(flat.shape, flat.dtype)
        if inverse:
            order = np.empty(source.size, np.int64)
            rows = [a.reshape(1, -1) for a in (source, flat, order)]
            launch(sort_kernels.sort, *rows, False)
        else:
            launch(sorted_values, source, flat)
    count = np.empty(1, np.int64)
    launch(kernels.count_runs, flat, count)
    values, starts = new(x._layout.dtype, (int(count[0]),), "cpu"), np.empty(int(count[0]), np.int64)
    launch(kernels.take_runs, flat, values._data, starts)
    return values, *_runs(starts, order, x._layout.shape, inverse, counts)


def _runs(starts: Any, order: Any, shape: tuple[int, ...], inverse: bool, counts: bool) -> tuple[Any, Any]:
    """(the numbers of the runs of elements of a tensor of ``shape``, the runs' lengths), or None for either."""
    numbers = new(int64, shape, "cpu") if inverse else None
    lengths = new(int64, starts.shape, "cpu") if counts else None
    if numbers is not None:
        launch(kernels.run_numbers, starts, order, numbers._data.reshape(-1))
    if lengths is not None:
        launch(kernels.run_lengths, starts, lengths._data, math.prod(shape))
    return numbers, lengths


def _check_slices(x: Layout, d: int) -> None:
    """RuntimeError if there are slices, but nothing in them that could tell them apart."""
    empty = [n for k, n in enumerate(x.shape) if not n and k != d]
    if empty and x.shape[d]:
        raise RuntimeError("There are 0 sized dimensions, and they aren't selected, so unique cannot be applied")


def _distinct_slices(x: Tensor, d: int, ordered: bool, inverse: bool, counts: bool) -> tuple[Tensor, Any, Any]:
    """The same of slices along ``d``, ordered by their elements one after the other."""
    front = contiguous(x.movedim(d, 0))
    n, *rest = front._layout.shape
    rows = front._data.reshape(n, math.prod(rest))
    order, count = np.empty(n, np.int64), np.empty(1, np.int64)
    launch(kernels.order_rows, rows, order, ordered)
    launch(kernels.count_row_runs, rows, order, count)
    values, starts = new(x._layout.dtype, (int(count[0]), *rest), "cpu"), np.empty(int(count[0]), np.int64)
    launch(kernels.take_row_runs, rows, order, values._data.reshape(len(starts), -1 if len(starts) else 0), starts)
    return unrecorded(values.movedim(0, d)), *_runs(starts, order, (n,), inverse, counts)


def _unique(op: str, x: Tensor, dim: Any, ordered: bool, inverse: bool, counts: bool) -> Any:
    """What ``unique`` or ``unique_consecutive`` returns; ``op`` is what PyTorch calls it inside."""
    if x._layout.dtype.is_complex:
        raise not_implemented_for("unique", x._layout.dtype)
    check_one_shape(op, x)
    if read_observers:  # how many there are decides the shape of the result
        announce_read("unique(), or unique_consecutive(),")
    inverse, counts, input, x = as_flag(inverse), as_flag(counts), x, unrecorded(x)
    if dim is None or not x._layout.ndim:
        found = _distinct(x, ordered, inverse, counts)
    else:
        d = normalize_dim(int_argument("unique", "dim", 5, dim), x._layout.ndim)
        _check_slices(x._layout, d)
        found = _distinct_slices(x, d, ordered, inverse, counts)
    values = underived(op, found[0], input, node_name=_NODES[op])
    return (values, *[t for t in found[1:] if t is not None]) if inverse or counts else values


@public
def unique(
    input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
    dim: int | None = None,
) -> Any:  # fmt: skip
    """The distinct elements in order, or the distinct slices along ``dim``.

    Backward through them raises NotImplementedError.
    return_inverse: also which of them each element is, in the shape of ``input``, or a vector for ``dim``.
    return_counts: also how often each of them is there.
    """
    as_flag(sorted)
    return _unique("_unique2" if dim is None else "unique_dim", input, dim, True, return_inverse, return_counts)


@public
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:  # fmt: skip
    """The elements, or slices along ``dim``, without those that are equal to the one before; see ``unique``."""
    return _unique("unique_consecutive", input, dim, False, return_inverse, return_counts)
