"""How figures are printed: contenders in columns, ratios to each peer, and what was asked for."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version

from benchmarks.rounds import Times

__all__ = ["Figure", "machine"]

class Figure:
    """A table of times: a row per piece of work, a column per contender.

    The ratio in the last columns is ours / peer of the fastest samples (below 1: ours is
    faster); in brackets that of the medians, which tells how quiet the machine was. ``ratios``:
    who has such a column, by default every peer.
    """

    def __init__(
        self, title: str, peers: Sequence[str] = ("torch",), limit: float | None = None, unit: str = "us",
        ours: str = "jitgrad", ratios: Sequence[str] | None = None,
    ):  # fmt: skip
        self.title, self.limit, self.unit, self.ours = title, limit, unit, ours
        self.columns, self.ratios = (ours, *peers), peers if ratios is None else ratios
        self.scale = {"ns": 1e9, "us": 1e6, "ms": 1e3, "s": 1.0}[unit]
        self.rows: list[list[str]] = []
        self.notes: dict[int, str] = {}  # {number of a row: what is printed behind it}

    def add(
        self, label: str, times: Mapping[str, Times | str], scale: float = 1.0, limited: bool = True,
        limit: float | None = None, note: str = "",
    ) -> None:  # fmt: skip
        """Add a row; ``scale`` turns seconds of a call into those of one of its parts. note: printed behind the row.

        A row that is not ``limited`` is there for comparison: the limit, the row's own or the table's, does not judge
        it. In place of times a few words say why there are none.
        """
        limit = (self.limit if limit is None else limit) if limited else None
        factor = self.scale * scale
        cells = [t if isinstance(t, str) else f"{t.fastest * factor:.4g}" for t in self._of(times, self.columns)]
        ours = times[self.ours]
        if note:
            self.notes[len(self.rows)] = note
        self.rows.append([label, *cells, *(self._ratio(ours, t, limit) for t in self._of(times, self.ratios))])

    @staticmethod
    def _of(times: Mapping[str, Times | str], names: Sequence[str]) -> list[Times | str]:
        return [times.get(name, "-") for name in names]

    @staticmethod
    def _ratio(ours: Times | str, theirs: Times | str, limit: float | None) -> str:
        if isinstance(ours, str) or isinstance(theirs, str):
            return "-"
        ratio = ours.fastest / theirs.fastest
        missed = " MISSED" if limit is not None and ratio > limit else ""
        return f"{ratio:.2f} ({ours.median / theirs.median:.2f}){missed}"

    def show(self) -> None:
        """Print the table."""
        limit = f"; wanted: ratio <= {self.limit:g}" if self.limit is not None else ""
        head = ["", *(f"{n} {self.unit}" for n in self.columns), *(f"/ {n}" for n in self.ratios)]
        print(f"\n{self.title}{limit}")
        lines = [head, *self.rows]
        widths = [max(len(row[c]) for row in lines) for c in range(len(head))]
        for number, row in enumerate(lines, -1):
            cells = [c.rjust(w) if k else c.ljust(w) for k, (c, w) in enumerate(zip(row, widths, strict=True))]
            print("  ".join([*cells, self.notes.get(number, "")]).rstrip())


def machine() -> str:
    """Processor, versions, and how busy the machine is, in a line."""
    packages = []
    for name in ("numpy", "numba", "torch", "scipy", "jax"):
        try:
            packages.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            packages.append(f"no {name}")
    busy = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    return (
        f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores, load {busy}; "
        f"{', '.join(packages)}"
    )
