"""Small tensors for the ``samples`` of declarations, on which the generated tests of every op run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from jitgrad.core.layout import layout_of
from jitgrad.core.tensor import Tensor, wrap

__all__ = ["cases", "draw", "draw_complex", "draw_ints"]


def draw(*shape: int, low: float = -2.0, high: float = 2.0, seed: int = 0) -> Tensor:
    """A float64 tensor of values between ``low`` and ``high``, the same at every call."""
    values = np.random.default_rng((seed, *shape)).uniform(low, high, shape)
    data = np.asarray(values, np.float64)
    return wrap(data, layout_of(data))


def draw_complex(*shape: int, seed: int = 0) -> Tensor:
    """A complex128 tensor of values between -2 - 2j and 2 + 2j, the same at every call."""
    real, imag = draw(*shape, seed=seed), draw(*shape, seed=seed + 1)
    data = np.asarray(real._data + 1j * imag._data)
    return wrap(data, layout_of(data))


def draw_ints(*shape: int, below: int, seed: int = 0) -> Tensor:
    """An int64 tensor of values from 0 to ``below`` - 1."""
    data = np.asarray(np.random.default_rng((seed, *shape)).integers(0, below, shape), np.int64)
    return wrap(data, layout_of(data))


def cases(*makers: Callable[[], tuple[Any, ...]]) -> Any:
    """An op's ``samples``: each of ``makers`` returns the positional arguments of one call.

    Functions, not tensors: samples are made when a test asks for them, and import makes none.
    """

    def samples() -> Iterator[Any]:
        for make in makers:
            yield make(), {}

    return staticmethod(samples)
