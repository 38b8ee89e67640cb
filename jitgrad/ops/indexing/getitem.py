"""x[...] and x[...] = y: views for ints, slices and None, gathers for index tensors and masks.

Whatever the index tensors, one kernel serves: their dims are brought together and counted as one,
and the indices are folded into places in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.core.dtypes import bool_, int64
from jitgrad.core.errors import scalar_type
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.layout import Layout, cache, intern
from jitgrad.core.saved_tensors import SavedTensor
from jitgrad.core.storage import counter_of, empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.core.wrapped import outermost
from jitgrad.dispatch.batch_rules import BatchedCall, one_by_one
from jitgrad.dispatch.checks import check_history, check_memory
from jitgrad.dispatch.inplace_ops import InplaceOp, through_rows
from jitgrad.dispatch.op_samples import cases, draw, draw_ints
from jitgrad.dispatch.registry import method, public
from jitgrad.dispatch.structured import Structured, view_of
from jitgrad.kernels.launch import launch
from jitgrad.kernels.loops import indexing as kernels
from jitgrad.ops.creation.constants import convert_number, full
from jitgrad.ops.creation.fill import copy_, fill_, zeros_like
from jitgrad.ops.indexing.gather import folded
from jitgrad.ops.indexing.keys import apply_key
from jitgrad.ops.indexing.mask import indices_of, true_places
from jitgrad.ops.shape.copy import cast, contiguous
from jitgrad.ops.shape.expand import sum_to_size
from jitgrad.ops.shape.slicing import Select, zeros_of
from jitgrad.ops.shape.view import Alias

__all__ = ["Index", "IndexPut", "Pattern"]


class Pattern:
    """Which dims of a tensor are indexed, and the shapes that follow: ``order`` brings them together."""

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
        plain = wrap(x._data, x._layout)
        return folded(plain if self.order is None else plain.permute(self.order), self.blocks)

    def stacked(self, size: int) -> Pattern:
        """The same in each of ``size`` tensors stacked along a new first dim."""
        return Pattern((size, *self.sizes), [d + 1 for d in self.dims], self.found)

    def back(self, moved: Tensor) -> Tensor:
        """Undo ``order``."""
        order = self.order
        return moved if order is None else moved.permute(sorted(range(len(order)), key=order.__getitem__))


def _new(layout: Layout, shape: Sequence[int]) -> Tensor:
    made = intern(layout.numpy_dtype, tuple(shape), None, layout.device)
    return wrap(empty_for(made), made)


def _pattern(*indices: Any) -> tuple[Tensor, Pattern]:
    """Places and pattern in a tensor of shape (2, 3, 4), for samples."""
    return resolve(draw(2, 3, 4), indices)


def _index_lot(call: BatchedCall) -> Any:
    """The same places in every sample."""
    pattern = call["pattern"]
    if "places" in call.batched:
        return one_by_one(call)
    out = call.run(pattern=pattern.stacked(call.size))
    return out if pattern.together else out.movedim(len(pattern.found), 0)


def _index_put_lot(call: BatchedCall) -> Any:
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


class Index(Structured):
    """The elements at ``places`` of a pattern's dims."""

    linear = ("x",)
    batch = _index_lot
    samples = cases(
        lambda: (draw(2, 3, 4), *_pattern(None, draw_ints(5, below=3))),
        lambda: (draw(2, 3, 4), *_pattern(draw_ints(3, below=2), None, draw_ints(2, 1, below=4))),
    )

    def forward(x, places, pattern):
        outer, _, inner = pattern.blocks
        out = _new(x._layout, pattern.result)
        launch(kernels.take_rows, pattern.rows(x), places._data, out._data.reshape(outer, places._layout.numel, inner))
        return out

    def grad_x(g, x_layout, places, pattern):
        return IndexPut.apply(zeros_of(x_layout), places, g, pattern, True)


