"""Where elements are not zero, or true: their places counted row by row, and their indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.core.dtypes import int64
from jitgrad.core.host_reads import announce_read, read_observers
from jitgrad.core.layout import intern
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.batch_rules import check_one_shape, of_samples
from jitgrad.dispatch.out_argument import check_out, into_out, takes_out
from jitgrad.dispatch.planned import planned
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import as_flag
from jitgrad.kernels.launch import launch, prepared
from jitgrad.kernels.loops import masks as kernels
from jitgrad.ops.creation.constants import new
from jitgrad.ops.shape.copy import contiguous

__all__ = ["indices_of", "nonzero", "true_places"]


# Up to so many elements there is room for the place of every one, so that none has to be counted first.
SHORT = 1 << 12


def true_places(x: Tensor) -> Tensor:
    """The places, counted row by row, of the elements that are not zero: int64, without history."""
    places = _places(_read(x))
    return wrap(places, intern(places.dtype, places.shape, None, "cpu"))


def _read(x: Tensor) -> Tensor:
    """``x`` as its numbers are read by the host, on which the shape of the result depends."""
    if read_observers:
        announce_read("nonzero(), or a mask as an index,")
    if x._level is not None:
        x = x.detach()
        check_one_shape("nonzero", x)
    return x


@planned("x")
def _places(x):
    n = x.numel
    if n > SHORT or not x.contiguous or x.device != "cpu":
        return _places_of_many
    run = prepared(kernels.true_places, x.numpy_dtype, (n,), (n,), (1,), flat=1)

    def places(x: Tensor) -> Any:
        found, count = np.empty(n, np.int64), np.empty(1, np.int64)
        run(x._data, found, count)
        return found[: count.item(0)]

    return places


def _places_of_many(x: Tensor) -> Any:
    flat = contiguous(wrap(x._data, x._layout))._data.reshape(-1)
    count = np.empty(1, np.int64)
    launch(kernels.count_true, flat, count)
    places = np.empty(int(count[0]), np.int64)
    launch(kernels.true_places, flat, places, count)
    return places


def indices_of(x: Tensor) -> Tensor:
    """The indices of the elements that are not zero, a row for each: int64, shape (count, ndim)."""
    return _indices(_read(x))


@planned("x")
def _indices(x):
    ndim, n, shape = x.ndim, x.numel, np.array(x.shape, np.int64)

    def indices_of_many(x: Tensor) -> Tensor:
        places = _places(x)
        m = places.size
        if not ndim:
            return new(int64, (m, 0), "cpu")
        if ndim == 1:  # a place is an index
            return _as_rows(places.reshape(1, m), m)
        columns = np.empty((ndim, m), np.int64)
        launch(kernels.unravel, places, columns, shape)
        return _as_rows(columns, m)

    if not (ndim and n) or n > SHORT or not x.contiguous or x.device != "cpu":
        return indices_of_many
    run = prepared(kernels.true_indices, x.numpy_dtype, (n,), (ndim * n,), (1,), (ndim,), flat=1)

    def indices(x: Tensor) -> Tensor:
        found, count = np.empty(ndim * n, np.int64), np.empty(1, np.int64)
        run(x._data, found, count, shape)
        m = count.item(0)
        return _as_rows(found[: ndim * m].reshape(ndim, m), m)

    return indices


def _as_rows(columns: Any, m: int) -> Tensor:
    """The tensor of ``m`` rows whose columns are the rows of an array."""
    return wrap(columns.T, intern(columns.dtype, (m, len(columns)), (1, m), "cpu"))


@public
def nonzero(input: Tensor, *, as_tuple: bool = False, out: Tensor | None = None) -> Any:
    """The indices of the elements that are not zero: int64 of shape (count, ndim).

    ``as_tuple``: a vector for each dim instead, with which the tensor can be indexed.
    """
    if not as_flag(as_tuple):
        if out is None:
            return indices_of(input)
        check_out(out, (input,))
        return into_out("nonzero", indices_of(input), out)
    if out is not None:
        raise RuntimeError("nonzero does not support the out kwarg when as_tuple is True")
    return indices_of(input.reshape(1) if not input._layout.ndim else input).unbind(1)


@public
def argwhere(input: Tensor) -> Tensor:
    """The indices of the elements that are not zero, a row for each."""
    return indices_of(input)


@public
@takes_out
@of_samples
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """The indices of the first ``size`` elements that are not zero, a row for each; ``fill_value`` where there is none.

    Nothing is read by the host: the shape of the result does not depend on the values.
    """
    if size < 0:
        raise RuntimeError("nonzero_static: 'size' must be an non-negative integer")
    x = contiguous(input.detach())
    out = new(int64, (size, x._layout.ndim), "cpu")
    if out._layout.numel:
        shape = np.array(x._layout.shape, np.int64)
        launch(kernels.first_true_indices, x._data.reshape(-1), out._data, shape, fill_value)
    return out
