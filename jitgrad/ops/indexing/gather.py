"""Reading, writing and adding along one dim at places that an index tensor names."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitgrad.core.dtypes import int64
from jitgrad.core.layout import Layout, intern, normalize_dim
from jitgrad.core.storage import counter_of, empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch import table
from jitgrad.dispatch.batch_rules import BatchedCall, one_by_one, over_dims
from jitgrad.dispatch.inplace_ops import InplaceOp, through_rows
from jitgrad.dispatch.op_samples import cases, draw, draw_ints
from jitgrad.dispatch.registry import method, public
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.launch import launch
from jitgrad.kernels.loops import indexing as kernels
from jitgrad.ops.creation.constants import convert_number, zeros
from jitgrad.ops.creation.from_data import tensor
from jitgrad.ops.indexing.index_errors import check_index, check_source, out_of_range
from jitgrad.ops.shape.copy import cast, contiguous
from jitgrad.ops.shape.join import cat
from jitgrad.ops.shape.slicing import zeros_of

__all__ = ["IndexSelect", "checked_index", "folded", "new_like", "number_of", "row_blocks", "sample_places"]


def row_blocks(shape: tuple[int, ...], dim: int) -> tuple[int, int, int]:
    """A shape as (outer, n, inner) round ``dim``; a tensor without dims counts as a vector."""
    if not shape:
        return (1, 1, 1)
    return math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])


def checked_index(index: Tensor, n: int, raise_for: Any) -> Tensor:
    """A row-major int64 index without history, all of it in 0 .. n - 1; else ``raise_for(value)``."""
    plain = contiguous(cast(index.detach(), int64))
    found = np.zeros(2, np.int64)
    launch(kernels.first_outside, plain._data.reshape(-1), found, 0, n)
    if found[0]:
        raise_for(int(found[1]))
    return plain


def folded(x: Tensor, blocks: tuple[int, int, int]) -> Any:
    """The values of ``x``, row-major, as an (outer, n, inner) array."""
    return contiguous(wrap(x._data, x._layout))._data.reshape(blocks)


def new_like(layout: Layout, shape: tuple[int, ...]) -> Tensor:
    """An uninitialised row-major tensor with the dtype and device of ``layout``."""
    made = intern(layout.numpy_dtype, shape, None, layout.device)
    return wrap(empty_for(made), made)


def number_of(value: Any, x: Tensor) -> Any:
    """A number for a kernel that writes it into ``x``."""
    return convert_number(value, x._layout.dtype)


def sample_places(*values: int) -> Tensor:
    """An index for samples."""
    data = np.array(values, np.int64)
    return wrap(data, intern(data.dtype, data.shape, None, "cpu"))


# -- whole slices ---------------------------------------------------------------------------------------


def _vector_index(op: str, index: Tensor, n: int, dim: int = 0) -> Tensor:
    check_index(op, index._layout)

    def refuse(value: int) -> None:
        raise out_of_range(op, value, dim, n)

    return checked_index(index, n, refuse).reshape(-1)


def _select_lot(call: BatchedCall) -> Any:
    """An index for each sample is one of gather."""
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


def _rows_lot(call: BatchedCall) -> Any:
    """Slices written at places that all samples share."""
    n = call.ndim("x")
    if "index" in call.batched or not n:
        return one_by_one(call)
    changed = {"source": call.whole("source")} if "source" in call.args else {}
    return call.run(x=call.whole("x"), dim=normalize_dim(call["dim"], n) + 1, **changed)


class IndexSelect(Structured, public=True):
    """The slices along ``dim`` that ``index`` names, an int vector; copied."""

    linear = ("x",)
    batch = _select_lot
    samples = cases(
        lambda: (draw(3, 4), 0, draw_ints(5, below=3)),
        lambda: (draw(3, 4), 1, draw_ints(2, below=4)),
    )

    def forward(x, dim, index):
        shape = x._layout.shape
        d = normalize_dim(dim, len(shape))
        blocks = row_blocks(shape, d)
        places = _vector_index("index_select", index, blocks[1])
        m = places._layout.numel
        out = new_like(x._layout, (*shape[:d], m, *shape[d + 1 :]) if shape else ())
        launch(kernels.take_rows, folded(x, blocks), places._data, out._data.reshape(blocks[0], m, blocks[2]))
        return out

    def grad_x(g, x_layout, dim, index):
        return IndexAdd.apply(zeros_of(x_layout), dim, index, g)


def _write_rows(kernel: Any, op: str, x: Tensor, dim: int, index: Tensor, source: Tensor) -> None:
    d = normalize_dim(dim, x._layout.ndim)
    check_index(op, index._layout)
    check_source(op, x._layout, d, index._layout, source._layout)
    blocks = row_blocks(x._layout.shape, d)
    places = _vector_index(op, index, blocks[1], d)
    rows = folded(source, (blocks[0], places._layout.numel, blocks[2]))
    through_rows(x, lambda data: launch(kernel, rows, places._data, data.reshape(blocks)))


class IndexAdd(InplaceOp, public=True):
    """Add ``alpha`` times the slices of ``source`` to the slices along ``dim`` that ``index`` names."""

    jointly_linear = ("x", "source")
    batch = _rows_lot
    samples = cases(
        lambda: (draw(3, 4), 0, draw_ints(5, below=3), draw(5, 4, seed=1), 0.5),
        lambda: (draw(4, 3).t(), 0, draw_ints(5, below=3), draw(5, 4, seed=1)),
    )

    def write(x, dim, index, source, alpha=1):
        source = source if alpha == 1 else table.mul(wrap(source._data, source._layout), alpha)
        _write_rows(kernels.add_rows, "index_add", x, dim, index, source)

    def grad_x(g):
        return g

    def grad_source(g, dim, index, source_layout, alpha):
        part = IndexSelect.apply(g, dim, index).reshape(source_layout.shape)
        return part if alpha == 1 else part * alpha


class IndexCopy(InplaceOp, public=True):
    """Set the slices along ``dim`` that ``index`` names to those of ``source``."""

    jointly_linear = ("x", "source")
    batch = _rows_lot
    samples = cases(lambda: (draw(4, 2), 0, sample_places(2, 0), draw(2, 2, seed=1)))

    def write(x, dim, index, source):
        _write_rows(kernels.put_rows, "index_copy", x, dim, index, source)

    def grad_x(g, dim, index):
        return IndexFill.apply(g, dim, index, 0)

    def grad_source(g, dim, index, source_layout):
        return IndexSelect.apply(g, dim, index).reshape(source_layout.shape)


class IndexFill(InplaceOp):
    """Set the slices along ``dim`` that ``index`` names to a number."""

    batch = _rows_lot
    name, grad_name = "index_fill_number", "IndexFillBackward0"
    samples = cases(lambda: (draw(4, 2), 0, sample_places(2, 0), 1.5))

    def write(x, dim, index, value):
        d = normalize_dim(dim, x._layout.ndim)
        outer, n, inner = row_blocks(x._layout.shape, d)
        places = _vector_index("index_fill", index, n, d)
        rows = new_like(x._layout, (outer, places._layout.numel, inner))
        rows.fill_(value.detach() if isinstance(value, Tensor) else value)
        through_rows(x, lambda data: launch(kernels.put_rows, rows._data, places._data, data.reshape(outer, n, inner)))

    def grad_x(g, dim, index):
        return IndexFill.apply(g, dim, index, 0)


class IndexFillWith(InplaceOp):
    """Set the slices along ``dim`` that ``index`` names to the value of a tensor without dimensions."""

    name, grad_name = "index_fill_tensor", "IndexFillBackward1"
    samples = cases(lambda: (draw(4, 2), 0, sample_places(2, 0), draw(seed=1)))

    def write(x, dim, index, value):
        if value._layout.ndim:
            raise RuntimeError(
                "index_fill_ only supports a 0-dimensional value tensor, but got tensor with "
                f"{value._layout.ndim} dimension(s)."
            )
        IndexFill.write(x, dim, index, value)

    def grad_x(g, dim, index):
        return IndexFill.apply(g, dim, index, 0)

    def grad_value(g, dim, index, value_layout):
        return cast(IndexSelect.apply(g, dim, _distinct(index)).sum(), value_layout.dtype)


def _distinct(index: Tensor) -> Tensor:
    """An index without repetitions: a slice that is filled twice counts once."""
    return tensor(np.unique(index._data), dtype=int64, device=index.device)


def index_fill_(self: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """Set the slices along ``dim`` that ``index`` names to a number, or a tensor without dimensions."""
    return (IndexFillWith if isinstance(value, Tensor) else IndexFill).inplace(self, dim, index, value)


@public
def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """A copy with the slices along ``dim`` that ``index`` names set to a number, or a tensor without dimensions."""
    return (IndexFillWith if isinstance(value, Tensor) else IndexFill).apply(input, dim, index, value)


method(index_fill_)


# -- an index for every element -------------------------------------------------------------------------


def _element_index(op: str, x: Tensor, dim: int, index: Tensor, source: Tensor | None = None) -> tuple[int, Tensor]:
    """(dim, checked index) of gather and scatter, whose index has the rank of ``x``."""
    layout = x._layout
    d = normalize_dim(dim, layout.ndim)
    if index._layout.dtype.name not in ("int32", "int64"):
        raise RuntimeError(f"{op}(): Expected dtype int32/int64 for index")
    if max(index._layout.ndim, 1) != max(layout.ndim, 1) and index._layout.numel:
        raise RuntimeError(f"Index tensor must have the same number of dimensions as {_who(op)} tensor")
    _check_sizes(op, layout, d, index._layout, source)
    n = layout.shape[d] if layout.ndim else 1

    def refuse(value: int) -> None:
        raise RuntimeError(f"index {value} is out of bounds for dimension {d} with size {n}")

    return d, checked_index(index, n, refuse)


def _who(op: str) -> str:
    return "input" if op == "gather" else "self"


def _check_sizes(op: str, x: Layout, dim: int, index: Layout, source: Tensor | None) -> None:
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
    """The part of ``x`` that lies beside the index: sizes cut to its own (``whole``: not along dim)."""
    part = wrap(x._data, x._layout)
    part._counter = counter_of(x)
    if not index.ndim or not x._layout.ndim:
        return part
    cuts = tuple([slice(None) if whole and d == dim else slice(n) for d, n in enumerate(index.shape)])
    data = x._data[cuts]
    strides = x._layout.strides
    return wrap(data, intern(x._layout.numpy_dtype, data.shape, strides, x._layout.device))


def _scatter_into(kernel: Any, x: Tensor, dim: int, index: Tensor, *source: Any) -> None:
    if not index._layout.numel:
        return
    part = _beside(x, index._layout, dim, whole=True)
    blocks = row_blocks(part._layout.shape, dim)
    outer, m, inner = blocks[0], row_blocks(index._layout.shape, dim)[1], blocks[2]
    places = index._data.reshape(outer, m, inner)
    if isinstance(source[0], Tensor):
        rows = folded(_beside(source[0], index._layout, dim, whole=False), (outer, m, inner))
        through_rows(part, lambda data: launch(kernel, rows, places, data.reshape(blocks)))
    else:
        through_rows(part, lambda data: launch(kernel, places, data.reshape(blocks), source[0]))


class Gather(Structured, public=True):
    """out[i][j] = x[index[i][j]][j] along dim 0, and likewise along others; of the index's shape."""

    linear = ("x",)
    batch = over_dims("dim")
    samples = cases(
        lambda: (draw(2, 3), 1, draw_ints(2, 4, below=3)),
        lambda: (draw(3, 4), 0, draw_ints(2, 2, below=3)),
    )

    def forward(x, dim, index, sparse_grad=False):
        d, places = _element_index("gather", x, dim, index)
        out = new_like(x._layout, index._layout.shape)
        if not out._layout.numel:
            return out
        part = _beside(x, index._layout, d, whole=True)
        blocks = row_blocks(part._layout.shape, d)
        inner = (blocks[0], row_blocks(index._layout.shape, d)[1], blocks[2])
        launch(kernels.gather, folded(part, blocks), places._data.reshape(inner), out._data.reshape(inner))
        return out

    def grad_x(g, x_layout, dim, index):
        return ScatterAdd.apply(zeros_of(x_layout), dim, index, g)


