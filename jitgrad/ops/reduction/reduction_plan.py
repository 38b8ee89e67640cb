"""How a reduction over some dims reads contiguous memory: planned once for a layout and its dims.

Every reduction kernel works on a contiguous (outer, n, inner) array and reduces n. A ReductionPlan says how
a tensor of some layout becomes one, and what the result looks like.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.core.layout import CAPACITY, Layout, intern, is_dense, layout_of, normalize_dims
from jitgrad.core.storage import empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.copying import copying
from jitgrad.dispatch.planned import Launches, Read, Written
from jitgrad.dispatch.sizes import as_flag, dims_argument
from jitgrad.kernels import threads
from jitgrad.kernels.launch import Kernel, launch
from jitgrad.kernels.loops.reduction import STREAMED
from jitgrad.ops.shape.copy import cast, contiguous
from jitgrad.ops.shape.expand import Expand
from jitgrad.ops.shape.view import Reshaped

__all__ = [
    "CHUNKS", "FULL", "ReductionPlan", "expand_reduced", "plan_reduction", "unrecorded", "with_reduced_dims",
]  # fmt: skip


class _Full:
    """Stands for a dim that was not given: ``sum()`` and ``sum(None)`` make different nodes, as PyTorch's do."""

    def __repr__(self) -> str:
        return "None"


FULL: Any = _Full()


class ReductionPlan:
    """The contiguous blocks (outer, n, inner) as which kernels read a layout, to reduce ``dims``: n elements each.

    order    the dims as they are read; the reduced ones are neighbours
    ready    memory lies in that order; otherwise the tensor is copied first
    copying  a tensor's layout, that with the dims in that order, and what makes one of this row-major
    natural  memory is row-major as it is, so that reshaping is enough
    flat     inner is 1: kernels for rows take (outer, n), which spares them a loop
    source   the shape of the blocks that are read: (outer, n), or (outer, n, inner)
    target   the shape of the results in memory: (outer,), or (outer, inner)
    shape    the result's own shape; ``ones`` is the same with reduced dims kept
    short    too little to be cut for several threads
    """

    copying: tuple[Any, Layout, Callable[[Tensor], Tensor]]

    __slots__ = (
        "blocks", "copying", "device", "dims", "flat", "n", "natural", "ones", "order", "ready", "shape", "short",
        "source", "target",
    )  # fmt: skip

    def __init__(self, layout: Layout, dims: tuple[int, ...], keepdim: bool):
        self.dims, self.device = dims, layout.device
        self.order, self.ready = _read_order(layout, dims)
        self.natural = self.ready and self.order == tuple(range(layout.ndim))
        sizes = [layout.shape[d] for d in self.order]
        reduced = [k for k, d in enumerate(self.order) if d in dims]
        # Nothing to reduce: every element is a block of n = 1.
        first, last = (reduced[0], reduced[-1] + 1) if reduced else (len(sizes), len(sizes))
        self.blocks = tuple(_product(s) for s in (sizes[:first], sizes[first:last], sizes[last:]))
        outer, self.n, inner = self.blocks
        self.flat = inner == 1
        self.source: tuple[int, ...] = (outer, self.n) if self.flat else self.blocks
        self.target: tuple[int, ...] = (outer,) if self.flat else (outer, inner)
        self.ones = tuple(1 if d in dims else n for d, n in enumerate(layout.shape))
        self.shape = self.ones if keepdim else tuple(n for d, n in enumerate(layout.shape) if d not in dims)
        # Below STREAMED elements a reduction takes less time than waking a thread; a device cuts long rows by itself.
        self.short = self.n < CHUNKS or layout.numel < STREAMED or layout.device != "cpu"
        self.copying = None, layout, contiguous  # planned when it is first needed

    def read(self, x: Tensor) -> Any:
        """The values of a tensor of this layout as a contiguous array of shape ``source``."""
        if self.natural:
            return x._data.reshape(self.source)
        data = x._data.transpose(self.order) if self.ready else self._copied(x)
        return data.reshape(self.source)

    def _copied(self, x: Tensor) -> Any:
        known, moved, copy = self.copying
        if known is not x._layout:  # mostly the plan's own; cast before, it may have another dtype and order
            known = x._layout
            shape, strides = [tuple([of[d] for d in self.order]) for of in (known.shape, known.strides)]
            moved = intern(known.numpy_dtype, shape, strides, known.device)
            copy = copying(moved, intern(known.numpy_dtype, shape, None, known.device))
            self.copying = known, moved, copy
        return copy(wrap(x._data.transpose(self.order), moved))._data

    def tensor(self, blocks: Any, layout: Layout) -> Tensor:
        """The tensor of ``layout``'s shape whose elements lie in an array of shape ``source``."""
        if self.natural:
            return wrap(blocks.reshape(layout.shape), intern(blocks.dtype, layout.shape, None, layout.device))
        data = blocks.reshape([layout.shape[d] for d in self.order]).transpose(np.argsort(self.order))
        return wrap(data, layout_of(data, layout.device))

    def blocks_of(self, name: str) -> Read:
        """Tensor ``name`` of this layout as a kernel's argument, in the shape ``source``."""
        return Read(name, self.source if self.natural else self.read)

    def cuts(self) -> bool:
        """Whether single reductions are cut, since there are fewer of them than threads."""
        return not self.short and self.blocks[0] < threads.get_num_threads()

    def launches(
        self, kernels: tuple[Kernel, Kernel], dtype: np.dtype[Any], *options: Any,
        merged: tuple[Kernel, Kernel] | None = None,
    ) -> Any:  # fmt: skip
        """What a planned function of ``x`` returns for the launch of the kernel for (rows, columns): see ``reduce``."""
        if not self.short:  # whether it is cut depends on the number of threads
            return lambda x, *_: self.reduce(kernels, x, dtype, *options, merged=merged)
        launch = kernels[0 if self.flat else 1], self.blocks_of("x"), Written(0, self.target), *options
        return Launches([launch], [self.layout(dtype)])

    def empty(self, dtype: np.dtype[Any]) -> Tensor:
        """A new result; as an array of shape ``target`` it is ``written(result)``."""
        layout = self.layout(dtype)
        return wrap(empty_for(layout), layout)

    def layout(self, dtype: np.dtype[Any]) -> Layout:
        """The layout of a result of ``dtype``."""
        return intern(dtype, self.shape, None, self.device)

    def written(self, result: Tensor) -> Any:
        """The memory of a result, or of a gradient in its shape, as an array of shape ``target``."""
        return contiguous(result)._data.reshape(self.target)

    def reduce(
        self, kernels: tuple[Kernel, Kernel], x: Tensor, dtype: np.dtype[Any], *options: Any,
        merged: tuple[Kernel, Kernel] | None = None,
    ) -> Tensor:  # fmt: skip
        """Launch the kernel for (rows, columns) on ``x``, into a new result.

        One long reduction is cut into chunks, so that several threads have rows to do: the kernels
        must allow being applied in stages. merged: those that reduce the chunks' results, by default the same.
        """
        layout = self.layout(dtype)
        data = empty_for(layout)
        source = x._data.reshape(self.source) if self.natural else self.read(x)
        kernel, last = [pair[0 if self.flat else 1] for pair in (kernels, merged or kernels)]
        if not self.cuts():
            launch(kernel, source, data.reshape(self.target), *options)
        else:
            _reduce_chunks(kernel, last, source, data.reshape(self.target), options)
        return wrap(data, layout)


