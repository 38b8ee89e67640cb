"""Gather and scatter: reading, writing and adding along one dim by an index for every element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.core.layout import Layout, cache, intern, normalize_dim
from jitgrad.core.storage import counter_of
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.batch_rules import over_dims
from jitgrad.dispatch.copying import copying, filled
from jitgrad.dispatch.inplace_ops import InplaceOp, through_rows
from jitgrad.dispatch.op_samples import cases, draw, draw_ints
from jitgrad.dispatch.planned import Launches, Read, Written, compiled, planned
from jitgrad.dispatch.planned import row_major as as_blocks
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.launch import Loop, launch, prepared
from jitgrad.kernels.loops import elements as kernels
from jitgrad.kernels.loops.fill import fill
from jitgrad.ops.creation.constants import convert_number
from jitgrad.ops.indexing.places import (
    arranging,
    blocks_around,
    checked_by_kernel,
    checking,
    empty_like_layout,
    in_blocks,
    int64_of,
    places_for_samples,
    row_major,
    written,
)
from jitgrad.ops.shape.join import Cat
from jitgrad.ops.shape.slicing import with_size, zeros_of

__all__ = [
    "ElementsOp", "Gather", "ScatterAdd", "ScatterSource", "ScatterValue", "cut_beside", "into_copy", "write_elements",
]  # fmt: skip


def _checking(op: str, x: Layout, dim: int, index: Layout, source: Layout | None = None) -> tuple[int, Any]:
    """(dim, a function that checks the index) of gather and scatter, whose index has the rank of ``x``."""
    d = normalize_dim(dim, x.ndim)
    if index.dtype.name not in ("int32", "int64") and index.numel:
        raise RuntimeError(f"{op}(): Expected dtype int32/int64 for index")
    if max(index.ndim, 1) != max(x.ndim, 1) and index.numel:
        who = "input" if op == "gather" else "self"
        raise RuntimeError(f"Index tensor must have the same number of dimensions as {who} tensor")
    _check_sizes(op, x, d, index, source)
    n = x.shape[d] if x.ndim else 1
    error_of = lambda value: RuntimeError(f"index {value} is out of bounds for dimension {d} with size {n}")
    return d, checking(index, n, error_of)


def _fitting(x: Layout, d: int, index: Layout, source: Layout | None = None) -> bool:
    """Whether an index has the shape of ``x`` but along ``d``, and that of the source: no part has to be cut out."""
    fits = x.ndim > 0 and index.ndim > 0 and index.numel > 0 and with_size(x, d, index.shape[d]).shape == index.shape
    return fits and x.device == "cpu" and (source is None or source.shape == index.shape)


def _check_sizes(op: str, x: Layout, dim: int, index: Layout, source: Layout | None) -> None:
    """RuntimeError where the index is larger than ``x`` in a dim other than ``dim``, or than the source in any."""
    outside = [d for d, (n, m) in enumerate(zip(index.shape, x.shape, strict=False)) if d != dim and n > m]
    if source is None:
        if outside and op == "gather":
            raise RuntimeError(
                f"Size does not match at dimension {outside[0]} expected index {list(index.shape)} to be no larger "
                f"than self {list(x.shape)} apart from dimension {dim}"
            )
        if outside:
            raise RuntimeError(
                f"Expected index {list(index.shape)} to be no larger than self {list(x.shape)} apart from dimension "
                f"{dim}"
            )
        return
    if source.dtype is not x.dtype:
        raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")
    shape = source.shape
    if max(len(shape), 1) != max(index.ndim, 1) and index.numel:
        raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")
    if outside or any(n > m for n, m in zip(index.shape or (1,), shape or (1,), strict=False)):
        raise RuntimeError(
            f"Expected index {list(index.shape)} to be no larger than self {list(x.shape)} apart from dimension {dim} "
            f"and to be no larger size than src {list(shape)}"
        )


def _beside(x: Tensor, index: Layout, dim: int, whole: bool) -> Tensor:
    """A view of the first elements of ``x``, as many in each dim as the index has (``whole``: all along ``dim``)."""
    part = wrap(x._data, x._layout)
    # A write through the part is one of x.
    part._counter = counter_of(x)
    if not x._layout.ndim:
        return part
    cuts = tuple([slice(None) if whole and d == dim else slice(n) for d, n in enumerate(index.shape or (1,))])
    data = x._data[cuts]
    strides = x._layout.strides
    return wrap(data, intern(x._layout.numpy_dtype, data.shape, strides, x._layout.device))


_WRITES: dict[Any, Callable[..., None]] = cache()


def write_elements(kernel: Loop, x: Tensor, dim: int, index: Tensor, source: Any) -> None:
    """Write a tensor or a number into ``x`` at the places of an index, by a kernel; the index is checked."""
    given = source._layout if isinstance(source, Tensor) else None
    key = kernel, x._layout, dim, type(dim), index._layout, given
    write = _WRITES.get(key)
    if write is None:
        write = _WRITES[key] = _plan_write(kernel, x._layout, dim, index._layout, given)
    write(x, index, source)


def _plan_write(kernel: Loop, x: Layout, dim: int, index: Layout, source: Layout | None) -> Callable[..., None]:
    d, check = _checking("scatter", x, dim, index, source)
    if not (_fitting(x, d, index, source) and x.contiguous and (source is None or source.contiguous)):
        return lambda x, index, source: _scatter_into(kernel, x, d, check(index), source)
    blocks = blocks_around(x.shape, d)
    shape = blocks[0], index.shape[d], blocks[2]
    if source is None:
        fill = prepared(kernel, x.numpy_dtype, shape, blocks, None)
        return lambda x, index, value: fill(check(index)._data.reshape(shape), x._data.reshape(blocks), value)
    writing = kernel, Read("source", shape), Read("index", shape), Read("x", blocks)
    run = compiled(Launches([writing], [], 0), {"x": x, "index": int64_of(index), "source": source})
    return lambda x, index, source: run(x, check(index), source)


def into_copy(kernel: Loop, x: Layout, dim: int, index: Layout, source: Layout | None) -> Callable[..., Tensor]:
    """The plan of a write into a row-major copy of ``x``; a number is the last argument."""
    if kernel in kernels.WRITE_COPIES and x.numel >= BY_BLOCKS_SIZE and source is not None:
        d, check = _checking("scatter", x, dim, index, source)
        blocks = blocks_around(x.shape, d)
        if _fitting(x, d, index, source) and index is int64_of(index) and blocks[0] > 1:
            shape = blocks[0], index.shape[d], blocks[2]
            arrays = as_blocks("x", x, blocks), as_blocks("source", source, shape), Read("index", shape)
            launches = Launches([(kernels.WRITE_COPIES[kernel], *arrays, Written(0, blocks))], [row_major(x, x.shape)])
            run = compiled(launches, {"x": x, "index": index, "source": source})
            return checked_by_kernel(run, lambda x, index, source: run(x, check(index), source))
    write, copy = _plan_write(kernel, x, dim, index, source), copying(x, row_major(x, x.shape))

    def written(x: Tensor, index: Tensor, source: Any) -> Tensor:
        out = copy(x)
        write(out, index, source)
        return out

    return written


# Elements from which a copy is made and written to, or zeros are made and added to, block by block. Fewer stay in a
# cache from one launch to the next.
BY_BLOCKS_SIZE = 1 << 18


def _scatter_into(kernel: Any, x: Tensor, dim: int, index: Tensor, source: Any) -> None:
    """Launch a kernel that writes a tensor or a number into ``x`` at the places of a checked index."""
    if not index._layout.numel:
        return
    part = _beside(x, index._layout, dim, whole=True)
    blocks = blocks_around(part._layout.shape, dim)
    outer, m, inner = blocks[0], blocks_around(index._layout.shape, dim)[1], blocks[2]
    places = index._data.reshape(outer, m, inner)
    if isinstance(source, Tensor):
        rows = in_blocks(_beside(source, index._layout, dim, whole=False), (outer, m, inner))
        through_rows(part, lambda data: launch(kernel, rows, places, data.reshape(blocks)))
    else:
        through_rows(part, lambda data: launch(kernel, places, data.reshape(blocks), source))


def _gathered(x: Any, dim: int, index: Any) -> Any:
    coordinates = list(np.indices(index.shape, sparse=True))
    coordinates[dim] = index
    return x[tuple(coordinates)]


def _gathered_part(x: Tensor, d: int, places: Tensor) -> Tensor:
    """``gather`` along ``d`` by a checked index that may be smaller than ``x``."""
    out = empty_like_layout(x._layout, places._layout.shape)
    if not out._layout.numel:
        return out
    part = _beside(x, places._layout, d, whole=True)
    blocks = blocks_around(part._layout.shape, d)
    inner = (blocks[0], blocks_around(places._layout.shape, d)[1], blocks[2])
    launch(kernels.gather, in_blocks(part, blocks), places._data.reshape(inner), out._data.reshape(inner))
    return out


class Gather(Structured, public=True):
    """out[i][j] = x[index[i][j]][j] along dim 0, and likewise along others; of the index's shape."""

    linear = ("x",)
    batch = over_dims("dim")
    samples = cases(
        lambda: (draw(2, 3), 1, draw_ints(2, 4, below=3)),
        lambda: (draw(3, 4), 0, draw_ints(2, 2, below=3)),
    )
    reference = _gathered

    def plan(x_layout, dim, index_layout, sparse_grad=False):
        d, check = _checking("gather", x_layout, dim, index_layout)
        if not _fitting(x_layout, d, index_layout):
            return lambda x, index: _gathered_part(x, d, check(index))
        blocks = blocks_around(x_layout.shape, d)
        shape = blocks[0], index_layout.shape[d], blocks[2]
        arrays = as_blocks("x", x_layout, blocks), Read("index", shape), Written(0, shape)
        launches = Launches([(kernels.gather, *arrays)], [row_major(x_layout, index_layout.shape)])
        places_layout = int64_of(index_layout)
        read = compiled(launches, {"x": x_layout, "index": places_layout})
        arranged, run = arranging(index_layout), read
        if index_layout is not places_layout:
            run = lambda x, index: read(x, arranged(index))
        return checked_by_kernel(run, lambda x, index: read(x, check(index)))

    def grad_x(g, x_layout, dim, index):
        return ScatterAdd.apply(zeros_of(x_layout), dim, index, g)

    def kernel_x(g, x_layout, dim, index):
        return _spread(g, x_layout, dim, index)


