"""One pool of threads that runs serial kernels on slices of their arrays.

Kernels release the GIL, so a slice of the same compiled kernel per thread needs no parallel
variant (378 ms to compile against 73), no OpenMP and no TBB. Nothing spins, so the threads of NumPy's
BLAS keep their cores: NumPy's matmul and a kernel in turn cost 242 us, alone their sum is 235.
A region costs about 50 us on two cores, as libgomp's does with passive waiting. A fork loses nothing,
and parallel calls within or beside another one run serially.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

__all__ = ["fork_safe", "get_num_threads", "run_together", "set_num_threads", "spans"]

Job = tuple[Callable[..., Any], tuple[Any, ...]]
_Lock = TypeVar("_Lock")


def fork_safe(lock: _Lock) -> _Lock:
    """Return the lock, a Lock or RLock that lives as long as the process: a forked child finds it open.

    Whatever thread of the parent held it at the fork does not exist in the child, where nothing would release it.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lock._at_fork_reinit)  # type: ignore[attr-defined]
    return lock


class _Worker(threading.Thread):
    """A thread that waits for one job, runs it, and says so."""

    def __init__(self, number: int):
        super().__init__(name=f"jitgrad-{number}", daemon=True)
        self.job: Job | None = None
        self.error: BaseException | None = None
        # Two locks as binary semaphores: one is released for a job's start, the other at its end.
        self.go, self.done = threading.Lock(), threading.Lock()
        self.go.acquire()
        self.done.acquire()

    def run(self) -> None:
        while True:
            self.go.acquire()
            function, args = self.job  # type: ignore[misc]
            try:
                function(*args)
            except BaseException as error:  # handed to the thread that waits
                self.error = error
            finally:
                # No reference to arrays may outlive the job.
                self.job = function = args = None
                self.done.release()

    def start_job(self, job: Job) -> None:
        self.job, self.error = job, None
        self.go.release()


class _Pool:
    def __init__(self) -> None:
        self.workers: list[_Worker] = []
        self.busy = threading.Lock()

    def run(self, jobs: Sequence[Job]) -> None:
        while len(self.workers) < len(jobs) - 1:
            worker = _Worker(len(self.workers) + 1)
            worker.start()
            self.workers.append(worker)
        # The calling thread takes the first job itself: it would only wait.
        helping = self.workers[: len(jobs) - 1]
        for worker, job in zip(helping, jobs[1:], strict=True):
            worker.start_job(job)
        try:
            function, args = jobs[0]
            function(*args)
        finally:
            # Waited for even if the first job failed: the arrays are in use until then.
            for worker in helping:
                worker.done.acquire()
        for worker in helping:
            if worker.error is not None:
                raise worker.error


def _available() -> int:
    wanted = os.environ.get("JITGRAD_NUM_THREADS") or os.environ.get("OMP_NUM_THREADS")
    if wanted and wanted.isdigit() and int(wanted) > 0:
        return int(wanted)
    # The cores that this process may use, in a container fewer than there are.
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


_pool = _Pool()
_threads: int | None = None  # until it is first asked for: a program may set the environment variable after the import


def _forget_threads() -> None:
    """A forked child has no worker threads; the first parallel kernel starts new ones."""
    global _pool
    _pool = _Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


def get_num_threads() -> int:
    """Return how many threads a large kernel is spread over."""
    global _threads
    if _threads is None:
        _threads = _available()
    return _threads


def set_num_threads(count: int) -> None:
    """Spread large kernels, products of matrices among them, over ``count`` threads (at least 1)."""
    global _threads
    if type(count) is not int:
        raise RuntimeError(f"set_num_threads expects an int, but got {type(count).__name__}")
    if count <= 0:
        raise RuntimeError("set_num_threads expects a positive integer")
    _threads = count


def spans(size: int, parts: int) -> list[tuple[int, int]]:
    """Cut range(size) into ``parts`` runs whose starts are multiples of 16 elements."""
    # 16 elements of float32 are a cache line, into which two threads should not write.
    edges = [size * k // parts // 16 * 16 for k in range(parts)] + [size]
    return [(a, b) for a, b in zip(edges, edges[1:], strict=False) if b > a]


def run_together(jobs: Sequence[Job]) -> None:
    """Run the jobs on the pool, the first in this thread; in turn if the pool is busy."""
    pool = _pool
    # Not waited for: a job that starts jobs would wait for itself.
    if len(jobs) > 1 and pool.busy.acquire(blocking=False):
        try:
            pool.run(jobs)
        finally:
            pool.busy.release()
        return
    for function, args in jobs:
        function(*args)
