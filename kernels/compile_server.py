"""The process that `compile_ahead` starts: it compiles the kernels that it is sent, and they are on disk then."""

from __future__ import annotations

import pickle
import threading
from collections import deque
from contextlib import suppress
from typing import Any, BinaryIO

from jitgrad.kernels.compiled_function import CompiledFunction
from jitgrad.kernels.tile_products import tiles_address

__all__ = ["serve"]


def serve(stream: BinaryIO) -> None:
    """Compile what is asked for, the latest first, until the end is asked for or the process that asks has gone.

    The latest first, since backward begins with what was recorded last. stream: pickled pairs of a `KernelText` and
    the kinds of its arguments, then None.
    """
    waiting: deque[Any] = deque()
    come = threading.Semaphore(0)

    def listen() -> None:  # in a thread: nobody should wait to ask
        try:
            while (wanted := pickle.load(stream)) is not None:
                waiting.append(wanted)
                come.release()
        except Exception:  # the process that asks has gone
            waiting.clear()
        waiting.appendleft(None)
        come.release()

    threading.Thread(target=listen, daemon=True).start()
    with suppress(Exception):  # another Numba: all this is done where it is needed, too
        from jitgrad.kernels.pipeline import prepare

        prepare()
        tiles_address("f")  # the first product's: one library for matrices of all sizes
    while come.acquire() and (wanted := waiting.pop()) is not None:
        made, kinds = wanted
        with suppress(Exception):  # it is raised where the kernel is needed
            kernel = CompiledFunction(made)
            if not kernel.in_work(kinds):  # else it would wait for the process that asks
                kernel.overload(kinds)
