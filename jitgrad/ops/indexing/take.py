"""Reading and writing elements by their place in a row, and gathers whose indices broadcast."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from jitgrad.core.dtypes import int64
from jitgrad.core.errors import scalar_type
from jitgrad.core.layout import normalize_dim
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch import table
from jitgrad.dispatch.batch_rules import BatchedCall, one_by_one
from jitgrad.dispatch.copying import filled
from jitgrad.dispatch.inplace_ops import InplaceOp, through_rows
from jitgrad.dispatch.op_samples import cases, draw, draw_ints
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.planned import Launches, Read, Written, compiled
from jitgrad.dispatch.planned import row_major as as_blocks
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import as_flag
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.launch import SPLIT_SIZE, check, launch
from jitgrad.kernels.loops import indexing as kernels
from jitgrad.ops.indexing.gather import Gather
from jitgrad.ops.indexing.places import (
    checked_by_kernel,
    empty_like_layout,
    in_blocks,
    int64_of,
    places_for_samples,
    row_major,
    written,
)
from jitgrad.ops.shape.copy import contiguous
from jitgrad.ops.shape.expand import shapes_broadcast
from jitgrad.ops.shape.slicing import zeros_of
from jitgrad.ops.shape.view import reshape

__all__ = ["Put", "Take"]


@public
@takes_out
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """As ``gather``, with indices that broadcast; without ``dim`` the tensor counts as one dimension.

    With ``dim`` indices count modulo its size, so -1 is the last element.
    """
    if indices._layout.dtype is not int64:
        raise RuntimeError(
            f"torch.take_along_dim(): dtype of indices should be Long but got {scalar_type(indices.dtype)}"
        )
    if dim is None:
        return Gather.apply(input.reshape(-1), 0, indices.reshape(-1))
    d, x = normalize_dim(dim, input._layout.ndim), input._layout.shape
    if len(x) != indices._layout.ndim:
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, but got "
            f"{len(x)} dimensions for input, and {indices._layout.ndim} dimensions for indices"
        )
    indices = table.remainder_number(indices, x[d]) if x[d] else indices
    if indices._layout.shape == (*x[:d], indices._layout.shape[d], *x[d + 1 :]):
        return Gather.apply(input, d, indices)
    common = tuple(shapes_broadcast((*x[:d], 1, *x[d + 1 :]), indices._layout.shape))
    return Gather.apply(input.expand((*common[:d], x[d], *common[d + 1 :])), d, indices.expand(common))


def _flat_index(op: str, x: Tensor, index: Tensor) -> Tensor:
    """Places in all of ``x`` as a checked vector; negative ones count from the end."""
    if index._layout.dtype is not int64:
        raise RuntimeError(f"{op}(): Expected a long tensor for index, but got {scalar_type(index.dtype)}")
    n = x._layout.numel
    if not n and index._layout.numel:
        tried = "Tried to put elements into an empty tensor" if op == "put_" else "tried to take from an empty tensor"
        raise IndexError(f"{op}(): {tried}")
    rows, found = contiguous(index.detach()), np.zeros(2, np.int64)
    out = empty_like_layout(rows._layout, (rows._layout.numel,))
    launch(kernels.fold_index, rows._data.reshape(-1), out._data, found, n, 1, True)
    check(found, _refuse, n)
    return out


def _refuse(found: np.ndarray, n: int) -> NoReturn:
    raise IndexError(f"out of range: tried to access index {found[1]} on a tensor of {n} elements.")


def _take_batched(call: BatchedCall) -> Any:
    """A batch of indices is one index; the samples of a batched ``x`` would need places shifted, so one by one."""
    return call.run() if call.batched == {"index"} else one_by_one(call)


class Take(Structured, public=True):
    """The elements at ``index``, counted row by row; of the index's shape."""

    linear = ("x",)
    batch = _take_batched
    samples = cases(lambda: (draw(3, 4), draw_ints(2, 2, below=12)))
    reference = np.take

    def plan(x_layout, index_layout):
        m, plain = index_layout.numel, index_layout is int64_of(index_layout) and x_layout.device == "cpu"
        if not plain or not x_layout.numel or not 0 < m < SPLIT_SIZE:
            return _taken
        arrays = as_blocks("x", x_layout, (x_layout.numel,)), Read("index", (m,)), Written(0, (m,))
        launches = Launches([(kernels.take_folded, *arrays)], [row_major(x_layout, index_layout.shape)])
        return checked_by_kernel(compiled(launches, {"x": x_layout, "index": index_layout}), _taken)

    def grad_x(g, x_layout, index):
        return Put.apply(zeros_of(x_layout), index, g, True)


def _taken(x: Tensor, index: Tensor) -> Tensor:
    """``take`` by an index that is checked first."""
    places, n = _flat_index("take", x, index), x._layout.numel
    out = empty_like_layout(x._layout, index._layout.shape)
    launch(kernels.take_rows, in_blocks(x, (1, n, 1)), places._data, out._data.reshape(1, -1, 1))
    return out


def _check_source(x: Tensor, index: Tensor, source: Tensor) -> None:
    """IndexError or RuntimeError unless ``source`` has an element of ``x``'s dtype for each of the index's."""
    given, wanted = source._layout.numel, index._layout.numel
    if given != wanted:
        raise IndexError(
            "put_(): Expected source and index to have the same number of elements, but got source.numel() = "
            f"{given}, index.numel() = {wanted}"
        )
    if source._layout.dtype is not x._layout.dtype:
        raise RuntimeError(
            "put_(): self and source expected to have the same dtype, but got self.dtype = "
            f"{scalar_type(x.dtype)} and source.dtype = {scalar_type(source.dtype)}"
        )


class Put(InplaceOp, public=True):
    """Set (or with ``accumulate`` add to) the elements at ``index``, counted row by row."""

    jointly_linear = ("x", "source")
    samples = cases(
        lambda: (draw(3, 4), places_for_samples(5, 0, 11), draw(3, seed=1)),
        lambda: (draw(3, 4), draw_ints(2, 2, below=12), draw(2, 2, seed=1), True),
    )
    reference = lambda x, index, source, accumulate=False: written(x, source, np.take, index, add=accumulate)

    def write(x, index, source, accumulate=False):
        _check_source(x, index, source)
        places = _flat_index("put_", x, index)
        kernel, rows = (kernels.add_rows if as_flag(accumulate) else kernels.put_rows), in_blocks(source, (1, -1, 1))
        through_rows(x, lambda data: launch(kernel, rows, places._data, data.reshape(1, -1, 1)))

    def grad_x(g, index, accumulate):
        return g if accumulate else Put.apply(g, index, filled(row_major(g._layout, index._layout.shape), 0))

    def grad_source(g, index, source_layout):
        return reshape(Take.apply(g, index), source_layout.shape)
