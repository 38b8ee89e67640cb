"""The threads of NumPy's BLAS: none but the calling one while jitgrad multiplies.

OpenBLAS's own threads spin while they wait. Where another process, a second training run say, wants the cores, they
take turns with it by time slices of the system: two processes on two cores, each with OpenBLAS's default of two
threads, needed 80 ms for a training step of 2 ms. So each call of BLAS from here runs on one thread, and
``set_num_threads`` counts for products as for all kernels: ``kernels/loops/matmul.py`` cuts large ones into parts for
the pool of ``threads.py``, whose threads soon sleep.

The setting belongs to the process and the user's own NumPy code, so it is put back after each call; in other threads
that multiply meanwhile NumPy uses one thread as well. Its entries are looked up by name in the library that NumPy is
linked with. Of a library that is not known here (Apple's Accelerate has no setting) the threads stay as they are.
"""

from __future__ import annotations

import ctypes
import functools
import glob
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from jitgrad.kernels.threads import fork_safe

__all__ = ["OneThread", "address_of", "one_thread", "product_address"]

# What sets the number of threads and what tells it: OpenBLAS in NumPy's wheels and elsewhere, MKL, BLIS.
_ENTRIES = (
    ("scipy_openblas_set_num_threads64_", "scipy_openblas_get_num_threads64_"),
    ("scipy_openblas_set_num_threads", "scipy_openblas_get_num_threads"),
    ("openblas_set_num_threads64_", "openblas_get_num_threads64_"),
    ("openblas_set_num_threads", "openblas_get_num_threads"),
    ("MKL_Set_Num_Threads", "MKL_Get_Max_Threads"),
    ("bli_thread_set_num_threads", "bli_thread_get_num_threads"),
)


def _libraries() -> Iterator[ctypes.PyDLL]:
    """NumPy's compiled core, through which the system finds the names of all libraries that it is linked with."""
    core = sys.modules["numpy._core._multiarray_umath"].__file__
    yield ctypes.PyDLL(core)  # PyDLL: calls so short keep the GIL
    if sys.platform == "win32":  # which looks into the one library only: those of the wheel, loaded already
        for path in glob.glob(os.path.join(os.path.dirname(np.__file__) + ".libs", "*.dll")):
            yield ctypes.PyDLL(path)


def address_of(*names: str) -> int:
    """The address of the first of these functions that NumPy's BLAS has; 0: it has none of them."""
    try:
        found = [getattr(library, n) for library in _libraries() for n in names if hasattr(library, n)]
    except (KeyError, OSError):  # another build of NumPy
        return 0
    return ctypes.cast(found[0], ctypes.c_void_p).value or 0 if found else 0


@functools.cache
def product_address(kind: str) -> int:
    """The address of the product of matrices with sizes of 64 bits, of dtype character ``kind``; 0: there is none."""
    letter = {"f": "s", "d": "d"}.get(kind)
    return address_of(f"scipy_cblas_{letter}gemm64_", f"cblas_{letter}gemm64_") if letter else 0


@functools.cache
def entries() -> tuple[Callable[[int], Any], Callable[[], int]] | None:
    """The functions that set and tell how many threads BLAS uses; None where there are none."""
    try:
        for library in _libraries():
            for names in _ENTRIES:
                if hasattr(library, names[0]):
                    change, ask = (getattr(library, name) for name in names)
                    change.argtypes, change.restype = [ctypes.c_int], None
                    return change, ask
    except (KeyError, OSError):  # another build of NumPy
        pass
    return None


class OneThread:
    """A block in which BLAS uses the calling thread only, in whatever threads the block runs."""

    def __init__(self) -> None:
        self.lock, self.running, self.before = fork_safe(threading.Lock()), 0, 1
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def __enter__(self) -> None:
        if (found := entries()) is None:
            return
        with self.lock:
            if not self.running and (before := found[1]()) > 1:
                self.before = before
                found[0](1)
            self.running += 1

    def __exit__(self, *error: object) -> None:
        if (found := entries()) is None:
            return
        with self.lock:
            self.running -= 1
            if not self.running and self.before > 1:
                found[0](self.before)
                self.before = 1

    def _forget(self) -> None:
        """In a forked child, where the blocks of other threads will not end."""
        if self.before > 1 and (found := entries()) is not None:
            found[0](self.before)
        self.running, self.before = 0, 1


one_thread = OneThread()