class IndexPut(InplaceOp):
    """Set, or with ``accumulate`` add to, the elements at ``places`` of a pattern's dims."""

    jointly_linear = ("x", "values")
    batch = _index_put_lot
    samples = cases(lambda: _put_sample(True, None, draw_ints(5, below=3)), lambda: _put_sample(False, draw(2, 3) > 0))
    name, grad_name = "index_put_places", "IndexPutBackward0"

    def write(x, places, values, pattern, accumulate):
        outer, _, inner = pattern.blocks
        source = folded(wrap(values._data, values._layout).expand(pattern.result), (outer, places._layout.numel, inner))
        kernel = kernels.add_rows if accumulate else kernels.put_rows
        through_rows(x, lambda data: launch(kernel, source, places._data, data.reshape(pattern.blocks)), pattern.order)

    def grad_x(g, places, pattern, accumulate):
        if accumulate:
            return g
        return IndexPut.apply(g, places, zeros_like(Index.apply(g, places, pattern)), pattern, False)

    def grad_values(g, places, pattern, values_layout):
        return sum_to_size(Index.apply(g, places, pattern), values_layout.shape)


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
    places = _new(_INDEX, (math.prod(found),))
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
    bad = np.zeros(2, np.int64)
    plain = index if index._layout.contiguous else contiguous(index.detach())
    launch(kernels.fold_index, plain._data.reshape(-1), places._data, bad, n, stride, first)
    if bad[0] and n == 0:
        raise IndexError("index is out of bounds for dimension with size 0")
    if bad[0]:
        raise IndexError(f"index {bad[1]} is out of bounds for dimension {order} with size {n}")


def _quick_view(x: Tensor, key: Any) -> Tensor | None:
    """The view that NumPy gives for ints and slices, where nothing is recorded; None for all other keys."""
    items = key if type(key) is tuple else (key,)
    for item in items:
        if type(item) is not int:
            if type(item) is not slice or not (item.step is None or (type(item.step) is int and item.step > 0)):
                return None
    try:
        return view_of(x, x._data[(*items, ...)])
    except (IndexError, TypeError):  # said in PyTorch's words by the general path
        return None


# -- reading ------------------------------------------------------------------------------------------


@method
def __getitem__(self: Tensor, key: Any) -> Tensor:
    if not ((self._requires_grad and grad_state.enabled) or grad_state.levels):
        view = _quick_view(self, key)
        if view is not None:
            return view
    elif type(key) is int and self._layout.ndim and -self._layout.shape[0] <= key < self._layout.shape[0]:
        return Select.apply(self, 0, key)
    result, indices = apply_key(self, key)
    if indices:
        if grad_state.levels and (wrapped := outermost(indices)) is not None:
            return wrapped.taken_at(wrapped._level, result, indices)
        return Index.apply(result, *resolve(result, indices))
    return Alias.apply(self) if result is self else result


# -- writing ------------------------------------------------------------------------------------------


@method
def __setitem__(self: Tensor, key: Any, value: Any) -> None:
    if not isinstance(value, (Tensor, bool, int, float, complex, np.generic)):
        raise TypeError(f"can't assign a {_type_name(value)} to a {self.type()}")
    recorded = grad_state.enabled and (self._requires_grad or (isinstance(value, Tensor) and value._requires_grad))
    result = None if recorded or grad_state.levels else _quick_view(self, key)
    if result is not None:
        _assign(result, value)
        return
    if key is False:  # names no element
        return
    result, indices = apply_key(self, key, writing=True)
    if not indices:
        if recorded and not isinstance(value, Tensor):  # as PyTorch records it
            value = full((), convert_number(value, result.dtype), dtype=result.dtype)
        _assign(result, value)
        return
    if not isinstance(value, Tensor):
        value = full((), convert_number(value, result.dtype), dtype=result.dtype)
    elif value._layout.shape[:1] == (1,):
        value = value.view(value._layout.shape[_leading_ones(value._layout.shape) :])
    _put(result, indices, value, False)


