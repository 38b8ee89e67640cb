"""Memory that processes share: mapped from a file that has no name, so that nothing is left of it when all have ended.

On Linux the file lies in memory (``memfd_create``), elsewhere it is a temporary file that is deleted when it is made.
Windows has neither, and no way to pass a file's descriptor: ``available`` is False there.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
from typing import Any

import numpy as np

__all__ = ["SharedMemory", "available"]

available = os.name == "posix"


def _library() -> tuple[Any, Any]:
    """The C library's ``mmap`` and ``munmap``. Python's own keeps the file open as long as the memory is mapped."""
    library = ctypes.CDLL(None, use_errno=True)
    word, number = ctypes.c_size_t, ctypes.c_int
    library.mmap.argtypes = [ctypes.c_void_p, word, number, number, number, ctypes.c_long]
    library.mmap.restype = ctypes.c_void_p
    library.munmap.argtypes = [ctypes.c_void_p, word]
    return library.mmap, library.munmap


_map, _unmap = _library() if available else (None, None)  # type: Any, Any


def _new_file(nbytes: int) -> int:
    """The descriptor of a file of ``nbytes`` zeros without a name."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("jitgrad")
    else:
        descriptor, name = tempfile.mkstemp(prefix="jitgrad-")
        os.unlink(name)
    try:
        os.ftruncate(descriptor, nbytes)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


class SharedMemory:
    """``nbytes`` of new memory, or of the file ``descriptor``, which then belongs to this object.

    NumPy makes arrays on it (``numpy.asarray``), which keep it alive. ``kept``: whether the descriptor stays open, by
    which the memory is given to another process; a process may have some 1000 files open. ``close`` ends it early.
    RuntimeError where there is no memory, OSError (EMFILE) where too many files are open.
    """

    __slots__ = ("__array_interface__", "__weakref__", "address", "descriptor", "nbytes")

    def __init__(self, nbytes: int, descriptor: int | None = None, kept: bool = True):
        import mmap  # for its constants

        self.nbytes, self.address, self.descriptor = max(nbytes, 1), 0, descriptor
        if descriptor is None:
            self.descriptor = _new_file(self.nbytes)
        flags = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED
        address = _map(None, self.nbytes, *flags, self.descriptor, 0)
        if address in (None, ctypes.c_void_p(-1).value):
            code = ctypes.get_errno()
            self.close()
            raise RuntimeError(f"unable to mmap {nbytes} bytes from file: {os.strerror(code)} ({code})")
        self.address = address
        if not kept:
            self.close()
        self.__array_interface__ = {"data": (address, False), "typestr": "|u1", "shape": (nbytes,), "version": 3}

    def close(self) -> None:
        """Close the file; the memory stays."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None

    def identity(self) -> tuple[int, int]:
        """What tells the file from all others that are open anywhere."""
        assert self.descriptor is not None
        status = os.fstat(self.descriptor)
        return status.st_dev, status.st_ino

    def array(self) -> np.ndarray[Any, Any]:
        """All of the memory as bytes."""
        return np.asarray(self)

    # The arguments outlive the module's globals when Python ends.
    def __del__(self, close: Any = os.close, unmap: Any = _unmap) -> None:
        if self.address:
            unmap(self.address, self.nbytes)
            self.address = 0
        if self.descriptor is not None:
            close(self.descriptor)
            self.descriptor = None
