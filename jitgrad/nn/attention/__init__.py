"""Settings of attention: which of PyTorch's kernels may run. They are accepted and kept, and change nothing here."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from enum import Enum

from jitgrad.core.missing_names import explain_missing_names

__all__ = ["SDPBackend", "WARN_FOR_UNFUSED_KERNELS", "sdpa_kernel"]

WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(Enum):
    """The kinds of kernels that PyTorch has for ``scaled_dot_product_attention``, by its numbers."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4

    def __int__(self) -> int:
        return self.value


_enabled: list[SDPBackend] = [
    SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH,
    SDPBackend.OVERRIDEABLE,
]  # fmt: skip


def _cur_sdpa_kernel_backends(with_priority: bool = False) -> list[SDPBackend]:
    """The kinds that are allowed now."""
    return list(_enabled)


@contextlib.contextmanager
def sdpa_kernel(backends: list[SDPBackend] | SDPBackend, set_priority: bool = False) -> Iterator[dict[str, object]]:
    """Allow only these kinds of kernels inside; AssertionError unless it is one of them, or a list."""
    if not isinstance(backends, (list, SDPBackend)):
        raise AssertionError(
            "Backend must be an instance of SDPBackend or a list of SDPBackend instances, got "
            f"{type(backends).__name__}"
        )
    before = list(_enabled)
    _enabled[:] = dict.fromkeys(backends if isinstance(backends, list) else [backends])
    try:
        yield {}
    finally:
        _enabled[:] = before


explain_missing_names(__name__, {"bias": "jitgrad.nn.attention.bias"})
