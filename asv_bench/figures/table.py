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
    faster); in brackets that of the medians, which tells how quiet the machine was.
    """

    def __init__(
        self, title: str, peers: Sequence[str] = ("torch",), limit: float | None = None, unit: str = "us",
        ours: str = "jitgrad",
    ):  # fmt: skip
        self.title, self.peers, self.limit, self.unit, self.ours = title, peers, limit, unit, ours
        self.scale = {"ns": 1e9, "us": 1e6, "ms": 1e3, "s": 1.0}[unit]
        self.rows: list[list[str]] = []

    def add(self, label: str, times: Mapping[str, Times], scale: float = 1.0, limited: bool = True) -> None:
        """Add a row; ``scale`` turns seconds of a call into those of one of its parts.

        A row that is not ``limited`` is there for comparison: the limit does not judge it.
        """
        ours, there = times[self.ours], [times.get(p) for p in self.peers]
        cells = [f"{t.fastest * self.scale * scale:.4g}" if t else "-" for t in (ours, *there)]
        self.rows.append([label, *cells, *(self._ratio(ours, t, limited) for t in there)])

    def _ratio(self, ours: Times, theirs: Times | None, limited: bool) -> str:
        if theirs is None:
            return "-"
        ratio = ours.fastest / theirs.fastest
        missed = " MISSED" if limited and self.limit is not None and ratio > self.limit else ""
        return f"{ratio:.2f} ({ours.median / theirs.median:.2f}){missed}"

    def show(self) -> None:
        """Print the table."""
        limit = f"; wanted: ratio <= {self.limit:g}" if self.limit is not None else ""
        head = ["", *(f"{n} {self.unit}" for n in (self.ours, *self.peers)), *(f"/ {n}" for n in self.peers)]
        print(f"\n{self.title}{limit}")
        lines = [head, *self.rows]
        widths = [max(len(row[c]) for row in lines) for c in range(len(head))]
        for row in lines:
            cells = [c.rjust(w) if k else c.ljust(w) for k, (c, w) in enumerate(zip(row, widths, strict=True))]
            print("  ".join(cells).rstrip())


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
