"""What compiling costs: how many kernels were compiled or read from disk, and the seconds that took."""

from __future__ import annotations

import threading

__all__ = ["compilation", "statistics"]


class Statistics:
    """What this process compiled and what it found on disk."""

    compiled: int = 0
    loaded: int = 0
    compile_seconds: float = 0.0
    load_seconds: float = 0.0


statistics = Statistics()


class Compilation(threading.local):
    """What this thread has spent on machine code since its latest observed launch began.

    seconds: for writing a kernel's text, for compiling it or reading from disk what was compiled before, and for
    waiting until another thread has done so. compiled: whether any of it was compiling.
    """

    seconds: float = 0.0
    compiled: bool = False


compilation = Compilation()