@planned("g", "index")
def _spread(g, x_layout, dim, index):
    """Zeros of a layout, to whose elements those of ``g`` are added that ``gather`` has read there."""
    d, out = normalize_dim(dim, x_layout.ndim), row_major(g, x_layout.shape)
    if not _fitting(x_layout, d, index) or index is not int64_of(index):
        return _spread_any
    blocks = blocks_around(x_layout.shape, d)
    shape = blocks[0], index.shape[d], blocks[2]
    arrays = as_blocks("g", g, shape), Read("index", shape), Written(0, blocks)
    if blocks[0] > 1 and out.numel >= BY_BLOCKS_SIZE:
        return Launches([(kernels.spread_elements, *arrays)], [out])
    clear = fill, Written(0, (out.numel,)), out.numpy_dtype.type(0).item()
    return Launches([clear, (kernels.scatter_add, *arrays)], [out])


def _spread_any(g: Tensor, layout: Layout, dim: int, index: Tensor) -> Tensor:
    """``_spread`` for any index and on any device."""
    out = zeros_of(layout)
    ScatterAdd.write(out, dim, index, g)  # type: ignore[arg-type]
    return out


# -- writes ---------------------------------------------------------------------------------------------


class ElementsOp(InplaceOp, abstract=True):
    """Base of writes to the elements of ``x`` that ``index`` names, one for each of its own.

    What is overwritten has no gradient; an op that adds defines another ``grad_x``.
    """

    batch = over_dims("dim")
    copy_strides = "row-major"

    def grad_x(g, dim, index):
        return ScatterValue.apply(g, dim, index, 0)