def _product(sizes: Any) -> int:
    result = 1
    for n in sizes:
        result *= n
    return result


def _read_order(layout: Layout, dims: tuple[int, ...]) -> tuple[tuple[int, ...], bool]:
    """Memory order if the reduced dims are neighbours in it and the kept ones in their own order.

    Otherwise kept dims first. What is in another order, or has gaps, needs a copy, which is quick in memory order:
    results are row-major, as PyTorch's are.
    """
    natural = tuple(range(layout.ndim))
    order, dense = natural, layout.contiguous or is_dense(layout)
    if not layout.contiguous and min(layout.strides) > 0:
        # Of dims of equal stride those of size 1 come first, so that what is dense is contiguous in this order.
        order = tuple(sorted(natural, key=lambda d: (-layout.strides[d], layout.shape[d] != 1)))
    places = [k for k, d in enumerate(order) if d in dims]
    kept = [d for d in order if d not in dims and layout.shape[d] != 1]
    neighbours = not places or places[-1] - places[0] + 1 == len(places)
    if neighbours and kept == sorted(kept):
        return order, dense
    return tuple(d for d in natural if d not in dims) + dims, False


_plans: dict[Any, ReductionPlan] = {}


def plan_reduction(layout: Layout, dim: Any, keepdim: bool = False) -> ReductionPlan:
    """The ReductionPlan of a layout over ``dim``: an int, several, or None for all."""
    if type(dim) is not int:  # equal keys, as True and 1 are, would be found without a look at the dims
        dim = dims_argument(dim)
    if keepdim is not False and keepdim is not True:
        keepdim = as_flag(keepdim)
    # Layouts are interned and hash by identity, so this look-up is all that a plan costs from the second call on.
    key = (layout, dim, keepdim)
    found = _plans.get(key)
    if found is None:
        if len(_plans) >= CAPACITY:
            _plans.clear()
        found = _plans[key] = ReductionPlan(layout, normalize_dims(dim, layout.ndim), keepdim)
    return found


def unrecorded(x: Tensor, dtype: Any = None) -> Tensor:
    """The values of ``x`` outside the graph, cast to ``dtype`` if given."""
    x = wrap(x._data, x._layout) if x._level is None else x.detach()
    return x if dtype is None else cast(x, dtype)


def with_reduced_dims(g: Tensor, layout: Layout, dim: Any, keepdim: bool) -> Tensor:
    """A tensor of the result's shape as one with the reduced dims as ones, so that it broadcasts against ``layout``."""
    return g if keepdim or not layout.ndim else Reshaped.apply(g, plan_reduction(layout, dim).ones)


def expand_reduced(g: Tensor, layout: Layout, dim: Any, keepdim: bool) -> Tensor:
    """A tensor of the result's shape expanded to the shape of ``layout``, which was reduced."""
    return Expand.apply(with_reduced_dims(g, layout, dim, keepdim), layout.shape)


# So many chunks of each row are reduced apart where there are fewer rows than threads. A constant, not the number of
# threads: float sums depend on how they are cut, and should be the same on two cores as on sixteen.
CHUNKS = 16


def _reduce_chunks(kernel: Kernel, last: Kernel, source: Any, target: Any, options: tuple[Any, ...]) -> None:
    """Reduce each row in chunks, which become rows for several threads, then the chunks' results by ``last``."""
    outer, n, rest = source.shape[0], source.shape[1], source.shape[2:]
    size, left = divmod(n, CHUNKS)
    partial = np.empty((outer, CHUNKS + (left > 0), *rest), target.dtype)
    for k in range(outer):
        launch(kernel, source[k, : n - left].reshape(CHUNKS, size, *rest), partial[k, :CHUNKS], *options)
        if left:  # the elements that no chunk of equal size takes
            launch(kernel, source[k : k + 1, n - left :], partial[k, CHUNKS:], *options)
    launch(last, partial, target, *options)
