"""Reductions of the segments of a dim, given by their lengths or by where they begin and end."""

from __future__ import annotations

import math
from typing import Any, NoReturn

import numpy as np

from jitgrad.core.dtypes import int32, int64
from jitgrad.core.errors import not_implemented_for
from jitgrad.core.layout import intern, layout_of, normalize_dim
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch import table
from jitgrad.dispatch.copying import filled
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import as_flag
from jitgrad.kernels.launch import check, launch
from jitgrad.kernels.loops import unique as kernels
from jitgrad.ops.indexing.scatter_reduce import ReduceElements
from jitgrad.ops.reduction.reduction_plan import unrecorded
from jitgrad.ops.shape.copy import Contiguous, contiguous
from jitgrad.ops.shape.slicing import Slice

__all__: list[str] = []

_START = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}
_REDUCTIONS = {"max": "amax", "min": "amin", "mean": "sum"}


def segment_reduce(
    data: Tensor, reduce: str, *, lengths: Tensor | None = None, indices: Tensor | None = None,
    offsets: Tensor | None = None, axis: int = 0, unsafe: bool = False, initial: Any = None,
) -> Tensor:  # fmt: skip
    """The "sum", "mean", "max", "min" or "prod" of each segment of ``data`` along ``axis``.

    lengths: those of the segments, for each index of the dims before ``axis``. offsets: where they begin, and where
    the last one ends. initial: what a reduction starts from. An empty segment has that, and else 0, NaN, -inf, inf, 1.
    """
    d, layout = normalize_dim(axis, data._layout.ndim), data._layout
    reduce = {"amax": "max", "amin": "min"}.get(reduce, reduce)
    if reduce not in _START:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    if not layout.numel:
        raise RuntimeError("Expected data.numel() > 0 to be true, but got false.")
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    if lengths is None and offsets is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    given = lengths if lengths is not None else offsets
    assert given is not None
    if given._layout.ndim - 1 != d or given._layout.shape[:-1] != layout.shape[:d]:
        raise RuntimeError(
            f"segment_reduce(): Expected lengths to have {d + 1} dims, of the shape of data before axis"
        )
    given = unrecorded(given)
    _check_dtype(given, lengths is not None, as_flag(unsafe))
    if lengths is not None:
        given = _edges(given, layout.shape[d], as_flag(unsafe))
    return _reduced(data, reduce, d, given, initial)


def _check_dtype(given: Tensor, are_lengths: bool, unsafe: bool) -> None:
    """NotImplementedError unless lengths, or offsets, are int32 or int64."""
    dtype = given._layout.dtype
    if dtype is int32 or dtype is int64:
        return
    if are_lengths and dtype.is_complex and not unsafe:
        raise not_implemented_for("min_all", dtype)
    kind = "lengths" if are_lengths else "offsets"
    raise not_implemented_for(f"_segment_reduce_{kind}_cpu_kernel1", dtype)


def _edges(lengths: Tensor, size: int, unsafe: bool) -> Tensor:
    """Where segments begin and end, (..., count + 1) of lengths (..., count), which are checked unless ``unsafe``."""
    *outer, count = lengths._layout.shape
    rows = math.prod(outer)
    edges, failed = np.empty((rows, count + 1), np.int64), np.zeros(1, np.int64)
    launch(kernels.segment_edges, contiguous(lengths)._data.reshape(rows, count), edges, failed, size)
    if not unsafe:
        check(failed, _refuse_lengths)
    edges = edges.reshape(*outer, count + 1)
    return wrap(edges, layout_of(edges))


def _refuse_lengths(failed: Any) -> NoReturn:
    if failed.item(0) == 1:
        raise RuntimeError("lengths contains negative value!")
    raise RuntimeError(
        "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when !unsafe."
    )


def _reduced(data: Tensor, reduce: str, d: int, edges: Any, initial: Any) -> Tensor:
    """The reduction of segments between ``edges``, (..., count + 1), along dim ``d``."""
    layout, count = data._layout, edges._layout.shape[-1] - 1
    shape, inner = layout.shape, layout.ndim - d - 1
    numbers = np.empty((math.prod(shape[:d]), shape[d]), np.int64)
    launch(kernels.segment_numbers, contiguous(edges)._data.reshape(-1, count + 1), numbers)
    numbers = numbers.reshape(*shape[: d + 1], *(1,) * inner)
    index = wrap(numbers, layout_of(numbers))
    # One segment more, for elements that are in none.
    start = filled(intern(layout.numpy_dtype, (*shape[:d], count + 1, *shape[d + 1 :])),
                   _START[reduce] if initial is None else float(initial))  # fmt: skip
    index = Contiguous.apply(index.expand(shape)) if inner else index
    found = ReduceElements.apply(start, d, index, data, _REDUCTIONS.get(reduce, reduce), True)
    found = Slice.apply(found, d, 0, count, 1).clone()
    if reduce != "mean":
        return found
    sizes = (edges[..., 1:] - edges[..., :-1]).reshape(*shape[:d], count, *(1,) * inner)
    means = found / sizes.clamp(min=1)
    return means if initial is not None else table.where(sizes == 0, math.nan, means)


public(segment_reduce, method_too=False)
public(segment_reduce, "_segment_reduce", method_too=False)
