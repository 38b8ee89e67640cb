"""What steps of all engines have in common: a step with the numbers it leads to, an optimiser's step, start values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .workloads import Work

__all__ = ["Problem", "compiled", "differentiated", "minimised", "targets", "uniform"]


class Problem(NamedTuple):
    """``step`` differentiates a loss and may update what it depends on.

    ``numbers`` tells what the steps so far have led to: the loss, and the norms of gradients that were not used up.
    """

    step: Work
    numbers: Callable[[], list[float]]


def minimised(loss: Work, optimizer: Any) -> Problem:
    """A step of an optimiser."""

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    return Problem(step, lambda: [loss().item()])


def differentiated(loss: Work, leaves: Sequence[Any]) -> Problem:
    """The gradients of the leaves, made anew."""

    def step() -> None:
        for leaf in leaves:
            leaf.grad = None
        loss().backward()

    def numbers() -> list[float]:
        gradients = [leaf.grad.numpy().astype(np.float64) for leaf in leaves]
        return [loss().item(), *(float(np.linalg.norm(g)) for g in gradients)]

    return Problem(step, numbers)


def compiled(engine: Any, make: Callable[[Any], Problem]) -> Problem:
    """The problem with its step compiled by the engine."""
    engine.compiler.reset()  # torch compiles a function only so many times
    made = make(engine)
    return made._replace(step=engine.compile(made.step))


def uniform(*shape: int, seed: int) -> Any:
    """A parameter as ``Linear`` and ``Conv2d`` start it, for layers of any engine; a bias as that of 64 inputs."""
    bound = (math.prod(shape[1:]) if len(shape) > 1 else 64) ** -0.5
    return np.random.default_rng(seed).uniform(-bound, bound, shape).astype(np.float32)


def targets(classes: int, batch: int) -> Any:
    """A class for each sample."""
    return np.random.default_rng(1).integers(0, classes, batch)
