"""Indices and tensors as the kernels take them: checked int64 indices, row-major (outer, n, inner) arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitgrad.core.dtypes import int64
from jitgrad.core.layout import Layout, intern
from jitgrad.core.storage import empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.kernels.launch import SPLIT_SIZE, launch
from jitgrad.kernels.loops import indexing as kernels
from jitgrad.ops.shape.copy import cast, contiguous

__all__ = [
    "blocks_around", "checked_index", "empty_like_layout", "in_blocks", "places_for_samples", "row_major", "written",
]  # fmt: skip

_ROWS = 64  # as which a long index is checked, so that several threads can


def blocks_around(shape: tuple[int, ...], dim: int) -> tuple[int, int, int]:
    """A shape as (outer, n, inner), n the size of ``dim``; a tensor without dims counts as a vector of one element."""
    if not shape:
        return (1, 1, 1)
    return math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])


def checked_index(index: Tensor, n: int, raise_for: Any) -> Tensor:
    """A row-major int64 index without history, all of it in 0 .. n - 1; else ``raise_for(value)`` raises."""
    places = contiguous(cast(index.detach(), int64))
    size = places._layout.numel
    rows = _ROWS if size >= SPLIT_SIZE and size % _ROWS == 0 else 1
    found = np.zeros((rows, 2), np.int64)
    launch(kernels.first_outside, places._data.reshape(rows, -1), found, 0, n)
    for outside, value in found.tolist():
        if outside:
            raise_for(value)
    return places


def in_blocks(x: Tensor, blocks: tuple[int, int, int]) -> Any:
    """``x`` as a row-major (outer, n, inner) array: its own memory where that is row-major, else a copy."""
    return contiguous(wrap(x._data, x._layout))._data.reshape(blocks)


def row_major(layout: Layout, shape: tuple[int, ...]) -> Layout:
    """The row-major layout of ``shape`` with the dtype and device of ``layout``."""
    return intern(layout.numpy_dtype, shape, None, layout.device)


def empty_like_layout(layout: Layout, shape: tuple[int, ...]) -> Tensor:
    """An uninitialised row-major tensor of ``shape`` with the dtype and device of ``layout``."""
    made = row_major(layout, shape)
    return wrap(empty_for(made), made)


# -- for samples and references -----------------------------------------------------------------------


def places_for_samples(*values: int) -> Tensor:
    """An int64 vector."""
    data = np.array(values, np.int64)
    return wrap(data, intern(data.dtype, data.shape, None, "cpu"))


def written(x: Any, values: Any, read: Any, *args: Any, add: bool = False) -> Any:
    """The NumPy array ``x`` with the elements that ``read(x, *args)`` picks set to ``values``, or ``add``ed to.

    The reference of a write is so that of the read of the same places, which is asked for the places themselves.
    """
    places, out = read(np.arange(x.size).reshape(x.shape), *args), x.reshape(-1).copy()
    if add:
        np.add.at(out, places, values)  # which counts a place as often as it is there; out[places] += ... once
    else:
        out[places] = values
    return out.reshape(x.shape)
