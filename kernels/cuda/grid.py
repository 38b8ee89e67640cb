"""Launches of the provider's: on a grid of blocks of threads, or noted to be done later."""

from __future__ import annotations

import contextlib
import functools
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from numba.core import config

__all__ = ["SIMULATED", "THREADS", "Grid", "Launches", "keep_while_noted", "noted"]

SIMULATED = bool(config.ENABLE_CUDASIM)
# The simulator starts an operating system's thread for each of CUDA's.
THREADS, _MOST_BLOCKS = (4, 2) if SIMULATED else (256, 1 << 14)

# The provider's launches: what is called, and with what.
Launches = list[tuple[Callable[..., None], tuple[Any, ...]]]


class _Noting(threading.local):
    launches: Launches | None = None
    kept: list[Any] | None = None


_noting = _Noting()


@contextlib.contextmanager
def noted() -> Iterator[Launches]:
    """Note the launches of this thread in a list instead of doing them: each can be done then, also several times.

    Memory that kernels need meanwhile is kept by the list's arguments, so that nothing else is put there.
    """
    _noting.launches, _noting.kept = [], []
    try:
        yield _noting.launches
        if _noting.kept:
            _noting.launches.append((_keep, tuple(_noting.kept)))
    finally:
        _noting.launches = _noting.kept = None


def keep_while_noted(memory: Any) -> None:
    """Keep memory that a kernel has asked for, if launches are being noted."""
    if _noting.kept is not None:
        _noting.kept.append(memory)


def _keep(*arrays: Any) -> None:
    """Stands at the end of noted launches: nothing is left to do, but the arrays are needed."""


class Grid:
    """A dispatcher with its launch configurations, kept: making one costs more than a launch."""

    __slots__ = ("configured", "dispatcher")

    def __init__(self, dispatcher: Any):
        self.dispatcher = dispatcher
        self.configured: dict[int, Any] = {}

    def blocks(self, count: int) -> Any:
        """The kernel on a grid of ``count`` blocks."""
        if _noting.launches is not None:
            return functools.partial(self._note, _noting.launches, count)
        return self._on(count)

    def _note(self, launches: Launches, count: int, *args: Any) -> None:
        launches.append((functools.partial(self._launch, count) if SIMULATED else self._on(count), args))

    def _launch(self, count: int, *args: Any) -> None:
        self._on(count)(*args)

    def _on(self, count: int) -> Any:
        found = self.configured.get(count)
        if found is None:
            with warnings.catch_warnings():  # Numba warns of grids that leave the GPU idle
                warnings.simplefilter("ignore")
                found = self.dispatcher[count, THREADS]
            if not SIMULATED:  # there it is the dispatcher itself, configured anew
                self.configured[count] = found
        return found

    def over(self, n: int) -> Any:
        """The kernel on a grid for ``n`` elements, several to a thread if there are many."""
        return self.blocks(min(-(-n // THREADS), _MOST_BLOCKS))
