"""One process at a time compiles a kernel: the others wait for its file."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from contextlib import suppress
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["CacheLock"]

# A holder that dies gives its lock up. One that was stopped, or runs on another machine that shares the folder, is not
# waited for longer than compiling may take: then two processes compile the same kernel, which harms nothing.
LONGEST_WAIT = 60.0  # seconds
_PAUSE = 0.01  # seconds between attempts; most kernels take 0.1 to 0.5 s to compile


# {lock file: [its descriptor, how many locks of this process are on it]}. One descriptor a file, since POSIX drops all
# locks that a process has on a file as soon as it closes any descriptor of it.
_open: dict[Path, list[int]] = {}


class CacheLock:
    """The right to compile the kernel that a path belongs to, waited for in ``__init__``, ``longest`` seconds at most.

    held: whether it was to be had.

    A lock on one byte of the file ``.lock`` in the path's folder, which the operating system takes back when the
    process ends in whatever way. In a folder that cannot be written to there is no lock, nor any kernel to wait for.
    Whoever makes or releases one holds Numba's compiler lock, which so guards `_open`.
    """

    def __init__(self, path: Path, longest: float = LONGEST_WAIT):
        self.held = True
        self.file: Path | None = path.parent / ".lock"
        # Which byte: kernels that share one by chance wait for each other.
        self.place = int.from_bytes(hashlib.sha256(path.name.encode()).digest()[:3], "little")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if self.file not in _open:
                _open[self.file] = [os.open(self.file, os.O_RDWR | os.O_CREAT, 0o666), 0]
        except OSError:
            self.file = None
            return
        _open[self.file][1] += 1
        end = time.monotonic() + longest
        while not (held := self._attempt(_open[self.file][0])) and time.monotonic() < end:
            time.sleep(_PAUSE)
        self.held = held

    def _attempt(self, descriptor: int) -> bool:
        """Take the lock if it is free; True too where the file system has no locks."""
        try:
            if sys.platform == "win32":
                os.lseek(descriptor, self.place, os.SEEK_SET)
                msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
            else:
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, self.place)
        except (BlockingIOError, PermissionError):  # POSIX and Windows, where another process has it
            return False
        except OSError:
            return True
        return True

    def release(self) -> None:
        """Give the lock up."""
        if self.file is None:
            return
        descriptor, count = _open[self.file]
        with suppress(OSError):  # one that was not to be had
            if sys.platform == "win32":
                os.lseek(descriptor, self.place, os.SEEK_SET)
                msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
            else:
                fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, self.place)
        _open[self.file][1] = count - 1
        if count == 1:
            os.close(descriptor)
            del _open[self.file]
        self.file = None