class SourceOp(ElementsOp, abstract=True):
    """Base of those that take the elements from a tensor ``src``, at least as large as the index."""

    jointly_linear = ("x", "src")

    def grad_src(g, dim, index, src_layout):
        # The index may be smaller than src: elements of src that it does not reach have a gradient of 0.
        part = Gather.apply(g, dim, index)
        for d, n in enumerate(index._layout.shape):
            shape = part._layout.shape
            if n < src_layout.shape[d]:
                missing = row_major(part._layout, (*shape[:d], src_layout.shape[d] - n, *shape[d + 1 :]))
                part = Cat.apply([part, filled(missing, 0)], d)
        return part


def cut_beside(src: Any, index: Any) -> Any:
    """``src``, an array of NumPy's, cut to the sizes of the index."""
    return src[tuple(map(slice, index.shape))]


class ScatterAdd(SourceOp, public=True):
    """Add src[i][j] to x[index[i][j]][j] along dim 0, and likewise along others."""

    samples = cases(
        lambda: (draw(2, 3), 1, draw_ints(2, 4, below=3), draw(2, 4, seed=1)),
        lambda: (draw(3, 4), 0, draw_ints(2, 2, below=3), draw(3, 3, seed=1)),
    )
    reference = lambda x, dim, index, src: written(x, cut_beside(src, index), _gathered, dim, index, add=True)

    def write(x, dim, index, src):
        write_elements(kernels.scatter_add, x, dim, index, src)

    def plan(x_layout, dim, index_layout, src_layout):
        return into_copy(kernels.scatter_add, x_layout, dim, index_layout, src_layout)

    def grad_x(g):
        return g


class ScatterSource(SourceOp):
    """Set x[index[i][j]][j] to src[i][j] along dim 0, and likewise along others."""

    grad_name = "ScatterBackward0"
    samples = cases(lambda: (draw(3, 2), 0, places_for_samples(2, 0).reshape(2, 1), draw(3, 2, seed=1)))
    reference = lambda x, dim, index, src: written(x, cut_beside(src, index), _gathered, dim, index)

    def write(x, dim, index, src):
        write_elements(kernels.scatter, x, dim, index, src)

    def plan(x_layout, dim, index_layout, src_layout):
        return into_copy(kernels.scatter, x_layout, dim, index_layout, src_layout)


class ScatterValue(ElementsOp):
    """Set x[index[i][j]][j] to a number along dim 0, and likewise along others."""

    grad_name, values = "ScatterBackward1", ("value",)
    samples = cases(lambda: (draw(3, 2), 0, draw_ints(2, 2, below=3), 1.5))
    reference = lambda x, dim, index, value: written(x, value, _gathered, dim, index)

    def write(x, dim, index, value):
        write_elements(kernels.scatter_fill, x, dim, index, convert_number(value, x._layout.dtype))

    def plan(x_layout, dim, index_layout):
        fill, dtype = into_copy(kernels.scatter_fill, x_layout, dim, index_layout, None), x_layout.dtype
        return lambda x, index, value: fill(x, index, convert_number(value, dtype))
