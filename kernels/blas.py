"""The threads of NumPy's BLAS: none but the calling one while jitgrad multiplies.

OpenBLAS's own threads spin while they wait. Where another process, a second training run say, wants the cores, they
take turns with it by time slices of the system: two processes on two cores, each with OpenBLAS's default of two
threads, needed 80 ms for a training step of 2 ms. So each call of BLAS from here runs on one thread, and
``set_num_threads`` counts for products as for all kernels: ``kernels/loops/matmul.py`` cuts large ones into parts for
the pool of ``threads.py``, whose threads soon sleep.

The setting belongs to the process and the user's own NumPy code, so it is put back after each call; in other threads
that multiply meanwhile NumPy uses one thread as well. Its entries are looked up by name in the library that NumPy is
linked with. Of a library that is not known here (Apple's Accelerate has no setting) the threads stay as they are.

Who asks for a number of threads, by ``set_num_threads`` or ``JITGRAD_NUM_THREADS``, means their NumPy code too, and
SciPy, whose wheels have a BLAS of their own: no pool gets more than that, nor more than it had. The BLAS of SciPy is
reached as soon as it is imported, which a loop that calls ``np.dot`` may do long after.
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

from jitgrad.kernels import threads
from jitgrad.kernels.threads import fork_safe

__all__ = ["OneThread", "address_of", "one_thread", "product_address"]

# Compiled modules that are linked with NumPy's and SciPy's BLAS.
_NUMPY, _SCIPY = "numpy._core._multiarray_umath", "scipy.linalg._fblas"

# What sets the number of threads and what tells it: OpenBLAS in NumPy's wheels and elsewhere, MKL, BLIS.
_ENTRIES = (
    ("scipy_openblas_set_num_threads64_", "scipy_openblas_get_num_threads64_"),
    ("scipy_openblas_set_num_threads", "scipy_openblas_get_num_threads"),
    ("openblas_set_num_threads64_", "openblas_get_num_threads64_"),
    ("openblas_set_num_threads", "openblas_get_num_threads"),
    ("MKL_Set_Num_Threads", "MKL_Get_Max_Threads"),
    ("bli_thread_set_num_threads", "bli_thread_get_num_threads"),
)


def _libraries(module: str = _NUMPY) -> Iterator[ctypes.PyDLL]:
    """A compiled module, through which the system finds the names of all libraries that it is linked with."""
    yield ctypes.PyDLL(sys.modules[module].__file__)  # PyDLL: calls so short keep the GIL
    if sys.platform == "win32":  # which looks into the one library only: those of the wheel, loaded already
        package = sys.modules[module.partition(".")[0]].__file__ or ""
        for path in glob.glob(os.path.join(os.path.dirname(package) + ".libs", "*.dll")):
            yield ctypes.PyDLL(path)


def address_of(*names: str) -> int:
    """The address of the first of these functions that NumPy's BLAS has; 0: it has none of them."""
    try:
        found = [getattr(library, n) for library in _libraries() for n in names if hasattr(library, n)]
    except (KeyError, OSError):  # another build of NumPy
        return 0
    return _address(found[0]) if found else 0


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


@functools.cache
def product_address(kind: str) -> int:
    """The address of the product of matrices with sizes of 64 bits, of dtype character ``kind``; 0: there is none."""
    letter = {"f": "s", "d": "d"}.get(kind)
    return address_of(f"scipy_cblas_{letter}gemm64_", f"cblas_{letter}gemm64_") if letter else 0


Entries = tuple[Callable[[int], Any], Callable[[], int]]


@functools.cache
def entries(module: str = _NUMPY) -> Entries | None:
    """The functions that set and tell how many threads a loaded module's BLAS uses; None where there are none."""
    try:
        for library in _libraries(module):
            for names in _ENTRIES:
                if hasattr(library, names[0]):
                    change, ask = (getattr(library, name) for name in names)
                    change.argtypes, change.restype = [ctypes.c_int], None
                    return change, ask
    except (KeyError, OSError):  # another build of NumPy
        pass
    return None


class _Pool:
    """The threads of one library."""

    __slots__ = ("ask", "before", "change", "given", "own")

    def __init__(self, change: Callable[[int], Any], ask: Callable[[], int]):
        self.change, self.ask = change, ask
        self.before = 1  # how many there are outside of blocks, while one runs
        self.own = self.given = 0  # how many there were before `limit`, and how many that left

    def limit(self, count: int, in_block: bool) -> None:
        """Have up to ``count`` threads outside of blocks, but no more than somebody else asked for."""
        now = self.before if in_block else self.ask()
        if now != self.given:
            self.own = now
        self.given = min(count, self.own)
        if in_block:
            self.before = self.given
        elif self.given != now:
            self.change(self.given)


@functools.cache
def _pool(module: str) -> _Pool | None:
    if (found := entries(module)) is None:
        return None
    if module != _NUMPY and (numpys := _pool(_NUMPY)):  # one library may serve both
        if _address(found[0]) == _address(numpys.change):
            return numpys
    return _Pool(*found)


class OneThread:
    """A block in which BLAS uses the calling thread only, in whatever threads the block runs."""

    def __init__(self) -> None:
        pool = _pool(_NUMPY)
        self.lock, self.running = fork_safe(threading.Lock()), 0
        # Of the libraries that jitgrad calls: NumPy's, and SciPy's where that has LAPACK for us.
        self.pools = [] if pool is None else [pool]
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def __enter__(self) -> None:
        with self.lock:
            if not self.running:
                for pool in self.pools:
                    if (before := pool.ask()) > 1:
                        pool.before = before
                        pool.change(1)
            self.running += 1

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.running -= 1
            if not self.running:
                self._widen()

    def _widen(self) -> None:
        for pool in self.pools:
            if pool.before > 1:
                pool.change(pool.before)
                pool.before = 1

    def include_scipy(self) -> None:
        """Keep SciPy's library to one thread as well, whose routines are called from now on."""
        pool = _pool(_SCIPY)
        with self.lock:
            if pool and pool not in self.pools:
                self.pools.append(pool)
                if self.running:
                    pool.before = pool.ask()
                    pool.change(1)

    def limit(self, count: int) -> None:
        """Let all libraries have up to ``count`` threads outside of blocks."""
        with self.lock:
            for module in (_NUMPY, _SCIPY):
                if module in sys.modules and (pool := _pool(module)):
                    pool.limit(count, self.running > 0 and pool in self.pools)

    def _forget(self) -> None:
        """In a forked child, where the blocks of other threads will not end."""
        self._widen()
        self.running = 0


one_thread = OneThread()


class _UntilSciPy:
    """A finder of ``sys.meta_path`` that finds nothing: at the first import after SciPy's, it limits SciPy's BLAS."""

    def __init__(self) -> None:
        self.count = 0

    def find_spec(self, *args: object) -> None:
        if self.count and _SCIPY in sys.modules:
            count, self.count = self.count, 0
            one_thread.limit(count)


_until_scipy = _UntilSciPy()


def _limit(count: int) -> None:
    one_thread.limit(count)
    _until_scipy.count = 0 if _SCIPY in sys.modules else count
    if _until_scipy.count and _until_scipy not in sys.meta_path:
        sys.meta_path.insert(0, _until_scipy)


threads.followers.append(_limit)
