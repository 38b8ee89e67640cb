"""``torch.utils.dlpack``: memory shared with other libraries."""

from __future__ import annotations

import enum

from jitgrad.ops.creation.dlpack import from_dlpack, to_dlpack

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]


class DLDeviceType(enum.IntEnum):
    """DLPack's numbers of devices."""

    kDLCPU, kDLCUDA, kDLCUDAHost, kDLOpenCL = 1, 2, 3, 4
    kDLVulkan, kDLMetal, kDLVPI, kDLROCM = 7, 8, 9, 10
