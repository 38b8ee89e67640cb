"""Indices and tensors as the kernels take them: checked int64 indices, row-major (outer, n, inner) arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

import numpy as np

from jitgrad.core.dtypes import int64
from jitgrad.core.layout import Layout, intern
from jitgrad.core.storage import empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.copying import copying
from jitgrad.dispatch.planned import Launches, Read, Written, planned
from jitgrad.dispatch.planned import row_major as as_blocks
from jitgrad.kernels.launch import SPLIT_SIZE, check, check_observers, launch, prepared
from jitgrad.kernels.loops import indexing as kernels
from jitgrad.kernels.loops.fill import fill
from jitgrad.ops.shape.copy import cast, contiguous
from jitgrad.ops.shape.slicing import zeros_of

__all__ = [
    "arranging", "blocks_around", "checked_by_kernel", "checked_index", "checking", "empty_like_layout", "in_blocks",
    "int64_of", "places_for_samples", "row_major", "spread_blocks", "written",
]  # fmt: skip

_ROWS = 16  # as which a long index is checked, so that several threads can


def blocks_around(shape: tuple[int, ...], dim: int) -> tuple[int, int, int]:
    """A shape as (outer, n, inner), n the size of ``dim``; a tensor without dims counts as a vector of one element."""
    if not shape:
        return (1, 1, 1)
    return math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])


def checked_index(index: Tensor, n: int, error_of: Callable[[int], Exception]) -> Tensor:
    """A row-major int64 index without history, all of it in 0 .. n - 1; ``error_of(value)`` is raised for another."""
    places = unchecked_places(index)
    return checking(places._layout, n, error_of)(places)


def unchecked_places(index: Tensor) -> Tensor:
    """The same of an index that its reader checks."""
    places = contiguous(cast(index.detach(), int64))
    if places._layout is not (plain := int64_of(places._layout)):  # one element with a stride of its own
        places = wrap(places._data.reshape(plain.array_shape), plain)
    return places


def arranging(index: Layout) -> Callable[[Tensor], Tensor]:
    """The plan of ``unchecked_places`` for an index of this layout."""
    plain = int64_of(index)
    if index.dtype.category != 1 or index.device != "cpu" or not index.numel or index is plain:
        return unchecked_places
    copy = copying(index, plain)
    return lambda index: copy(wrap(index._data, index._layout))


def checking(index: Layout, n: int, error_of: Callable[[int], Exception]) -> Callable[[Tensor], Tensor]:
    """The plan of ``checked_index(index, n, error_of)``."""
    m, kernel = index.numel, kernels.first_outside
    if index is not (plain := int64_of(index)):
        tidy, arranged = checking(plain, n, error_of), arranging(index)
        return lambda index: tidy(arranged(index))
    rows = _ROWS if m >= SPLIT_SIZE and m % _ROWS == 0 else 1
    shape = rows, m // rows

    def checked(index: Tensor) -> Tensor:
        found = np.zeros((rows, 2), np.int64)
        run(index._data.reshape(shape), found, 0, n)
        if check_observers or found.item(0) or (rows > 1 and found.any()):
            for row in found:
                check(row, _refuse, error_of)
        return index

    on_cpu = index.device == "cpu"
    run = prepared(kernel, index.numpy_dtype, shape, (rows, 2), None, None) if on_cpu else partial(launch, kernel)
    return checked


def checked_by_kernel(run: Callable[..., Tensor], checked: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """``run``, whose kernel raises IndexError for a wrong index; ``checked``, which checks first, says which it is."""

    def tried(*tensors: Tensor) -> Tensor:
        if check_observers:  # who repeats the launches wants to repeat the check
            return checked(*tensors)
        try:
            return run(*tensors)
        except IndexError:
            return checked(*tensors)

    return tried


def _refuse(found: np.ndarray, error_of: Callable[[int], Exception]) -> NoReturn:
    raise error_of(found.item(1))


def in_blocks(x: Tensor, blocks: tuple[int, int, int]) -> Any:
    """``x`` as a row-major (outer, n, inner) array: its own memory where that is row-major, else a copy."""
    return contiguous(wrap(x._data, x._layout))._data.reshape(blocks)


def row_major(layout: Layout, shape: tuple[int, ...]) -> Layout:
    """The row-major layout of ``shape`` with the dtype and device of ``layout``."""
    return intern(layout.numpy_dtype, shape, None, layout.device)


def int64_of(index: Layout) -> Layout:
    """The layout of an index once it was checked: row-major, int64."""
    return intern(int64.numpy, index.shape, None, index.device)


def empty_like_layout(layout: Layout, shape: tuple[int, ...]) -> Tensor:
    """An uninitialised row-major tensor of ``shape`` with the dtype and device of ``layout``."""
    made = row_major(layout, shape)
    return wrap(empty_for(made), made)


@planned("g", "places")
def spread_blocks(g, layout, blocks, places):
    """Zeros of ``layout``, as (outer, n, inner) ``blocks``, to whose rows at ``places`` those of ``g`` are added."""
    m, out = places.numel, row_major(layout, layout.shape)
    if places.dtype is not int64 or not places.contiguous or layout.device != "cpu" or not m:
        return _spread_any
    rows = as_blocks("g", g, (blocks[0], m, blocks[2]))
    clear = fill, Written(0, (out.numel,)), out.numpy_dtype.type(0).item()
    return Launches([clear, (kernels.add_rows, rows, Read("places", (m,)), Written(0, blocks))], [out])


def _spread_any(g: Tensor, layout: Layout, blocks: tuple[int, int, int], places: Tensor) -> Tensor:
    """``spread_blocks`` for any integers as places, and on any device."""
    out, flat = zeros_of(layout), contiguous(cast(places.detach(), int64))._data.reshape(-1)
    if flat.size:
        launch(kernels.add_rows, in_blocks(g, (blocks[0], flat.size, blocks[2])), flat, out._data.reshape(blocks))
    return out


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
