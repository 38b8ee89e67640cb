"""The tape: which kernels a block of code launched, on what, for how long, and what depended on what.

``tape()`` lists every launch of a block of code. The environment variable ``JITGRAD_DEBUG`` (or
``debug.dial(level)``) prints launches as they happen: 1 kernel and time, 2 also shapes and dtypes,
3 also where the kernel's text is.
"""

from __future__ import annotations

import html
import linecache
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from jitgrad.debug.picture import Arrow, Box, Picture
from jitgrad.kernels.launch import Kernel, Loop, observers, text_file
from jitgrad.kernels.statistics import compilation

__all__ = ["Entry", "Tape", "dial", "tape"]


@dataclass(frozen=True)
class Entry:
    """One launch: the kernel, its arguments (input arrays, outputs, numbers) and the seconds it took.

    The first launch with new types of arguments waits for machine code, before these seconds: ``compile_seconds``, in
    which it was compiled, if ``compiled``, or else read from disk.
    """

    kernel: Kernel
    args: tuple[Any, ...]
    seconds: float
    compile_seconds: float = 0.0
    compiled: bool = False

    @classmethod
    def observed(cls, kernel: Kernel, args: tuple[Any, ...], seconds: float) -> Entry:
        """The entry of a launch that took ``seconds``, the wait for machine code among them."""
        return cls(kernel, args, seconds - compilation.seconds, compilation.seconds, compilation.compiled)

    @property
    def wait(self) -> str:
        """How long the launch waited for machine code, and why; empty if it did not."""
        how = "compiled" if self.compiled else "loaded from disk"
        return f"{how} in {self.compile_seconds * 1e3:.1f} ms" if self.compile_seconds else ""

    @property
    def arrays(self) -> list[tuple[int, Any]]:
        """(position, array) of every array argument."""
        return [(k, a) for k, a in enumerate(self.args) if hasattr(a, "dtype") and hasattr(a, "ndim")]

    @property
    def text(self) -> str:
        """The source that was compiled for this launch; empty for a routine of a library."""
        kernel = self.kernel
        run = kernel.variant(self.args[kernel.dtype_from].dtype) if isinstance(kernel, Loop) else kernel.call
        name = text_file(run)
        return "".join(linecache.getlines(name)) if name else ""

    def describe(self, written: bool) -> str:
        """Shapes and dtypes of the arrays that the kernel writes, or of those that it reads."""
        shapes = self.kernel.shapes(self.args)
        chosen = [(k, a) for k, a in self.arrays if (k in self.kernel.writes) == written and k in shapes]
        return ", ".join(f"{a.dtype.name}{list(shapes[k])}" for k, a in chosen)


