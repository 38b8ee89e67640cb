"""What a loader's worker process does: read numbers of samples from one pipe, send batches of them into another."""

from __future__ import annotations

import os
import pickle
import queue
import random
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import jitgrad
from jitgrad._utils import ExceptionWrapper
from jitgrad.utils.data._utils import transport
from jitgrad.utils.data._utils.fetch import _IterableDatasetFetcher, _MapDatasetFetcher

__all__ = ["WorkerInfo", "get_worker_info"]

# The ends of pipes that loaders of this process hold. A forked worker closes them: a pipe tells that the process on the
# other side has ended only when nobody else has that end open.
ends_of_loaders: weakref.WeakSet[Any] = weakref.WeakSet()
_SECONDS_BETWEEN_LOOKS = 5.0


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """What a worker process knows of itself: its number, how many there are, its seed, and its copy of the data set."""

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: Any = None
    worker_method: str | None = "multiprocessing"


@dataclass(frozen=True)
class _IterableDatasetStopIteration:
    """Sent instead of a batch: the worker's copy of the data set has ended."""

    worker_id: int


@dataclass(frozen=True)
class _ResumeIteration:
    """Sent to a worker that stays for another pass, which forgets what it was asked for before, and sent back."""

    seed: int | None = None


_worker_info: Any = None


def get_worker_info() -> WorkerInfo | None:
    """In a loader's worker process, what is known of it: ``id``, ``num_workers``, ``seed``, ``dataset``. Else None."""
    return _worker_info


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """The seed of NumPy's global generator in a worker."""
    words = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    return [int(word) for word in np.random.SeedSequence(words).generate_state(4)]


def in_pieces(message: memoryview, size: int) -> Iterator[bytes]:
    """A pickled request in pieces of at most ``size`` bytes, the first of which says whether more follow."""
    for begin in range(0, len(message), size - 1):
        end = begin + size - 1
        yield bytes([end < len(message)]) + message[begin:end]


class _Inbox:
    """Requests, of which one for another pass cancels those before it."""

    def __init__(self, pipe: Any):
        self.pipe, self.waiting, self.parent = pipe, deque[Any](), os.getppid()
        self.pieces: list[bytes] = []  # of a request that has not arrived as a whole

    def next(self) -> Any:
        """The next request; None if the loader wants no more, or is gone."""
        try:
            wanted = self._read(0)
            while wanted and not self.waiting:
                # It may be gone while some other process keeps its end of the pipe open.
                wanted = self._read(_SECONDS_BETWEEN_LOOKS) and os.getppid() == self.parent
        except (EOFError, OSError):
            return None
        return self.waiting.popleft() if wanted else None

    def _read(self, seconds: float) -> bool:
        """Take all that is in the pipe, after so long at most; whether the loader wants anything."""
        while self.pipe.poll(seconds):
            seconds, piece = 0, self.pipe.recv_bytes()
            self.pieces.append(piece[1:])
            if piece[0]:
                continue
            request = pickle.loads(b"".join(self.pieces))
            self.pieces.clear()
            if request is None:
                return False
            if isinstance(request, _ResumeIteration):
                self.waiting.clear()
            self.waiting.append(request)
        return True


class _Outbox:
    """Sends from a thread of its own: meanwhile the next batch is read, though nobody has taken the last one."""

    def __init__(self, pipe: Any, where: str):
        self.pipe, self.where = pipe, where
        self.waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._send_all, daemon=True)
        self.thread.start()

    def put(self, number: Any, content: Any) -> None:
        """Send (number, content) some time."""
        self.waiting.put((number, content))

    def close(self) -> None:
        """Wait until everything is sent, or nobody reads it."""
        self.waiting.put(None)
        self.thread.join()

    def _send_all(self) -> None:
        try:
            while (message := self.waiting.get()) is not None:
                self._send(*message)
                del message
        except OSError:  # the loader is gone
            pass
        finally:
            self.pipe.close()  # whatever has happened, nobody waits for more

    def _send(self, number: Any, content: Any) -> None:
        try:
            transport.send(self.pipe, (number, content))
        except ConnectionError:
            raise
        except Exception:
            transport.send(self.pipe, (number, self._explained(content)))

    def _explained(self, content: Any) -> ExceptionWrapper:
        """Why a batch, or an exception of a class that other processes can't find, was not pickled."""
        if isinstance(content, ExceptionWrapper):
            content.exc_type = RuntimeError
            return content
        return ExceptionWrapper(where=self.where)


def _prepare(base_seed: int, worker_id: int, num_workers: int, dataset: Any) -> None:
    """Seeds as PyTorch sets them, and one thread: there are as many workers as the program wants to be busy."""
    global _worker_info
    seed = base_seed + worker_id
    jitgrad.set_num_threads(1)
    random.seed(seed)
    jitgrad.manual_seed(seed)
    np.random.seed(_generate_state(base_seed, worker_id))
    _worker_info = WorkerInfo(id=worker_id, num_workers=num_workers, seed=seed, dataset=dataset)


def _worker_loop(
    iterable: bool, fetching: tuple[Any, ...], requests: Any, results: Any, base_seed: int, init_fn: Any,
    worker_id: int, num_workers: int,
) -> None:  # fmt: skip
    """The life of a worker: a process that ``dataloader`` has started. fetching: what fetchers are made of."""
    try:
        for end in list(ends_of_loaders):
            end.close()
        _prepare(base_seed, worker_id, num_workers, fetching[0])
        outbox = _Outbox(results, f"in DataLoader worker process {worker_id}")
        try:
            _serve(_Worker(iterable, fetching, init_fn, worker_id), _Inbox(requests), outbox)
        except SystemExit:  # of a data set; what was sent before arrives
            outbox.close()
            raise
    except KeyboardInterrupt:  # the main process has got it, too
        pass


class _Worker:
    """The data set as a worker reads it."""

    def __init__(self, iterable: bool, fetching: tuple[Any, ...], init_fn: Any, worker_id: int):
        self.fetcher_class: Any = _IterableDatasetFetcher if iterable else _MapDatasetFetcher
        self.fetching, self.worker_id, self.iterable = fetching, worker_id, iterable
        self.failure: ExceptionWrapper | None = None
        self.fetcher: Any = None
        self.start(init_fn)

    def start(self, init_fn: Any = None) -> None:
        """Begin a pass over the data set, before the first after a call of ``init_fn``."""
        self.ended = False
        try:
            if init_fn is not None:
                init_fn(self.worker_id)
            self.fetcher = self.fetcher_class(*self.fetching)
        except Exception:
            self.failure = self._wrapped()

    def batch(self, index: Any) -> Any:
        """A batch, or what to send instead."""
        if self.failure is not None:
            return self.failure
        try:
            return self.fetcher.fetch(index)
        except StopIteration:
            if not self.iterable:
                return self._wrapped()
            self.ended = True
            return _IterableDatasetStopIteration(self.worker_id)
        except Exception:
            return self._wrapped()

    def _wrapped(self) -> ExceptionWrapper:
        return ExceptionWrapper(where=f"in DataLoader worker process {self.worker_id}")


def _serve(worker: _Worker, inbox: _Inbox, outbox: _Outbox) -> None:
    while (request := inbox.next()) is not None:
        if isinstance(request, _ResumeIteration):
            outbox.put(request, None)
            worker.start()
        elif not worker.ended:
            number, index = request
            outbox.put(number, worker.batch(index))
