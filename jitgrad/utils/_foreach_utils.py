"""PyTorch's path for what optimisers ask about lists of tensors."""

from __future__ import annotations

from typing import Any

from jitgrad.core.missing_names import explain_missing_names
from jitgrad.core.tensor import Tensor
from jitgrad.optim.kept_state import group_tensors as _group_tensors_by_device_and_dtype

__all__ = [
    "_device_has_foreach_support", "_foreach_supported_types", "_get_foreach_kernels_supported_devices",
    "_get_fused_kernels_supported_devices", "_group_tensors_by_device_and_dtype", "_has_foreach_support",
]  # fmt: skip

explain_missing_names(__name__)

_foreach_supported_types = [Tensor]


def _get_foreach_kernels_supported_devices() -> list[str]:
    """The devices on which PyTorch's optimisers prefer ops on lists."""
    return ["cuda", "xpu", "mtia", "privateuseone"]


def _get_fused_kernels_supported_devices() -> list[str]:
    """The devices for which PyTorch has fused steps."""
    return ["mps", "cuda", "xpu", "hpu", "cpu", "mtia", "privateuseone"]


def _device_has_foreach_support(device: Any) -> bool:
    return device.type in (*_get_foreach_kernels_supported_devices(), "cpu")


def _has_foreach_support(tensors: list[Any], device: Any) -> bool:
    return _device_has_foreach_support(device) and all(t is None or type(t) is Tensor for t in tensors)
