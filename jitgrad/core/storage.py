"""Arrays that hold tensors' values, on every device, and version counters, which count the writes to them."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.core.block_pool import MIN_BYTES, block_size, pool
from jitgrad.core.layout import Layout
from jitgrad.kernels.lazy_array import memory_of

__all__ = [
    "UNWRITTEN",
    "allocator",
    "array_address",
    "count_write",
    "counter_of",
    "device_of_array",
    "empty_for",
    "register_allocator",
    "register_array_type",
    "transfer",
]  # fmt: skip


# The version counter of all memory that was never written to and has no views: it reads 0, and is replaced by a list
# with the first write or view. Most results never get one of their own, which is one object less in each recorded op
# for Python's collector to visit; it takes most of the time of a deep graph. A tuple, so that code which counts a write
# without replacing it fails.
UNWRITTEN: Any = (0,)


def counter_of(tensor: Any) -> list[int]:
    """The version counter of a tensor as a list that views of it can share, made now if it had none."""
    counter = tensor._counter
    if counter is UNWRITTEN:
        counter = tensor._counter = [0]
    return counter


def count_write(tensor: Any) -> None:
    """Count a write to a tensor's memory; RuntimeError for an inference tensor outside of inference mode."""
    counter = tensor._counter
    if counter is UNWRITTEN:
        tensor._counter = [1]
    else:
        counter[0] += 1


_WORD = ctypes.c_void_p.from_address
_FIRST = object.__basicsize__  # where an array has the address of its first element: behind the fields of any object


def array_address(array: np.ndarray[Any, Any]) -> int:
    """The address of an array's first element: ``array.ctypes.data`` in a tenth of the time."""
    return _WORD(id(array) + _FIRST).value or 0


if array_address(_FEW := np.empty(2)[1:]) != _FEW.ctypes.data:  # NumPy's arrays may look otherwise one day

    def array_address(array: np.ndarray[Any, Any]) -> int:
        return array.ctypes.data


def empty_for(layout: Layout) -> Any:
    """Allocate an uninitialised array of this layout."""
    if layout.plain:
        return np.empty(layout.shape, layout.numpy_dtype)
    return allocator(layout)()


def allocator(layout: Layout) -> Callable[[], Any]:
    """A function that does what ``empty_for(layout)`` does, in less time: what depends on the layout is worked out."""
    if layout.device != "cpu":
        return functools.partial(_allocators[layout.device.type], layout)
    if layout.plain:
        return functools.partial(np.empty, layout.shape, layout.numpy_dtype)
    if layout.array_shape is not layout.shape:
        return functools.partial(np.empty, layout.array_shape, layout.numpy_dtype)
    # Without a buffer NumPy allocates as much as the shape needs, which is right for strides without gaps.
    strides = None if layout.contiguous else tuple([s * layout.numpy_dtype.itemsize for s in layout.strides])
    nbytes = layout.numel * layout.numpy_dtype.itemsize
    if nbytes >= MIN_BYTES:
        return functools.partial(_large_array, layout.shape, layout.numpy_dtype, block_size(nbytes), strides)
    make: Any = np.ndarray
    return functools.partial(make, layout.shape, layout.numpy_dtype, None, 0, strides)


def _large_array(shape: tuple[int, ...], dtype: np.dtype[Any], size: int, strides: tuple[int, ...] | None) -> Any:
    try:
        return pool.array(shape, dtype, size, strides)
    except MemoryError:
        nbytes = math.prod(shape) * dtype.itemsize
        raise RuntimeError(
            f"DefaultCPUAllocator: can't allocate memory: you tried to allocate {nbytes} bytes. Error code 12 "
            "(Cannot allocate memory)"
        ) from None


# By device type, filled by whoever provides the device (jitgrad/cuda.py); the CPU's are NumPy's.
_allocators: dict[str, Any] = {}
_transfers: dict[str, Any] = {}
_devices: dict[type, Any] = {}  # {type of an array that is not NumPy's: its device, as layouts have it}


def register_allocator(device_type: str, allocate: Any, transfer: Any) -> None:
    """Make a device type's memory available.

    ``allocate(layout)`` returns an uninitialised array. ``transfer(source, target)`` returns, for two layouts one of
    which is on the device, an object whose ``write(tensor, array)`` copies from the first to the second.
    """
    _allocators[device_type], _transfers[device_type] = allocate, transfer


def device_of_array(array: Any) -> Any:
    """The device of an array, as layouts have it."""
    memory = memory_of(array)
    return "cpu" if isinstance(memory, np.ndarray) else _devices[type(memory)]


def register_array_type(array_type: type, device: Any) -> None:
    """Let ``device_of_array`` answer ``device`` for arrays of this type."""
    _devices[array_type] = device


def transfer(source: Layout, target: Layout) -> Any:
    """An object whose ``write(tensor, array)`` copies from one device to another, as a LaunchPlan's does on one."""
    remote = source.device if source.device != "cpu" else target.device
    return _transfers[remote.type](source, target)
