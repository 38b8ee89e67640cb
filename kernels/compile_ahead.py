"""Kernels that will be wanted soon, compiled by another process while this one compiles those that it needs now.

A process whose kernels aren't on disk yet spends seconds in Numba, on one core, since Numba's compiler has one lock and
is Python. Once it has met a kernel that has to be compiled, whoever knows which others will follow (the backward
kernels of what is being recorded, `dispatch/foresight.py`) may `ask` for them. The other process puts them into
the cache, where this one finds them; of a kernel that both come to at once the second waits for the first
(`cache_lock.py`). It ends with this one, or when nothing was asked for during `_IDLE` seconds, and what it can't do is
compiled when it is needed, as ever. ``JITGRAD_COMPILE_AHEAD=0`` turns it off.
"""

from __future__ import annotations

import atexit
import os
import pickle
import subprocess
import sys
import threading
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any

from jitgrad.kernels.cache_root import cache_root, nothing_compiled

__all__ = ["ask", "begin", "begin_at_import", "begun", "finish"]

_IDLE = 5.0
# The package without its own __init__, which imports all that kernels don't need; paths as in this process.
_PROGRAM = """\
import sys, types
sys.path[:] = {path!r}
package = types.ModuleType("jitgrad")
package.__path__ = [{package!r}]
sys.modules["jitgrad"] = package
from jitgrad.kernels.compile_server import serve
serve(sys.stdin.buffer)
"""


class _Compiler:
    """The other process, and the thread that starts it and hands it what is asked for, so that nobody waits for it."""

    def __init__(self) -> None:
        self.asked, self.come = deque[Any](), threading.Semaphore(0)
        self.process: subprocess.Popen[bytes] | None = None
        self.pid = os.getpid()
        # A daemon, since it may wait for a pipe when this process ends. Nothing is lost with it.
        self.thread = threading.Thread(target=self._hand_over, name="jitgrad compile ahead", daemon=True)
        self.thread.start()

    def alive(self) -> bool:
        """Whether it takes what is asked for: not in a forked child, nor once it has ended."""
        return self.pid == os.getpid() and self.thread.is_alive()

    def _hand_over(self) -> None:
        with suppress(OSError):  # no process to be had, or it was killed
            self.process = _start()
            pipe = self.process.stdin
            assert pipe is not None
            while self.come.acquire(timeout=_IDLE) and (wanted := self.asked.popleft()) is not None:
                pipe.write(pickle.dumps(wanted))
            pipe.write(pickle.dumps(None))  # a forked child may hold the pipe open
            pipe.close()
        if self.process is not None:
            self.process.wait()

    def ask(self, wanted: Any) -> None:
        """Hand over a kernel's text with its argument types; None ends it when it has done all before that."""
        self.asked.append(wanted)
        self.come.release()

    def stop(self) -> None:
        """End it at once."""
        if self.pid == os.getpid() and self.process is not None:
            self.process.kill()
            self.process.wait()


_compiler: _Compiler | None = None
_wanted: set[Any] = set()  # (key of a kernel's text, argument types) that were asked for


def _start() -> subprocess.Popen[bytes]:
    program = _PROGRAM.format(path=list(map(str, sys.path)), package=str(Path(__file__).parents[1]))
    settings = {"JITGRAD_CACHE_DIR": str(cache_root()), "JITGRAD_COMPILE_AHEAD": "0"}
    # Without a buffer, which Python would try to write out when it ends.
    return subprocess.Popen(
        [sys.executable, "-c", program], env={**os.environ, **settings}, bufsize=0, stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def _possible() -> bool:
    """Whether there is a core for another process, and Python to run in it.

    Not in one that multiprocessing has started: its siblings have the other cores.
    """
    siblings = sys.modules.get("multiprocessing.process")  # one that multiprocessing has started imports it
    if os.environ.get("JITGRAD_COMPILE_AHEAD") == "0" or (siblings and siblings.parent_process() is not None):
        return False
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    # Of an embedded Python it names the program that embeds it.
    python = Path(sys.executable or "").name.lower().startswith(("python", "pypy"))
    return cores > 1 and python and not getattr(sys, "frozen", False)


def begin() -> None:
    """A kernel has to be compiled: start the other process, if there may be one, for what will be asked for."""
    global _compiler
    if (_compiler is None or not _compiler.alive()) and _possible():
        _compiler = _Compiler()


def begin_at_import() -> None:
    """Start the other process at once where nothing was compiled yet: to import Numba takes both of them half a second.

    Called before Numba is imported.
    """
    if nothing_compiled():
        begin()


def begun() -> bool:
    """Whether the other process is there, so that it is worth finding out what will be needed."""
    return _compiler is not None and _compiler.alive()


def ask(made: Any, kinds: tuple[Any, ...]) -> None:
    """Have the kernel of a `KernelText` compiled for arguments of these kinds, unless that was asked for before."""
    if _compiler is not None and _compiler.alive() and (made.key, kinds) not in _wanted:
        _wanted.add((made.key, kinds))
        _compiler.ask((made, kinds))


def finish() -> None:
    """Wait until all that was asked for is compiled."""
    if _compiler is not None and _compiler.alive():
        _compiler.ask(None)
        _compiler.thread.join()


@atexit.register
def _stop() -> None:
    """No process of ours is to write files when this one has ended."""
    if _compiler is not None:
        _compiler.stop()
