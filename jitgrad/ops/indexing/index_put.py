"""Reading and writing by several index tensors at once: what ``x[...]`` and ``index_put`` come down to."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.core.dtypes import bool_
from jitgrad.core.errors import must_be, must_be_tensor, scalar_type
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.layout import CAPACITY, Layout
from jitgrad.core.saved_tensors import SavedTensor
from jitgrad.core.storage import count_write, counter_of
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.core.wrapped import outermost_wrapped
from jitgrad.dispatch.batch_rules import BatchedCall, one_by_one
from jitgrad.dispatch.copying import copy_to_layout, copying, filled
from jitgrad.dispatch.inplace_ops import InplaceOp, stored_once, through_rows, warn_of_expanded
from jitgrad.dispatch.op_samples import cases, draw, draw_ints
from jitgrad.dispatch.operand_checks import check_history, check_tensors, is_same_memory, overlapping
from jitgrad.dispatch.planned import Launches, Number, Read, Written, compiled, planned
from jitgrad.dispatch.planned import row_major as as_blocks
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import as_flag
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.launch import launch
from jitgrad.kernels.loops import indexing as kernels
from jitgrad.ops.creation.ranges import arange
from jitgrad.ops.indexing.index_errors import warn_of_bytes
from jitgrad.ops.indexing.index_pattern import INDEX_DTYPES, Pattern, resolve
from jitgrad.ops.indexing.places import empty_like_layout, in_blocks, row_major, spread_blocks, written
from jitgrad.ops.shape.copy import cast
from jitgrad.ops.shape.expand import Expand, summed_to
from jitgrad.ops.shape.slicing import zeros_of

__all__ = ["Index", "IndexPut", "fill_at", "put", "put_at", "resolve"]


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
        # Samples broadcast from the right; the batch has to stay in front of the dims that they lack.
        values = values.view(call.size, *(1,) * missing, *call.shape("values"))
    values = values.expand(call.size, *pattern.result)
    if not pattern.together:  # then the indices' shape comes first in the result, before the batch
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
        if pattern.plans is not None:
            read = pattern.plans.get((x._layout, places._layout)) or _plan_read(x._layout, places._layout, pattern)
            return read(x, places)
        outer, _, inner = pattern.blocks
        out = empty_like_layout(x._layout, pattern.result)
        launch(kernels.take_rows, pattern.rows(x), places._data, out._data.reshape(outer, places._layout.numel, inner))
        layout = pattern.layout_of_read(x._layout)
        return out if layout.contiguous else copy_to_layout(out, layout)

    def grad_x(g, x_layout, places, pattern):
        return IndexPut.apply(zeros_of(x_layout), places, g, pattern, True)

    def kernel_x(g, x_layout, places, pattern):
        if pattern.plans is not None and pattern.order is None:
            return spread_blocks(g, x_layout, pattern.blocks, places)
        out = zeros_of(x_layout)
        IndexPut.write(out, places, g, pattern, True)
        return out


def _plan_read(x: Layout, places: Layout, pattern: Pattern) -> Callable[..., Tensor]:
    """The function of tensors of these layouts that reads what the pattern says, kept in it."""
    (outer, _, inner), m = pattern.blocks, places.numel
    source = as_blocks("x", x, pattern.blocks) if pattern.order is None else Read("x", pattern.rows)
    taking = kernels.take_rows, source, Read("places", (m,)), Written(0, (outer, m, inner))
    found = compiled(Launches([taking], [row_major(x, pattern.result)]), {"x": x, "places": places})
    layout = pattern.layout_of_read(x)
    read = found if layout.contiguous else lambda x, places: copy_to_layout(found(x, places), layout)
    assert pattern.plans is not None
    pattern.plans[x, places] = read
    return read


class IndexPut(InplaceOp):
    """Set, or with ``accumulate`` add to, the elements at ``places`` of a pattern's dims."""

    jointly_linear = ("x", "values")
    batch = _put_batched
    samples = cases(lambda: _put_sample(True, None, draw_ints(5, below=3)), lambda: _put_sample(False, draw(2, 3) > 0))
    reference = lambda x, places, values, pattern, accumulate: written(
        x, values, _indexed, places, pattern, add=accumulate
    )
    name, grad_name, allows_internal_overlap = "index_put_places", "IndexPutBackward0", True

    def write(x, places, values, pattern, accumulate):
        if pattern.plans is not None:
            key = x._layout, places._layout, values._layout, accumulate
            write = pattern.plans.get(key) or _plan_write(*key, pattern)
            write(x, places, values)
        else:
            _write(x, places, values, pattern, accumulate)

    def grad_x(g, places, pattern, accumulate):
        if accumulate:
            return g
        return IndexPut.apply(g, places, filled(row_major(g._layout, pattern.result), 0), pattern, False)

    def grad_values(g, places, pattern, values_layout):
        return summed_to(Index.apply(g, places, pattern), values_layout.shape)


