"""What a sparse tensor's indices say: places counted through all dims, rows, order. Worked out once for a pattern.

Everything here is without gradient. The first function that reads a pattern's indices checks them, so that nothing
reads or writes outside of memory, also where PyTorch leaves that unchecked.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from jitgrad.core.dtypes import int64
from jitgrad.core.layout import intern
from jitgrad.core.sparse import Pattern
from jitgrad.core.storage import empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.kernels.launch import launch
from jitgrad.kernels.loops import sort as sort_kernels
from jitgrad.kernels.loops import sparse as kernels
from jitgrad.kernels.loops import unique as run_kernels
from jitgrad.kernels.loops.indexing import take_rows
from jitgrad.ops.shape.copy import cast, contiguous
from jitgrad.ops.shape.join import Stack

__all__ = [
    "Rows", "as_coo", "as_int64", "batch_of", "check_compressed", "coalescing", "compressed", "coo_pattern", "grid_of",
    "indices_of", "is_across", "keys_of", "keys_to_pattern", "plain", "rows_of", "sizes_of", "values_shape",
]  # fmt: skip

_INT64 = np.dtype(np.int64)


def plain(array: np.ndarray) -> Tensor:
    """A tensor of an array."""
    return wrap(array, intern(array.dtype, array.shape))


def _longs(*shape: int) -> Any:
    return empty_for(intern(_INT64, shape))


def sizes_of(pattern: Pattern) -> tuple[int, ...]:
    """The sizes of the sparse dims."""
    return pattern.shape[: pattern.sparse_dim]


def coo_pattern(indices: Tensor, shape: Any, coalesced: bool = False) -> Pattern:
    """The pattern of indices (sparse dims, nnz)."""
    return Pattern("sparse_coo", (indices,), tuple(shape), indices._layout.shape[0], coalesced)


def as_int64(index: Tensor) -> Tensor:
    """Indices for kernels: int64, row-major."""
    return contiguous(cast(index.detach(), int64))


def keys_of(pattern: Pattern) -> Tensor:
    """Each place counted through the sparse dims; RuntimeError for one outside."""
    known = pattern.known()
    if "keys" not in known:
        sizes = sizes_of(pattern)
        if math.prod(sizes) >= 1 << 63:
            raise RuntimeError("numel: integer multiplication overflow")
        indices, found = as_int64(indices_of(pattern)), np.zeros(3, np.int64)
        keys = _longs(indices._layout.shape[1])
        launch(kernels.flat_places, indices._data, np.array(sizes, np.int64), keys, found)
        code, dim, value = found.tolist()
        if code == kernels.NEGATIVE:
            raise RuntimeError(f"found negative index {value} for dim {dim}")
        if code == kernels.TOO_LARGE:
            raise RuntimeError(
                f"size is inconsistent with indices: for dim {dim}, size is {sizes[dim]} but found index {value}"
            )
        known["keys"] = plain(keys)
    return known["keys"]


def keys_to_pattern(keys: Any, shape: Any, sparse_dim: int, coalesced: bool) -> Pattern:
    """The pattern of places counted through the sparse dims."""
    indices = _longs(sparse_dim, len(keys))
    if sparse_dim:
        launch(kernels.places_of_keys, keys, np.array(shape[:sparse_dim], np.int64), indices)
    made = coo_pattern(plain(indices), shape, coalesced)
    made.known()["keys"] = plain(keys)
    return made


class Coalescing(NamedTuple):
    """The pattern in order, and where its values come from: ``order`` of the rows, ``starts`` of sums; None: as is."""

    pattern: Pattern
    order: Any
    starts: Any


def coalescing(pattern: Pattern) -> Coalescing:
    """How a COO pattern becomes one whose places are in order and none there twice."""
    known = pattern.known()
    if "coalescing" not in known:
        keys, ordered = keys_of(pattern)._data, np.zeros(1, np.int64)
        launch(kernels.in_order, keys, ordered)
        if ordered[0]:
            same = pattern.like(coalesced=True)
            same.known()["keys"] = plain(keys)
            known["coalescing"] = Coalescing(same, None, None)
        else:
            sorted_keys, order, count = np.empty_like(keys), np.empty_like(keys), np.empty(1, np.int64)
            launch(sort_kernels.sort, *[a.reshape(1, -1) for a in (keys, sorted_keys, order)], False)
            launch(run_kernels.count_runs, sorted_keys, count)
            distinct, starts = _longs(int(count[0])), _longs(int(count[0]))
            launch(run_kernels.take_runs, sorted_keys, distinct, starts)
            made = keys_to_pattern(distinct, pattern.shape, pattern.sparse_dim, True)
            known["coalescing"] = Coalescing(made, order, starts)
    return known["coalescing"]


# -- rows of matrices -------------------------------------------------------------------------------------


class Rows:
    """A sparse matrix row by row: where rows begin, the column of each place and the value that is there.

    order: the places of the values, None: as they stand. rows: the row of each value, cols: its column, in the values'
    own order, for gradients.
    """

    __slots__ = ("_turned", "cols", "crow", "order", "ordered_cols", "rows", "shape")

    def __init__(self, rows: Any, cols: Any, shape: tuple[int, ...], crow: Any = None):
        self.rows, self.cols, self.shape, self.order = rows, cols, shape, None
        if crow is None:
            crow, order = _longs(shape[0] + 1), _longs(len(rows))
            launch(kernels.rows_in_order, rows, crow, order)
            ordered = np.zeros(1, np.int64)
            launch(kernels.in_order, order, ordered)
            self.order = order
        self.crow = crow
        self._turned: Rows | None = None
        self.ordered_cols = cols if self.order is None else _taken(cols, self.order)

    def transposed(self) -> Rows:
        """The same of the transposed matrix, whose values are these."""
        if self._turned is None:
            self._turned = Rows(self.cols, self.rows, (self.shape[1], self.shape[0]))
            self._turned._turned = self
        return self._turned


def _taken(array: Any, order: Any) -> Any:
    out = np.empty(order.shape, array.dtype)
    launch(take_rows, array.reshape(1, -1, 1), order, out.reshape(1, -1, 1))
    return out


def rows_of(pattern: Pattern) -> Rows:
    """The rows of a matrix; of a batch of compressed ones those of the matrix that has them on its diagonal."""
    known = pattern.known()
    if "rows" not in known:
        if pattern.kind == "sparse_coo":
            keys_of(pattern)  # which checks
            rows, cols = as_int64(pattern.indices[0])._data
            known["rows"] = Rows(rows, cols, pattern.shape[:2])
        else:
            starts, rows, cols = _compressed_places(pattern)
            count, (m, n) = math.prod(batch_of(pattern)), grid_of(pattern)
            if is_across(pattern.kind):
                known["rows"] = Rows(rows, cols, (count * n, count * m), starts).transposed()
            else:
                known["rows"] = Rows(rows, cols, (count * m, count * n), starts)
    return known["rows"]


# -- compressed matrices ----------------------------------------------------------------------------------


def is_across(kind: str) -> bool:
    """Whether a layout compresses columns, not rows."""
    return kind in ("sparse_csc", "sparse_bsc")


def batch_of(pattern: Pattern) -> tuple[int, ...]:
    """The sizes of the batch of compressed matrices."""
    return pattern.shape[: pattern.sparse_dim - 2]


def grid_of(pattern: Pattern) -> tuple[int, int]:
    """How many rows and columns a matrix has; one of blocks: how many of blocks."""
    m, n = pattern.shape[pattern.sparse_dim - 2 : pattern.sparse_dim]
    high, wide = pattern.block or (1, 1)
    return (m // high if high else 0), (n // wide if wide else 0)


def check_compressed(pattern: Pattern, strictly: bool = False) -> tuple[Any, Any]:
    """The indices as arrays, a row for each matrix; RuntimeError for what does not fit, ``strictly``: also for columns
    out of order."""
    across, count = is_across(pattern.kind), math.prod(batch_of(pattern))
    height, width = grid_of(pattern)[::-1] if across else grid_of(pattern)
    first, second = ("ccol", "row") if across else ("crow", "col")
    if pattern.indices[0]._layout.shape != (*batch_of(pattern), height + 1):
        raise RuntimeError(f"{first}_indices.shape[-1] must be equal to the number of {first[1:]}s + 1 ({height + 1})")
    if pattern.indices[1]._layout.shape[:-1] != batch_of(pattern):
        raise RuntimeError(f"{second}_indices must have the batch dims {list(batch_of(pattern))} of the tensor")
    crow, cols = (as_int64(i)._data.reshape(count, i._layout.shape[-1]) for i in pattern.indices)
    found = np.zeros(1, np.int64)
    launch(kernels.first_bad, crow, cols, width, strictly, found)
    _refuse(int(found[0]), f"{first}_indices", f"{second}_indices")
    return crow, cols


def _compressed_places(pattern: Pattern) -> tuple[Any, Any, Any]:
    """(where compressed rows begin, the row of each place, its column): see the kernel."""
    known = pattern.known()
    if "compressed" not in known:
        crow, cols = check_compressed(pattern)
        rows = _longs(cols.size)
        if batch_of(pattern):
            width = grid_of(pattern)[0 if is_across(pattern.kind) else 1]
            starts, columns = _longs(crow.shape[0] * (crow.shape[1] - 1) + 1), _longs(cols.size)
            launch(kernels.compressed_places, crow, cols, width, starts, rows, columns)
        else:
            starts, columns = crow[0], cols[0]
            launch(kernels.row_numbers, starts, rows)
        known["compressed"] = starts, rows, columns
    return known["compressed"]


def _refuse(code: int, first: str, second: str) -> None:
    name = second.removesuffix("_indices")
    if code == kernels.BAD_START:
        raise RuntimeError(f"`{first}[..., 0] == 0` is not satisfied.")
    if code == kernels.BAD_END:
        raise RuntimeError(f"`{first}[..., -1] == nnz` is not satisfied.")
    if code == kernels.BAD_STEP:
        raise RuntimeError(f"`0 <= {first}[..., 1:] - {first}[..., :-1] <= n{name}s` is not satisfied.")
    if code == kernels.BAD_ORDER:
        rows = "nrows" if name == "col" else "ncols"
        raise RuntimeError(
            f"`{second}[..., {first}[..., i - 1]:{first}[..., i]] for all i = 1, ..., {rows} are sorted and distinct "
            "along the last dimension values` is not satisfied."
        )
    if code:
        raise RuntimeError(f"`0 <= {second} < n{name}s` is not satisfied.")


def as_coo(pattern: Pattern) -> Pattern:
    """The same places, in the same order, as COO; those of blocks, whose dims are then dense ones."""
    if pattern.kind == "sparse_coo":
        return pattern
    known = pattern.known()
    if "coo" not in known:
        _, rows, columns = _compressed_places(pattern)
        d, across = pattern.sparse_dim, is_across(pattern.kind)
        shape = (*batch_of(pattern), *grid_of(pattern), *pattern.block, *pattern.shape[d:])
        if batch_of(pattern):
            keys = _longs(len(rows))
            height, width = grid_of(pattern)[:: -1 if across else 1]
            launch(kernels.places_in_batch, rows, columns, height, width, across, keys)
            made = keys_to_pattern(keys, shape, d, False)
        else:
            pair = (columns, rows) if across else (rows, columns)
            made = coo_pattern(Stack.forward([plain(p) for p in pair], 0), shape)
        ordered = np.zeros(1, np.int64)
        launch(kernels.in_order, keys_of(made)._data, ordered)
        made.coalesced = bool(ordered[0])
        known["coo"] = made
    return known["coo"]


def indices_of(pattern: Pattern) -> Tensor:
    """The indices as COO has them, (sparse dims, nnz), in the order of the values."""
    return as_coo(pattern).indices[0]


def values_shape(pattern: Pattern) -> tuple[int, ...]:
    """The shape of the values of compressed matrices: (*batch, nnz, *block, *dims of a value)."""
    return (*batch_of(pattern), pattern.nnz, *pattern.block, *pattern.shape[pattern.sparse_dim :])


def compressed(pattern: Pattern, like: Pattern, dtype: Any) -> tuple[Pattern, Any]:
    """(a coalesced COO pattern as the layout of ``like``, the order that its values go into; None: as they stand).

    like: a pattern of that kind, shape and block, of which the indices are not looked at. dtype: that of the indices.
    RuntimeError where the matrices of a batch have different numbers of places.
    """
    across, (m, n), count = is_across(like.kind), grid_of(like), math.prod(batch_of(like))
    keys = keys_of(pattern)._data
    if batch_of(like):
        rows, cols = _longs(len(keys)), _longs(len(keys))
        launch(kernels.rows_and_columns, keys, m, n, across, rows, cols)
    else:
        rows, cols = as_int64(pattern.indices[0])._data[:: -1 if across else 1]
    height, width = (n, m) if across else (m, n)
    made = Rows(rows, cols, (count * height, width))
    crow, found = _longs(count, height + 1), np.zeros(1, np.int64)
    launch(kernels.starts_of_batch, made.crow, crow, found)
    if found[0]:
        raise RuntimeError("Expect the same number of specified elements per batch.")
    cols = made.ordered_cols.reshape(*batch_of(like), len(keys) // max(count, 1))
    crow = crow.reshape(*batch_of(like), height + 1)
    return like.like(indices=(cast(plain(crow), dtype), cast(plain(cols), dtype))), made.order
