"""Reductions into the places of an index: for every element (scatter_reduce), and for whole slices (index_reduce).

Both have the gradients that follow, written once; a Way says how places are read, added to and cleared.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jitgrad.core.errors import not_implemented_for
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.layout import Layout, intern
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch import table
from jitgrad.dispatch.copying import copy_to_layout, filled
from jitgrad.dispatch.inplace_forms import inplace_form
from jitgrad.dispatch.op_samples import cases, draw, draw_ints
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.registry import method, public
from jitgrad.dispatch.sizes import as_flag
from jitgrad.dispatch.structured import Structured
from jitgrad.dispatch.underived import underived
from jitgrad.kernels.launch import Loop
from jitgrad.kernels.loops import elements, indexing
from jitgrad.kernels.loops import scatter_reduce as kernels
from jitgrad.ops.indexing.gather import ElementsOp, Gather, ScatterAdd, ScatterValue, into_copy, write_elements
from jitgrad.ops.indexing.index_select import IndexAdd, IndexFillNumber, IndexSelect, RowsOp, write_rows
from jitgrad.ops.indexing.places import row_major
from jitgrad.ops.shape.copy import cast
from jitgrad.ops.shape.slicing import Slice

__all__ = ["ReduceElements"]


class Way(NamedTuple):
    """How an op names places.

    op: returns it. write: ``write(kernel, x, dim, index, source)``. read, add, clear: the ops on the same places.
    kernels: one for each reduction. sum: that of numbers that are counted.
    """

    op: Callable[[], Any]
    write: Callable[..., None]
    read: Any
    add: Any
    clear: Any
    kernels: dict[str, Loop]


ELEMENTS = Way(lambda: ReduceElements, write_elements, Gather, ScatterAdd, ScatterValue, {
    "sum": elements.scatter_add, "mean": elements.scatter_add, "prod": elements.scatter_multiply,
    "amax": kernels.larger_elements, "amin": kernels.smaller_elements,
})  # fmt: skip
ROWS = Way(lambda: ReduceRows, lambda kernel, *args: write_rows(kernel, "index_reduce", *args), IndexSelect, IndexAdd,
           IndexFillNumber, {
    "mean": indexing.add_rows, "prod": kernels.multiply_rows,
    "amax": kernels.larger_rows, "amin": kernels.smaller_rows,
})  # fmt: skip


def _neutral(reduce: str, dtype: np.dtype[Any]) -> Any:
    """The number that a reduction starts from where what was there does not count."""
    if reduce in ("sum", "mean", "prod"):
        return 1 if reduce == "prod" else 0
    if dtype == np.bool_:
        return reduce == "amin"
    if dtype.kind == "f":
        return math.inf if reduce == "amin" else -math.inf
    return int(np.iinfo(dtype).max if reduce == "amin" else np.iinfo(dtype).min)


def _reduced(way: Way, x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, include_self: bool) -> Tensor:
    """The result of either op, unrecorded."""
    out = copy_to_layout(x, row_major(x._layout, x._layout.shape))
    if not include_self:
        way.clear.write(out, dim, index, _neutral(reduce, x._layout.numpy_dtype))
    way.write(way.kernels[reduce], out, dim, index, src)
    if reduce != "mean":
        return out
    counts = _counts(way, out._layout, dim, index, src._layout, include_self)
    return out / counts if x._layout.dtype.category >= 2 else out.div(counts, rounding_mode="floor")


def _counts(way: Way, layout: Layout, dim: int, index: Tensor, src: Layout, include_self: bool) -> Any:
    """How many numbers each element is the mean of, in a real dtype."""
    dtype = layout.numpy_dtype.type(0).real.dtype
    counts, ones = (filled(intern(dtype, a.shape), n) for a, n in ((layout, int(include_self)), (src, 1)))
    return way.add.apply(counts, dim, index, ones).clamp(min=1)


def _gradient_of_x(way: Way, g: Any, out: Any, x: Any, dim: int, index: Tensor, src: Any, reduce: str,
                   include_self: bool) -> Any:  # fmt: skip
    if reduce == "mean":
        g = g / _counts(way, g._layout, dim, index, src._layout, include_self)
    elif reduce == "prod":
        without_zeros = table.where(x == 0, 1, x)
        others = way.op().apply(without_zeros, dim, index, src, reduce, include_self=include_self)
        g = g * others / without_zeros
    elif reduce != "sum":
        g = table.where(x == out, _shared(way, g, out, x, dim, index, src), 0)
    return g if include_self else way.clear.apply(g, dim, index, 0)


def _gradient_of_src(way: Way, g: Any, out: Any, x: Any, dim: int, index: Tensor, src: Any, reduce: str,
                     include_self: bool) -> Any:  # fmt: skip
    if reduce == "prod":
        return _gradient_of_factors(way, g, out, x, dim, index, src, include_self)
    if reduce == "mean":
        g = g / _counts(way, g._layout, dim, index, src._layout, include_self)
    elif reduce != "sum":
        hit = src == way.read.apply(out, dim, index)
        return table.where(hit, way.read.apply(_shared(way, g, out, x, dim, index, src), dim, index), 0)
    return way.read.apply(g, dim, index)


def _shared(way: Way, g: Any, out: Any, x: Any, dim: int, index: Tensor, src: Any) -> Any:
    """The share of ``g`` of each number that is equal to the extremum; ``x`` counts among them, as PyTorch has it."""
    hits = cast(src == way.read.apply(out.detach(), dim, index), g._layout.dtype)
    return g / way.add.apply(cast(x == out, g._layout.dtype), dim, index, hits)


def _gradient_of_factors(way: Way, g: Any, out: Any, x: Any, dim: int, index: Tensor, src: Any,
                         include_self: bool) -> Any:  # fmt: skip
    """g times the product of the other factors: by division, but for a zero that is the only one in its place."""
    zero, dtype = src == 0, src._layout.dtype
    zeros = way.add.apply(filled(row_major(x._layout, x._layout.shape), 0), dim, index, cast(zero, dtype))
    alone = zero & (way.read.apply(zeros, dim, index) == 1)
    product = way.op().apply(x, dim, index, table.where(alone, 1, src), "prod", include_self=include_self)
    several = zeros.detach() > 1
    divided = way.read.apply(g * out, dim, index) / table.where(zero, 1, src)
    found = table.where(alone, way.read.apply(g * product, dim, index), divided)
    if grad_state.enabled and found._requires_grad and several.any().item():
        name = way.op().name
        words = f"{name}(): Double backward is unsupported for src when >1 zeros in src are scattered to the same "
        found = underived(name, found, found, error=RuntimeError(f"{words}position in self"))
    return found


def _reference(x: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool = True) -> Any:
    ufunc = {"sum": np.add, "mean": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}[reduce]
    places: Any = list(np.indices(src.shape, sparse=True))
    places[dim] = index.reshape([-1 if k == dim else 1 for k in range(x.ndim)]) if index.ndim < x.ndim else index
    out, counts = x.copy(), np.full(x.shape, int(include_self))
    if not include_self:
        out[tuple(places)] = _neutral(reduce, x.dtype)
    ufunc.at(out, tuple(places), src)
    np.add.at(counts, tuple(places), 1)
    return out / counts.clip(1) if reduce == "mean" else out


class ReduceElements(Structured):
    """Sum, product, mean, largest or smallest of what is in the place that ``index`` names, and of ``src`` there.

    Places are those of ``scatter``; without ``include_self`` what was there does not count.
    """

    name, grad_name = "scatter_reduce", "ScatterReduceBackward0"
    batch = ElementsOp.batch
    reference = _reference
    samples = cases(
        *(lambda r=r, own=own: (draw(3, 4), 1, draw_ints(3, 5, below=4), draw(3, 5, seed=1), r, own)
          for r in ELEMENTS.kernels for own in (True, False))
    )  # fmt: skip

    def plan(x_layout, dim, index_layout, src_layout, reduce, include_self=True):
        if include_self and reduce != "mean":
            return into_copy(ELEMENTS.kernels[reduce], x_layout, dim, index_layout, src_layout)
        return lambda x, index, src: _reduced(ELEMENTS, x, dim, index, src, reduce, include_self)

    def grad_x(g, out, x, dim, index, src, reduce, include_self):
        return _gradient_of_x(ELEMENTS, g, out, x, dim, index, src, reduce, include_self)

    def grad_src(g, out, x, dim, index, src, reduce, include_self):
        return _gradient_of_src(ELEMENTS, g, out, x, dim, index, src, reduce, include_self)


class ReduceRows(Structured):
    """Product, mean, largest or smallest of the slices along ``dim`` that ``index`` names and those of ``source``."""

    name, grad_name = "index_reduce", "IndexReduceBackward0"
    batch = RowsOp.batch
    reference = _reference
    samples = cases(
        *(lambda r=r, own=own: (draw(3, 4), 0, draw_ints(5, below=3), draw(5, 4, seed=1), r, own)
          for r in ROWS.kernels for own in (True, False))
    )  # fmt: skip

    def forward(x, dim, index, source, reduce, include_self=True):
        return _reduced(ROWS, x, dim, index, source, reduce, include_self)

    def grad_x(g, out, x, dim, index, source, reduce, include_self):
        return _gradient_of_x(ROWS, g, out, x, dim, index, source, reduce, include_self)

    def grad_source(g, out, x, dim, index, source, reduce, include_self):
        return _gradient_of_src(ROWS, g, out, x, dim, index, source, reduce, include_self)


def _check(op: str, x: Tensor, reduce: Any, reductions: dict[str, Loop]) -> None:
    """RuntimeError for a reduction that is not there, NotImplementedError for dtypes that have none."""
    if reduce not in reductions:
        words = f"{op}(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}."
        if op == "scatter_reduce":
            words = f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
        raise RuntimeError(words)
    dtype, elements = x._layout.dtype, op == "scatter_reduce"
    if dtype.is_complex and reduce in ("amax", "amin"):
        raise not_implemented_for(
            f"scatter_gather_tensor_cpu_reduce_{reduce}" if elements else f"{reduce[1:]}imum_cpu", dtype
        )
    if dtype.category == 0 and reduce == "mean":
        raise not_implemented_for("scatter_gather_tensor_cpu_reduce_mean" if elements else "div_floor_cpu", dtype)


def _beside(src: Tensor, index: Layout) -> Tensor:
    """The first elements of ``src``, as many in each dim as the index has: the others have no part in a reduction."""
    if src._layout.shape != index.shape and src._layout.ndim == index.ndim:
        for d, (n, m) in enumerate(zip(src._layout.shape, index.shape, strict=True)):
            if m < n:
                src = Slice.apply(src, d, 0, m, 1)
    return src


@public
@takes_out
def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:  # fmt: skip
    """The "sum", "prod", "mean", "amax" or "amin" of the elements of ``src`` that ``index`` sends to one place.

    Places are those of ``scatter``: along dim 0, src[i][j] goes to [index[i][j]][j]. What ``input`` has there counts,
    too, unless ``include_self`` is False; where nothing is sent, the result has the element of ``input``.
    """
    _check("scatter_reduce", input, reduce, ELEMENTS.kernels)
    src = _beside(src, index._layout)
    return ReduceElements.apply(input, dim, index, src, reduce, as_flag(include_self))


@public
@takes_out
def index_reduce(
    input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:  # fmt: skip
    """The "prod", "mean", "amax" or "amin" of the slices of ``source`` along ``dim`` that go to one place.

    The slice k goes to place index[k]. What ``input`` has there counts, too, unless ``include_self`` is False.
    """
    _check("index_reduce", input, reduce, ROWS.kernels)
    return ReduceRows.apply(input, dim, index, source, reduce, as_flag(include_self))


for _function in (scatter_reduce, index_reduce):
    method(inplace_form(_function))
