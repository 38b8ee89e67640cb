"""What autocast has switched on, of this thread and of all: see `jitgrad/amp/`, which casts."""

from __future__ import annotations

import threading
from typing import Any

from jitgrad.core import dtypes
from jitgrad.core.tensor import Tensor

__all__ = ["cast_to", "regions", "state"]


class _State(threading.local):
    """The settings of a thread, by device type, and how many regions are open."""

    def __init__(self) -> None:
        self.enabled = {"cpu": False, "cuda": False}
        self.dtype = {"cpu": dtypes.bfloat16, "cuda": dtypes.float16}
        self.cache_enabled, self.nesting = True, 0
        self.inside = False  # within an op that was cast: the ops that it is made of are not
        self.cache: dict[int, tuple[Any, Tensor]] = {}  # {id of a leaf: (weak reference to it, its cast)}


class _Regions:
    count = 0  # of all threads: those in which something is cast


state, regions = _State(), _Regions()


def cast_to() -> tuple[Any, bool] | None:
    """What ops of this thread are cast to, and whether parameters are cast once; None where nothing is cast."""
    return (state.dtype["cpu"], state.cache_enabled) if state.enabled["cpu"] else None
