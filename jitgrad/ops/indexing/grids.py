"""Grids of coordinates: meshgrid, the indices of triangles, pairs and other choices, places as coordinates."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from jitgrad.core.dtypes import int64
from jitgrad.core.layout import CAPACITY, intern, layout_of
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.core.user_frame import warn_once
from jitgrad.dispatch.copying import filled
from jitgrad.dispatch.operand_checks import check_tensors
from jitgrad.dispatch.planned import Launches, Written, planned
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import as_flag, int_argument
from jitgrad.kernels.loops.fill import triangle_indices
from jitgrad.ops.creation.from_data import tensor
from jitgrad.ops.indexing.index_select import IndexSelect
from jitgrad.ops.shape.expand import Expand, shapes_broadcast
from jitgrad.ops.shape.join import Stack
from jitgrad.ops.shape.split import unbind
from jitgrad.ops.shape.view import UnsafeView, reshaped

__all__: list[str] = []


def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Each of some vectors, repeated over a grid that has a dim for each of them ("xy": the first two exchanged)."""
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    if not given:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    if indexing is None:
        warn_once("torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument.")
    order = "ij" if indexing is None else indexing
    if order not in ("ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    check_tensors(given)
    for t in given:
        if t._layout.ndim > 1:
            raise RuntimeError(f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {t}")
        if t._layout.dtype is not given[0]._layout.dtype:
            raise RuntimeError("meshgrid expects all tensors to have the same dtype")
        if t._layout.device != given[0]._layout.device:
            raise RuntimeError("meshgrid expects all tensors to have the same device")
    vectors = [t if t._layout.ndim else t.reshape(-1) for t in given]
    if order == "xy" and len(vectors) > 1:
        return _exchanged(vectors)
    shape, along = _grid(tuple([v._layout.shape[0] for v in vectors]))
    return tuple([Expand.apply(reshaped(v, s), shape) for v, s in zip(vectors, along, strict=True)])


@functools.lru_cache(CAPACITY)
def _grid(sizes: tuple[int, ...]) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """The shape of a grid, and those that vectors of such sizes have along its dims."""
    n = len(sizes)
    along = [(1,) * k + (size,) + (1,) * (n - k - 1) for k, size in enumerate(sizes)]
    return tuple(shapes_broadcast(*along)), along


def _exchanged(vectors: list[Tensor]) -> tuple[Tensor, ...]:
    second, first, *rest = meshgrid(vectors[1], vectors[0], *vectors[2:], indexing="ij")
    return (first, second, *rest)


def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Rows and columns of the elements that ``tril`` keeps, int64 of shape (2, count)."""
    return _indices_of("tril_indices", row, col, offset, dtype)


def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Rows and columns of the elements that ``triu`` keeps, int64 of shape (2, count)."""
    return _indices_of("triu_indices", row, col, offset, dtype)


def _indices_of(name: str, row: int, col: int, offset: int, dtype: Any) -> Tensor:
    named = {"row": row, "col": col, "offset": offset}
    given = [int_argument(name, label, k, value) for k, (label, value) in enumerate(named.items(), 1)]
    for label, size in zip(("row", "col"), given, strict=False):
        if size < 0:
            raise RuntimeError(f"{label} must be non-negative, got{size}")  # the missing space is PyTorch's
    found = _triangle_indices(*given, name == "tril_indices")
    return found if dtype is None else found.to(dtype)


@planned()
def _triangle_indices(row, col, offset, lower):
    cuts = (np.arange(row) + offset + lower).clip(0, col)
    count = int((cuts if lower else col - cuts).sum())
    launch = triangle_indices, Written(0), col, offset, lower
    return Launches([launch] if count else [], [intern(int64.numpy, (2, count))])


def cartesian_prod(*tensors: Any) -> Tensor:
    """All choices of one element of each vector, a row for each; of a single vector, the vector."""
    check_tensors(tensors)
    for t in tensors:
        _check_vector(t)
    if len(tensors) == 1:
        only: Tensor = tensors[0]
        return only
    return Stack.apply([t.reshape(-1) for t in meshgrid(*tensors, indexing="ij")], 1)


def _check_vector(x: Any) -> None:
    if x._layout.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(x._layout.shape)}")


def _choices(n: int, r: int, repeated: bool) -> np.ndarray:
    """The places of all choices of ``r`` of ``n`` things: only sizes say which, so they are no kernel's result."""
    if r > n and not (n and repeated):
        return np.empty((0, r), np.int64)
    places = np.arange(n).reshape(n, 1)
    for _ in range(r - 1):  # each choice of one element less, with all that may follow its last
        first = places[:, -1] + (0 if repeated else 1)
        counts = (n - first).clip(0)
        starts = np.repeat(first - counts.cumsum() + counts, counts)
        places = np.column_stack([places.repeat(counts, 0), np.arange(counts.sum()) + starts])
    return places


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All choices of ``r`` elements of a vector, a row for each, in its order; ``with_replacement`` also repeated."""
    _check_vector(input)
    r, n = int_argument("combinations", "r", 2, r), input._layout.numel
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if not r:
        return filled(intern(input._layout.numpy_dtype, (0,)), 0)
    places = _choices(n, r, as_flag(with_replacement))
    index = np.ascontiguousarray(places.reshape(-1))
    return UnsafeView.apply(IndexSelect.apply(input, 0, wrap(index, layout_of(index))), places.shape)


def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """Places counted row by row in a tensor of ``shape`` as coordinates, a tensor for each of its dims."""
    if indices._layout.dtype.category != 1:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    if not isinstance(shape, (int, tuple, list)):
        raise TypeError(f"expected 'shape' to be int or sequence of ints, but got {type(shape)}")
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    for n in sizes:
        if not isinstance(n, int):
            raise TypeError(f"expected 'shape' sequence to only contain ints, but got {type(n)}")
    if any(n < 0 for n in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {sizes}")
    strides = [math.prod(sizes[d + 1 :]) for d in range(len(sizes))]
    rows: Any = indices.unsqueeze(-1)
    return unbind(rows.floor_divide(tensor(strides, dtype=int64)) % tensor(sizes, dtype=int64), -1)


for _function in (meshgrid, tril_indices, triu_indices, cartesian_prod, combinations, unravel_index):
    public(_function, method_too=False)