class ScatterAdd(InplaceOp, public=True):
    """Add src[i][j] to x[index[i][j]][j] along dim 0, and likewise along others."""

    jointly_linear = ("x", "src")
    batch = over_dims("dim")
    samples = cases(
        lambda: (draw(2, 3), 1, draw_ints(2, 4, below=3), draw(2, 4, seed=1)),
        lambda: (draw(3, 4), 0, draw_ints(2, 2, below=3), draw(3, 3, seed=1)),
    )

    def write(x, dim, index, src):
        d, places = _element_index("scatter", x, dim, index, src)
        _scatter_into(kernels.scatter_add, x, d, places, src)

    def grad_x(g):
        return g

    def grad_src(g, dim, index, src_layout):
        return _at_source(g, dim, index, src_layout)


def _at_source(g: Tensor, dim: int, index: Tensor, layout: Layout) -> Tensor:
    """The gradient of a source: gathered, with zeros where the index does not reach."""
    part = Gather.apply(g, dim, index)
    for d, n in enumerate(index._layout.shape):
        if n < layout.shape[d]:
            shape = part._layout.shape
            rest = zeros((*shape[:d], layout.shape[d] - n, *shape[d + 1 :]), dtype=part.dtype)
            part = cat([part, rest], d)
    return part


class Scatter(InplaceOp):
    """Set x[index[i][j]][j] to src[i][j] along dim 0, and likewise along others."""

    jointly_linear = ("x", "src")
    batch = over_dims("dim")
    name = "scatter_source"
    samples = cases(lambda: (draw(3, 2), 0, sample_places(2, 0).reshape(2, 1), draw(3, 2, seed=1)))

    def write(x, dim, index, src):
        d, places = _element_index("scatter", x, dim, index, src)
        _scatter_into(kernels.scatter, x, d, places, src)

    def grad_x(g, dim, index):
        return ScatterValue.apply(g, dim, index, 0)

    def grad_src(g, dim, index, src_layout):
        return _at_source(g, dim, index, src_layout)


class ScatterValue(InplaceOp):
    """Set x[index[i][j]][j] to a number along dim 0, and likewise along others."""

    batch = over_dims("dim")
    grad_name = "ScatterBackward1"
    samples = cases(lambda: (draw(3, 2), 0, draw_ints(2, 2, below=3), 1.5))

    def write(x, dim, index, value):
        d, places = _element_index("scatter", x, dim, index)
        _scatter_into(kernels.scatter_fill, x, d, places, number_of(value, x))

    def grad_x(g, dim, index):
        return ScatterValue.apply(g, dim, index, 0)


def scatter(input: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None) -> Tensor:
    """A copy with elements along ``dim`` set: x[index[i][j]][j] = src[i][j], or a number."""
    given = value if src is None else src
    return (Scatter if isinstance(given, Tensor) else ScatterValue).apply(input, dim, index, given)


def scatter_(self: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None) -> Tensor:
    """In-place version of ``scatter``."""
    given = value if src is None else src
    return (Scatter if isinstance(given, Tensor) else ScatterValue).inplace(self, dim, index, given)


public(scatter)
method(scatter_)