def _leading_ones(shape: tuple[int, ...]) -> int:
    return next((k for k, n in enumerate(shape) if n != 1), len(shape))


def _type_name(value: Any) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def _assign(target: Tensor, value: Any) -> None:
    """target[...] = value: leading dims of size 1 too many are dropped."""
    if not isinstance(value, Tensor) or (not value._layout.ndim and target._layout.ndim):
        check_memory(target)
        fill_(target, value)
        return
    shape = value._layout.shape
    extra = max(len(shape) - len(target._layout.shape), 0)
    if shape != target._layout.shape:
        lead = next((k for k, n in enumerate(shape[:extra]) if n != 1), extra)
        value = value.reshape(shape[lead:]) if lead else value
        value = value if value._layout.shape == target._layout.shape else value.expand(target._layout.shape)
    copy_(target, value)


def _put(x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool) -> Tensor:
    """``index_put_``, with the value's shape and dtype checked."""
    if grad_state.levels and (wrapped := outermost(indices)) is not None:
        wrapped.put_at(wrapped._level, x, indices, values, accumulate)
        return x
    check_history(x, grad_state.enabled and (x._requires_grad or values._requires_grad))
    places, pattern = resolve(x, indices)
    if values._layout.numel == 1 and all(i is None or i._layout.dtype is bool_ for i in indices):
        values = cast(values, x._layout.dtype)  # a mask is filled, whatever the value's dtype
        values = values.clone() if values._counter is counter_of(x) else values
    _check_values(x, values, pattern)
    shape, want = values._layout.shape, len(pattern.result)
    if len(shape) > want:
        values = values.reshape(shape[len(shape) - want :])
    return IndexPut.inplace(x, places, values, pattern, accumulate)


def _check_values(x: Tensor, values: Tensor, pattern: Pattern) -> None:
    if values._layout.dtype is not x._layout.dtype:
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got "
            f"{scalar_type(x.dtype)} for the destination and {scalar_type(values.dtype)} for the source."
        )
    shape = values._layout.shape
    lead, kept = shape[: max(len(shape) - len(pattern.result), 0)], shape[-len(pattern.result) or len(shape) :]
    into = pattern.result[len(pattern.result) - len(kept) :]
    if any(n != 1 for n in lead) or any(n not in (1, m) for n, m in zip(kept, into, strict=True)):
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(shape)} cannot be broadcast to indexing result of shape "
            f"{list(pattern.result)}"
        )


def _index_list(op: str, x: Tensor, indices: Any) -> list[Tensor | None]:
    if not isinstance(indices, (tuple, list)):
        raise TypeError(
            f"{op}(): argument 'indices' (position 1) must be tuple of Tensors, not {type(indices).__name__}"
        )
    if all(i is None for i in indices):
        raise IndexError(f"{op}(): at least one index tensor is needed, got {len(indices)} None")
    if len(indices) > x._layout.ndim:
        raise IndexError(f"too many indices for tensor of dimension {x._layout.ndim} (got {len(indices)})")
    return list(indices)


def index_put_(self: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """Set, or with ``accumulate`` add to, the elements that a tuple of index tensors names."""
    return _put(self, _index_list("index_put_", self, indices), values, accumulate)


@public
def index_put(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """A copy with the elements that a tuple of index tensors names set, or added to."""
    named = _index_list("index_put", input, indices)
    if grad_state.levels and (wrapped := outermost(named)) is not None:
        own = input if wrapped._level.is_batched(input) else wrapped._level.with_batch(input)
        return _put(own.clone(), named, values, accumulate)
    places, pattern = resolve(input, named)
    _check_values(input, values, pattern)
    return IndexPut.apply(input, places, values, pattern, accumulate)


public(index_put_)


@method
def __delitem__(self: Tensor, key: Any) -> None:
    raise TypeError("Tensor does not support deleting items")
