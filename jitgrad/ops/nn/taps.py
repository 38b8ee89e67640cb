"""Linear maps along the last dims, each given by a table: of which elements, by which weights, one is made.

Padding that repeats elements, interpolation and means over windows are such maps, one for each dim, and so are their
gradients, by the transposed tables. So all of these ops are ``Tapped``, under the names of PyTorch's nodes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jitgrad.core.layout import Layout, intern
from jitgrad.core.storage import empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.batch_rules import BatchedCall
from jitgrad.dispatch.copying import copy_to_layout
from jitgrad.dispatch.memory_formats import strides_of_result
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.planned import Launches, Written, compiled, row_major
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.loops import taps as kernels
from jitgrad.ops.shape.slicing import zeros_of

__all__ = [
    "MAKERS", "Map", "Tapped", "Taps", "as_volume", "in_format_of", "listed", "merged_batch", "named_op", "one_each",
    "under_name", "windows_of",
]  # fmt: skip


class Map(NamedTuple):
    """The map of a dim of ``size`` elements to one of ``new``: which table it has, and the numbers of that."""

    kind: str
    size: int
    new: int
    numbers: tuple[Any, ...] = ()


class Table(NamedTuple):
    """Element k is the sum over j in starts[k] .. starts[k + 1] of weights[j] * x[places[j]]."""

    starts: np.ndarray
    places: np.ndarray
    weights: np.ndarray

    @property
    def picks(self) -> bool:
        """Whether each element is just one of the others."""
        return self.starts.size == self.places.size + 1 and bool((self.weights == 1).all()) and bool(
            (np.diff(self.starts) == 1).all()
        )  # fmt: skip


class Taps(NamedTuple):
    """For each new element how many places it has, then the places of all, one after the other, and their weights."""

    counts: np.ndarray
    places: np.ndarray
    weights: np.ndarray


def one_each(places: Any) -> Taps:
    """Taps of new elements each of which is one of the others."""
    places = np.asarray(places, np.int64)
    return Taps(np.ones(places.size, np.int64), places, np.ones(places.size))


def windows_of(begins: Any, ends: Any, weights: Any) -> Taps:
    """Taps of new elements each of which is the sum of the others from a begin to an end, times a weight."""
    counts = np.maximum(ends - begins, 0)
    first = np.cumsum(counts) - counts
    places = np.arange(counts.sum()) + np.repeat(begins - first, counts)
    return Taps(counts, places, np.repeat(weights, counts))


def listed(rows: Sequence[tuple[Sequence[int], Sequence[Any]]]) -> Taps:
    """Taps of (places, weights) for each new element."""
    counts = np.array([len(places) for places, _ in rows], np.int64)
    places = np.array([p for places, _ in rows for p in places], np.int64)
    return Taps(counts, places, np.array([w for _, weights in rows for w in weights]))


# {kind: function of a Map and a dtype's precision, a NumPy scalar type}
MAKERS: dict[str, Callable[[Map, Any], Taps]] = {"same": lambda m, real: one_each(np.arange(m.size))}


@functools.lru_cache(maxsize=256)
def _table(made: Map, dtype: np.dtype[Any], transposed: bool) -> Table:
    counts, places, weights = MAKERS[made.kind](made, np.float32 if dtype.char in "fF" else np.float64)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    table = Table(starts, places.astype(np.int64), weights.astype(dtype))
    if not transposed:
        return table
    order = np.argsort(table.places, kind="stable")
    rows = np.repeat(np.arange(made.new), np.diff(table.starts))
    counts = np.bincount(table.places, minlength=made.size)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Table(starts, rows[order].astype(np.int64), table.weights[order])


def as_volume(shape: Sequence[int], dims: int) -> tuple[int, ...]:
    """A shape whose last ``dims``, at most three, are of space, as (outer, depth, height, width)."""
    first = len(shape) - dims
    return (math.prod(shape[:first]), *(1,) * (3 - dims), *shape[first:])


def in_format_of(x: Layout, made: Launches, /, of_sample: bool = False, **inputs: Layout | None) -> Any:
    """A plan for ``inputs`` by which results of the first one's shape have their channels last in memory if ``x`` has.

    of_sample: whether that is to be told of ``x`` as the only sample of a batch.
    """
    shape = made.layouts[0].shape
    if of_sample:
        batch = intern(x.numpy_dtype, (1, *x.shape), (x.numel, *x.strides), x.device)
        found = strides_of_result([batch], (1, *shape))
        strides = None if found is None else found[1:]
    else:
        strides = strides_of_result([x], shape)
    if strides is None:
        return made
    compute, several = compiled(made, inputs), made.returned > 1
    wanted = [
        intern(r.numpy_dtype, shape, strides, r.device) if r.shape == shape else r
        for r in made.layouts[: made.returned]
    ]

    def run(*tensors: Any) -> Any:
        outs = compute(*tensors)
        pairs = zip(outs if several else (outs,), wanted, strict=True)
        moved = [o if o._layout is w else copy_to_layout(o, w) for o, w in pairs]
        return tuple(moved) if several else moved[0]

    return run


def merged_batch(call: BatchedCall) -> Any:
    """The rule of ops that take any dims before those of space: the batch is one of them."""
    return call.run()


def _run_of(places: np.ndarray) -> tuple[int, int]:
    """The longest run of places that go up by one, if it is long."""
    breaks = np.flatnonzero(np.diff(places) != 1) + 1
    edges = [0, *breaks.tolist(), places.size]
    begin, end = max(zip(edges, edges[1:], strict=False), key=lambda e: e[1] - e[0])
    return (begin, end) if end - begin > 2 else (0, 0)


def _reference(x: Any, maps: Sequence[Map], transposed: bool = False) -> Any:
    for d, made in zip(range(x.ndim - len(maps), x.ndim), maps, strict=True):
        table = _table(made, np.dtype(np.float64), False)
        matrix = np.zeros((made.new, made.size))
        np.add.at(matrix, (np.repeat(np.arange(made.new), np.diff(table.starts)), table.places), table.weights)
        x = np.moveaxis(np.tensordot(matrix.T if transposed else matrix, x, (1, d)), 0, d)
    return x


class Tapped(Structured):
    """``x`` (*, *sizes) with its last dims mapped, each by the Map in ``maps``; transposed: back to the Maps' sizes.

    The result depends on ``source``, where there is one, by name only: with a gradient of zeros. PyTorch has so the
    gradients of padding and pooling depend on their input.
    """

    linear, batch = ("x",), merged_batch
    samples = cases(
        lambda: (draw(2, 4), (Map("mean", 4, 2, (2, 2, 0, True)),)),
        lambda: (draw(2, 3, 2), (Map("same", 3, 3), Map("reflect", 2, 4, (1,)))),
        lambda: (draw(2, 4), (Map("reflect", 2, 4, (1,)),), True),
    )
    reference = _reference

    def plan(x_layout, maps, transposed=False, source_layout=None):
        made = _plan(x_layout, maps, transposed)
        if not isinstance(made, Launches) or any(m.kind == "circular" for m in maps):
            return made  # circular padding is row-major, as in PyTorch, which fills an empty tensor part by part
        return in_format_of(x_layout, made, x=x_layout, source=source_layout)

    def grad_x(g, maps, transposed):
        return Tapped.apply(g, maps, not transposed)

    def grad_source(source_layout):
        return zeros_of(source_layout)


def _plan(x: Layout, maps: tuple[Map, ...], transposed: bool) -> Any:
    outer = x.shape[: x.ndim - len(maps)]
    out = intern(x.numpy_dtype, (*outer, *[m.size if transposed else m.new for m in maps]), None, x.device)
    if not out.numel:
        return lambda *_: wrap(empty_for(out), out)
    if not x.numel:
        return lambda *_: zeros_of(out)
    empty_for(out)  # a MemoryError for sizes that no machine has, whose tables would take days
    every = [*[Map("same", 1, 1)] * (3 - len(maps)), *maps]
    tables = [_table(m, x.numpy_dtype, transposed) for m in every]
    source, target = row_major("x", x, as_volume(x.shape, len(maps))), Written(0, as_volume(out.shape, len(maps)))
    if all(t.picks for t in tables):
        places = [t.places for t in tables]
        return Launches([(kernels.pick, source, *places, *_run_of(places[2]), target)], [out])
    return Launches([(kernels.weigh, source, *[a for t in tables for a in t], target)], [out])


@functools.cache
def named_op(title: str, by_source: bool = False) -> Callable[..., Tensor]:
    """``Tapped`` whose node has PyTorch's name for one of its uses, such as "AvgPool2D".

    by_source: whether its gradient depends on its input, if by name only.
    """
    if not by_source:
        return under_name(Tapped, title)
    return under_name(Tapped, title, grad_x=lambda g, x, maps, transposed: Tapped.apply(g, maps, not transposed, x))


def under_name(op: Any, title: str, **rules: Any) -> Callable[..., Any]:
    """An op's function whose nodes have another name, and perhaps other rules."""
    body = {"__doc__": op.__doc__, "grad_name": f"{title}Backward0", "__module__": __name__, **rules}
    made: Any = type(title, (op,), body, listed=False)
    function: Callable[..., Any] = made.apply
    return function
