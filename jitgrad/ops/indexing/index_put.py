"""Reading and writing by several index tensors at once: what ``x[...]`` and ``index_put`` come down to.

Whatever the index tensors, one kernel serves: their dims are brought together and counted as one, and the indices are
folded into places in it. A Pattern says how.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.core.dtypes import int64
from jitgrad.core.layout import cache, intern
from jitgrad.core.saved_tensors import SavedTensor
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.batch_rules import BatchedCall, one_by_one
from jitgrad.dispatch.copying import filled
from jitgrad.dispatch.inplace_ops import InplaceOp, through_rows
from jitgrad.dispatch.op_samples import cases, draw, draw_ints
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.launch import launch
from jitgrad.kernels.loops import indexing as kernels
from jitgrad.ops.indexing.nonzero import indices_of, true_places
from jitgrad.ops.indexing.places import empty_like_layout, in_blocks, row_major, written
from jitgrad.ops.shape.copy import cast, contiguous
from jitgrad.ops.shape.expand import Expand, summed_to
from jitgrad.ops.shape.slicing import zeros_of
from jitgrad.ops.shape.view import Permute

__all__ = ["Index", "IndexPut", "Pattern", "resolve"]


class Pattern:
    """Which dims of a tensor are indexed, and the shapes that follow.

    ``sizes``: the tensor's shape. ``dims``: the indexed ones. ``found``: the shape that their indices broadcast to.
    ``order``: all dims, the indexed ones side by side (None where they are so already); ``shape``: the sizes in that
    order, ``blocks``: the same as (outer, n, inner). ``result``: the shape of what is read, in which ``found`` stands
    in the place of the indexed dims where these are ``together``, and else comes first, as in NumPy.
    """

    __slots__ = ("blocks", "dims", "found", "order", "result", "shape", "sizes", "together")

    def __init__(self, shape: tuple[int, ...], dims: Sequence[int], found: tuple[int, ...]):
        first, count = dims[0], len(dims)
        self.sizes, self.dims, self.found = shape, tuple(dims), found
        self.together = together = self.dims == tuple(range(first, first + count))
        rest = [d for d in range(len(shape)) if d not in dims]
        order = [*rest[:first], *dims, *rest[first:]] if together else [*dims, *rest]
        start = first if together else 0
        self.order = None if order == list(range(len(shape))) else tuple(order)
        self.shape = moved = tuple([shape[d] for d in order])
        self.blocks = (math.prod(moved[:start]), math.prod(moved[start : start + count]),
                       math.prod(moved[start + count :]))  # fmt: skip
        self.result = (*moved[:start], *found, *moved[start + count :])

    def rows(self, x: Tensor) -> Any:
        """The values of ``x`` as (outer, n, inner), n the indexed dims."""
        moved = x if self.order is None else Permute.forward(wrap(x._data, x._layout), self.order)  # type: ignore[arg-type]
        return in_blocks(moved, self.blocks)

    def stacked(self, size: int) -> Pattern:
        """The same in each of ``size`` tensors stacked along a new first dim."""
        return Pattern((size, *self.sizes), [d + 1 for d in self.dims], self.found)


def _pattern(*indices: Any) -> tuple[Tensor, Pattern]:
    """(places, pattern) of indices into a tensor of shape (2, 3, 4), for samples."""
    return resolve(draw(2, 3, 4), indices)


def _index_batched(call: BatchedCall) -> Any:
    """The same places in every sample: the batch is a dim more before those that the pattern counts."""
    pattern = call["pattern"]
    if "places" in call.batched:
        return one_by_one(call)
    out = call.run(pattern=pattern.stacked(call.size))
    return out if pattern.together else out.movedim(len(pattern.found), 0)


def _put_batched(call: BatchedCall) -> Any:
    """Values for the same places in every sample."""
    pattern, values = call["pattern"], call["values"]
    if "places" in call.batched:
        return one_by_one(call)
    missing = len(pattern.result) - call.ndim("values")
    if "values" in call.batched and missing:
        values = values.view(call.size, *(1,) * missing, *call.shape("values"))
    values = values.expand(call.size, *pattern.result)
    if not pattern.together:
        values = values.movedim(0, len(pattern.found))
    return call.run(x=call.whole("x"), values=values, pattern=pattern.stacked(call.size))


def _indexed(x: Any, places: Any, pattern: Pattern) -> Any:
    moved = x if pattern.order is None else x.transpose(pattern.order)
    return moved.reshape(pattern.blocks)[:, places].reshape(pattern.result)


class Index(Structured):
    """The elements at ``places`` of a pattern's dims."""

    linear = ("x",)
    batch = _index_batched
    samples = cases(
        lambda: (draw(2, 3, 4), *_pattern(None, draw_ints(5, below=3))),
        lambda: (draw(2, 3, 4), *_pattern(draw_ints(3, below=2), None, draw_ints(2, 1, below=4))),
    )
    reference = _indexed

    def forward(x, places, pattern):
        outer, _, inner = pattern.blocks
        out = empty_like_layout(x._layout, pattern.result)
        launch(kernels.take_rows, pattern.rows(x), places._data, out._data.reshape(outer, places._layout.numel, inner))
        return out

    def grad_x(g, x_layout, places, pattern):
        return IndexPut.apply(zeros_of(x_layout), places, g, pattern, True)


