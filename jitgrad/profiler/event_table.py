"""Events as a table of text, with the columns and the widths of PyTorch's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

__all__ = ["build_table", "memory_text", "time_text"]

_WIDTH, _GAP = 12, "  "
_FLOPS = ("FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs")
_UNITS = {"s": 1e6, "ms": 1e3, "us": 1.0}
Widths = tuple[int | None, int | None, int | None]


def time_text(microseconds: float) -> str:
    """A time with the unit that suits it."""
    unit = "s" if microseconds >= 1e6 else "ms" if microseconds >= 1e3 else "us"
    return f"{microseconds / _UNITS[unit]:.3f}{unit}"


def memory_text(nbytes: int) -> str:
    """A number of bytes with the unit that suits it."""
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(nbytes) >= size:
            return f"{nbytes / size:.2f} {unit}"
    return f"{nbytes} B"


def build_table(
    events: Sequence[Any], row_limit: int, widths: Widths, header: str | None, memory: bool, top_only: bool,
    unit: str | None, flops: bool = False,
) -> str:  # fmt: skip
    """The table of events or averages, empty without any."""
    if not events:
        return ""
    table = _Table(events, widths, memory, unit, flops)
    lines = []
    if header is not None:
        lines += ["=" * table.width, header]
    if top_only:
        lines += ["=" * table.width, "This report only display top-level ops statistics"]
    lines += [table.rule, table.row(table.titles), table.rule]
    shown = [event for event in events if not (top_only and event.cpu_parent is not None)]
    for event in shown if row_limit < 0 else shown[:row_limit]:
        lines += table.rows(event)
    lines += [table.rule, f"Self CPU time total: {table.time(table.total)}"]
    return "\n".join(lines) + "\n"


class _Table:
    """The columns that these events need: titles, and for each column its width and alignment.

    Shapes, callers, memory and FLOPs have columns only where an event has them. FLOPs are in the largest unit in which
    the smallest count is at least 1.
    """

    def __init__(self, events: Sequence[Any], widths: Widths, memory: bool, unit: str | None, flops: bool):
        self.memory, self.unit = memory, unit
        self.total = sum(event.self_cpu_time_total for event in events)
        self.max_name = widths[0]
        self.columns = [(_at_most(max(len(e.key) for e in events) + 4, widths[0]), ">")]
        self.titles = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"]
        self.titles += ["CPU Mem", "Self CPU Mem"] if memory else []
        self.titles.append("# of Calls")
        self.columns += [(_WIDTH, ">")] * (len(self.titles) - 1)
        self.shapes = any(e.input_shapes for e in events)
        self.stacks = any(e.stack for e in events)
        if self.shapes:
            self.titles.append("Input Shapes")
            self.columns.append((_at_most(max(len(str(e.input_shapes)) for e in events) + 4, widths[1]), ">"))
        if self.stacks:
            longest = max(len(entry) for e in events for entry in e.stack)
            self.titles.append("Source Location")
            self.columns.append((_at_most(longest + 4, widths[2]), "<"))
        least = min((e.flops for e in events if e.flops > 0), default=0) if flops else 0
        self.flops = min(int(math.log10(least) / 3), len(_FLOPS) - 1) if least else -1
        if least:
            self.titles.append(f"Total {_FLOPS[self.flops]}")
            self.columns.append((_WIDTH, ">"))
        self.source = len(self.columns) - (2 if least else 1)  # where callers are, if they are shown
        self.rule = "".join("-" * width + _GAP for width, _ in self.columns)
        self.width = len(self.rule) - len(_GAP)

    def row(self, values: Sequence[Any]) -> str:
        """Values under their columns."""
        return "".join(f"{v:{side}{width}}{_GAP}" for v, (width, side) in zip(values, self.columns, strict=True))

    def time(self, microseconds: float) -> str:
        if self.unit in _UNITS:
            return f"{microseconds / _UNITS[self.unit]:.3f}{self.unit}"
        return time_text(microseconds)

    def share(self, microseconds: float) -> str:
        return f"{microseconds * 100 / self.total:.2f}%" if self.total else "NaN"

    def rows(self, event: Any) -> list[str]:
        """An event's row, and one for each further caller."""
        name = event.key
        if self.max_name is not None and len(name) >= self.max_name - 3:
            name = name[: self.max_name - 3] + "..."
        own, whole = event.self_cpu_time_total, event.cpu_time_total
        values = [name, self.share(own), self.time(own), self.share(whole), self.time(whole), self.time(event.cpu_time)]
        if self.memory:
            values += [memory_text(event.cpu_memory_usage), memory_text(event.self_cpu_memory_usage)]
        values.append(str(event.count))
        if self.shapes:
            values.append(str(event.input_shapes)[: self.columns[len(values)][0]])
        flops = []
        if self.flops >= 0:
            flops = [f"{event.flops * 10.0 ** (-3 * self.flops):8.3f}" if event.flops > 0 else "--"]
        if not self.stacks:
            return [self.row([*values, *flops])]
        sources = [_end_of(entry, self.columns[self.source][0]) for entry in event.stack] or [""]
        before, after = [""] * len(values), [""] * len(flops)
        rest = [self.row([*before, source, *after]) for source in [*sources[1:], ""]]
        return [self.row([*values, sources[0], *flops]), *rest]


def _at_most(width: int, limit: int | None) -> int:
    return width if limit is None else min(width, limit)


def _end_of(path: str, width: int) -> str:
    return path if len(path) <= width else "..." + path[len(path) - width + 3 :]
