"""``torch.utils.dlpack``: memory shared with other libraries."""

from __future__ import annotations

import enum
from typing import Any

import jitgrad

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]


class DLDeviceType(enum.IntEnum):
    """DLPack's numbers of devices."""

    kDLCPU, kDLCUDA, kDLCUDAHost, kDLOpenCL = 1, 2, 3, 4
    kDLVulkan, kDLMetal, kDLVPI, kDLROCM = 7, 8, 9, 10


def from_dlpack(ext_tensor: Any) -> Any:
    """A tensor on the memory of any object that has ``__dlpack__``."""
    return jitgrad.from_dlpack(ext_tensor)


def to_dlpack(tensor: Any) -> Any:
    """A capsule of a tensor's memory, for libraries that take one."""
    return tensor.__dlpack__()
