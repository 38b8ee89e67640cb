"""The addresses of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["address_of", "extent_of"]


def address_of(a: np.ndarray[Any, Any]) -> int:
    """The address of an array's first element."""
    return int(a.__array_interface__["data"][0])


def extent_of(a: np.ndarray[Any, Any]) -> tuple[int, int]:
    """The addresses of an array's first byte and of the one after its last; strides are not negative."""
    low = address_of(a)
    if a.size == 0:
        return low, low
    return low, low + sum((n - 1) * abs(s) for n, s in zip(a.shape, a.strides, strict=True)) + a.itemsize
