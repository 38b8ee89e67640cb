"""What a program does on a device: Python launches kernels there, on arrays that may lie elsewhere in each run.

Those of arguments, of results and of gradients do. They are bound for a run and let go of behind it. Whatever else
Python does for a launch comes out the same while arrays lie where they lay: choosing a kernel, cutting arrays, numbers
in the kernel's dtype. Memory comes from a pool, so a training loop finds the same places again and again. So launches
that follow one another become a table of the provider's, which is kept for some places and needs none of that.

Where the provider's packages make CUDA graphs, a table that is needed again becomes one: the driver then does all of
its launches at one call, which takes a few microseconds where each launch from Python takes ten or more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.kernels.cuda.driver import graph_of
from jitgrad.kernels.cuda.grid import Noted, noted
from jitgrad.kernels.cuda.provider import pool

__all__ = ["DeviceArrays", "DeviceStretch"]

Cells = dict[int, list[tuple[Any, int]]]
_MOST_TABLES = 4  # of one stretch


class DeviceArrays:
    """Binds arrays of launches to the memory that they are to have in the next run.

    ``in_tables`` and ``others``: for each slot the arrays of launches that lie in it, and how many bytes behind its
    first element, of launches in stretches and of other ones. ``key``: which memory is bound.
    """

    def __init__(self) -> None:
        self.in_tables: Cells = {}
        self.others: Cells = {}
        self.stretches: list[DeviceStretch] = []
        self.key: tuple[Any, ...] = ()
        self._memory: list[Any] = []
        self._bound: list[Any] = []
        self._pairs: Sequence[tuple[int, int, int, int, int, int]] = ()

    @property
    def slots(self) -> list[int]:
        """The numbers of the slots that have to be bound."""
        return sorted({*self.in_tables, *self.others})

    def refuse_overlap(self, pairs: Sequence[tuple[int, int, int, int, int, int]]) -> None:
        """Let ``bind`` return False where two arrays share memory; for the pairs see `executor.overlap`."""
        self._pairs = pairs

    def bind(self, given: Sequence[Any]) -> bool:
        """Let launches have the memory of these arrays, one for each slot. False, if some share memory unexpectedly."""
        if self._pairs and self._overlap([a.address for a in given]):
            return False
        self._memory = [a.allocation.array for a in given]
        self.key = (*map(id, self._memory), *[a.offset for a in given])
        cells = [self.others] if all(s.knows(self.key) for s in self.stretches) else [self.others, self.in_tables]
        for slot, data in zip(self.slots, given, strict=True):
            allocation, start = data.allocation, data.offset
            for those in cells:
                for array, offset in those.get(slot, ()):
                    array.allocation, array.offset = allocation, start + offset
                    self._bound.append(array)
        return True

    @property
    def memory(self) -> list[Any]:
        """The provider's arrays that are bound."""
        return self._memory

    def release(self) -> None:
        """Let go of all memory: it is the tensors' alone."""
        for array in self._bound:
            array.allocation = array._flat = None
        self._bound, self._memory = [], []

    def _overlap(self, starts: Sequence[int]) -> bool:
        for one, low, high, other, other_low, other_high in self._pairs:
            further = starts[other] if other >= 0 else 0
            if starts[one] + low < further + other_high and further + other_low < starts[one] + high:
                return True
        return False


class _Table:
    """The launches of a stretch on some places. ``first``: whether they are the first there."""

    __slots__ = ("first", "memory", "run")

    def __init__(self, noted: Noted, memory: list[Any], first: bool):
        # Kept alive: the pool would give freed memory to other tensors, which these launches would then write to.
        self.memory = [*noted.memory, *memory]
        # The first time kernels may have to be compiled and loaded, which a graph can't hold.
        graph = graph_of(noted) if not first and len(noted.launches) > 1 else None
        self.first, self.run = first, graph or noted


class DeviceStretch:
    """Launches that follow one another, with arrays on a device and numbers that stay; a call does them."""

    def __init__(self, arrays: DeviceArrays):
        self._arrays = arrays
        self._launches: list[tuple[Callable[..., None], Sequence[Any]]] = []
        self._tables: dict[Any, _Table] = {}  # by what is bound
        arrays.stretches.append(self)
        pool().holders.add(self)

    def add(self, call: Callable[..., None], args: Sequence[Any]) -> None:
        """Add what a launch of a kernel calls."""
        self._launches.append((call, args))

    def knows(self, key: Any) -> bool:
        """Whether there is a table for what is bound that need not be made again."""
        found = self._tables.get(key)
        return found is not None and not found.first

    def forget(self) -> None:
        """Let go of the memory of tensors that may have been freed."""
        self._tables.clear()

    def __call__(self) -> None:
        key = self._arrays.key
        if not self.knows(key):
            self._tables[key] = self._note(first=key not in self._tables)
        self._tables[key].run()

    def _note(self, first: bool) -> _Table:
        # Noted again the second time: kernels that have run are launched in a quicker way.
        with noted() as launches:
            for call, args in self._launches:
                call(*args)
        if len(self._tables) >= _MOST_TABLES and first:
            del self._tables[next(iter(self._tables))]
        return _Table(launches, self._arrays.memory, first)
