"""Launches of the provider's: on a grid of blocks of threads, or noted to be done later."""

from __future__ import annotations

import contextlib
import functools
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from jitgrad.kernels.cuda.driver import SIMULATED, DirectLaunch, kind_of, provided

__all__ = ["THREADS", "Grid", "Noted", "keep_while_noted", "note", "noted"]

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
    """A dispatcher, launched on grids of blocks of THREADS threads.

    Arguments are numbers, Constants and DeviceArrays. A kernel gets those as vectors, or if ``shaped`` with all their
    dimensions, which have to be contiguous then.
    """

    __slots__ = ("_configured", "_direct", "dispatcher", "shaped")

    def __init__(self, dispatcher: Any, shaped: bool = False):
        self.dispatcher, self.shaped = dispatcher, shaped
        # Making a configuration costs more than a launch.
        self._configured: dict[int, Any] = {}
        self._direct: dict[tuple[Any, ...], DirectLaunch | None] = {}

    def blocks(self, count: int) -> Callable[..., None]:
        """The kernel on a grid of ``count`` blocks."""
        return functools.partial(self._launch, count)

    def over(self, n: int) -> Callable[..., None]:
        """The kernel on a grid for ``n`` elements, several to a thread if there are many."""
        return self.blocks(min(-(-n // THREADS), _MOST_BLOCKS))

    def _launch(self, count: int, *args: Any) -> None:
        kinds = tuple([kind_of(a, self.shaped) for a in args])
        direct = self._direct.get(kinds)
        if direct is not None:
            # Fails in a thread that has no CUDA context yet: the dispatcher, below, makes it one. A failure of another
            # cause comes again there, and is raised.
            with contextlib.suppress(Exception):
                note(functools.partial(direct.on, count, THREADS))(*direct.words(args))
                return
        given = [provided(a, self.shaped) for a in args]
        known = kinds in self._direct or SIMULATED
        note(functools.partial(self._on, count) if known else functools.partial(self._first, count, kinds))(*given)

    def _first(self, count: int, kinds: tuple[Any, ...], *stream: Any) -> Callable[..., None]:
        """A launch by the dispatcher that sees which of its kernels it takes."""
        on, found = self._configure(count, *stream), []
        # All of this may be otherwise in another version of the provider's: then the dispatcher goes on.
        with contextlib.suppress(AttributeError):
            on.pre_launch_callbacks.append(lambda kernel, _: found.append(kernel))

        def launch(*given: Any) -> None:
            on(*given)
            self._direct[kinds] = None
            with contextlib.suppress(Exception):
                self._direct[kinds] = DirectLaunch(found[0], kinds, self.shaped)

        return launch

    def _configure(self, count: int, *stream: Any) -> Any:
        with warnings.catch_warnings():  # Numba warns of grids that leave the GPU idle
            warnings.simplefilter("ignore")
            return self.dispatcher[(count, THREADS, *stream)]

    def _on(self, count: int, *stream: Any) -> Any:
        if stream or SIMULATED:  # there it is the dispatcher itself, configured anew
            return self._configure(count, *stream)
        found = self._configured.get(count)
        if found is None:
            found = self._configured[count] = self._configure(count)
        return found
