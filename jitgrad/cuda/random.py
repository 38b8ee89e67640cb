"""Random numbers of tensors on a GPU: drawn on the CPU, from the generator that ``jitgrad.manual_seed`` starts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jitgrad.random as random
from jitgrad.core.tensor import Tensor
from jitgrad.cuda.devices import device_count, init

__all__ = [
    "get_rng_state", "get_rng_state_all", "initial_seed", "manual_seed", "manual_seed_all", "seed", "seed_all",
    "set_rng_state", "set_rng_state_all",
]  # fmt: skip


def manual_seed(seed: int) -> None:
    """Nothing: ``jitgrad.manual_seed`` starts the numbers."""
    int(seed)


def manual_seed_all(seed: int) -> None:
    """Nothing, as `manual_seed`."""
    int(seed)


def seed() -> None:
    """Nothing, as `manual_seed`."""


def seed_all() -> None:
    """Nothing, as `manual_seed`."""


def get_rng_state(device: Any = "cuda") -> Tensor:
    """The state of the generator; AssertionError where there is no GPU."""
    init()
    return random.get_rng_state()


def set_rng_state(new_state: Tensor, device: Any = "cuda") -> None:
    """Put the generator in a state; AssertionError where there is no GPU."""
    init()
    random.set_rng_state(new_state)


def get_rng_state_all() -> list[Tensor]:
    """The state of the generator, once for each GPU."""
    return [get_rng_state(k) for k in range(device_count())]


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Put the generator in the state of each of a list, which is the same for all."""
    for state in new_states:
        set_rng_state(state)


def initial_seed() -> int:
    """The seed of the generator; AssertionError where there is no GPU."""
    init()
    return random.initial_seed()
