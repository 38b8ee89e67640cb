"""What is noted while any profiler is on: which function ran when, in which thread, within which other.

A profiler opens a window and gets what began inside it. Windows may overlap; the first one puts the
notes' takers in place (instrument.py), the last one takes them away.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jitgrad.core.tensor import Tensor
from jitgrad.kernels.device_array import DeviceArray

__all__ = ["BACKWARD", "FUNCTION", "KERNEL", "USER", "Options", "Record", "Window", "begin", "charge", "end", "is_on"]

# What a record is of; the numbers are those of PyTorch's scopes.
FUNCTION, BACKWARD, KERNEL, USER = 0, 1, 3, 7
now = time.perf_counter_ns
_FOLDER = os.path.dirname(os.path.dirname(__file__)) + os.sep


class Options(NamedTuple):
    """What is noted besides names and times."""

    shapes: bool = False
    memory: bool = False
    stack: bool = False


class Record:
    """One run of a function; times are nanoseconds of ``time.perf_counter_ns``."""

    __slots__ = ("begin", "depth", "end", "memory", "name", "native", "parent", "scope", "sequence", "shapes", "stack",
                 "thread")  # fmt: skip

    def __init__(self, name: str, scope: int, parent: Record | None, depth: int, thread: _Thread):
        self.name, self.scope, self.parent, self.depth = name, scope, parent, depth
        self.thread, self.native = thread.number, thread.native
        self.begin, self.end = now(), 0
        self.shapes: list[Any] = []
        self.stack: list[str] = []
        self.sequence, self.memory = -1, 0


class _Thread(threading.local):
    """What runs in this thread, outermost first. It belongs to the list of records that it is noted in."""

    _numbers = itertools.count(1)

    def __init__(self) -> None:
        self.number, self.native = next(self._numbers), threading.get_native_id()
        self.open: list[Record] = []
        self.records: list[Record] | None = None


class Window:
    """From the start to the stop of one profiler."""

    def __init__(self, options: Options):
        self.options, self.begin = options, 0
        self.records: list[Record] = []

    def open(self) -> None:
        """Start taking notes."""
        with _lock:
            if not _windows:
                _new_session()
            _windows.append(self)
            _settle()
            self.begin = now()

    def close(self) -> None:
        """Stop; ``records`` then holds what began since ``open``, in order of time."""
        end = now()
        with _lock:
            if self not in _windows:
                return
            _windows.remove(self)
            _settle()
            self.records = [r for r in tuple(_records) if r.begin >= self.begin and r.begin <= end]
            for record in self.records:
                record.end = record.end or end
            self.records.sort(key=lambda r: r.begin)
            if not _windows:
                _new_session()  # nobody needs these records any more


_lock = threading.RLock()
_thread = _Thread()
_windows: list[Window] = []
_records: list[Record] = []
_options = Options()
_takers: list[_Taker] = []


class _Taker:
    """Something that takes notes, and whether it is at work."""

    def __init__(self, wanted: Callable[[Options], bool], start: Callable[[], None], stop: Callable[[], None]):
        self.wanted, self.start, self.stop, self.at_work = wanted, start, stop, False


def add_taker(wanted: Callable[[Options], bool], start: Callable[[], None], stop: Callable[[], None]) -> None:
    """Have ``start`` called when a window opens that needs it, ``stop`` when the last one of these closes."""
    _takers.append(_Taker(wanted, start, stop))


def is_on() -> bool:
    """Whether any profiler is taking notes."""
    return bool(_windows)


def _settle() -> None:
    """Note all that any profiler asks for, and no more."""
    global _options
    _options = Options(*map(any, zip(*(w.options for w in _windows), strict=True))) if _windows else Options()
    for taker in _takers:
        wanted = bool(_windows) and taker.wanted(_options)
        if wanted != taker.at_work:
            taker.at_work = wanted
            (taker.start if wanted else taker.stop)()


def _new_session() -> None:
    global _records
    _records = []


def _running() -> list[Record]:
    """What runs in this thread; emptied when a new session begins."""
    if _thread.records is not _records:
        _thread.records, _thread.open = _records, []
    return _thread.open


def current() -> Record | None:
    """The innermost function that runs in this thread."""
    running = _running()
    return running[-1] if running else None


def begin(name: str, scope: int = FUNCTION, args: tuple[Any, ...] = (), sequence: int = -1) -> Record:
    """Note that a function begins."""
    running = _running()
    record = Record(name, scope, running[-1] if running else None, len(running), _thread)
    record.sequence = sequence
    if _options.shapes:
        record.shapes = [_shape(a) for a in args]
    if _options.stack:
        record.stack = _python_stack()
    running.append(record)
    _records.append(record)
    return record


def end(record: Record) -> None:
    """Note that it has ended, and with it what an exception left open inside."""
    running = _running()
    record.end = now()
    if len(running) > record.depth and running[record.depth] is record:
        for inner in running[record.depth + 1 :]:
            inner.end = record.end
        del running[record.depth :]


def close_down_to(above: Record | None) -> None:
    """End all that runs in this thread within ``above``."""
    running = _running()
    depth = 0 if above is None else above.depth + 1
    if len(running) > depth:
        end(running[depth])


def moment(name: str, scope: int, seconds: float, args: tuple[Any, ...] = ()) -> Record:
    """Note something that took ``seconds`` and has just ended."""
    record = begin(name, scope, args)
    _running().pop()
    record.end = record.begin
    record.begin -= round(seconds * 1e9)
    if record.parent is not None:
        record.begin = max(record.begin, record.parent.begin)
    return record


def charge(nbytes: int) -> None:
    """Charge memory to what runs in this thread."""
    record = current() or moment("[memory]", FUNCTION, 0.0)
    record.memory += nbytes


def _shape(value: Any) -> Any:
    if isinstance(value, (list, tuple)) and any(isinstance(v, Tensor) for v in value):
        return [_shape(v) for v in value]
    return list(value.shape) if isinstance(value, (Tensor, np.ndarray, DeviceArray)) else []


def _python_stack() -> list[str]:
    """Where in the user's program this happens, innermost first."""
    found, frame = [], sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith((_FOLDER, "<")):
            found.append(f"{code.co_filename}({frame.f_lineno}): {code.co_name}")
        frame = frame.f_back  # type: ignore[assignment]
    return found
