"""Contenders in turns, each in a process of its own, as a user has them.

In one process the engines' thread pools hurt each other: after a call torch's OpenMP threads spin for some milliseconds
on the cores that the next contender's threads want. Here the engine whose turn it is works for some milliseconds before
it is timed, while the others wait for their input and their threads fall asleep.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.gradients import GRADIENTS, SIZES, gradient_of
from benchmarks.jax_steps import JAX_PROBLEMS
from benchmarks.problem import Problem, compiled
from benchmarks.rounds import Times, calls_in, mean_of
from benchmarks.steps import PROBLEMS, STEPS, TINY_STEPS
from benchmarks.transforms import TRANSFORMS, transform
from benchmarks.workloads import CALLS, MLPS, calls, chain, lattice, mlp_step, wide

__all__ = ["VERSIONS", "Contender", "Failure", "engines_apart", "turns_of_processes"]

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
OPS: Makers = {
    f"{name} of {size}": lambda e, name=name, size=size: gradient_of(e, name, size)  # type: ignore[misc]
    for name in GRADIENTS for size in SIZES
}  # fmt: skip
WORKS: Makers = {**VERSIONS, **FUSED, **STEPS, **TINY_STEPS, **OPS}
EVERY_PROBLEM: dict[str, Callable[[Any], Problem]] = {
    **PROBLEMS,
    **{f"compiled {name}": lambda e, make=make: compiled(e, make) for name, make in PROBLEMS.items()},  # type: ignore
    **{f"jitted {name}": make for name, make in JAX_PROBLEMS.items()},
}
# Seconds of a sample. Half as much work goes ahead of it, which is longer than the predecessor's threads spin.
SAMPLE = 0.012


def serve(engine: str, checkout: str, threads: str, flush: str) -> None:
    """Answer lines on standard input, of a request and a name; ``engine``: a module, ``checkout`` first.

    flush: not empty if denormal numbers are to be taken for zero.

    seconds: those of a call. numbers: what five steps of a problem lead to.
    """
    sys.path.insert(0, checkout)
    module = _loaded(engine, threads, flush)
    assert engine != "jitgrad" or Path(module.__file__).parents[1] == Path(checkout), module.__file__
    made: dict[str, Problem] = {}
    counts: dict[str, int] = {}
    for line in sys.stdin:
        request, name = line.rstrip("\n").split(": ", 1)
        if name not in made:
            made.clear()  # what another work keeps for its engine would stay in memory
            counts.clear()
            made[name] = _problem(module, name)
        step, numbers = made[name]
        if request == "numbers":
            for _ in range(5):
                step()
            print(*numbers(), flush=True)
            continue
        count = counts[name] = counts.get(name) or calls_in(step, SAMPLE)
        mean_of(step, -(-count // 2))  # caches hold the other process's data, and its threads may still spin
        print(mean_of(step, count), flush=True)


def _problem(module: Any, name: str) -> Problem:
    if name in EVERY_PROBLEM:
        return EVERY_PROBLEM[name](module)
    return Problem(WORKS[name](module), list)


def _loaded(engine: str, threads: str, flush: str) -> Any:
    """The module of an engine, with so many threads; with as many as it takes by itself if that is empty."""
    if engine == "jax":
        if threads:
            os.environ["NPROC"] = threads  # read when XLA starts its threads
        jax = import_module("jax")
        jax.config.update("jax_cpu_enable_async_dispatch", False)  # a call returns when its results are there
        return jax
    module = import_module(engine)
    if flush:
        module.set_flush_denormal(True)
    if threads:
        module.set_num_threads(int(threads))
    return module


class Failure(Exception):
    """A contender can't do a work; its process has printed why, and has ended."""


class Contender:
    """A process that times the work it is asked for, with one engine.

    threads: by default as many as the engine takes by itself. variant: what the names of its works begin with. flush:
    whether denormal numbers are taken for zero, which JAX always does.
    """

    def __init__(
        self, engine: str = "jitgrad", checkout: Path = BENCH.parent, threads: int | None = None, variant: str = "",
        flush: bool = False,
    ):  # fmt: skip
        self.variant = variant
        code = "import sys; sys.path.insert(0, sys.argv[1]); from figures.contenders import serve; serve(*sys.argv[2:])"
        given = [str(BENCH), engine, str(checkout.resolve()), str(threads or ""), "flush" * flush]
        command = [sys.executable, "-c", code, *given]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def seconds(self, name: str) -> float:
        """One sample of a work."""
        return self._answer("seconds", name)[0]

    def numbers(self, name: str) -> list[float]:
        """What five steps of a problem lead to."""
        return self._answer("numbers", name)

    def _answer(self, request: str, name: str) -> list[float]:
        assert self.process.stdin is not None and self.process.stdout is not None
        print(f"{request}: {self.variant}{name}", file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise Failure(name)
        return [float(word) for word in answer.split()]

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