class IndexPut(InplaceOp):
    """Set, or with ``accumulate`` add to, the elements at ``places`` of a pattern's dims."""

    jointly_linear = ("x", "values")
    batch = _put_batched
    samples = cases(lambda: _put_sample(True, None, draw_ints(5, below=3)), lambda: _put_sample(False, draw(2, 3) > 0))
    reference = lambda x, places, values, pattern, accumulate: written(
        x, values, _indexed, places, pattern, add=accumulate
    )
    name, grad_name = "index_put_places", "IndexPutBackward0"

    def write(x, places, values, pattern, accumulate):
        outer, _, inner = pattern.blocks
        expanded = Expand.forward(wrap(values._data, values._layout), pattern.result)
        source = in_blocks(expanded, (outer, places._layout.numel, inner))
        kernel = kernels.add_rows if accumulate else kernels.put_rows
        through_rows(x, lambda data: launch(kernel, source, places._data, data.reshape(pattern.blocks)), pattern.order)

    def grad_x(g, places, pattern, accumulate):
        if accumulate:
            return g
        return IndexPut.apply(g, places, filled(row_major(g._layout, pattern.result), 0), pattern, False)

    def grad_values(g, places, pattern, values_layout):
        return summed_to(Index.apply(g, places, pattern), values_layout.shape)


def _by_index(node: Any, of_place: Callable[[int, int], Any]) -> tuple[Any, ...]:
    """None for each dim before the last indexed one that is not, else what ``of_place`` makes of (stride, size)."""
    pattern = node.saved_nontensors[node.recorder.saved_nontensors.index("pattern")]
    found: list[Any] = [None] * (max(pattern.dims) + 1)
    stride = 1
    for dim in reversed(pattern.dims):
        found[dim] = of_place(stride, pattern.sizes[dim])
        stride *= pattern.sizes[dim]
    return tuple(found)


