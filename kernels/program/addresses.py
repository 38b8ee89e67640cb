"""Where arrays lie, those of the CPU and those on a device, which have addresses of their own.

On a device an array's memory is its Allocation; one that stands for such memory in a recording is `Reserved`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.kernels.device_array import Allocation, DeviceArray
from jitgrad.kernels.pool_code import DATA

__all__ = ["address_of", "extent_of", "extent_of_strides", "is_array", "is_on_device"]

_WORD = ctypes.c_ssize_t.from_address


def is_array(value: Any) -> bool:
    """Whether it is an array with memory, on the CPU or on a device."""
    return isinstance(value, np.ndarray) or type(value) is DeviceArray


def is_on_device(value: Any) -> bool:
    """Whether it is an array, or memory, on a device."""
    return type(value) is DeviceArray or isinstance(value, Allocation)


def address_of(array: Any) -> int:
    """The address of an array's element number 0, or of the first byte of memory on a device."""
    # As the programs read it themselves; NumPy's own attributes make a dict or an object of ctypes first, 3 us.
    return _WORD(id(array) + DATA).value if isinstance(array, np.ndarray) else array.address


def extent_of(array: Any) -> tuple[int, int]:
    """The addresses of an array's first byte and of the one after its last."""
    low = address_of(array)
    if isinstance(array, Allocation) or (isinstance(array, np.ndarray) and array.flags.c_contiguous):
        return low, low + array.nbytes
    return extent_of_strides(low, array.shape, array.strides, array.itemsize)


def extent_of_strides(low: int, shape: Sequence[int], strides: Sequence[int], itemsize: int) -> tuple[int, int]:
    """The same, of what strides in bytes reach from an address on."""
    if 0 in shape:
        return low, low
    steps = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    return low + sum(s for s in steps if s < 0), low + sum(s for s in steps if s > 0) + itemsize
