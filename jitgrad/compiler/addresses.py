"""The memory of arrays, of which others are views."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.dispatch.strides import owner_of
from jitgrad.kernels.device_array import DeviceArray

__all__ = ["ARRAYS", "root_of"]

# Types of arrays that programs know: those with memory of their own. Lazy ones and those without data are others.
ARRAYS = (np.ndarray, DeviceArray)


def root_of(array: Any) -> Any:
    """What stands for an array's memory, one object for all views of it: an array, or on a device an Allocation."""
    return array.allocation if type(array) is DeviceArray else owner_of(array)
