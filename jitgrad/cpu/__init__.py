"""The CPU under the names that PyTorch has for devices, and the memory that is kept for large tensors.

Freed memory of tensors of 128 KB and more is kept for the next ones, up to 512 MB (core/block_pool.py);
``empty_cache`` gives it back to the system, as ``cuda.empty_cache`` does for the GPU's. PyTorch's CPU keeps none.
"""

from __future__ import annotations

from typing import Any

from jitgrad.core.block_pool import pool
from jitgrad.core.missing_names import explain_missing_names

__all__ = [
    "current_device", "device_count", "empty_cache", "is_available", "is_initialized", "set_device", "synchronize",
]  # fmt: skip

explain_missing_names(__name__, {"amp": "jitgrad.cpu.amp"})


def is_available() -> bool:
    """Whether there is a CPU: always."""
    return True


def is_initialized() -> bool:
    """Whether the CPU is ready: always."""
    return True


def device_count() -> int:
    """How many devices are called "cpu": 1, whatever the number of cores."""
    return 1


def current_device() -> str:
    """The device that "cpu" means: "cpu"."""
    return "cpu"


def set_device(device: Any) -> None:
    """Nothing: there is one CPU."""


def synchronize(device: Any = None) -> None:
    """Nothing: ops on the CPU are done when they return."""


def empty_cache() -> None:
    """Return the memory of freed tensors to the system."""
    pool.clear()
