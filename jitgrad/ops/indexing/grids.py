"""Grids of coordinates: meshgrid, and the indices of triangles."""

from __future__ import annotations

from typing import Any

from jitgrad.core.errors import type_name
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.inplace_ops import InplaceOp
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import int_argument
from jitgrad.ops.creation.constants import ones
from jitgrad.ops.creation.fill import Tril, Triu
from jitgrad.ops.indexing.nonzero import nonzero
from jitgrad.ops.shape.copy import Contiguous
from jitgrad.ops.shape.expand import shapes_broadcast

__all__: list[str] = []


def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Each of some vectors, repeated over a grid that has a dim for each of them ("xy": the first two exchanged)."""
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    if not given:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    order = "ij" if indexing is None else indexing
    if order not in ("ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    for k, t in enumerate(given):
        if not isinstance(t, Tensor):
            raise TypeError(f"expected Tensor as element {k} in argument 0, but got {type_name(t)}")
        if t._layout.ndim > 1:
            raise RuntimeError(f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {t}")
        if t._layout.dtype is not given[0]._layout.dtype:
            raise RuntimeError("meshgrid expects all tensors to have the same dtype")
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


def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Rows and columns of the elements that ``tril`` keeps, int64 of shape (2, count)."""
    return _indices_of(Tril, row, col, offset, dtype)


def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Rows and columns of the elements that ``triu`` keeps, int64 of shape (2, count)."""
    return _indices_of(Triu, row, col, offset, dtype)


def _indices_of(triangle: type[InplaceOp], row: int, col: int, offset: int, dtype: Any) -> Tensor:
    name = f"{triangle.name}_indices"
    sizes = [int_argument(name, n, k, v) for k, (n, v) in enumerate((("row", row), ("col", col)), 1)]
    found = Contiguous.apply(nonzero(triangle.apply(ones(*sizes), offset)).t())
    return found if dtype is None else found.to(dtype)


public(tril_indices, method_too=False)
public(triu_indices, method_too=False)