def _plan_write(x: Layout, places: Layout, values: Layout, accumulate: bool, pattern: Pattern) -> Callable[..., None]:
    """The function that writes tensors of these layouts as the pattern says; the pattern caches it."""
    kernel, blocks = kernels.add_rows if accumulate else kernels.put_rows, pattern.blocks
    m = places.numel
    rows = blocks[0], m, blocks[2]

    def write_any(x: Tensor, places: Tensor, values: Tensor) -> None:
        _write(x, places, values, pattern, accumulate)

    write = write_any
    plain = pattern.order is None and x.contiguous and values.contiguous and x.device == "cpu"
    if plain:
        putting = kernel, Read("values", rows), Read("places", (m,)), Read("x", blocks)
        full = row_major(x, pattern.result)
        write = put_all = compiled(Launches([putting], [], 0), {"x": x, "places": places, "values": full})
        if values.shape != full.shape:
            spread = copying(values, full)

            def write(x: Tensor, places: Tensor, values: Tensor) -> None:
                put_all(x, places, spread(values))

    assert pattern.plans is not None
    pattern.plans[x, places, values, accumulate] = write
    return write


def _write(x: Tensor, places: Tensor, values: Tensor, pattern: Pattern, accumulate: bool) -> None:
    """Write ``values`` of any layout into ``x`` of any layout."""
    outer, _, inner = blocks = pattern.blocks
    source = Expand.forward(wrap(values._data, values._layout), pattern.result)
    order, stored = pattern.order, stored_once(x)
    if stored is not x:  # each element is named alone, by its place among those that have memory of their own
        places, order, x = Index.forward(_places_in(stored, x._layout.shape), places, pattern), None, stored  # type: ignore[arg-type]
        outer, _, inner = blocks = (1, x._layout.numel, 1)
    rows = in_blocks(source, (outer, places._layout.numel, inner))
    flat = places._data.reshape(-1)
    kernel = kernels.add_rows if accumulate else kernels.put_rows
    through_rows(x, lambda data: launch(kernel, rows, flat, data.reshape(blocks)), order)


def _places_in(stored: Tensor, shape: tuple[int, ...]) -> Tensor:
    """For each element of ``stored``, expanded to ``shape``, its place in row-major order, as int64."""
    return arange(stored._layout.numel).view(stored._layout.shape).expand(shape)


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


# -- index_put ------------------------------------------------------------------------------------------


def put(x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool) -> Tensor:
    """``index_put_``, with the value's shape and dtype checked. Also what ``x[indices] = values`` does."""
    if grad_state.levels and (wrapped := outermost_wrapped(indices)) is not None:
        wrapped.put_at(wrapped._level, x, indices, values, accumulate)
        return x
    check_history(x, grad_state.enabled and (x._requires_grad or values._requires_grad))
    places, pattern = resolve(x, indices)
    if values._layout.numel == 1 and all(i is None or i._layout.dtype is bool_ for i in indices):
        values = cast(values, x._layout.dtype)  # a mask is filled, whatever the value's dtype
        values = values.clone() if values._counter is counter_of(x) else values
    return put_at(x, places, pattern, values, accumulate)


