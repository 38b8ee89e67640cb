"""Observers of reads by the host: where numbers of a tensor reach Python, as in ``item()``, ``if x:`` and ``x[mask]``.

What a program does after such a read may depend on the numbers, which a recording of its launches does not show.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["announce_read", "read_observers"]

read_observers: list[Callable[[str], None]] = []


def announce_read(what: str) -> None:
    """Tell all observers that numbers are about to be read; ``what`` reads them, for messages."""
    for observer in tuple(read_observers):
        observer(what)
