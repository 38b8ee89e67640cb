"""What the engine does with gradients: add two, add into an owned one, copy one."""

from __future__ import annotations

from typing import Any

from jitgrad.core.inference import check_write
from jitgrad.core.layout import cache, intern
from jitgrad.core.storage import UNWRITTEN
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.copying import in_layout
from jitgrad.dispatch.elementwise_publish import OPERATIONS
from jitgrad.dispatch.launch_plan import is_dense
from jitgrad.kernels.elementwise.arithmetic import Add
from jitgrad.ops.creation.constants import empty_like
from jitgrad.ops.shape.copy import Clone

__all__ = ["accumulated", "add_into", "add_new", "first_grad", "own_copy"]

_ADD = OPERATIONS[Add.name]
_writes: dict[Any, Any] = cache()
add_new = _ADD.function  # the sum out of place; recorded when the engine builds a graph


def add_into(buffer: Tensor, grad: Tensor) -> None:
    """Add ``grad`` to a buffer of the same layout, without gaps, that nobody else reads."""
    layout = buffer._layout
    write = _writes.get(layout)
    if write is None:
        _ADD.write(buffer, grad)
        _writes[layout] = _ADD.writes[layout, layout].launch.write
        return
    counter = buffer._counter
    if counter is UNWRITTEN:  # count_write, written out
        buffer._counter = [1]
    else:
        try:
            counter[0] += 1
        except RuntimeError:
            check_write(buffer)
    write(buffer, grad, buffer._data)


def accumulated(there: Tensor, grad: Tensor) -> None:
    """Add ``grad`` to a leaf's ``.grad`` in place, as the user sees it."""
    if there._layout is grad._layout and there._layout.contiguous:
        add_into(there, grad)
    else:
        there.add_(grad)


def own_copy(grad: Tensor) -> Tensor:
    """A copy that may be kept; a recorded one bears the name that PyTorch's has."""
    return empty_like(grad).copy_(grad) if grad._requires_grad else Clone.apply(grad)


def first_grad(leaf: Tensor, grad: Tensor, owned: bool) -> Tensor:
    """What becomes a leaf's ``.grad``: strides like the leaf's if it has no gaps, row-major otherwise.

    ``owned``: nobody else holds the gradient, so that it may be taken as it is.
    """
    own, given = leaf._layout, grad._layout
    if own.contiguous or not is_dense(own):
        if given.contiguous:
            return grad if owned else own_copy(grad)
        wished = intern(given.numpy_dtype, given.shape, None, given.device)
    elif given.strides == own.strides:
        return grad if owned else own_copy(grad)
    else:
        wished = intern(given.numpy_dtype, given.shape, own.strides, given.device)
    return in_layout(grad, wished) if not grad._requires_grad else empty_like(grad).copy_(grad)
