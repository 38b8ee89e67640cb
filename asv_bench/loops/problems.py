"""What is timed: the examples of the tests at their large size, each a function that returns one number.

Loaded by each contender in the interpreter that has its library: only NumPy is imported here.
"""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

__all__ = ["PROBLEMS", "Problem", "Result"]

FILE = Path(__file__).parents[2] / "tests" / "extend" / "loop_examples.py"
Result = tuple[Any, tuple[Any, ...]]  # the value, and the gradients in the order of argnums


class Problem(NamedTuple):
    """A function of one number, which arguments it is differentiated by, and the arguments by size."""

    function: Callable[..., Any]
    argnums: tuple[int, ...]
    small: int
    large: int
    make: Callable[[int], tuple[Any, ...]]

    def arguments(self, size: int | None = None) -> tuple[Any, ...]:
        """Of a size, by default the large one."""
        return self.make(size or self.large)


def _loaded_examples() -> Any:
    """The tests' file as a module: the tests are no package that could be imported."""
    spec = importlib.util.spec_from_file_location("loop_examples", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where functions look for the module that they name
    spec.loader.exec_module(module)
    return module


EXAMPLES = _loaded_examples()


def nbody_misfit(x0, v0, m, dt, steps, observed):
    """Squared distance of `nbody_leapfrog`'s positions to ``observed`` ones (n, 3): one number to differentiate."""
    n = x0.shape[0]
    x, v = x0.copy(), v0.copy()
    a = np.zeros((n, 3))
    for step in range(steps + 1):
        for i in range(n):
            for k in range(3):
                a[i, k] = 0.0
        for i in range(n):
            for j in range(i):
                dx, dy, dz = x[j, 0] - x[i, 0], x[j, 1] - x[i, 1], x[j, 2] - x[i, 2]
                square = dx * dx + dy * dy + dz * dz + 0.01
                pull = 1.0 / (square * math.sqrt(square))
                a[i, 0] += m[j] * pull * dx
                a[i, 1] += m[j] * pull * dy
                a[i, 2] += m[j] * pull * dz
                a[j, 0] -= m[i] * pull * dx
                a[j, 1] -= m[i] * pull * dy
                a[j, 2] -= m[i] * pull * dz
        kick = 0.5 * dt if step == 0 or step == steps else dt
        for i in range(n):
            for k in range(3):
                v[i, k] += kick * a[i, k]
                if step < steps:
                    x[i, k] += dt * v[i, k]
    misfit = 0.0
    for i in range(n):
        for k in range(3):
            misfit += (x[i, k] - observed[i, k]) ** 2
    return misfit


def _of_nbody_misfit(size: int) -> tuple[Any, ...]:
    observed = np.random.default_rng(1).standard_normal((size, 3))
    return *EXAMPLES.example_arguments("nbody_leapfrog", size), observed


def _problem(name: str) -> Problem:
    example = EXAMPLES.EXAMPLES[name]
    if name == "nbody_leapfrog":
        return Problem(nbody_misfit, example.argnums, example.small, example.large, _of_nbody_misfit)
    make = lambda size: EXAMPLES.example_arguments(name, size)
    return Problem(example.function, example.argnums, example.small, example.large, make)


PROBLEMS = {name: _problem(name) for name in EXAMPLES.EXAMPLES}
