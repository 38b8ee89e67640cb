"""What the modules of devices that jitgrad has no kernels for answer: there are none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.core.absent import absent_names

__all__ = ["no_device"]

# Functions that programs call without asking first.
_QUIET = ("manual_seed", "manual_seed_all", "seed", "seed_all")


def no_device(module: str, title: str) -> dict[str, Callable[..., Any]]:
    """The functions of ``jitgrad.mps`` and its kind. title: the device's name in the error of what needs one."""

    def is_available() -> bool:
        """Whether there is such a device: never."""
        return False

    def device_count() -> int:
        """How many there are: none."""
        return 0

    def ignored(*args: Any) -> None:
        """Nothing, as there is no device whose generator could be seeded."""

    absent_names(module, "Event Stream stream device current_device current_stream set_device synchronize empty_cache "
                 "get_rng_state set_rng_state initial_seed memory_allocated memory_reserved max_memory_allocated "
                 "current_allocated_memory driver_allocated_memory get_device_name get_device_properties profiler",
                 f"there are no kernels for {title}")  # fmt: skip
    return {
        "is_available": is_available, "is_initialized": is_available, "_is_in_bad_fork": is_available,
        "device_count": device_count, **dict.fromkeys(_QUIET, ignored),
    }  # fmt: skip
