"""A program that is ready to run, and what begins a run of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.kernels.builtin_function import builtin_function, item_place, new_int
from jitgrad.kernels.native_entry import HEAD, raise_error
from jitgrad.kernels.program.addresses import address_of
from jitgrad.kernels.program.executor import code, functions
from jitgrad.kernels.program.object_words import Rows

__all__ = ["Beginning", "Program"]

# Some tens of microseconds: Python itself lets go of its lock every 5 ms.
_BRIEF_BYTES, _BRIEF_ROWS = 1 << 20, 200


class Program:
    """Rows that are ready to run.

    ``slots``: the numbers of the slots that have to be bound; ``device_slots``: of those that get arrays on a device,
    which ``device`` binds. ``brief``: whether a run is so short that it need not let go of Python's lock. ``reached``:
    the row in front of which all is done, or will be before anything is raised but by that row: an interrupt comes when
    compiled code returns. A program has one set of words: two runs at once are the caller's to prevent.
    """

    def __init__(self, made: Any):
        """``made``: the Builder."""
        self.words = np.array(made.words, np.int64)
        base = address_of(self.words)
        for at, target in made.pointers:
            self.words[at] = base + 8 * target
        self.table = np.array([w for r in made.rows for w in (r.entry, base + 8 * r.words)], np.int64)
        self.starts = [r.words for r in made.rows]
        self.calls, self.checks, self.keep = made.calls, made.checks, made.keep
        self.uses_blas, self._base, self._cells = made.uses_blas, base, made.cells
        self._floats = self.words.view(np.float64)
        self.live: dict[Any, list[int]] = {}
        for key, at in made.live:
            self.live.setdefault(key, []).append(at)
        self.slots, self.device, self.device_slots = sorted(made.cells), made.device, made.device.slots
        self._run_rows = functions()[1]
        self._where, self._count = address_of(self.table), len(made.rows)
        self.forget_failure()
        short = made.nbytes <= _BRIEF_BYTES and len(made.rows) <= _BRIEF_ROWS
        self.brief = short and not made.calls and not made.uses_blas and not made.timed
        self._names = made.names
        self._seconds = [0.0] * self._count if made.timed else []
        self._runs = 0

    def beginning(self, slots: Sequence[int]) -> Beginning:
        """What starts a run with these slots bound; see `Beginning`."""
        cells: list[int] = []
        bindings: list[int] = []
        for slot in slots:
            first = len(cells)
            for absolute, place, offset in self._cells[slot]:
                cells += [place if absolute else self._base + 8 * place, offset]
            bindings += [8 * first, 8 * len(cells)]
        table = np.array(cells, np.int64)
        at = address_of(table)
        made = Beginning(np.array([at + b for b in bindings], np.int64), table, self)
        self.keep.append(made)  # its call holds nothing but its words
        return made

    def running(self, arrays: str, refused: str = "") -> list[str]:
        """Lines that do a run which has begun, in a text where ``run``, ``one_thread`` and ``device`` are known.

        arrays: the expressions of what ``device_slots`` get, each with a comma behind it; refused: a statement for
        when they share memory that must not.
        """
        if self.brief:  # the call that has begun it was all of it
            return []
        run = "with one_thread: run()" if self.uses_blas else "run()"
        if not arrays:
            return [run]
        bind = f"device.bind(({arrays}))"
        return [f"if not {bind}: {refused}" if refused else bind, "try:", f"    {run}", "finally: device.release()"]

    def set_number(self, key: Any, value: float) -> None:
        """Give a live number its value for the next run."""
        for at in self.live.get(key, ()):
            self._floats[at] = value
        for call in self.calls:
            for position, of in call.live:
                if of == key:
                    call.args[position] = value

    def run(self) -> None:
        """Do all launches; raises what a kernel or a check raises, with everything before it done."""
        first = 0
        self._runs += 1
        for row, call, args, _ in self.calls:
            if first < row:
                self._rows(first, row)
            self.reached = row
            call(*args)
            first = row
        if first < self._count:
            self._rows(first, self._count)

    def times(self) -> dict[str, float]:
        """Seconds of a run, on average, of the rows that belong to launches of each name; Python's calls left out."""
        found: dict[str, float] = {}
        for name, seconds in zip(self._names, self._seconds, strict=False):
            found[name] = found.get(name, 0.0) + seconds / max(1, self._runs)
        return found

    def _timed_rows(self, first: int, last: int) -> None:
        for row in range(first, last):
            self.reached = row + 1
            start = time.perf_counter()
            failed = self._run_rows(self._where, row, row + 1)
            self._seconds[row] += time.perf_counter() - start
            if failed >= 0:
                self.fail(failed)

    def _rows(self, first: int, last: int) -> None:
        if self._seconds:
            self._timed_rows(first, last)
            return
        self.reached = last
        failed = self._run_rows(self._where, first, last)
        if failed >= 0:
            self.fail(failed)

    def forget_failure(self) -> None:
        """Let ``reached`` be the end, as it is when a run that compiled code does at once is interrupted."""
        self.reached = self._count

    def fail(self, row: int) -> None:
        """Raise the error that a row has left."""
        self.reached = row
        error = int(self.words[self.starts[row] + HEAD - 1])
        self.words[self.starts[row] + HEAD - 1] = 0
        if row in self.checks:
            found, fail, args = self.checks[row]
            fail(found, *args)
        raise_error(error)


class Beginning:
    """``call(arrays)``: compare rows, bind the arrays and, if the program is brief, run it; see `executor.begin`.

    The arrays, a tuple in the order of the slots, are contiguous from their first element on; each has to live until
    another one is bound in its place, or until no run is to come.
    """

    def __init__(self, bindings: np.ndarray[Any, Any], cells: np.ndarray[Any, Any], program: Program):
        rows = program._count if program.brief else 0
        head = [new_int(), item_place(), 0, 0, 0, 0, address_of(bindings), len(bindings) // 2]
        self._words = np.array([*head, program._where, rows, 0, 0], np.int64)
        self._keep = [bindings, cells]
        self._rows: dict[int, Rows] = {}
        self.call = builtin_function("begin", code()["begin"], self._words)

    def refuse_overlap(self, pairs: Sequence[tuple[int, int, int, int, int, int]]) -> None:
        """Let a call do nothing and return 3 where two arrays share memory; for the pairs see `executor.overlap`."""
        table = np.array(pairs, np.int64)
        self._words[10:12] = address_of(table), len(pairs)
        self._keep.append(table)

    def compare(self, first: Rows | None = None, second: Rows | None = None) -> None:
        """Let a call compare these rows: it does nothing and returns 1 if the first have changed, 2 if the second."""
        for place, rows in ((2, first), (4, second)):
            if rows is not None:
                self._words[place : place + 2] = rows.address, rows.count
                self._rows[place] = rows