class Tape:
    """The launches of a block of code, in order; see ``tape``."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._thread = threading.get_ident()

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def _observe(self, kernel: Kernel, args: tuple[Any, ...], seconds: float) -> None:
        # Observers see the launches of all threads.
        if threading.get_ident() == self._thread:
            self.entries.append(Entry.observed(kernel, args, seconds))

    def replay(self) -> None:
        """Run the same launches again on the same memory: with new values in the inputs, results are computed anew."""
        for entry in self.entries:
            entry.kernel.call(*entry.args)

    # -- as text ------------------------------------------------------------------------------

    def rows(self) -> list[tuple[str, ...]]:
        """(kernel, what it read, what it wrote, microseconds, how long it waited for machine code) per launch."""
        return [
            (e.kernel.name, e.describe(written=False), e.describe(written=True), f"{e.seconds * 1e6:.1f}", e.wait)
            for e in self.entries
        ]

    def _titled_rows(self) -> list[tuple[str, ...]]:
        """The rows below their titles; the last column is left out where no launch waited."""
        rows = [("kernel", "reads", "writes", "us", "first use"), *self.rows()]
        return rows if any(row[4] for row in rows[1:]) else [row[:4] for row in rows]

    def table(self) -> str:
        """The launches as an aligned table, with their sum, and that of the waits for machine code."""
        rows = self._titled_rows()
        widths = [min(max(map(len, column)), 48) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell[:w].ljust(w) for cell, w in zip(r, widths, strict=True)).rstrip() for r in rows]
        lines.insert(1, "  ".join("-" * w for w in widths))
        lines.append(f"{len(self)} launches, {sum(e.seconds for e in self.entries) * 1e6:.1f} us")
        if waited := sum(e.compile_seconds for e in self.entries):
            lines.append(f"first uses waited {waited * 1e3:.1f} ms for machine code")
        return "\n".join(lines)

    __str__ = table

    def __repr__(self) -> str:
        return f"<tape of {len(self)} launches>"

    # -- as a graph ---------------------------------------------------------------------------

    def edges(self) -> list[tuple[int, int]]:
        """(writer, reader) pairs of launches: the reader reads memory that the writer wrote last."""
        last_writer: dict[int, int] = {}  # by memory, of which views share one entry
        found = []
        for number, entry in enumerate(self.entries):
            sources = {last_writer.get(_memory(a)) for k, a in entry.arrays}
            found += sorted((s, number) for s in sources if s is not None and s != number)
            for k, a in entry.arrays:
                if k in entry.kernel.writes:
                    last_writer[_memory(a)] = number
        return found

    def picture(self) -> Picture:
        """The launches and what flows between them, ready to be shown."""
        boxes = [
            Box(f"n{number}", tuple(filter(None, (entry.kernel.name, entry.describe(written=True)))))
            for number, entry in enumerate(self.entries)
        ]
        return Picture(boxes, [Arrow(f"n{a}", f"n{b}") for a, b in self.edges()], name="tape")

    def dot(self) -> str:
        """The graph in Graphviz's language."""
        return self.picture().dot

    def svg(self) -> str:
        """The graph as SVG text."""
        return self.picture().svg()

    def _repr_html_(self) -> str:
        titles, *rows = self._titled_rows()
        head = "".join(f"<th>{html.escape(title)}</th>" for title in titles)
        cells = "".join(
            "<tr>" + "".join(f"<td style='text-align:left'>{html.escape(c)}</td>" for c in row) + "</tr>"
            for row in rows
        )
        return f"<table><tr>{head}</tr>{cells}</table>{self.picture()._repr_svg_() or ''}"


def _memory(array: Any) -> int:
    """A number for the memory that an array shows: views of one array have it in common with that."""
    while getattr(array, "base", None) is not None:
        array = array.base
    return id(array)


@contextmanager
def tape() -> Iterator[Tape]:
    """Record what this thread launches inside the block.

    >>> import jitgrad
    >>> x = jitgrad.ones(3)
    >>> with jitgrad.debug.tape() as t:
    ...     y = x * x + x
    >>> [e.kernel.name for e in t]
    ['mul_forward', 'add_forward']
    """
    recorded = Tape()
    observers.append(recorded._observe)
    try:
        yield recorded
    finally:
        observers.remove(recorded._observe)


_LEVELS = {"0": 0, "1": 1, "2": 2, "3": 3}


def _printer(level: int) -> Any:
    """An observer that prints each launch, as much of it as ``level`` says."""
    def show(kernel: Kernel, args: tuple[Any, ...], seconds: float) -> None:
        entry = Entry.observed(kernel, args, seconds)
        parts = [f"{kernel.name:28s} {entry.seconds * 1e6:9.1f} us"]
        if entry.wait:
            parts.append(f"({entry.wait})")
        if level >= 2:
            parts.append(f"{entry.describe(written=False)} -> {entry.describe(written=True)}")
        if level >= 3:
            parts.append(kernel.origin())
        print("  ".join(parts), file=sys.stderr)

    return show


@contextmanager
def dial(level: int) -> Iterator[None]:
    """Print launches to stderr inside the block; levels are those at the top of this file. ValueError for others."""
    if str(level) not in _LEVELS:
        raise ValueError(f"debug level {level!r} is unknown; use one of {', '.join(_LEVELS)}")
    show = _printer(level)
    if level:
        observers.append(show)
    try:
        yield
    finally:
        if level:
            observers.remove(show)


def _start_from_environment() -> None:
    """Print launches until the program ends if ``JITGRAD_DEBUG`` says so. ValueError for a value that is no level."""
    value = os.environ.get("JITGRAD_DEBUG", "0")
    if value not in _LEVELS:
        raise ValueError(f"JITGRAD_DEBUG={value!r} is unknown; use one of {', '.join(_LEVELS)}")
    if _LEVELS[value]:
        observers.append(_printer(_LEVELS[value]))


_start_from_environment()
