"""Passes of Python's cyclic garbage collector are held off where they are known to find nothing."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["paused_collector"]


@contextmanager
def paused_collector() -> Iterator[None]:
    """A block without passes of the collector; objects made inside are first visited by its next full pass.

    For imports: their classes and functions stay, so a pass over them, and over the hundred thousand objects that
    Numba keeps, finds nothing. Without these passes ``import jitgrad`` takes three quarters of the time.
    """
    enabled = gc.isenabled()  # a program that has switched it off wants it off afterwards, too
    gc.disable()
    try:
        yield
    finally:
        if gc.get_freeze_count() == 0:  # else objects that a program has frozen would be thawed
            # Moves all objects into the oldest generation; the next pass would visit them to do the same.
            gc.freeze()
            gc.unfreeze()
        if enabled:
            gc.enable()
