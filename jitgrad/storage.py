"""Buffers: where tensors' values live, by device."""

from __future__ import annotations

from typing import Any

import numpy as np

from .layout import Layout

__all__ = ["empty_for"]


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


def register_allocator(device_type: str, allocate: Any) -> None:
    """Let ``allocate(layout)`` provide the arrays of a device type."""
    _allocators[device_type] = allocate
