"""Sums of rows with gaps between them, as ``x[:, 1:]`` has: read where they are, not copied first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jitgrad.core.layout import Layout, intern
from jitgrad.dispatch.planned import Launches, Read, Written
from jitgrad.dispatch.strides import extent, restriding
from jitgrad.kernels.loops.reduction import sum_columns_apart, sum_rows, sum_rows_apart
from jitgrad.ops.reduction.reduction_plan import ReductionPlan

__all__ = ["sums_apart"]

_FEW = 1 << 12  # elements; of more a copy is quicker than a row at a time where rows are short
_SHORT = 32


class _Block(NamedTuple):
    """``rows`` rows of ``width`` adjacent elements, ``step`` apart; ``inner``: the dims within a row."""

    rows: int
    width: int
    step: int
    inner: tuple[int, ...]


def sums_apart(x: Layout, plan: ReductionPlan, dtype: np.dtype[Any]) -> Launches | None:
    """The launches for sums over ``plan.dims`` of a tensor whose memory is such rows; None for any other."""
    block = _block(x)
    if block is None:
        return None
    reduced = {d for d in plan.dims if x.shape[d] != 1}
    every, inner = {d for d, n in enumerate(x.shape) if n != 1}, set(block.inner)
    vector = intern(x.numpy_dtype, (extent(x.shape, x.strides),), None, x.device)
    take = restriding(x, vector)
    data = Read("x", lambda x: take(x._data)), block.width, block.step
    result = intern(dtype, plan.shape, None, x.device)
    if reduced == every:
        sums = intern(dtype, (block.rows,), None, x.device)
        launches = (sum_rows_apart, *data, Written(1)), (sum_rows, Written(1, (1, block.rows)), Written(0, (1,)))
        return Launches(launches, [result, sums])
    if reduced == inner:
        return Launches([(sum_rows_apart, *data, Written(0, (block.rows,)))], [result])
    if reduced == every - inner:
        return Launches([(sum_columns_apart, *data, Written(0, (block.width,)))], [result])
    return None


def _block(x: Layout) -> _Block | None:
    """A layout as rows with gaps, where all its dims lie in the order of memory."""
    dims = [d for d, n in enumerate(x.shape) if n != 1]
    if x.contiguous or x.device != "cpu" or not x.numel or not dims:
        return None
    shape, strides = [x.shape[d] for d in dims], [x.strides[d] for d in dims]
    breaks = [k for k in range(1, len(dims)) if not _joins(shape, strides, k)]
    first = breaks[0] if breaks else 0
    width, rows = int(np.prod(shape[first:])), int(np.prod(shape[:first]))
    if strides[-1] != 1 or len(breaks) != 1 or strides[first - 1] <= width or (width < _SHORT and x.numel > _FEW):
        return None
    return _Block(rows, width, strides[first - 1], tuple(dims[first:]))


def _joins(shape: Sequence[int], strides: Sequence[int], k: int) -> bool:
    """Whether dim k - 1 goes on where dim k ends."""
    return strides[k - 1] == strides[k] * shape[k]
