"""Random state: generators, seeds, and the context manager that restores them.

The numbers are those of PyTorch's CPU generator for the same seed; see ``jitgrad.kernels.loops.random``.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from jitgrad.core.device import device as device_class
from jitgrad.core.device import resolve
from jitgrad.core.errors import type_name
from jitgrad.core.host_reads import announce_read, read_observers
from jitgrad.core.layout import layout_of
from jitgrad.core.missing_names import explain_missing_names
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.kernels.launch import launch
from jitgrad.kernels.loops import random as kernels

__all__ = [
    "Generator",
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
]

explain_missing_names(__name__)

_FIRST_SEED = 67280421310721  # what a new generator starts from in PyTorch


class Generator:
    """A source of random numbers with a state of its own.

    ``Generator().manual_seed(0)`` is passed as ``generator=`` to whatever draws.
    """

    def __init__(self, device: Any = "cpu"):
        if resolve(device) != "cpu":
            raise RuntimeError(f"Device type {device} is not supported for torch.Generator() api.")
        self._state: np.ndarray[Any, Any] | None = None
        self._first_seed = _FIRST_SEED
        self.lock = threading.RLock()
        with _generators_lock:
            _generators.add(self)

    @property
    def state(self) -> np.ndarray[Any, Any]:
        """The words that kernels draw from, seeded when first asked for: an import starts no kernel."""
        if self._state is None:
            with self.lock:
                if self._state is not None:  # seeded, and maybe drawn from, while this thread waited
                    return self._state
                first = np.zeros(kernels.STATE_WORDS, np.uint32)
                kernels.seed.call(first, self._first_seed)  # not by launch: tapes hold what the user asked for
                self._state = first
                kernels.ask_for_draws(first)
        return self._state

    @property
    def device(self) -> device_class:
        """Where the generator's numbers go."""
        return device_class("cpu")

    def manual_seed(self, seed: Any) -> Generator:
        """Start afresh from ``seed``: an int that fits 64 bits, negative ones modulo 2^64."""
        if isinstance(seed, (bool, np.bool_)) or not isinstance(seed, (int, np.integer)):
            raise RuntimeError(f"manual_seed expected a long, but got {type_name(seed)}")
        value = int(seed)
        if not -(1 << 63) <= value < 1 << 64:
            raise ValueError("Overflow when unpacking long long")
        with self.lock:
            # The kernel takes an int64: the upper half of the range goes to the negative number with the same bits.
            launch(kernels.seed, self.state, value - (1 << 64) if value >= 1 << 63 else value)
        return self

    def seed(self) -> int:
        """Start afresh from a number that nobody can foresee; return it."""
        if read_observers:
            announce_read("seed()")
        value = secrets.randbits(53)  # a double holds it exactly, as PyTorch has it
        self.manual_seed(value)
        return value

    def initial_seed(self) -> int:
        """The seed that the generator last started from."""
        if read_observers:
            announce_read("initial_seed()")
        # Two words of 32 bits, behind those of the Mersenne twister, hold the seed for this.
        return int(self.state[628:630].view(np.uint64)[0])

    def get_state(self) -> Tensor:
        """The state as 5056 bytes, uint8, in PyTorch's layout."""
        packed = np.empty(kernels.PACKED_BYTES, np.uint8)
        with self.lock:
            launch(kernels.pack_state, self.state, packed)
        return wrap(packed, layout_of(packed))

    def set_state(self, new_state: Tensor) -> Generator:
        """Take over a state that ``get_state`` gave, here or in PyTorch.

        TypeError for other dtypes than uint8, RuntimeError for another size.
        """
        if not isinstance(new_state, Tensor):
            raise TypeError(f"expected a torch.ByteTensor, but got {type_name(new_state)}")
        if new_state.dtype.name != "uint8":
            raise TypeError("RNG state must be a torch.ByteTensor")
        if not new_state._layout.contiguous:
            raise RuntimeError("RNG state must be contiguous")
        with self.lock:
            launch(kernels.unpack_state, new_state._data, self.state)
        return self

    def clone_state(self) -> Generator:
        """A new generator in the same state."""
        return Generator().set_state(self.get_state())

    def graphsafe_get_state(self) -> Generator:
        """NotImplementedError: for CUDA graphs only."""
        raise NotImplementedError("graphsafe_get_state is not supported in this Generator")

    def graphsafe_set_state(self, state: Any) -> Generator:
        """NotImplementedError: for CUDA graphs only."""
        raise NotImplementedError("graphsafe_set_state is not supported in this Generator")

    def get_offset(self) -> int:
        """RuntimeError: the Mersenne twister has a state, no offset."""
        raise RuntimeError("CPU Generator does not use offset")

    def set_offset(self, offset: int) -> Generator:
        """RuntimeError: the Mersenne twister has a state, no offset."""
        raise RuntimeError("CPU Generator does not use offset")

    def __reduce__(self) -> Any:
        return _restored, (self.get_state(),)


def generators() -> list[Generator]:
    """All generators that there are."""
    return list(_generators)


def _restored(state: Tensor) -> Generator:
    return Generator().set_state(state)


_generators: weakref.WeakSet[Generator] = weakref.WeakSet()
_generators_lock = threading.Lock()  # held while one is added, and by a fork, which goes through all of them
_held: list[Generator] = []


def _hold_generators() -> None:
    """Before a fork: wait until nothing draws.

    Of a kernel that runs in another thread the child would have half a state, an index out of range among it, and a
    lock that nothing releases. A thread that draws may wait for the compiler's lock, so a fork takes that one later:
    its hooks run in reverse order, and kernels/words/syntax.py was imported earlier.
    """
    _generators_lock.acquire()
    _held.extend(_generators)
    for generator in _held:
        generator.lock.acquire()


def _release_generators() -> None:
    for generator in _held:
        generator.lock.release()
    _held.clear()
    _generators_lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_hold_generators, after_in_parent=_release_generators, after_in_child=_release_generators
    )
default_generator = Generator()
default_generator._first_seed = secrets.randbits(63)  # each process has other numbers until it calls manual_seed


def manual_seed(seed: Any) -> Generator:
    """Start the default generator afresh from ``seed``; return it."""
    return default_generator.manual_seed(int(seed))


def seed() -> int:
    """Start the default generator from a number that nobody can foresee; return it."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed that the default generator last started from."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """The default generator's state: 5056 bytes, uint8."""
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Give the default generator a state that ``get_rng_state`` gave."""
    default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(
    devices: Any = None, enabled: bool = True, _caller: str = "fork_rng", _devices_kw: str = "devices",
    device_type: str = "cuda",
) -> Iterator[None]:  # fmt: skip
    """A block at whose end the default generator gets back the state that it has now; devices are ignored."""
    device_class(device_type)  # RuntimeError for a type that there is not
    state = get_rng_state() if enabled else None
    try:
        yield
    finally:
        if state is not None:
            set_rng_state(state)
