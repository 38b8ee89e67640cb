"""Records of what runs while any profiler is on: which function, when, in which thread, inside which other.

A profiler opens a window and gets the records that began while it was open. Windows may overlap: all share one list of
records. What has to be in place so that there is something to record (``instrument.py``, ``memory.py``) is started with
the first window that needs it and stopped with the last.
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
from jitgrad.kernels.threads import fork_safe

__all__ = [
    "BACKWARD", "FUNCTION", "KERNEL", "USER", "Options", "Record", "Window", "add_instrument", "begin", "charge",
    "end", "is_on",
]  # fmt: skip

# What a record is of; the numbers are those of PyTorch's RecordScope.
FUNCTION, BACKWARD, KERNEL, USER = 0, 1, 3, 7
now = time.perf_counter_ns
_FOLDER = os.path.dirname(os.path.dirname(__file__)) + os.sep


class Options(NamedTuple):
    """What is recorded besides names and times: shapes of arguments, bytes allocated, Python stacks."""

    shapes: bool = False
    memory: bool = False
    stack: bool = False


class Record:
    """One run of a function; times are nanoseconds of ``time.perf_counter_ns``, 0 for the end of what still runs.

    depth: how many records of the thread were open when it began. sequence: the number of the node that the
    function made or ran, -1 without one. memory: bytes allocated less those freed while it was the thread's innermost.
    """

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
    """The records of this thread that have not ended, outermost first.

    ``records`` is the session's list that they are in: a thread that outlives a session finds by it, when it next
    records something, that what it has open belongs to an earlier one.
    """

    _numbers = itertools.count(1)

    def __init__(self) -> None:
        self.number, self.native = next(self._numbers), threading.get_native_id()
        self.open: list[Record] = []
        self.records: list[Record] | None = None


class Window:
    """The time between the start and the stop of one profiler."""

    def __init__(self, options: Options):
        self.options, self.begin = options, 0
        self.records: list[Record] = []

    def open(self) -> None:
        """Start recording."""
        with _lock:
            if not _windows:
                _new_session()
            _windows.append(self)
            _update_instruments()
            self.begin = now()

    def close(self) -> None:
        """Stop; ``records`` then holds what began since ``open``, in order of time."""
        end = now()
        with _lock:
            if self not in _windows:
                return
            _windows.remove(self)
            _update_instruments()
            self.records = [r for r in tuple(_records) if r.begin >= self.begin and r.begin <= end]
            for record in self.records:
                record.end = record.end or end
            self.records.sort(key=lambda r: r.begin)
            if not _windows:
                _new_session()  # frees the records: no window is left that reads them


_lock = fork_safe(threading.RLock())
_thread = _Thread()
_windows: list[Window] = []
_records: list[Record] = []
_options = Options()
_instruments: list[_Instrument] = []


class _Instrument:
    """Something that makes records while it runs, and for which options it is needed."""

    def __init__(self, wanted: Callable[[Options], bool], start: Callable[[], None], stop: Callable[[], None]):
        self.wanted, self.start, self.stop, self.running = wanted, start, stop, False


def add_instrument(wanted: Callable[[Options], bool], start: Callable[[], None], stop: Callable[[], None]) -> None:
    """Have ``start`` called when the first window opens whose options are wanted, ``stop`` when the last one closes."""
    _instruments.append(_Instrument(wanted, start, stop))


def is_on() -> bool:
    """Whether any profiler is on."""
    return bool(_windows)


def _update_instruments() -> None:
    """Start and stop instruments, so that all that any open window asks for is recorded and nothing else."""
    global _options
    _options = Options(*map(any, zip(*(w.options for w in _windows), strict=True))) if _windows else Options()
    for instrument in _instruments:
        wanted = bool(_windows) and instrument.wanted(_options)
        if wanted != instrument.running:
            instrument.running = wanted
            (instrument.start if wanted else instrument.stop)()


def _new_session() -> None:
    global _records
    _records = []


def _running() -> list[Record]:
    """The open records of this thread; none when a new session has begun since it last recorded something."""
    if _thread.records is not _records:
        _thread.records, _thread.open = _records, []
    return _thread.open


def current() -> Record | None:
    """The innermost open record of this thread."""
    running = _running()
    return running[-1] if running else None


def begin(name: str, scope: int = FUNCTION, args: tuple[Any, ...] = (), sequence: int = -1) -> Record:
    """Record that a function begins; the record is open until ``end``."""
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
    """Record that a function has ended, and with it what an exception left open inside.

    A record of an earlier session, or of one that was ended with an outer one, gets its time and changes nothing else.
    """
    running = _running()
    record.end = now()
    if len(running) > record.depth and running[record.depth] is record:
        for inner in running[record.depth + 1 :]:
            inner.end = record.end
        del running[record.depth :]


def close_down_to(above: Record | None) -> None:
    """End all records of this thread inside ``above``; all there are for None."""
    running = _running()
    depth = 0 if above is None else above.depth + 1
    if len(running) > depth:
        end(running[depth])


def add_finished(name: str, scope: int, seconds: float, args: tuple[Any, ...] = (), ago: float = 0.0) -> Record:
    """Record something that took ``seconds`` and ended ``ago`` seconds before now."""
    record = begin(name, scope, args)
    _running().pop()
    record.end = record.begin - round(ago * 1e9)
    record.begin = record.end - round(seconds * 1e9)
    if record.parent is not None:  # two clocks: it must not seem to have begun before what it ran in
        record.begin = max(record.begin, record.parent.begin)
    return record


def charge(nbytes: int) -> None:
    """Count memory for the innermost open record of this thread, or for one called "[memory]" if none is open."""
    record = current() or add_finished("[memory]", FUNCTION, 0.0)
    record.memory += nbytes


def _shape(value: Any) -> Any:
    if isinstance(value, (list, tuple)) and any(isinstance(v, Tensor) for v in value):
        return [_shape(v) for v in value]
    return list(value.shape) if isinstance(value, (Tensor, np.ndarray, DeviceArray)) else []


def _python_stack() -> list[str]:
    """The calls on the stack that are the program's, innermost first: neither jitgrad's nor generated code."""
    found, frame = [], sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith((_FOLDER, "<")):
            found.append(f"{code.co_filename}({frame.f_lineno}): {code.co_name}")
        frame = frame.f_back  # type: ignore[assignment]
    return found
