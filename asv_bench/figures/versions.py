"""Two checkouts of jitgrad in turns: whether a change made anything slower.

Each runs in a process of its own, which does the same work as the other figures and times it itself.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.rounds import Times, calls_in, mean_of
from benchmarks.transforms import TRANSFORMS, transform
from benchmarks.workloads import CALLS, MLPS, calls, chain, lattice, mlp_step, wide

from .table import Figure

__all__ = ["compare", "serve"]

BENCH = Path(__file__).parents[1]
# What is measured: the name, and how one makes the work for an engine. Deep graphs end with "deep".
WORKS: dict[str, Callable[[Any], Callable[[], Any]]] = {
    "chain, 50": lambda e: chain(e, 50),
    "lattice, 500": lambda e: lattice(e, 500),
    "fan, 2 000": lambda e: wide(e, 2_000),
    **{f"train, {name}": lambda e, name=name: mlp_step(e, name) for name in MLPS},  # type: ignore[misc]
    **{f"func, {name}": lambda e, name=name: transform(e, name) for name in TRANSFORMS},  # type: ignore[misc]
    **{f"{name}, recorded": lambda e, name=name: calls(e, True)[name] for name in CALLS},  # type: ignore[misc]
    "deep, 200 000": lambda e: chain(e, 200_000),
}


def serve(checkout: str) -> None:
    """Answer each name on standard input with the seconds of a call, measured with the jitgrad of ``checkout``."""
    sys.path.insert(0, checkout)
    import jitgrad

    assert Path(jitgrad.__file__).parents[1] == Path(checkout).resolve(), jitgrad.__file__
    made: dict[str, tuple[Callable[[], Any], int]] = {}
    for line in sys.stdin:
        name = line.rstrip("\n")
        if name not in made:
            work = WORKS[name](jitgrad)
            made[name] = work, calls_in(work, 0.01)
        work, count = made[name]
        work()  # not counted: caches hold the other process's data
        print(mean_of(work, count), flush=True)


class _Server:
    def __init__(self, checkout: str):
        code = "import sys; sys.path.insert(0, sys.argv[1]); from figures.versions import serve; serve(sys.argv[2])"
        command = [sys.executable, "-c", code, str(BENCH), checkout]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def seconds(self, name: str) -> float:
        """One sample of a work."""
        assert self.process.stdin is not None and self.process.stdout is not None
        print(name, file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())


def compare(other: str, seconds: float = 4.0, only: str = "") -> None:
    """Print the time of each work here and in the checkout ``other``, and the ratio."""
    here = _Server(str(BENCH.parent)), _Server(str(Path(other).resolve()))
    figure = Figure("per call, this checkout and the other one", ("other",), limit=1.02, ours="this")
    for name in (n for n in WORKS if only in n):
        samples: list[list[float]] = [[], []]
        end = time.perf_counter() + seconds
        while time.perf_counter() < end or len(samples[0]) < 5:
            for k in (0, 1) if len(samples[0]) % 2 else (1, 0):
                samples[k].append(here[k].seconds(name))
        this, that = (Times(min(s), statistics.median(s)) for s in samples)
        figure.add(name, {"this": this, "other": that})
    figure.show()
