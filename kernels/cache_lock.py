"""One process at a time compiles a kernel: the others wait for its file."""

from __future__ import annotations

import hashlib
import os
import sys
import time
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


class CacheLock:
    """The right to compile the kernel that a path belongs to, waited for in ``__init__``.

    A lock on one byte of the file ``.lock`` in the path's folder, which the operating system takes back when the
    process ends in whatever way. In a folder that cannot be written to there is no lock, nor any kernel to wait for.
    """

    def __init__(self, path: Path):
        self.file = -1
        # Which byte: kernels that share one by chance wait for each other.
        self.place = int.from_bytes(hashlib.sha256(path.name.encode()).digest()[:3], "little")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.file = os.open(path.parent / ".lock", os.O_RDWR | os.O_CREAT, 0o666)
        except OSError:
            return
        end = time.monotonic() + LONGEST_WAIT
        while not self._attempt() and time.monotonic() < end:
            time.sleep(_PAUSE)

    def _attempt(self) -> bool:
        """Take the lock if it is free; True too where the file system has no locks."""
        try:
            if sys.platform == "win32":
                os.lseek(self.file, self.place, os.SEEK_SET)
                msvcrt.locking(self.file, msvcrt.LK_NBLCK, 1)
            else:
                fcntl.lockf(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, self.place)
        except (BlockingIOError, PermissionError):  # POSIX and Windows, where another process has it
            return False
        except OSError:
            return True
        return True

    def release(self) -> None:
        """Give the lock up: the system does, as the file is closed."""
        if self.file >= 0:
            os.close(self.file)
            self.file = -1
