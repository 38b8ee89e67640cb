"""One pool of threads that runs serial kernels on parts of their arrays.

Kernels release the GIL, so a part of the arrays for the same compiled kernel per thread needs no parallel variant (378
ms to compile against 73), no OpenMP and no TBB. The threads wait in compiled code (`pool_code`), where they take work
without Python's lock. A job is the address of an entry ``void(intptr_t)`` with its argument; Python's functions are
jobs by way of one entry that takes the GIL.

A region costs 0.4 us by a direct call (`direct_parts`), 2 to 6 where arguments are looked at anew (`split_call`): its
thread takes work 0.3 us after it was published. A thread that finds none spins for 200
us, which spans the gaps between the ops of a training step, and gives way to whoever wants its core meanwhile; then it
sleeps. So the threads of NumPy's BLAS and other processes keep their cores (products by NumPy and by us and an op in
turn take 1.05 times what they take alone), and an idle process costs nothing. A thread that sleeps begins 35 us after
it was woken; who calls does what no thread has begun, so this costs him 2 us. A fork loses nothing, and parallel calls
within or beside another one run serially.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import sys
import threading
import time
from array import array
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from jitgrad.kernels import pool_code
from jitgrad.kernels.machine_words import FLUSH
from jitgrad.kernels.native_entry import raise_error

__all__ = [
    "control", "flush_denormals", "fork_safe", "generation", "get_num_threads", "helpers_for", "run_jobs", "run_split",
    "run_together", "set_num_threads",
]  # fmt: skip

Job = tuple[Callable[..., Any], tuple[Any, ...]]
_Lock = TypeVar("_Lock")
# How long a thread without work spins before it sleeps.
_SPIN_SECONDS = 200e-6


def fork_safe(lock: _Lock) -> _Lock:
    """Return the lock, a Lock or RLock that lives as long as the process: a forked child finds it open.

    Whatever thread of the parent held it at the fork does not exist in the child, where nothing would release it.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lock._at_fork_reinit)  # type: ignore[attr-defined]
    return lock


class _PythonJob:
    """A call of a Python function, and the error that it ended with."""

    __slots__ = ("args", "error", "function")

    def __init__(self, job: Job):
        self.function, self.args = job
        self.error: BaseException | None = None

    def run(self) -> None:
        function, args = self.function, self.args
        del self.function, self.args  # no reference to arrays may outlive the job
        try:
            function(*args)
        except BaseException as error:  # handed to the thread that waits
            self.error = error


# The entry of Python's functions. Only workers come by it: Python delivers Ctrl+C to the main thread, and ctypes would
# swallow it here.
_run_job = ctypes.CFUNCTYPE(None, ctypes.py_object)(_PythonJob.run)
_PYTHON_ENTRY = ctypes.cast(_run_job, ctypes.c_void_p).value or 0
_Word = ctypes.c_ssize_t


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _held_lock() -> int:
    """A lock of Python's, which exist on every system and need no GIL.

    It is never freed, for a thread may wait for it until the process ends.
    """
    allocate, acquire = ctypes.pythonapi.PyThread_allocate_lock, ctypes.pythonapi.PyThread_acquire_lock
    allocate.restype, acquire.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_int]
    lock = allocate()
    if not lock:
        raise MemoryError("no lock for a thread")
    acquire(lock, 1)
    return int(lock)


