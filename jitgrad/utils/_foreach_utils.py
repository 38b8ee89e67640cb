"""``torch.utils._foreach_utils``: tensors in groups of one device and dtype, as optimisers' ``_foreach`` forms want."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.core.device import device

__all__: list[str] = []


def _get_foreach_kernels_supported_devices() -> list[str]:
    return ["cuda"]


def _get_fused_kernels_supported_devices() -> list[str]:
    return ["cuda", "cpu"]


def _group_tensors_by_device_and_dtype(
    tensorlistlist: Sequence[Sequence[Any]], with_indices: bool = False
) -> dict[tuple[Any, Any], tuple[list[list[Any]], list[int]]]:
    """{(device, dtype) of the first list's tensors: (the lists of those, their places)}."""
    groups: dict[tuple[Any, Any], tuple[list[list[Any]], list[int]]] = {}
    for place, first in enumerate(tensorlistlist[0]):
        lists, places = groups.setdefault((first.device, first.dtype), ([[] for _ in tensorlistlist], []))
        for own, values in zip(lists, tensorlistlist, strict=True):
            if len(values) > place:
                own.append(values[place])
        if with_indices:
            places.append(place)
    return groups


def _has_foreach_support(tensors: Sequence[Any], device: device) -> bool:
    return device.type in _get_foreach_kernels_supported_devices()


def _device_has_foreach_support(device: device) -> bool:
    return device.type in (*_get_foreach_kernels_supported_devices(), "cpu")
