"""Memory of 1 MB and more, which is kept when its array is freed, for the next array of about that size.

The C library gives large blocks back to the system, and each page of a new one is cleared and mapped when it is first
written to. That is a third of the time of elementwise steps on tensors of 16 MB (25 ms with the pool, 39 without). A
pool does on every system what ``mallopt`` does with glibc (27 ms), and changes nothing for NumPy's own arrays.

Smaller arrays are allocated by the C library, where one costs 0.2 us; a block of the pool costs 2 us. With glibc that
holds below 1 MB, since it is told to keep freed memory; with other C libraries, which give it back, below 128 KB.

The pool hardly makes the peak of memory higher. Where no kept block fits, as many kept bytes are freed as are then
allocated, so kept and used memory together are never more than what has been used at some time before, and some 32 MB
that are kept in any case: else steps whose arrays have many sizes would free blocks for one another for ever.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import threading
import weakref
from typing import Any

import numpy as np

from jitgrad.kernels.threads import fork_safe

__all__ = ["ALWAYS_KEPT", "KEPT_BYTES", "MIN_BYTES", "BlockPool", "block_size", "is_part", "pool"]

ALWAYS_KEPT = 1 << 25  # bytes of freed blocks that are not freed for others
KEPT_BYTES = 1 << 29  # of freed blocks, at most; the memory of arrays in use has no limit
# Bytes of a cache line, of which blocks begin at a multiple. NumPy's large arrays begin 16 bytes after one, and vectors
# of 64 bytes then lie in two lines each: loops that are as fast as the caches take 15 to 30 % longer.
_LINE = 64

# Private, so that a forked child writes to a copy of its own: Python's default is shared memory. Windows has neither
# these flags nor fork.
_PRIVATE: dict[str, Any] = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
_HUGE = 1 << 22  # bytes from which pages of 2 MB are asked for, as NumPy does


# glibc's. It gives memory that was freed below memory in use back only when it is asked to.
_library = ctypes.CDLL(None) if os.name == "posix" else None
_trim, _option = getattr(_library, "malloc_trim", None), getattr(_library, "mallopt", None)
_TRIM_THRESHOLD = -1  # glibc's number of the option
# Environment variables with which glibc no longer adapts to the program, and may map each of our arrays anew.
_SETTINGS = {"MALLOC_MMAP_MAX_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_TRIM_THRESHOLD_"}


def _keeps_small() -> bool:
    """Have glibc keep what is free at the end of its heap, `HEAP_BYTES` instead of 128 KB; whether it does.

    Else it would give the memory of a step's tensors back after each step, and page faults make 50 ops on 4,096 numbers
    take twice as long, and 60 ops on tensors of 768 KB, too.
    """
    if _trim is None or _option is None:
        return False
    if not _SETTINGS.isdisjoint(os.environ) or "malloc" in os.environ.get("GLIBC_TUNABLES", ""):
        return False  # the user has decided
    # glibc allocates a block in the heap if it is smaller than the largest one that was mapped and freed so far. The
    # option fixes that limit, so a block of 16 MB, untouched, is freed first.
    np.empty(_HEAP_BLOCK, np.uint8)
    return bool(_option(_TRIM_THRESHOLD, HEAP_BYTES))


HEAP_BYTES = 1 << 28  # of freed memory that glibc keeps, at most
_HEAP_BLOCK = 1 << 24
# Bytes of an array from which its memory is the pool's.
MIN_BYTES = 1 << 20 if _keeps_small() else 1 << 17


class _Loan(weakref.ref[Any]):
    """A weak reference to the array that has a block, by which the pool learns that the array is freed."""

    __slots__ = ("block",)
    block: Any


class BlockPool:
    """Freed blocks by size.

    Nothing waits for the lock. Arrays are freed anywhere, also by Python's collector while this very thread is in here:
    whoever finds it taken allocates new memory, or lets the block go.
    """

    def __init__(self, always: int = ALWAYS_KEPT) -> None:
        self.always = always
        self.kept: dict[int, list[Any]] = {}  # {bytes: blocks}; the size that was first kept comes first
        self.kept_bytes = 0
        self.lock = fork_safe(threading.Lock())

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any], size: int, strides: Any = None) -> Any:
        """An uninitialised array of so many bytes or fewer, whose memory returns to the pool with the last view of it.

        size: what ``block_size`` says of the array's bytes.
        """
        block = self._take(size) or self._new(size)
        array: Any = np.ndarray(shape, dtype, block, 0, strides)
        # NumPy's views of the array hold the array, not its block, since that is no array: so the array lives as long.
        block.loan = loan = _Loan(array, self._give_back)
        loan.block = block
        return array

    def clear(self) -> None:
        """Free all kept blocks, and let the C library return what it keeps."""
        self.free_kept(self.kept_bytes)
        if _trim is not None:
            _trim(0)

    def free_kept(self, count: int) -> None:
        """Free kept blocks until they were ``count`` bytes or none is left."""
        if self.lock.acquire(timeout=1):  # not for ever: a finalizer may call this in a thread that has the lock
            try:
                self._free(count)
            finally:
                self.lock.release()

    def _take(self, size: int) -> Any:
        """A kept block of ``size`` bytes; None if there is none, with room made for a new one."""
        if not self.lock.acquire(False):
            return None
        try:
            blocks = self.kept.get(size)
            if not blocks:
                self._free(min(size, self.kept_bytes - self.always))
                return None
            block = blocks.pop()
            if not blocks:
                del self.kept[size]
            self.kept_bytes -= size
            return block
        finally:
            self.lock.release()

    def _new(self, size: int) -> Any:
        try:
            return (ctypes.c_char * size).from_buffer(_mapped(size))
        except (OSError, OverflowError):
            self.clear()
        memory: Any = np.empty(size + _LINE, np.uint8)  # or MemoryError
        return (ctypes.c_char * size).from_buffer(memory, -memory.ctypes.data % _LINE)

    def _give_back(self, loan: _Loan) -> None:
        """Keep the block of an array that was freed, or free it if there are enough."""
        block = loan.block
        block.loan, size = None, len(block)
        if self.lock.acquire(False):
            try:
                kept = self.kept_bytes + size
                if kept <= KEPT_BYTES:
                    self.kept_bytes = kept
                    blocks = self.kept.get(size)
                    if blocks is None:
                        self.kept[size] = [block]
                    else:
                        blocks.append(block)
            finally:
                self.lock.release()

    def _free(self, count: int) -> None:
        """Free kept blocks until they were ``count`` bytes or none is left; sizes that were long not asked for first.

        The caller has the lock.
        """
        goal = max(self.kept_bytes - max(count, 0), 0)
        while self.kept_bytes > goal:
            size, blocks = next(iter(self.kept.items()))
            blocks.pop()
            self.kept_bytes -= size
            if not blocks:
                del self.kept[size]


def _mapped(size: int) -> mmap.mmap:
    """Anonymous memory, which returns to the system as soon as it is freed: malloc may keep what it was given back."""
    memory = mmap.mmap(-1, size, **_PRIVATE)
    if size >= _HUGE:
        with contextlib.suppress(AttributeError, OSError):  # not Linux, or a system without
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def block_size(nbytes: int) -> int:
    """The next of 16 sizes between powers of two: arrays of like sizes share blocks, with a sixteenth more at most."""
    step = 1 << (nbytes - 1).bit_length() - 5
    return -(-nbytes // step) * step


def is_part(array: Any) -> bool:
    """Whether the memory of an array is another array's: neither its own nor a block of the pool."""
    base = getattr(array, "base", None)
    return base is not None and getattr(base, "loan", None) is None


pool = BlockPool()