def _new_control() -> int:
    """The address of zeros for the threads to share. They are never freed: a thread may be there at Python's end."""
    memory = np.zeros(pool_code.CONTROL_BYTES + pool_code.WORKER_BYTES, np.uint8)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))
    return -(-memory.ctypes.data // pool_code.WORKER_BYTES) * pool_code.WORKER_BYTES


class _Pool:
    """The threads, and the compiled functions that hand work to them."""

    def __init__(self) -> None:
        code = pool_code.compiled_pool()
        word, control = ctypes.c_ssize_t, _new_control()
        # ctypes lets go of the GIL for the time of a call.
        self.split = ctypes.CFUNCTYPE(word, ctypes.c_char_p)(code["split"])
        self.run_table = ctypes.CFUNCTYPE(word, word, word, word, word)(code["run"])
        self.start = ctypes.CFUNCTYPE(word, word, ctypes.c_void_p, word, word)(code["start"])
        self.claim = ctypes.CFUNCTYPE(word, word)(code["claim"])
        self.finish = ctypes.CFUNCTYPE(word, word, ctypes.c_void_p)(code["finish"])
        self.serve = ctypes.CFUNCTYPE(word, word, word)(code["serve"])
        self.stop = ctypes.CFUNCTYPE(word, word)(code["stop"])
        self.flush = ctypes.CFUNCTYPE(word, word)(code["flush"])
        spin = ctypes.CFUNCTYPE(word, word)(code["spin"])
        self.control, self.stopped = control, False
        if sys.platform == "win32":
            give_way = ctypes.windll.kernel32.SwitchToThread
        else:
            give_way = ctypes.CDLL(None).sched_yield
        self._set(pool_code.WAIT, _address(ctypes.pythonapi.PyThread_acquire_lock_timed))
        self._set(pool_code.RELEASE, _address(ctypes.pythonapi.PyThread_release_lock))
        self._set(pool_code.GIVE_WAY, _address(give_way))
        self._set(pool_code.NAP, _held_lock())
        self._set(pool_code.SPINS, _rounds(spin))
        self.set_generation(_generation)
        self.workers: list[threading.Thread] = []

    def _set(self, place: int, word: int) -> None:
        ctypes.c_ssize_t.from_address(self.control + place).value = word

    def set_generation(self, number: int) -> None:
        """Let compiled calls that were made in another `generation` refuse."""
        self._set(pool_code.GENERATION, number)

    def grow(self, count: int) -> None:
        """Have at least ``count`` workers, unless the process ends or the system has no more threads."""
        while len(self.workers) < count and not self.stopped:
            number = len(self.workers)
            self._set(pool_code.WORKERS + pool_code.WORKER_BYTES * number + 8, _held_lock())
            thread = threading.Thread(
                target=self.serve, args=(self.control, number), name=f"jitgrad-{number + 1}", daemon=True
            )
            try:
                thread.start()
            except RuntimeError:  # the caller does their work
                return
            self.workers.append(thread)

    def run(self, jobs: Sequence[Job], helpers: int) -> bool:
        """Run calls of Python functions, the first in this thread; False if the pool is busy."""
        calls = [_PythonJob(j) for j in jobs]
        words = [0, *(w for c in calls for w in (_PYTHON_ENTRY, id(c)))]
        table = (_Word * len(words))(*words)
        try:
            if not self.start(self.control, table, len(calls), helpers):
                return False
            while (number := self.claim(self.control)) >= 0:
                calls[number].run()
                if calls[number].error is not None:
                    break
        finally:
            # Waited for even if a job failed: the arrays are in use until then.
            self.finish(self.control, table)
        for c in calls:
            if c.error is not None:
                raise c.error
        return True

    def close(self) -> None:
        """Let the threads end, before Python takes down what they stand on."""
        self.stopped = True
        self.stop(self.control)
        for thread in self.workers:
            thread.join(1.0)


def _rounds(spin: Callable[[int], int]) -> int:
    """How many rounds of the loop in which a thread waits for work take ``_SPIN_SECONDS``."""
    count, seconds = 2000, []
    for _ in range(3):
        start = time.perf_counter()
        spin(count)
        seconds.append(time.perf_counter() - start)
    # Every 32 rounds it gives way, which takes 0.5 us where nobody wants the core.
    return int(_SPIN_SECONDS / (min(seconds) / count + 0.5e-6 / 32))


_generation = 1
_pool: _Pool | None = None
_growing = fork_safe(threading.Lock())
_threads: int | None = None  # until it is first asked for: a program may set the environment variable after the import


def _pool_of(helpers: int) -> _Pool:
    """The pool, with as many workers."""
    global _pool
    with _growing:
        if _pool is None:
            _pool = _Pool()
            atexit.register(_pool.close)
        _pool.grow(helpers)
        return _pool


def _forget_threads() -> None:
    """A forked child has no worker threads; the first parallel kernel starts new ones."""
    global _pool
    if _pool is not None:
        atexit.unregister(_pool.close)
    _begin_generation()
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


def _cores() -> int:
    """The cores that this process may use, in a container fewer than there are."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _wanted() -> int:
    wanted = os.environ.get("JITGRAD_NUM_THREADS") or os.environ.get("OMP_NUM_THREADS")
    return int(wanted) if wanted and wanted.isdigit() and int(wanted) > 0 else _cores()


@functools.cache
def _most_helpers() -> int:
    """How many workers can be of use: threads that spin beyond the number of cores only take them from one another."""
    return min(_cores() - 1, pool_code.MOST_WORKERS)


def generation() -> int:
    """A number that grows with each `set_num_threads` and fork: kernels cut for the threads before are cut anew."""
    return _generation


def _begin_generation() -> None:
    global _generation
    _generation += 1
    if _pool is not None:
        _pool.set_generation(_generation)


followers: list[Callable[[int], None]] = []  # told the number of threads that somebody asked for


def get_num_threads() -> int:
    """Return how many threads a large kernel is spread over."""
    global _threads
    if _threads is None:
        _threads = _wanted()
        if _threads < _cores():
            _tell(_threads)
    return _threads


def set_num_threads(count: int) -> None:
    """Spread large kernels, products of matrices among them, over ``count`` threads (at least 1)."""
    global _threads
    if type(count) is not int:
        raise RuntimeError(f"set_num_threads expects an int, but got {type(count).__name__}")
    if count <= 0:
        raise RuntimeError("set_num_threads expects a positive integer")
    _threads = count
    _begin_generation()
    _tell(count)


def _tell(count: int) -> None:
    for follow in followers:
        follow(count)


def flush_denormals(on: bool) -> bool:
    """Let kernels that this thread calls take denormal numbers for zero; False where the processor is an unknown one.

    Workers take over the float mode of the thread whose jobs they do.
    """
    if FLUSH:
        _pool_of(0).flush(on)
    return FLUSH != 0


def run_together(jobs: Sequence[Job]) -> None:
    """Run the jobs on the pool, the first in this thread; in turn if the pool is busy."""
    helpers = min(len(jobs) - 1, _most_helpers())
    # A busy pool is not waited for: a job that starts jobs would wait for itself.
    if helpers > 0 and _pool_of(helpers).run(jobs, helpers):
        return
    for function, args in jobs:
        function(*args)


def helpers_for(count: int) -> int:
    """How many workers take part in what is cut for ``count`` threads."""
    return min(count - 1, _most_helpers())


def control(helpers: int) -> int:
    """The address of what the pool's threads share, by which compiled code hands work to as many workers."""
    return _pool_of(helpers).control


def run_jobs(table: array[int]) -> bool:
    """Do jobs, pairs of an entry's address and its argument, on the pool; False, and nothing done, if it is busy."""
    count = len(table) // 2
    helpers = min(count, get_num_threads(), _most_helpers() + 1) - 1
    pool = _pool_of(helpers)
    return bool(pool.run_table(pool.control, table.buffer_info()[0], count, helpers))


def run_split(count: int, pack: Callable[..., bytes], *words: Any) -> bool:
    """Run a kernel in parts on up to ``count`` threads; False, and nothing done, if the pool is busy.

    ``pack`` makes bytes of the pool, the number of workers, and the ``words``, which `pool_code.split` explains.
    """
    helpers = min(count - 1, _most_helpers())
    pool = _pool
    if pool is None or len(pool.workers) < helpers:
        pool = _pool_of(helpers)
    error = pool.split(pack(pool.control, helpers, *words))
    if error > 0:
        raise_error(error)
    return error == 0
