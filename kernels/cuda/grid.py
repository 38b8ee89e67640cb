"""Launches of the provider's: on a grid of blocks of threads, or noted to be done later."""

from __future__ import annotations

import contextlib
import functools
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from numba.core import config

__all__ = ["SIMULATED", "THREADS", "Grid", "Noted", "keep_while_noted", "note", "noted"]

SIMULATED = bool(config.ENABLE_CUDASIM)
# The simulator starts an operating system's thread for each of CUDA's.
THREADS, _MOST_BLOCKS = (4, 2) if SIMULATED else (256, 1 << 14)


class Noted:
    """Launches that can be done several times, and memory that they need meanwhile.

    ``launches``: (what a stream, by default the provider's own, gives the function to call for; its arguments).
    """

    __slots__ = ("launches", "memory")

    def __init__(self) -> None:
        self.launches: list[tuple[Callable[..., Callable[..., None]], tuple[Any, ...]]] = []
        self.memory: list[Any] = []

    def __call__(self, *stream: Any) -> None:
        for on, args in self.launches:
            on(*stream)(*args)


class _Noting(threading.local):
    to: Noted | None = None


_noting = _Noting()


@contextlib.contextmanager
def noted() -> Iterator[Noted]:
    """Note the launches of this thread instead of doing them."""
    _noting.to = Noted()
    try:
        yield _noting.to
    finally:
        _noting.to = None


def keep_while_noted(memory: Any) -> None:
    """Keep memory that a kernel has asked for, if launches are being noted: nothing else may be put there."""
    if _noting.to is not None:
        _noting.to.memory.append(memory)


def note(on: Callable[..., Callable[..., None]]) -> Callable[..., None]:
    """What does a launch on the provider's own stream, or notes it: see `Noted` for ``on``."""
    noting = _noting.to
    return on() if noting is None else lambda *args: noting.launches.append((on, args))


class Grid:
    """A dispatcher with its launch configurations, kept: making one costs more than a launch."""

    __slots__ = ("configured", "dispatcher")

    def __init__(self, dispatcher: Any):
        self.dispatcher = dispatcher
        self.configured: dict[int, Any] = {}

    def blocks(self, count: int) -> Any:
        """The kernel on a grid of ``count`` blocks."""
        return self._on(count) if _noting.to is None else note(functools.partial(self._on, count))

    def _on(self, count: int, *stream: Any) -> Any:
        found = None if stream else self.configured.get(count)
        if found is None:
            with warnings.catch_warnings():  # Numba warns of grids that leave the GPU idle
                warnings.simplefilter("ignore")
                found = self.dispatcher[(count, THREADS, *stream)]
            if not (stream or SIMULATED):  # there it is the dispatcher itself, configured anew
                self.configured[count] = found
        return found

    def over(self, n: int) -> Any:
        """The kernel on a grid for ``n`` elements, several to a thread if there are many."""
        return self.blocks(min(-(-n // THREADS), _MOST_BLOCKS))
