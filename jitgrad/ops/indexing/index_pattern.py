"""Several index tensors and masks as one index: the dims that they index are counted as one.

So one kernel serves for all of them: the indexed dims are brought side by side, and the indices folded into places in
the dim that they are together. A Pattern says which dims, and the shapes that follow; ``resolve`` finds both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, NoReturn

import numpy as np

from jitgrad.core.dtypes import int64
from jitgrad.core.layout import Layout, cache, intern
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.strides import dense_strides
from jitgrad.kernels.launch import check, launch, observers, prepared
from jitgrad.kernels.loops import indexing as kernels
from jitgrad.kernels.loops.index_read import IndexRead, compiled_read, index_read
from jitgrad.ops.indexing.nonzero import indices_of, true_places
from jitgrad.ops.indexing.places import empty_like_layout, in_blocks, row_major
from jitgrad.ops.shape.copy import cast, contiguous
from jitgrad.ops.shape.permute import Permute

__all__ = ["INDEX_DTYPES", "Pattern", "planned_fold", "resolve"]
INDEX_DTYPES = ("int64", "int32", "uint8", "bool")  # of tensors used as indices


class Pattern:
    """Which dims of a tensor are indexed, and the shapes that follow.

    ``sizes``: the tensor's shape. ``dims``: the indexed ones. ``found``: the shape that their indices broadcast to.
    ``order``: all dims, the indexed ones side by side (None where they are so already); ``shape``: the sizes in that
    order, ``blocks``: the same as (outer, n, inner). ``result``: the shape of what is read, in which ``found`` stands
    in the place of the indexed dims where these are ``together``, and else comes first, as in NumPy. ``plans``: of
    reads and writes, kept where the pattern is; None in those of long masks, whose shapes depend on the values.
    """

    __slots__ = ("blocks", "dims", "found", "order", "plans", "result", "shape", "sizes", "together")

    def __init__(self, shape: tuple[int, ...], dims: Sequence[int], found: tuple[int, ...]):
        first, count = dims[0], len(dims)
        self.plans: dict[Any, Callable[..., Any]] | None = None
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
        moved = x if self.order is None else Permute.forward(wrap(x._data, x._layout), self.order)
        return in_blocks(moved, self.blocks)

    def layout_of_read(self, x: Layout) -> Layout:
        """The layout of what is read from a tensor of layout ``x``: dims that aren't indexed keep the order of ``x``.

        As PyTorch has it, which computes reads as elementwise ops of the tensor, with steps of 0 along the dims of the
        indices, and of the indices, with steps of 0 along the others.
        """
        if x is row_major(x, x.shape):
            return row_major(x, self.result)
        start, count, lead = self.dims[0] if self.together else 0, len(self.dims), len(self.found)
        strides = [x.strides[d] for d in self.order or range(x.ndim)]
        before, after = self.shape[:start], self.shape[start + count :]
        source = intern(
            x.numpy_dtype, (*before, *[1] * lead, *after), (*strides[:start], *[0] * lead, *strides[start + count :]),
            x.device,
        )  # fmt: skip
        index = row_major(x, (*[1] * len(before), *self.found, *[1] * len(after)))
        return intern(x.numpy_dtype, self.result, dense_strides([source, index], self.result), x.device)

    def stacked(self, size: int) -> Pattern:
        """The same in each of ``size`` tensors stacked along a new first dim."""
        return Pattern((size, *self.sizes), [d + 1 for d in self.dims], self.found)


_INDEX = intern(np.dtype(np.int64), (0,), None, "cpu")
_PATTERNS: dict[Any, Pattern] = cache()


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


class Fold(NamedTuple):
    """What is planned for a tensor and index tensors: ``resolve(indices)``, and ``read(x, indices)`` if they are short.

    ``read`` is the read without places, which only backward needs. IndexError, without details, from ``read``.
    """

    resolve: Callable[[Sequence[Any]], tuple[Tensor, Pattern]]
    read: Callable[[Tensor, Sequence[Any]], Tensor] | None


_FOLDS: dict[Any, Fold] = cache()  # by the tensor's layout, the first dim that is indexed, and the indices' layouts
_READ_BYTES = 1 << 14  # of a result: more are better read by a kernel that runs on several threads


def planned_fold(x: Tensor, first: int, indices: Iterable[Any]) -> Fold | None:
    """The plan for indices as these, of the dims from ``first`` on, if there is one: for int64 vectors of one shape."""
    return _FOLDS.get((x._layout, first, *map(_layout_of, indices)))


_layout_of = attrgetter("_layout")


def _plan_fold(x: Layout, indices: Sequence[tuple[int, Tensor]], pattern: Pattern) -> None:
    """Keep the function for index tensors of dims that follow one another."""
    shape, m, layout = pattern.found, math.prod(pattern.found), row_major(_INDEX, (math.prod(pattern.found),))
    plain = all(i._layout is row_major(_INDEX, shape) for _, i in indices)
    begin = indices[0][0]
    if not plain or not shape or [d for d, _ in indices] != list(range(begin, begin + len(indices))):
        return
    kernel, steps, stride = kernels.fold_index, [], 1
    for order in range(len(indices) - 1, -1, -1):
        steps.append((order, x.shape[begin + order], stride))
        stride *= x.shape[begin + order]
    run = prepared(kernel, layout.numpy_dtype, (m,), (m,), (2,), None, None, None, flat=1)

    def fold(indices: Sequence[Any]) -> tuple[Tensor, Pattern]:
        places, bad, first = np.empty(m, np.int64), np.zeros(2, np.int64), True
        for order, n, stride in steps:
            run(indices[order]._data, places, bad, n, stride, first)
            check(bad, _refuse, order, n)
            first = False
        return wrap(places, layout), pattern

    read = None if begin else _direct_read(x, len(indices), pattern)
    _FOLDS[(x, begin, *[i._layout for _, i in indices])] = Fold(fold, read)


def _direct_read(x: Layout, count: int, pattern: Pattern) -> Callable[[Tensor, Sequence[Any]], Tensor] | None:
    """``read`` of a Fold for indices of the first ``count`` dims."""
    out, m, item = row_major(x, pattern.result), math.prod(pattern.found), x.numpy_dtype.itemsize
    rest = intern(x.numpy_dtype, x.shape[count:], x.strides[count:])
    if x.device != "cpu" or not rest.contiguous or out.numel * item > _READ_BYTES:
        return None
    dims = [(n, s * item) for n, s in zip(x.shape[:count], x.strides[:count], strict=True)]
    how, run, shape, dtype = IndexRead(m, rest.numel * item, dims), compiled_read(), out.shape, out.numpy_dtype
    pack, address = how.pack, how.address

    def read(x: Tensor, indices: Sequence[Any]) -> Tensor:
        data, arrays = np.empty(shape, dtype), [i._data for i in indices]
        if observers or run(pack(address, id(data), id(x._data), *map(id, arrays))):
            launch(index_read, data, how, x._data, *arrays)
        return wrap(data, out)

    return read


def resolve(x: Tensor, indices: Sequence[Tensor | None]) -> tuple[Tensor, Pattern]:
    """(places, pattern) of index tensors, checked; negative indices count from the end."""
    shape = x._layout.shape
    only = [(d, i) for d, i in enumerate(indices) if i is not None]
    given = [i for _, i in only]
    if only and only[-1][0] - only[0][0] < len(only) and (fold := planned_fold(x, only[0][0], given)) is not None:
        return fold.resolve(given)
    if len(only) == 1 and only[0][1]._layout.dtype.name in ("bool", "uint8"):  # one mask: its places are the answer
        dim, mask = only[0]
        _check_mask_shape(x, dim, mask)
        places = true_places(mask)
        dims, found = tuple(range(dim, dim + mask._layout.ndim)), places._layout.shape
        if mask._layout.numel > _FEW:
            return places, Pattern(shape, dims, found)
        return places, _kept_pattern(shape, dims, found)
    named = _by_dim(x, indices)
    found = named[0][1]._layout.shape if len(named) == 1 else _common_shape([i for _, i in named])
    pattern = _kept_pattern(shape, tuple([d for d, _ in named]), found)
    if 0 in pattern.result and all(shape[d] for d in pattern.dims):  # PyTorch checks indices as it reads by them
        return wrap(np.zeros(math.prod(found), np.int64), row_major(_INDEX, (math.prod(found),))), pattern
    places = empty_like_layout(_INDEX, (math.prod(found),))
    stride = 1
    for order in range(len(named) - 1, -1, -1):
        dim, index = named[order]
        if index._layout.dtype is not int64 or index._layout.shape != found:
            index = cast(index.detach(), int64).expand(found)
        _fold(places, index, shape[dim], stride, order, order == len(named) - 1)
        stride *= shape[dim]
    if len(named) == len(only):
        _plan_fold(x._layout, named, pattern)
    return places, pattern


_FEW = 256  # elements of a mask up to which patterns are kept, for each number of those that are true


def _kept_pattern(shape: tuple[int, ...], dims: tuple[int, ...], found: tuple[int, ...]) -> Pattern:
    key = (shape, dims, found)
    pattern = _PATTERNS.get(key)
    if pattern is None:
        pattern = _PATTERNS[key] = Pattern(*key)
        pattern.plans = {}
    return pattern


def _fold(places: Tensor, index: Tensor, n: int, stride: int, order: int, first: bool) -> None:
    """Add (or, for the ``first``, set) ``index * stride`` to ``places``; IndexError where it is out of range."""
    bad = np.zeros(2, np.int64)
    rows = index if index._layout.contiguous else contiguous(index.detach())
    launch(kernels.fold_index, rows._data.reshape(-1), places._data, bad, n, stride, first)
    check(bad, _refuse, order, n)


def _refuse(bad: np.ndarray, order: int, n: int) -> NoReturn:
    """IndexError for an index outside of a dim of size ``n``, the ``order``-th of those that are indexed."""
    if n == 0:
        raise IndexError("index is out of bounds for dimension with size 0")
    raise IndexError(f"index {bad[1]} is out of bounds for dimension {order} with size {n}")
