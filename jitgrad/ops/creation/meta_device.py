"""The device "meta": tensors with a shape and a dtype but no values, whose ops plan and launch nothing.

Its arrays are MetaArrays (kernels/device_array.py), which take the ways of a GPU's: kernels that meet one do nothing.
"""

from __future__ import annotations

from typing import Any

from jitgrad.core.device import device, register_device
from jitgrad.core.layout import Layout, intern
from jitgrad.core.storage import register_allocator, register_array_type
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.kernels.device_array import MetaArray

__all__: list[str] = []

_META = device("meta")


def _allocate(layout: Layout) -> MetaArray:
    item = layout.numpy_dtype.itemsize
    return MetaArray.new(layout.numpy_dtype, layout.shape, tuple([s * item for s in layout.strides]))


def _copied(x: Tensor, target: Any) -> Tensor:
    if target != _META:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    layout = intern(x._layout.numpy_dtype, x._layout.shape, x._layout.strides, _META)
    return wrap(_allocate(layout), layout)


class _Transfer:
    """Copies into meta tensors write nothing; there is nothing to copy out of them."""

    def __init__(self, source: Layout, target: Layout):
        self.refused = source.device == _META

    def write(self, tensor: Tensor, array: Any) -> None:
        """Do nothing, or raise."""
        if self.refused:
            raise NotImplementedError("Cannot copy out of meta tensor; no data!")


register_device("meta", lambda _: _META, _copied)
register_allocator("meta", _allocate, _Transfer)
register_array_type(MetaArray, _META)
