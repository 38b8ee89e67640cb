"""PyTorch's path for memory that is shared with other libraries by DLPack."""

from __future__ import annotations

from typing import Any

from jitgrad.core.tensor import Tensor
from jitgrad.ops.creation.pickle_dlpack import from_dlpack

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor: Tensor) -> Any:
    """The capsule of a tensor's memory, which one library may take. Libraries of today take the tensor itself."""
    return tensor.__dlpack__()
