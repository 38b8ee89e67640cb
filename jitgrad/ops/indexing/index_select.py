"""Whole slices along one dim, named by an index vector: read, added to, replaced, filled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.core.dtypes import int64
from jitgrad.core.host_reads import announce_read, read_observers
from jitgrad.core.layout import Layout, cache, normalize_dim
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch import table
from jitgrad.dispatch.batch_rules import BatchedCall, one_by_one
from jitgrad.dispatch.copying import copy_to_layout, filled
from jitgrad.dispatch.inplace_ops import InplaceOp, stored_once, through_rows, warn_of_expanded
from jitgrad.dispatch.op_samples import cases, draw, draw_ints
from jitgrad.dispatch.planned import Launches, Read, Written, compiled
from jitgrad.dispatch.planned import row_major as as_blocks
from jitgrad.dispatch.registry import method, public
from jitgrad.dispatch.sizes import number_argument
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.launch import Loop, launch
from jitgrad.kernels.loops import indexing as kernels
from jitgrad.ops.creation.constants import convert_number
from jitgrad.ops.creation.from_data import tensor
from jitgrad.ops.indexing.gather import Gather
from jitgrad.ops.indexing.index_errors import check_index, check_no_dims, check_source, not_selectable, out_of_range
from jitgrad.ops.indexing.places import (
    blocks_around,
    checked_index,
    checking,
    empty_like_layout,
    in_blocks,
    int64_of,
    places_for_samples,
    row_major,
    spread_blocks,
    written,
)
from jitgrad.ops.reduction.sums import Sum
from jitgrad.ops.shape.copy import cast
from jitgrad.ops.shape.slicing import zeros_of
from jitgrad.ops.shape.view import reshape

__all__ = ["IndexAdd", "IndexFillNumber", "IndexSelect", "RowsOp", "selecting", "spread_rows", "write_rows"]


def _vector_index(op: str, index: Tensor, x: Layout, dim: int) -> Tensor:
    """An index of ``x`` along ``dim`` as a checked int64 vector; errors in the words that PyTorch has for ``op``."""
    check_index(op, index._layout)
    n = blocks_around(x.shape, dim)[1]
    return checked_index(index, n, lambda value: out_of_range(op, value, x, dim)).reshape(-1)


def selecting(x: Layout, dim: int, index: Layout, shape: tuple[int, ...]) -> Callable[[Tensor, Tensor], Tensor]:
    """The plan of a new tensor of ``shape`` of the slices of ``x`` along ``dim`` that an index of any shape names."""
    (outer, n, inner), m = blocks_around(x.shape, dim), index.numel
    check = checking(index, n, lambda value: not_selectable(value, x, dim))
    arrays = as_blocks("x", x, (outer, n, inner)), Read("index", (m,)), Written(0, (outer, m, inner))
    known = {"x": x, "index": int64_of(index)}
    take = compiled(Launches([(kernels.take_rows, *arrays)], [row_major(x, shape)]), known)
    return lambda x, index: take(x, check(index))


def _select_batched(call: BatchedCall) -> Any:
    """Samples that share an index are selected together; where each has its own, that is a gather."""
    n = call.ndim("x")
    if not n or call.ndim("index") != 1:
        return one_by_one(call)
    d = normalize_dim(call["dim"], n) + 1
    if "index" not in call.batched:
        return call.run(dim=d)
    x, index = call.whole("x"), call["index"]
    shape = list(x._layout.shape)
    shape[d] = index._layout.shape[1]
    index = index.view(call.size, *(1,) * (d - 1), -1, *(1,) * (n - d)).expand(shape)
    return Gather.apply(x, d, index)


def _selected(x: Any, dim: int, index: Any) -> Any:
    return np.take(x, index, dim)


class IndexSelect(Structured, public=True):
    """The slices along ``dim`` that ``index`` names, an int vector; copied."""

    linear = ("x",)
    batch = _select_batched
    samples = cases(
        lambda: (draw(3, 4), 0, draw_ints(5, below=3)),
        lambda: (draw(3, 4), 1, draw_ints(2, below=4)),
    )
    reference = _selected

    def plan(x_layout, dim, index_layout):
        shape, d = x_layout.shape, normalize_dim(dim, x_layout.ndim)
        check_index("index_select", index_layout)
        if not shape and index_layout.numel != 1:
            count = index_layout.numel
            raise RuntimeError(f"index_select(): Index to scalar can have only 1 value, got {count} value(s)")
        return selecting(x_layout, d, index_layout, (*shape[:d], index_layout.numel, *shape[d + 1 :]) if shape else ())

    def grad_x(g, x_layout, dim, index):
        return IndexAdd.apply(zeros_of(x_layout), dim, index, g)

    def kernel_x(g, x_layout, dim, index):
        return spread_rows(g, x_layout, normalize_dim(dim, x_layout.ndim), index)


def spread_rows(g: Tensor, layout: Layout, dim: int, index: Tensor) -> Tensor:
    """Zeros of ``layout``, to whose slices along ``dim`` those of ``g`` are added that ``index`` names.

    That is IndexAdd into new memory, without the copy of it; ``index`` was checked by the op whose gradient this is.
    """
    return spread_blocks(g, layout, blocks_around(layout.shape, dim), index)


# -- writes ---------------------------------------------------------------------------------------------


def _rows_batched(call: BatchedCall) -> Any:
    """Slices written at places that all samples share; otherwise, or where the value is a batch, one by one."""
    n = call.ndim("x")
    if not n or not {"index", "value"}.isdisjoint(call.batched):
        return one_by_one(call)
    changed = {"source": call.whole("source")} if "source" in call.args else {}
    return call.run(x=call.whole("x"), dim=normalize_dim(call["dim"], n) + 1, **changed)


class RowsOp(InplaceOp, abstract=True):
    """Base of writes into the slices of ``x`` along ``dim`` that the vector ``index`` names.

    What is overwritten has no gradient; an op that adds defines another ``grad_x``.
    """

    batch = _rows_batched
    copy_strides = "row-major"

    def grad_x(g, dim, index):
        return IndexFillNumber.apply(g, dim, index, 0)


_WRITES: dict[Any, Callable[..., None]] = cache()


def write_rows(kernel: Loop, op: str, x: Tensor, dim: int, index: Tensor, source: Tensor) -> None:
    """Write the slices of ``source`` into those of ``x`` that an index names, by a kernel; all are checked."""
    key = kernel, op, x._layout, dim, type(dim), index._layout, source._layout
    write = _WRITES.get(key)
    if write is None:
        write = _WRITES[key] = _plan_write(kernel, op, x._layout, dim, index._layout, source._layout)
    write(x, index, source)


def _plan_write(kernel: Loop, op: str, x: Layout, dim: int, index: Layout, source: Layout) -> Callable[..., None]:
    d = normalize_dim(dim, x.ndim)
    check_index(op, index)
    check_source(op, x, d, index, source)
    if not x.numel and (not source.numel or (op in ("index_add", "index_reduce") and x.ndim > 1)):
        return lambda *_: None  # PyTorch doesn't look at the index then
    blocks, m = blocks_around(x.shape, d), index.numel
    shape = blocks[0], m, blocks[2]
    check = checking(index, blocks[1], lambda value: out_of_range(op, value, x, d))
    if not (x.contiguous and source.contiguous and x.numel and m and x.device == "cpu" and index is int64_of(index)):

        def write_any(x: Tensor, index: Tensor, source: Tensor) -> None:
            places, rows = check(index)._data.reshape(-1), in_blocks(source, shape)
            through_rows(x, lambda data: launch(kernel, rows, places, data.reshape(blocks)))

        return write_any
    writing = kernel, Read("source", shape), Read("index", (m,)), Read("x", blocks)
    run = compiled(Launches([writing], [], 0), {"x": x, "index": index, "source": source})
    return lambda x, index, source: run(x, check(index), source)


class IndexAdd(RowsOp, public=True):
    """Add ``alpha`` times the slices of ``source`` to the slices along ``dim`` that ``index`` names."""

    jointly_linear = ("x", "source")
    samples = cases(
        lambda: (draw(3, 4), 0, draw_ints(5, below=3), draw(5, 4, seed=1), 0.5),
        lambda: (draw(4, 3).t(), 0, draw_ints(5, below=3), draw(5, 4, seed=1)),
    )
    reference = lambda x, dim, index, source, alpha=1: written(x, alpha * source, _selected, dim, index, add=True)

    def write(x, dim, index, source, alpha=1):
        # The kernel only adds: a factor costs a product first, which a caller without one does not pay.
        if alpha.__class__ is not int:
            alpha = number_argument("index_add", "alpha", None, alpha)
        source = source if alpha == 1 else table.mul(wrap(source._data, source._layout), alpha)
        write_rows(kernels.add_rows, "index_add", x, dim, index, source)

    def grad_x(g):
        return g

    def grad_source(g, dim, index, source_layout, alpha):
        rows = reshape(IndexSelect.apply(g, dim, index), source_layout.shape)
        return rows if alpha == 1 else table.mul(rows, alpha)


class IndexCopy(RowsOp, public=True):
    """Set the slices along ``dim`` that ``index`` names to those of ``source``."""

    jointly_linear = ("x", "source")
    samples = cases(lambda: (draw(4, 2), 0, places_for_samples(2, 0), draw(2, 2, seed=1)))
    reference = lambda x, dim, index, source: written(x, source, _selected, dim, index)

    def write(x, dim, index, source):
        write_rows(kernels.put_rows, "index_copy", x, dim, index, source)

    def grad_source(g, dim, index, source_layout):
        return reshape(IndexSelect.apply(g, dim, index), source_layout.shape)


class IndexFill(RowsOp, abstract=True):
    """Base of the two fills of slices: by a number, and by a tensor without dims, which has a gradient."""

    allows_internal_overlap = True
    copy_strides = "dense"
    reference = lambda x, dim, index, value: written(x, value, _selected, dim, index)

    def write(x, dim, index, value):
        d = normalize_dim(dim, x._layout.ndim)
        shape = x._layout.shape
        if shape and x._layout.contiguous and x._layout.numel and index._layout.ndim == 1:
            rows = row_major(x._layout, (*shape[:d], index._layout.numel, *shape[d + 1 :]))
            number = not isinstance(value, Tensor)
            source = filled(rows, convert_number(value, rows.dtype)) if number else copy_to_layout(value, rows)
            write_rows(kernels.put_rows, "index_fill", x, d, index, source)
            return
        places = _vector_index("index_fill", index, x._layout, d)
        x = stored_once(x)
        outer, n, inner = blocks = blocks_around(x._layout.shape, d)
        places = table.mul(places, 0) if n == 1 else places  # the only slice, of however many in one place
        rows = empty_like_layout(x._layout, (outer, places._layout.numel, inner))
        rows.fill_(value.detach() if isinstance(value, Tensor) else value)
        through_rows(x, lambda data: launch(kernels.put_rows, rows._data, places._data, data.reshape(blocks)))


class IndexFillNumber(IndexFill):
    """Set the slices along ``dim`` that ``index`` names to a number."""

    grad_name = "IndexFillBackward0"
    samples = cases(lambda: (draw(4, 2), 0, places_for_samples(2, 0), 1.5))


class IndexFillTensor(IndexFill):
    """Set the slices along ``dim`` that ``index`` names to the value of a tensor without dimensions."""

    grad_name = "IndexFillBackward1"
    samples = cases(lambda: (draw(4, 2), 0, places_for_samples(2, 0), draw(seed=1)))

    def write(x, dim, index, value):
        check_no_dims("index_fill_", value)
        IndexFill.write(x, dim, index, value)

    def grad_value(g, dim, index, value_layout):
        # The value stands in each slice once, however often the index names the slice.
        return cast(Sum.apply(IndexSelect.apply(g, dim, _distinct(index))), value_layout.dtype)


def _distinct(index: Tensor) -> Tensor:
    """An index without repetitions."""
    if read_observers:
        announce_read("the gradient of index_fill")
    return tensor(np.unique(index._data), dtype=int64, device=index.device)


def index_fill_(self: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """Set the slices along ``dim`` that ``index`` names to a number, or a tensor without dimensions."""
    warn_of_expanded("index_fill_", self, "tensor[mask] = scalar")
    return (IndexFillTensor if isinstance(value, Tensor) else IndexFillNumber).inplace(self, dim, index, value)


@public
def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """A copy with the slices along ``dim`` that ``index`` names set to a number, or a tensor without dimensions."""
    return (IndexFillTensor if isinstance(value, Tensor) else IndexFillNumber).apply(input, dim, index, value)


method(index_fill_)
