"""as_strided: the memory of a tensor by shape and strides."""

from __future__ import annotations

import functools
from typing import Any, ClassVar

from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.layout import CAPACITY, intern
from jitgrad.core.tensor import Tensor, address
from jitgrad.core.wrapped import innermost_tensor
from jitgrad.dispatch.batch_rules import BatchedCall, is_batch
from jitgrad.dispatch.copying import filled
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.operand_checks import may_overlap
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import int_argument, ints_argument
from jitgrad.dispatch.strides import check_bounds, dense_layout, extent, storage_of
from jitgrad.ops.shape.slicing import Embedded, SliceView
from jitgrad.ops.shape.view import relaying

__all__ = ["AsStrided", "as_strided"]


def _as_strided_batched(call: BatchedCall) -> Any:
    """The samples lie one batch stride apart in memory, and within each the view lies alike."""
    x = call["x"]
    return call.run(size=(call.size, *call["size"]), stride=(x._layout.strides[0], *call["stride"]))


class AsStrided(SliceView):
    """The memory of ``x`` by size and strides; ``offset`` counts from its own first element."""

    batch = _as_strided_batched
    name, overlapping = "as_strided_from", True
    linear: ClassVar[tuple[str, ...]] = ()  # not even in x: its tangent may have other strides
    samples = cases(
        lambda: (draw(3, 4), (3, 3), (2, 1), 1),
        lambda: (draw(3, 4).t(), (2, 5), (3, 1), 0),
    )

    def plan(x_layout, size, stride, offset):
        return relaying(x_layout, size, stride, offset)

    def grad_x(g, x_layout, size, stride, offset):
        # x and the view may each show memory that the other does not. So g is embedded in a storage, one-dimensional
        # and row-major, that holds both; ``before`` is how far the view begins before x. Of this, x's place is taken.
        before = max(-offset, 0)
        count = max(extent(x_layout.shape, x_layout.strides), extent(size, stride) + offset) + before
        storage = dense_layout(x_layout.numpy_dtype, count, x_layout.device)
        whole = Embedded.apply(g, storage, AsStrided, (size, stride, offset + before))
        if may_overlap(x_layout):  # elements of x that have one place share the gradient of that place
            ones = filled(intern(g._layout.numpy_dtype, x_layout.shape, None, x_layout.device), 1)
            whole = whole / Embedded.apply(ones, storage, AsStrided, (x_layout.shape, x_layout.strides, before))
        return AsStrided.apply(whole, x_layout.shape, x_layout.strides, before)


@public
def as_strided(input: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """A view of the tensor's memory by shape and strides; elements may overlap.

    RuntimeError for negative strides, and where the memory ends before the view does.
    """
    size, stride = ints_argument("as_strided", "size", 2, size), ints_argument("as_strided", "stride", 3, stride)
    if storage_offset is not None:
        storage_offset = int_argument("as_strided", "storage_offset", 4, storage_offset)
    span = _span(size, stride)
    if grad_state.levels and is_batch(input):
        return _as_strided_sample(input, size, stride, storage_offset)
    if span is None:
        raise RuntimeError("mismatch in length of strides and shape")
    if storage_offset is None and input._layout.contiguous and span <= input._layout.numel:
        return AsStrided.apply(input, size, stride, 0)
    # PyTorch counts storage_offset from the beginning of the storage, AsStrided from that of the input.
    item, (storage, have) = input._layout.dtype.itemsize, storage_of(input)
    own = (address(input) - storage) // item if input._layout.numel else 0
    start = own if storage_offset is None else storage_offset
    if start < 0 or (start + span) * item > have:
        check_bounds(size, stride, start, item, have)
    return AsStrided.apply(input, size, stride, start - own)


@functools.lru_cache(CAPACITY)
def _span(size: tuple[int, ...], stride: tuple[int, ...]) -> int | None:
    """How many elements a view spans; None if not every size has a stride. RuntimeError for a negative stride."""
    if any(s < 0 for s in stride):
        raise RuntimeError(
            f"as_strided: Negative strides are not supported at the moment, got strides: {list(stride)}"
        )
    return extent(size, stride) if len(size) == len(stride) else None


def _as_strided_sample(x: Tensor, size: tuple[int, ...], stride: tuple[int, ...], storage_offset: int | None) -> Tensor:
    """``as_strided`` inside a vmap: RuntimeError where the view leaves the memory of its own sample.

    ``storage_offset`` counts as it would for the first sample of the batch.
    """
    if len(size) != len(stride):
        raise RuntimeError(
            "Tensor.as_strided(size, stride, ...): size and stride must have the same length! "
            f"Got size {list(size)} and stride {list(stride)}"
        )
    own = innermost_tensor(x).storage_offset()
    start = own if storage_offset is None else storage_offset
    room, need = extent(x._layout.shape, x._layout.strides), extent(size, stride)
    if need and (not room or start < own or start + need > own + room):
        raise RuntimeError(
            f"result = tensor.as_strided({list(size)}, {list(stride)}, {start}) can access memory outside of `tensor`. "
            f"{_reach(start, need, own, room)}. This is not supported inside of vmap, please try to rewrite the "
            "`as_strided` call as a sequence of PyTorch view operations"
        )
    return AsStrided.apply(x, size, stride, start - own)


def _reach(start: int, need: int, own: int, room: int) -> str:
    """Which memory ``need`` elements from ``start`` on take, and which the tensor has, in PyTorch's words."""
    if not room:
        return (
            "`tensor` has no storage but the passed-in (size, stride, storage_offset) imply a result with some storage"
        )
    return (
        f"`result` can access some memory in range [{start}, {start + need}], but `tensor` can only access some memory "
        f"in range [{own}, {own + room}]"
    )
