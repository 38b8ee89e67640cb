"""Passes of Python's cyclic garbage collector are held off where they would find little."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["paused_collector"]


@contextmanager
def paused_collector(lasting: bool = False) -> Iterator[None]:
    """A block without passes of the collector.

    lasting: what the block makes stays, as the classes and functions of an import do, and is first visited by the
    collector's next full pass.
    """
    enabled = gc.isenabled()  # a program that has switched it off wants it off afterwards, too
    gc.disable()
    try:
        yield
    finally:
        if lasting and gc.get_freeze_count() == 0:  # else objects that a program has frozen would be thawed
            # Moves all objects into the oldest generation; the next pass would visit them to do the same.
            gc.freeze()
            gc.unfreeze()
        if enabled:
            gc.enable()
