"""Gather and scatter: reading, writing and adding along one dim by an index for every element."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.layout import Layout, intern, normalize_dim
from jitgrad.core.storage import counter_of
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.core.wrapped import outermost_wrapped
from jitgrad.dispatch.batch_rules import over_dims
from jitgrad.dispatch.copying import filled
from jitgrad.dispatch.inplace_ops import InplaceOp, through_rows
from jitgrad.dispatch.op_samples import cases, draw, draw_ints
from jitgrad.dispatch.operand_checks import check_inplace_target
from jitgrad.dispatch.registry import method, public
from jitgrad.dispatch.structured import Structured
from jitgrad.dispatch.underived import underived
from jitgrad.kernels.launch import launch
from jitgrad.kernels.loops import indexing as kernels
from jitgrad.ops.creation.constants import convert_number
from jitgrad.ops.indexing.places import (
    blocks_around,
    checked_index,
    empty_like_layout,
    in_blocks,
    places_for_samples,
    row_major,
    written,
)
from jitgrad.ops.shape.join import Cat
from jitgrad.ops.shape.slicing import zeros_of

__all__ = ["Gather"]


def _element_index(op: str, x: Tensor, dim: int, index: Tensor, source: Tensor | None = None) -> tuple[int, Tensor]:
    """(dim, checked index) of gather and scatter, whose index has the rank of ``x``."""
    layout = x._layout
    d = normalize_dim(dim, layout.ndim)
    if index._layout.dtype.name not in ("int32", "int64") and index._layout.numel:
        raise RuntimeError(f"{op}(): Expected dtype int32/int64 for index")
    if max(index._layout.ndim, 1) != max(layout.ndim, 1) and index._layout.numel:
        who = "input" if op == "gather" else "self"
        raise RuntimeError(f"Index tensor must have the same number of dimensions as {who} tensor")
    _check_sizes(layout, d, index._layout, source)
    n = layout.shape[d] if layout.ndim else 1

    def refuse(value: int) -> None:
        raise RuntimeError(f"index {value} is out of bounds for dimension {d} with size {n}")

    return d, checked_index(index, n, refuse)


def _check_sizes(x: Layout, dim: int, index: Layout, source: Tensor | None) -> None:
    """RuntimeError where the index is larger than ``x`` in a dim other than ``dim``, or than the source in any."""
    outside = [d for d, (n, m) in enumerate(zip(index.shape, x.shape, strict=False)) if d != dim and n > m]
    if source is None:
        if outside:
            raise RuntimeError(
                f"Size does not match at dimension {outside[0]} expected index {list(index.shape)} to be no larger "
                f"than self {list(x.shape)} apart from dimension {dim}"
            )
        return
    if source._layout.dtype is not x.dtype:
        raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")
    shape = source._layout.shape
    if len(shape) != len(index.shape) and index.numel:
        raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")
    if outside or any(n > m for n, m in zip(index.shape, shape, strict=False)):
        raise RuntimeError(
            f"Expected index {list(index.shape)} to be no larger than self {list(x.shape)} apart from dimension {dim} "
            f"and to be no larger size than src {list(shape)}"
        )


def _beside(x: Tensor, index: Layout, dim: int, whole: bool) -> Tensor:
    """A view of the first elements of ``x``, as many in each dim as the index has (``whole``: all along ``dim``)."""
    part = wrap(x._data, x._layout)
    # A write through the part is one of x.
    part._counter = counter_of(x)
    if not index.ndim or not x._layout.ndim:
        return part
    cuts = tuple([slice(None) if whole and d == dim else slice(n) for d, n in enumerate(index.shape)])
    data = x._data[cuts]
    strides = x._layout.strides
    return wrap(data, intern(x._layout.numpy_dtype, data.shape, strides, x._layout.device))


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


class Gather(Structured, public=True):
    """out[i][j] = x[index[i][j]][j] along dim 0, and likewise along others; of the index's shape."""

    linear = ("x",)
    batch = over_dims("dim")
    samples = cases(
        lambda: (draw(2, 3), 1, draw_ints(2, 4, below=3)),
        lambda: (draw(3, 4), 0, draw_ints(2, 2, below=3)),
    )
    reference = _gathered

    def forward(x, dim, index, sparse_grad=False):
        d, places = _element_index("gather", x, dim, index)
        out = empty_like_layout(x._layout, index._layout.shape)
        if not out._layout.numel:
            return out
        part = _beside(x, index._layout, d, whole=True)
        blocks = blocks_around(part._layout.shape, d)
        inner = (blocks[0], blocks_around(index._layout.shape, d)[1], blocks[2])
        launch(kernels.gather, in_blocks(part, blocks), places._data.reshape(inner), out._data.reshape(inner))
        return out

    def grad_x(g, x_layout, dim, index):
        return ScatterAdd.apply(zeros_of(x_layout), dim, index, g)

    def kernel_x(g, x_layout, dim, index):
        out = zeros_of(x_layout)
        ScatterAdd.write(out, dim, index, g)
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


def _cut(src: Any, index: Any) -> Any:
    """The part of NumPy's ``src`` that lies beside the index."""
    return src[tuple(map(slice, index.shape))]


