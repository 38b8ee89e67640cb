"""Passes over a data set that worker processes read.

Each worker has two pipes, one for numbers of samples and one for batches, that only it and the loader have open. So
a worker that ends or is killed, be it in the middle of sending, is noticed at once by the end of its pipe; no lock is
held by it that others wait for, and no thread of this process is needed. Nothing is waited for without a look, every
few seconds, at whether the workers live: another process may hold the ends of pipes that it has inherited.

A pipe is full when its worker hangs. So numbers are sent in pieces that a pipe takes whole or not at all, and what it
has no room for is sent while batches are waited for, which has an end where there is a ``timeout``. (Windows has no
such pipes: there the loader waits until the worker reads.)
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import select
import selectors
import signal
import sys
import time
import warnings
from collections import deque
from collections.abc import Iterable
from multiprocessing.connection import wait
from multiprocessing.reduction import ForkingPickler
from pickle import PicklingError
from typing import Any, NoReturn

from jitgrad._utils import ExceptionWrapper
from jitgrad.core.user_frame import user_level
from jitgrad.utils.data._utils import transport, worker
from jitgrad.utils.data.iterator import _BaseDataLoaderIter, _DatasetKind

__all__: list[str] = []

# How long is waited without a look at whether workers live, and for a worker to end by itself when it is told to.
_SECONDS = 5.0
# The bytes of a piece: with the four that ``send_bytes`` puts ahead of it, what POSIX pipes take whole or not at all.
_PIECE = getattr(select, "PIPE_BUF", 4096) - 4
_WAITS_FOR_ROOM = os.name != "posix"


class _Line:
    """The ends of a worker's pipes that belong to the loader."""

    def __init__(self, context: Any):
        self.worker_requests, self.requests = context.Pipe(duplex=False)
        # A pipe for both directions is a socket, by which files can be sent. It is used in one.
        self.results, self.worker_results = context.Pipe(duplex=True)
        worker.ends_of_loaders.update((self.requests, self.results))
        self.unsent: deque[bytes] = deque()  # pieces of requests that the pipe had no room for
        if not _WAITS_FOR_ROOM:
            os.set_blocking(self.requests.fileno(), False)

    def send(self, request: Any) -> None:
        """Send a request, or as much of it as there is room for."""
        self.unsent.extend(worker.in_pieces(ForkingPickler.dumps(request), _PIECE))
        self.flush()

    def flush(self) -> None:
        """Send what there is room for by now."""
        with contextlib.suppress(BlockingIOError):
            while self.unsent:
                self.requests.send_bytes(self.unsent[0])
                self.unsent.popleft()

    def close_ends_of_worker(self) -> None:
        """Close what the worker has by now: pipes end when it does."""
        self.worker_requests.close()
        self.worker_results.close()

    def close(self) -> None:
        """Let the worker end, which waits at the other side."""
        self.close_ends_of_worker()
        if not (self.unsent or _WAITS_FOR_ROOM):  # else the end of the pipe has to do
            with contextlib.suppress(OSError):  # it has ended
                self.send(None)
        self.requests.close()
        self.results.close()


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Worker processes read; batches are given out in the order of the sampler, unless ``in_order`` is False."""

    _shutdown = True  # until there is something to shut down

    def __init__(self, loader: Any):
        super().__init__(loader)
        self._prefetch_factor, self._in_order = loader.prefetch_factor, loader.in_order
        if self._prefetch_factor <= 0:
            raise AssertionError("prefetch_factor must be greater than 0 for MultiProcessingDataLoaderIter")
        from jitgrad import multiprocessing as _  # noqa: F401  # tensors of the data set are shared, not copied

        self._workers: list[Any] = []
        self._lines: list[_Line] = []
        self._process, self._shutdown = os.getpid(), False
        try:
            for number in range(self._num_workers):
                self._start_worker(number, loader)
        except BaseException:
            self._shutdown_workers()
            raise
        self._reset(loader, first_iter=True)

    def _start_worker(self, number: int, loader: Any) -> None:
        context = loader.multiprocessing_context or multiprocessing
        line = _Line(context)
        self._lines.append(line)
        fetching = self._dataset, self._auto_collation, self._collate_fn, self._drop_last
        process = context.Process(
            target=worker._worker_loop,
            args=(self._dataset_kind == _DatasetKind.Iterable, fetching, line.worker_requests, line.worker_results,
                  self._base_seed, loader.worker_init_fn, number, self._num_workers),
            daemon=True,
        )  # fmt: skip
        try:
            process.start()
        except (TypeError, AttributeError, PicklingError):
            warnings.warn(
                "Got pickle error when attempting to start a worker Process. This might be because the worker Process "
                "arguments are not picklable. Python 3.14+ changed the multiprocessing start method in non-Mac POSIX "
                "platforms to 'forkserver', which requires the worker Process arguments to be picklable. You can also "
                "try multiprocessing.set_start_method('fork').",
                stacklevel=user_level(),
            )
            raise
        self._workers.append(process)
        line.close_ends_of_worker()

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        super()._reset(loader, first_iter)
        self._send_idx = 0  # the number of the next task that workers get
        self._rcvd_idx = 0  # that of the task whose batch is the next to be given out
        self._task_info: dict[int, tuple[Any, ...]] = {}  # {number: (worker,) or, if it has come too early, + (batch,)}
        self._tasks_outstanding = 0
        self._workers_status = [True] * self._num_workers  # whether the worker may be sent tasks
        self._workers_num_tasks = [0] * self._num_workers
        self._turns = itertools.cycle(range(self._num_workers))
        if not first_iter:
            for number in range(self._num_workers):
                self._send(number, worker._ResumeIteration())
            for number in range(self._num_workers):  # what is left of the last pass comes first
                while not isinstance(self._get_data([number])[0], worker._ResumeIteration):
                    pass
        for _ in range(self._prefetch_factor * self._num_workers):
            self._try_put_index()

    # -- what goes through the pipes ------------------------------------------------------------

    def _send(self, number: int, request: Any) -> None:
        try:
            self._lines[number].send(request)
        except OSError:
            self._report_death(number)

    def _flush(self, number: int) -> None:
        try:
            self._lines[number].flush()
        except OSError:
            self._report_death(number)

    def _receive(self, number: int) -> Any:
        try:
            return transport.receive(self._lines[number].results)
        except (EOFError, ConnectionError):
            self._report_death(number)

    def _get_data(self, numbers: Iterable[int] = ()) -> Any:
        """(number of a task, its batch) from any worker, or any of those given."""
        deadline = time.monotonic() + self._timeout if self._timeout > 0 else None
        awaited = [*numbers] or [k for k in range(self._num_workers) if self._workers_status[k]]
        while True:
            left = _SECONDS if deadline is None else min(_SECONDS, deadline - time.monotonic())
            if ready := self._ready(awaited, max(left, 0)):
                return self._receive(ready[0])
            for number in awaited:
                if not self._workers[number].is_alive():
                    self._report_death(number)
            if deadline is not None and time.monotonic() >= deadline:
                raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds")

    def _ready(self, numbers: list[int], seconds: float) -> list[int]:
        """Those of the workers that have sent something; what waits for room in pipes is sent meanwhile."""
        results = {self._lines[k].results: k for k in numbers}
        full = [k for k in numbers if self._lines[k].unsent]
        if not full:
            return [results[pipe] for pipe in wait(list(results), seconds)]
        with selectors.DefaultSelector() as selector:
            for pipe, k in results.items():
                selector.register(pipe, selectors.EVENT_READ, k)
            for k in full:
                selector.register(self._lines[k].requests, selectors.EVENT_WRITE, k)
            events = [(key.data, event) for key, event in selector.select(seconds)]
        for k, event in events:
            if event & selectors.EVENT_WRITE:
                self._flush(k)
        return [k for k, event in events if event & selectors.EVENT_READ]

    def _report_death(self, number: int) -> NoReturn:
        process = self._workers[number]
        process.join(_SECONDS)  # it has closed its pipes, and is about to end
        self._workers_status[number] = False
        raise RuntimeError(f"DataLoader worker (pid(s) {process.pid}) exited unexpectedly") from _cause(process)

    # -- tasks ----------------------------------------------------------------------------------

    def _next_data(self) -> Any:
        while self._skip_lost_tasks():
            if len(self._task_info[self._rcvd_idx]) == 2:
                number, data = self._task_info.pop(self._rcvd_idx)
                self._rcvd_idx += 1
                return self._process_data(data, number)
            if self._shutdown:
                raise AssertionError(
                    "Invalid iterator state: shutdown or no outstanding tasks when fetching next data"
                )
            idx, data = self._get_data()
            self._tasks_outstanding -= 1
            if isinstance(data, worker._IterableDatasetStopIteration):
                self._workers_status[data.worker_id] = False
                if not self._persistent_workers:
                    self._send(data.worker_id, None)
                self._try_put_index()
            elif idx == self._rcvd_idx or not self._in_order:
                self._rcvd_idx += idx == self._rcvd_idx
                return self._process_data(data, self._task_info.pop(idx)[0])
            else:
                self._task_info[idx] += (data,)
        if not self._persistent_workers:
            self._shutdown_workers()
        raise StopIteration

    def _skip_lost_tasks(self) -> bool:
        """Go on to a task that is done or will be, past those that a worker has not done when it ended; if any."""
        while self._rcvd_idx < self._send_idx:
            task = self._task_info.get(self._rcvd_idx)
            if task and (len(task) == 2 or self._workers_status[task[0]]):
                return True
            self._task_info.pop(self._rcvd_idx, None)
            self._rcvd_idx += 1
        return False

    def _try_put_index(self) -> None:
        """Give the next task to the worker whose turn it is, if there are both."""
        most = self._prefetch_factor * self._num_workers
        try:
            index = self._next_index()
        except StopIteration:
            return
        for number in itertools.islice(self._turns, self._num_workers):
            free = self._in_order or self._workers_num_tasks[number] < most // max(sum(self._workers_status), 1)
            if self._workers_status[number] and free:
                break
        else:
            return
        self._task_info[self._send_idx] = (number,)
        self._workers_num_tasks[number] += 1
        self._tasks_outstanding += 1
        self._send_idx += 1
        self._send(number, (self._send_idx - 1, index))

    def _process_data(self, data: Any, number: int) -> Any:
        self._workers_num_tasks[number] -= 1
        self._try_put_index()
        if isinstance(data, ExceptionWrapper):
            data.reraise()
        return data

    # -- the end --------------------------------------------------------------------------------

    def _shutdown_workers(self) -> None:
        """End all workers, and wait until they have ended."""
        if self._shutdown or self._process != os.getpid() or sys.is_finalizing():
            return
        self._shutdown = True
        try:
            for line in self._lines:
                line.close()
            for process in self._workers:
                process.join(_SECONDS)
        finally:  # also when Ctrl-C ends the waiting
            for end in "terminate", "kill":
                for process in self._workers:
                    if process.is_alive():
                        getattr(process, end)()
                        process.join(_SECONDS)

    def __del__(self) -> None:
        self._shutdown_workers()


def _cause(process: Any) -> RuntimeError:
    """What became of a process that has ended."""
    code = process.exitcode
    if code is None or code >= 0:
        return RuntimeError(
            f"DataLoader worker (pid {process.pid}) exited unexpectedly with exit code {code}. Details are lost due to "
            "multiprocessing. Rerunning with num_workers=0 may give better error trace."
        )
    text = f"DataLoader worker (pid {process.pid}) is killed by signal: {signal.strsignal(-code)}. "
    if -code == getattr(signal, "SIGBUS", None):
        text += (
            "It is possible that dataloader's workers are out of shared memory. Please try to raise your shared "
            "memory limit."
        )
    return RuntimeError(text)
