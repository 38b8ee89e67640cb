"""What is timed of an op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Case"]


class Case(NamedTuple):
    """An op, called with inputs of about so many elements.

    inputs: NumPy arrays for a generator and a number of elements. call: the op of ``lib`` (jitgrad or torch) on these
    as tensors; it returns a tensor, or several. backward: whether gradients of the floating results are timed with it,
    for the inputs that are floating. most: the largest number of elements that is worth waiting for.
    """

    inputs: Callable[[np.random.Generator, int], Sequence[Any]]
    call: Callable[..., Any]
    backward: bool = True
    most: int = 1_000_000
