"""Buffers: where tensors' values live, by device; and how often they were written to."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.core.layout import Layout

__all__ = [
    "UNWRITTEN",
    "count_write",
    "counter_of",
    "device_of_array",
    "empty_for",
    "register_allocator",
    "register_array_type",
    "transfer",
]  # fmt: skip


# The version counter of memory that was never written to and is not shared. Most results stay so: for them no counter
# is made, which spares Python's collector an object in five for a recorded op.
UNWRITTEN: Any = (0,)


def counter_of(tensor: Any) -> list[int]:
    """The version counter of a tensor, to be shared with a view of it or compared."""
    counter = tensor._counter
    if counter is UNWRITTEN:
        counter = tensor._counter = [0]
    return counter


def count_write(tensor: Any) -> None:
    """Note that a tensor's memory is written to; RuntimeError for inference tensors outside of their mode."""
    counter = tensor._counter
    if counter is UNWRITTEN:
        tensor._counter = [1]
    else:
        counter[0] += 1


def empty_for(layout: Layout) -> Any:
    """Allocate an uninitialised array of this layout."""
    if layout.contiguous and layout.device == "cpu":
        return np.empty(layout.shape, layout.numpy_dtype)
    if layout.device != "cpu":
        return _allocators[layout.device.type](layout)
    order = sorted(range(layout.ndim), key=lambda d: (-layout.strides[d], d))
    flat = np.empty([layout.shape[d] for d in order], layout.numpy_dtype)
    return flat.transpose(np.argsort(order))


_allocators: dict[str, Any] = {}
_transfers: dict[str, Any] = {}
_homes: dict[type, Any] = {}  # of arrays that are not NumPy's


def register_allocator(device_type: str, allocate: Any, transfer: Any) -> None:
    """Let ``allocate(layout)`` provide the arrays of a device type.

    ``transfer(source, target)`` returns, for two layouts of which one is on the device, what has
    ``write(tensor, array)``: the copy from one to the other.
    """
    _allocators[device_type], _transfers[device_type] = allocate, transfer


def device_of_array(array: Any) -> Any:
    """The device of an array, as layouts have it."""
    return "cpu" if isinstance(array, np.ndarray) else _homes[type(array)]


def register_array_type(kind: type, device: Any) -> None:
    """Say that arrays of type ``kind`` lie on ``device``."""
    _homes[kind] = device


def transfer(source: Layout, target: Layout) -> Any:
    """What copies between two devices; see ``register_allocator``."""
    away = source.device if source.device != "cpu" else target.device
    return _transfers[away.type](source, target)