class ScatterAdd(SourceOp, public=True):
    """Add src[i][j] to x[index[i][j]][j] along dim 0, and likewise along others."""

    samples = cases(
        lambda: (draw(2, 3), 1, draw_ints(2, 4, below=3), draw(2, 4, seed=1)),
        lambda: (draw(3, 4), 0, draw_ints(2, 2, below=3), draw(3, 3, seed=1)),
    )
    reference = lambda x, dim, index, src: written(x, _cut(src, index), _gathered, dim, index, add=True)

    def write(x, dim, index, src):
        d, places = _element_index("scatter", x, dim, index, src)
        _scatter_into(kernels.scatter_add, x, d, places, src)

    def grad_x(g):
        return g


class ScatterSource(SourceOp):
    """Set x[index[i][j]][j] to src[i][j] along dim 0, and likewise along others."""

    grad_name = "ScatterBackward0"
    samples = cases(lambda: (draw(3, 2), 0, places_for_samples(2, 0).reshape(2, 1), draw(3, 2, seed=1)))
    reference = lambda x, dim, index, src: written(x, _cut(src, index), _gathered, dim, index)

    def write(x, dim, index, src):
        d, places = _element_index("scatter", x, dim, index, src)
        _scatter_into(kernels.scatter, x, d, places, src)


class ScatterValue(ElementsOp):
    """Set x[index[i][j]][j] to a number along dim 0, and likewise along others."""

    grad_name = "ScatterBackward1"
    samples = cases(lambda: (draw(3, 2), 0, draw_ints(2, 2, below=3), 1.5))
    reference = lambda x, dim, index, value: written(x, value, _gathered, dim, index)

    def write(x, dim, index, value):
        d, places = _element_index("scatter", x, dim, index)
        _scatter_into(kernels.scatter_fill, x, d, places, convert_number(value, x._layout.dtype))


def _reduced(x: Any, dim: int, index: Any, src: Any, reduce: str) -> Any:
    """The reference of ScatterReduce."""
    coordinates, out = list(np.indices(index.shape, sparse=True)), x.copy()
    coordinates[dim] = index
    (np.add if reduce == "add" else np.multiply).at(out, tuple(coordinates), _cut(src, index))
    return out


class ScatterReduce(InplaceOp):
    """Add ``src`` to the elements that ``index`` names, or multiply them by it; without a gradient."""

    batch = over_dims("dim")
    name, copy_strides = "scatter_reduced", "row-major"
    samples = cases(
        lambda: (draw(2, 3).detach(), 1, draw_ints(2, 4, below=3), draw(2, 4, seed=1), "add"),
        lambda: (draw(2, 3).detach(), 1, draw_ints(2, 4, below=3), draw(2, 4, seed=1), "multiply"),
    )

    reference = _reduced

    def write(x, dim, index, src, reduce):
        d, places = _element_index("scatter", x, dim, index, src)
        _scatter_into(kernels.scatter_add if reduce == "add" else kernels.scatter_multiply, x, d, places, src)


def _scatter_reduced(x: Tensor, dim: int, index: Tensor, given: Any, reduce: str, inplace: bool) -> Tensor:
    """``scatter`` with ``reduce``: backward through the result raises, as in PyTorch."""
    if reduce not in ("add", "multiply"):
        raise RuntimeError("reduce argument must be either add or multiply.")
    if not isinstance(given, Tensor):
        given = filled(row_major(x._layout, index._layout.shape), convert_number(given, x._layout.dtype))
    name = "scatter_" if inplace else "scatter"
    if grad_state.levels and (wrapped := outermost_wrapped((x, given))) is not None and not wrapped._level.randomness:
        raise NotImplementedError(f"Trying to use forward AD with aten::{name} that does not support it.")
    if inplace:
        check_inplace_target(x, grad_state.enabled and (x._requires_grad or given._requires_grad))
    write = ScatterReduce.inplace if inplace else ScatterReduce.apply
    result = write(x.detach(), dim, index, given.detach(), reduce)
    return underived(f"aten::{name}", x if inplace else result, x, given)


def scatter(
    input: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None, reduce: str | None = None
) -> Tensor:  # fmt: skip
    """A copy with elements along ``dim`` set: x[index[i][j]][j] = src[i][j], or a number.

    With ``reduce="add"`` or ``"multiply"`` they are added to or multiplied instead, without a gradient.
    """
    given = value if src is None else src
    if reduce is not None:
        return _scatter_reduced(input, dim, index, given, reduce, inplace=False)
    return (ScatterSource if isinstance(given, Tensor) else ScatterValue).apply(input, dim, index, given)


def scatter_(
    self: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None, reduce: str | None = None
) -> Tensor:  # fmt: skip
    """In-place version of ``scatter``."""
    given = value if src is None else src
    if reduce is not None:
        return _scatter_reduced(self, dim, index, given, reduce, inplace=True)
    return (ScatterSource if isinstance(given, Tensor) else ScatterValue).inplace(self, dim, index, given)


public(scatter)
method(scatter_)
