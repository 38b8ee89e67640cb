"""Copies of a tensor in which one part is another tensor: the parts of ``part``, written instead of read."""

from __future__ import annotations

from typing import Any

from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.batch_rules import over_dims
from jitgrad.dispatch.copying import copy_into
from jitgrad.dispatch.inplace_ops import InplaceOp
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.registry import method, public
from jitgrad.ops.creation.constants import ones
from jitgrad.ops.creation.fill import Tril, Triu, zeros_like
from jitgrad.ops.indexing.mask import nonzero
from jitgrad.ops.shape.expand import shapes_broadcast
from jitgrad.ops.shape.slicing import Diagonal, Select, Slice

__all__ = ["DiagonalScatter", "SelectScatter", "SliceScatter"]


def _write(op: str, part: Tensor, source: Tensor) -> None:
    if part._layout.shape != source._layout.shape:
        raise RuntimeError(
            f"expected src to have a size equal to the {op} of self. src size = {list(source._layout.shape)}, "
            f"{op} size = {list(part._layout.shape)}"
        )
    copy_into(part._data, part._layout, source)


class SelectScatter(InplaceOp, public="function"):
    """A copy whose slice at ``index`` of dim ``dim`` is ``src``."""

    jointly_linear = ("x", "src")
    batch = over_dims("dim")
    samples = cases(lambda: (draw(2, 3), draw(2, seed=1), 1, -1))

    def write(x, src, dim, index):
        _write("slice", Select.forward(wrap(x._data, x._layout), dim, index), src)

    def grad_x(g, dim, index):
        return SelectScatter.apply(g, zeros_like(Select.apply(g, dim, index)), dim, index)

    def grad_src(g, dim, index):
        return Select.apply(g, dim, index)


class SliceScatter(InplaceOp, public="function"):
    """A copy whose elements ``start``, ``start + step``, ... below ``end`` of dim ``dim`` are ``src``."""

    jointly_linear = ("x", "src")
    batch = over_dims("dim")
    samples = cases(lambda: (draw(2, 5), draw(2, 2, seed=1), 1, 1, 4, 2))

    def write(x, src, dim=0, start=None, end=None, step=1):
        _write("slice", Slice.forward(wrap(x._data, x._layout), *_range(x, dim, start, end, step)), src)

    def grad_x(g, dim, start, end, step):
        part = Slice.apply(g, *_range(g, dim, start, end, step))
        return SliceScatter.apply(g, zeros_like(part), dim, start, end, step)

    def grad_src(g, dim, start, end, step):
        return Slice.apply(g, *_range(g, dim, start, end, step))


def _range(x: Tensor, dim: int, start: Any, end: Any, step: int) -> tuple[int, int, int, int]:
    d = dim % x._layout.ndim
    first, last, _ = slice(start, end, step).indices(x._layout.shape[d])
    return d, first, max(first, last), step


class DiagonalScatter(InplaceOp, public="function"):
    """A copy whose diagonal, as ``diagonal`` takes it, is ``src``."""

    jointly_linear = ("x", "src")
    batch = over_dims("dim1", "dim2")
    samples = cases(lambda: (draw(3, 4), draw(3, seed=1), 1))

    def write(x, src, offset=0, dim1=0, dim2=1):
        _write("diagonal", Diagonal.forward(wrap(x._data, x._layout), offset, dim1, dim2), src)

    def grad_x(g, offset, dim1, dim2):
        return DiagonalScatter.apply(g, zeros_like(Diagonal.apply(g, offset, dim1, dim2)), offset, dim1, dim2)

    def grad_src(g, offset, dim1, dim2):
        return Diagonal.apply(g, offset, dim1, dim2)


for _op in (SelectScatter, SliceScatter, DiagonalScatter):
    method(_op.apply, _op.name)


# -- grids ----------------------------------------------------------------------------------------------


def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Each of some vectors, repeated over a grid that has a dim for each of them ("xy": the first two exchanged)."""
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    if not given:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    order = "ij" if indexing is None else indexing
    if order not in ("ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    vectors = [t.reshape(-1) for t in given]
    if order == "xy" and len(vectors) > 1:
        return _exchanged(vectors)
    n = len(vectors)
    shape = shapes_broadcast(*[(1,) * k + (len(v),) + (1,) * (n - k - 1) for k, v in enumerate(vectors)])
    return tuple([v.view((1,) * k + (-1,) + (1,) * (n - k - 1)).expand(shape) for k, v in enumerate(vectors)])


def _exchanged(vectors: list[Tensor]) -> tuple[Tensor, ...]:
    second, first, *rest = meshgrid(vectors[1], vectors[0], *vectors[2:])
    return (first, second, *rest)


public(meshgrid, method_too=False)


def _indices_of(triangle: type[InplaceOp]) -> None:
    def indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Tensor:
        found = nonzero(triangle.apply(ones(row, col), offset)).t().contiguous()
        return found if dtype is None else found.to(dtype)

    indices.__name__ = indices.__qualname__ = f"{triangle.name}_indices"
    indices.__doc__ = f"Rows and columns of the elements that ``{triangle.name}`` keeps, int64 of shape (2, count)."
    public(indices, method_too=False)


_indices_of(Tril)
_indices_of(Triu)
