"""``torch.accelerator``: the device besides the CPU, which is CUDA where there is a GPU, or none."""

from __future__ import annotations

from typing import Any

from jitgrad import cuda
from jitgrad.core.device import device
from jitgrad.core.missing_names import explain_missing_names

__all__ = [
    "current_accelerator", "current_device_idx", "current_device_index", "current_stream", "device_count",
    "empty_cache", "is_available", "max_memory_allocated", "max_memory_reserved", "memory_allocated",
    "memory_reserved", "reset_peak_memory_stats", "set_device_idx", "set_device_index", "synchronize",
]  # fmt: skip


def is_available() -> bool:
    """Whether there is an accelerator."""
    return cuda.is_available()


def device_count() -> int:
    """How many accelerators there are; 0 without one."""
    return cuda.device_count() if cuda.is_available() else 0


def current_accelerator(check_available: bool = False) -> device | None:
    """The accelerator's device, without an index; None where there is none."""
    return device("cuda") if cuda.is_available() else None


def _present() -> Any:
    if not cuda.is_available():
        raise RuntimeError("Cannot access accelerator device when none is available.")
    return cuda


def current_device_index() -> int:
    """The number of the current device. RuntimeError, as below, where there is none."""
    index: int = _present().current_device()
    return index


def set_device_index(device: Any, /) -> None:
    """Make a device the current one."""
    _present().set_device(device)


def synchronize(device: Any = None, /) -> None:
    """Wait for all work of a device."""
    _present().synchronize()


def current_stream(device: Any = None, /) -> Any:
    """The stream that work is queued on: there is one."""
    return _present().current_stream(device)


def empty_cache() -> None:
    """Give unused memory back."""
    _present().empty_cache()


def memory_allocated(device_index: Any = None, /) -> int:
    """Bytes that tensors hold."""
    return int(_present().memory_allocated())


def max_memory_allocated(device_index: Any = None, /) -> int:
    """The most bytes that tensors held."""
    return int(_present().max_memory_allocated())


def memory_reserved(device_index: Any = None, /) -> int:
    """Bytes taken from the device."""
    return int(_present().memory_reserved())


def max_memory_reserved(device_index: Any = None, /) -> int:
    """The most bytes that were taken from the device."""
    return int(_present().max_memory_reserved())


def reset_peak_memory_stats(device_index: Any = None, /) -> None:
    """Count the most bytes anew."""
    _present().reset_peak_memory_stats()


current_device_idx, set_device_idx = current_device_index, set_device_index
explain_missing_names(__name__)
