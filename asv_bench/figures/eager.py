"""Figures of eager mode: steps of programs, ops with their gradients, small calls, and memory's speed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from benchmarks.gradients import GRADIENTS, SIZES, SMALL_CALLS, small_call
from benchmarks.rounds import take_turns, threads
from benchmarks.steps import STEPS, TINY_STEPS
from benchmarks.workloads import normal

import jitgrad

from .contenders import engines_apart, turns_of_processes
from .speed import COUNTS, for_engines
from .table import Figure

__all__ = ["EAGER"]

# At each of SIZES the threads of either engine, and the ratio wanted.
WANTED = ((1, 1.2), (1, 1.0), (2, 0.9))


def steps() -> None:
    """Steps of programs: forward, backward, update."""
    _steps("a step", STEPS)


def tiny() -> None:
    """Programs of many ops on tiny tensors."""
    _steps("a step of many tiny ops", TINY_STEPS)


def _steps(title: str, chosen: Iterable[str]) -> None:
    for count in COUNTS:
        _apart(Figure(f"{title}, {count} against {count} threads"), count, 2.0, {name: name for name in chosen})


def gradients() -> None:
    """Ops, forward and backward, at three sizes."""
    for size, (count, limit) in zip(SIZES, WANTED, strict=True):
        figure = Figure(f"forward and backward of {size} elements, {count} against {count} threads", limit=limit)
        _apart(figure, count, 1.0, {name: f"{name} of {size}" for name in GRADIENTS})


def _apart(figure: Figure, count: int, seconds: float, works: Mapping[str, str]) -> None:
    """Fill and show a figure of ``works`` (row: name of a work), each engine in a process of its own.

    In one process the threads of one engine spin on the cores that the other one's turn needs: see `contenders`.
    """
    engines = engines_apart(count)
    for name, work in works.items():
        figure.add(name, turns_of_processes(engines, work, seconds))
    figure.show()
    for engine in engines.values():
        engine.close()


def small() -> None:
    """Calls on 2 x 2 elements, not recorded."""
    figure = Figure("a call on 2 x 2 elements", limit=1.2)
    for name in SMALL_CALLS:
        figure.add(name, take_turns(for_engines(lambda e: small_call(e, name)), 0.5))  # noqa: B023
    figure.show()


def bandwidth() -> None:
    """add, mul and copy of 16M float32 beside the same by NumPy into a given array: what memory allows."""
    for count in (1, 2):
        figure = Figure(f"16M float32, {count} threads", ("torch", "numpy"), unit="ms")
        with threads(count):
            for name, function in {"add": lambda x, y: x + y, "mul": lambda x, y: x * y, "copy": _copied}.items():
                works = for_engines(lambda e: _on_large(e, function))  # noqa: B023
                figure.add(name, take_turns({**works, "numpy": _numpy_work(name)}, 3.0))
        figure.show()


def _copied(x: Any, y: Any) -> Any:
    return x.clone()


def _on_large(engine: Any, function: Callable[[Any, Any], Any]) -> Callable[[], Any]:
    x, y = (normal(engine, 1 << 24, seed=k) for k in range(2))
    return lambda: function(x, y)


def _numpy_work(name: str) -> Callable[[], Any]:
    x, y = (normal(jitgrad, 1 << 24, seed=k).numpy() for k in range(2))
    out = np.empty_like(x)
    if name == "copy":
        return lambda: np.copyto(out, x)
    function = {"add": np.add, "mul": np.multiply}[name]
    return lambda: function(x, y, out)


EAGER = {"step": steps, "tiny": tiny, "gradients": gradients, "small": small, "bandwidth": bandwidth}