def put_at(x: Tensor, places: Tensor, pattern: Pattern, values: Tensor, accumulate: bool) -> Tensor:
    """``put`` at places that were resolved."""
    if values is x or (values._base is not None and values._counter is x._counter and is_same_memory(x, values)):
        raise overlapping()
    _check_values(x._layout, values._layout, pattern.result)
    shape, want = values._layout.shape, len(pattern.result)
    if len(shape) > want:
        values = values.reshape(shape[len(shape) - want :])
    return IndexPut.inplace(x, places, values, pattern, accumulate)


def fill_at(x: Tensor, places: Tensor, pattern: Pattern, number: Any) -> bool:
    """Write a number, which the dtype of ``x`` holds, at places that were resolved; nothing is recorded.

    False, and nothing done, for memory of another order than the places count.
    """
    layout = x._layout
    if pattern.order is not None or not layout.contiguous or layout.device != "cpu":
        return False
    _fill_rows(x, places, pattern.blocks, number)
    count_write(x)
    return True


@planned("x", "places", numbers=("number",))
def _fill_rows(x, places, blocks, number):
    filling = kernels.fill_rows, Read("places", (places.numel,)), Read("x", blocks), Number("number")
    return Launches([filling], [], 0)


@functools.lru_cache(CAPACITY)
def _check_values(x: Layout, values: Layout, result: tuple[int, ...]) -> None:
    """RuntimeError for values that can't be put into ``x`` where an index has this result."""
    shape = values.shape
    lead, kept = shape[: max(len(shape) - len(result), 0)], shape[-len(result) or len(shape) :]
    into = result[len(result) - len(kept) :]
    if any(n != 1 for n in lead) or any(n not in (1, m) for n, m in zip(kept, into, strict=True)):
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(shape)} cannot be broadcast to indexing result of shape "
            f"{list(result)}"
        )
    if values.dtype is not x.dtype:
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got "
            f"{scalar_type(x.dtype)} for the destination and {scalar_type(values.dtype)} for the source."
        )


def _index_list(op: str, x: Tensor, indices: Any, values: Any) -> list[Tensor | None]:
    """The index tensors of a call of ``op``, whose arguments are checked."""
    if not isinstance(values, Tensor):
        raise must_be_tensor(op, "values", 3, values)
    if not isinstance(indices, (tuple, list)):
        raise must_be(op, "indices", 2, "tuple of Tensors", indices)
    check_tensors((x if i is None else i for i in indices), 1)
    given = [i for i in indices if i is not None]
    for index in given:
        if index._layout.dtype.name not in INDEX_DTYPES:
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        warn_of_bytes(index)
    if not given:
        raise RuntimeError(f"{op}(): at least one index tensor is needed, got {len(indices)} None")
    if len(indices) > x._layout.ndim:
        raise IndexError(f"too many indices for tensor of dimension {x._layout.ndim} (got {len(indices)})")
    return list(indices)


def index_put_(self: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """Set, or with ``accumulate`` add to, the elements that a tuple of index tensors names."""
    warn_of_expanded("index_put_", self, "tensor[indices] = tensor")
    return put(self, _index_list("index_put_", self, indices, values), values, as_flag(accumulate))


@public
def index_put(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """A copy with the elements that a tuple of index tensors names set, or added to."""
    named, accumulate = _index_list("index_put", input, indices, values), as_flag(accumulate)
    if grad_state.levels and (wrapped := outermost_wrapped(named)) is not None:
        own = input if wrapped._level.is_batched(input) else wrapped._level.with_batch(input)
        return put(own.clone(), named, values, accumulate)
    places, pattern = resolve(input, named)
    _check_values(input._layout, values._layout, pattern.result)
    return IndexPut.apply(input, places, values, pattern, accumulate)


public(index_put_)
