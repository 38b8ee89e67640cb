"""Who is told of every new tensor: inference mode marks it, a profiler counts its memory.

Generated launchers and ``wrap`` test ``observers`` and do no more while it is empty.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["announce", "observers"]

observers: list[Callable[[Any], None]] = []


def announce(tensor: Any) -> None:
    """Show a new tensor to all observers, which are those of every thread."""
    for observer in tuple(observers):
        observer(tensor)