def _saved_indices(node: Any) -> tuple[Any, ...]:
    """The indices that a node's places stand for, counted from the front and in the shape that they have together."""
    places = node._saved_places.reshape(node.saved_nontensors[node.recorder.saved_nontensors.index("pattern")].found)
    return _by_index(node, lambda stride, size: (places // stride) % size)


def _raw_saved_indices(node: Any) -> tuple[SavedTensor, ...]:
    """The same, for hooks: indices of several dims are kept as one tensor."""
    place, none = node._raw_saved_places, SavedTensor(node, None)
    return tuple([none if p is None else p for p in _by_index(node, lambda stride, size: place)])


for _op in (Index, IndexPut):
    _op.node_type._saved_indices = property(_saved_indices)  # type: ignore[attr-defined]
    _op.node_type._raw_saved_indices = property(_raw_saved_indices)  # type: ignore[attr-defined]


def _put_sample(accumulate: bool, *indices: Any) -> tuple[Any, ...]:
    places, pattern = _pattern(*indices)
    return draw(2, 3, 4), places, draw(*pattern.result, seed=1), pattern, accumulate


# -- from index tensors to places ---------------------------------------------------------------------


def _by_dim(x: Tensor, indices: Sequence[Tensor | None]) -> list[tuple[int, Tensor]]:
    """(dim, int64 index) of each indexed dim; masks become the indices of their true elements."""
    found: list[tuple[int, Tensor]] = []
    for dim, index in enumerate(indices):
        if index is None:
            continue
        if index._layout.dtype.name not in ("bool", "uint8"):
            found.append((dim, index))
            continue
        _check_mask_shape(x, dim, index)
        found += [(dim + k, column) for k, column in enumerate(indices_of(index).unbind(1))]
    return found


def _check_mask_shape(x: Tensor, dim: int, mask: Tensor) -> None:
    for k, n in enumerate(mask._layout.shape):
        if x._layout.shape[dim + k] != n:
            raise IndexError(
                f"The shape of the mask {list(mask._layout.shape)} at index {k} does not match the shape of the "
                f"indexed tensor {list(x._layout.shape)} at index {dim + k}"
            )


def _common_shape(indices: Sequence[Tensor]) -> tuple[int, ...]:
    shapes = [i._layout.shape for i in indices]
    try:
        return tuple(np.broadcast_shapes(*shapes))
    except ValueError:
        raise IndexError(
            "shape mismatch: indexing tensors could not be broadcast together with shapes "
            + ", ".join(str(list(s)) for s in shapes)
        ) from None


def resolve(x: Tensor, indices: Sequence[Tensor | None]) -> tuple[Tensor, Pattern]:
    """(places, pattern) of index tensors, checked; negative indices count from the end."""
    shape = x._layout.shape
    only = [(d, i) for d, i in enumerate(indices) if i is not None]
    if len(only) == 1 and only[0][1]._layout.dtype.name in ("bool", "uint8"):  # one mask: its places are the answer
        dim, mask = only[0]
        _check_mask_shape(x, dim, mask)
        places = true_places(mask)
        return places, Pattern(shape, range(dim, dim + mask._layout.ndim), places._layout.shape)
    named = _by_dim(x, indices)
    found = named[0][1]._layout.shape if len(named) == 1 else _common_shape([i for _, i in named])
    places = empty_like_layout(_INDEX, (math.prod(found),))
    stride = 1
    for order in range(len(named) - 1, -1, -1):
        dim, index = named[order]
        if index._layout.dtype is not int64 or index._layout.shape != found:
            index = cast(index.detach(), int64).expand(found)
        _fold(places, index, shape[dim], stride, order, order == len(named) - 1)
        stride *= shape[dim]
    key = (shape, tuple([d for d, _ in named]), found)
    pattern = _PATTERNS.get(key)
    if pattern is None:
        pattern = _PATTERNS[key] = Pattern(*key)
    return places, pattern


_INDEX = intern(np.dtype(np.int64), (0,), None, "cpu")
_PATTERNS: dict[Any, Pattern] = cache()


def _fold(places: Tensor, index: Tensor, n: int, stride: int, order: int, first: bool) -> None:
    """Add (or, for the ``first``, set) ``index * stride`` to ``places``; IndexError where it is out of range."""
    bad = np.zeros(2, np.int64)
    row_major = index if index._layout.contiguous else contiguous(index.detach())
    launch(kernels.fold_index, row_major._data.reshape(-1), places._data, bad, n, stride, first)
    if bad[0] and n == 0:
        raise IndexError("index is out of bounds for dimension with size 0")
    if bad[0]:
        raise IndexError(f"index {bad[1]} is out of bounds for dimension {order} with size {n}")
