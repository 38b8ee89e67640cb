"""Contenders in turns, each in a process of its own, as a user has them.

In one process the engines' thread pools hurt each other: after a call torch's OpenMP threads spin for some milliseconds
on the cores that the next contender's threads want. Here the engine whose turn it is works for some milliseconds before
it is timed, while the others wait for their input and their threads fall asleep.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.rounds import Times, calls_in, mean_of
from benchmarks.steps import STEPS, TINY_STEPS
from benchmarks.transforms import TRANSFORMS, transform
from benchmarks.workloads import CALLS, MLPS, calls, chain, lattice, mlp_step, wide

__all__ = ["VERSIONS", "Contender", "engines_apart", "turns_of_processes"]

BENCH = Path(__file__).parents[1]
Makers = dict[str, Callable[[Any], Callable[[], Any]]]  # {name of a work: what makes it for an engine}
# What `versions` compares. Deep graphs end with "deep".
VERSIONS: Makers = {
    "chain, 50": lambda e: chain(e, 50),
    "lattice, 500": lambda e: lattice(e, 500),
    "fan, 2 000": lambda e: wide(e, 2_000),
    **{f"train, {name}": lambda e, name=name: mlp_step(e, name) for name in MLPS},  # type: ignore[misc]
    **{f"func, {name}": lambda e, name=name: transform(e, name) for name in TRANSFORMS},  # type: ignore[misc]
    **{f"{name}, recorded": lambda e, name=name: calls(e, True)[name] for name in CALLS},  # type: ignore[misc]
    "deep, 200 000": lambda e: chain(e, 200_000),
}
FUSED: Makers = {
    f"fused train, {name}": lambda e, name=name: mlp_step(e, name, fused=True) for name in MLPS  # type: ignore[misc]
}
WORKS: Makers = {**VERSIONS, **FUSED, **STEPS, **TINY_STEPS}
# Seconds of a sample. Half as much work goes ahead of it, which is longer than the predecessor's threads spin.
SAMPLE = 0.012


def serve(engine: str, checkout: str, threads: str) -> None:
    """Answer each name on standard input with the seconds of a call; ``engine``: a module, ``checkout`` first."""
    sys.path.insert(0, checkout)
    module = import_module(engine)
    assert engine != "jitgrad" or Path(module.__file__).parents[1] == Path(checkout), module.__file__
    if threads:
        module.set_num_threads(int(threads))
    made: dict[str, tuple[Callable[[], Any], int]] = {}
    for line in sys.stdin:
        name = line.rstrip("\n")
        if name not in made:
            made.clear()  # what another work keeps for its engine would stay in memory
            work = WORKS[name](module)
            made[name] = work, calls_in(work, SAMPLE)
        work, count = made[name]
        mean_of(work, -(-count // 2))  # caches hold the other process's data, and its threads may still spin
        print(mean_of(work, count), flush=True)


class Contender:
    """A process that times the work it is asked for, with one engine.

    threads: by default as many as the engine takes by itself. variant: what the names of its works begin with.
    """

    def __init__(
        self, engine: str = "jitgrad", checkout: Path = BENCH.parent, threads: int | None = None, variant: str = ""
    ):
        self.variant = variant
        code = "import sys; sys.path.insert(0, sys.argv[1]); from figures.contenders import serve; serve(*sys.argv[2:])"
        given = [str(BENCH), engine, str(checkout.resolve()), str(threads or "")]
        command = [sys.executable, "-c", code, *given]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def seconds(self, name: str) -> float:
        """One sample of a work."""
        assert self.process.stdin is not None and self.process.stdout is not None
        print(self.variant + name, file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        self.process.communicate()


def engines_apart(threads: int | None = None) -> dict[str, Contender]:
    """jitgrad, and torch where it is installed, each with ``threads`` threads in a process of its own."""
    return {e: Contender(e, threads=threads) for e in ("jitgrad", "torch") if find_spec(e)}


def turns_of_processes(contenders: Mapping[str, Contender], work: str, seconds: float) -> dict[str, Times]:
    """Let the contenders time a work in turns, for ``seconds`` together and five samples at least."""
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    order = list(contenders)
    for name in order:  # not counted: the work is made, and its kernels compiled
        contenders[name].seconds(work)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(samples[order[0]]) < 5:
        for name in order:
            samples[name].append(contenders[name].seconds(work))
        order = order[1:] + order[:1]
    return {name: Times(min(s), statistics.median(s)) for name, s in samples.items()}
