"""Launches that a program can do without: what they compute is read by nobody, or is there already."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.kernels.cuda.provider import CudaElementwise
from jitgrad.kernels.elementwise.declaration import ElementwiseKernel, StridedKernel
from jitgrad.kernels.program.addresses import address_of, extent_of, is_array, is_on_device
from jitgrad.kernels.program.dependences import Access, Launch, accesses
from jitgrad.kernels.program.ranges import Ranges

__all__ = ["without_dead", "without_repeated"]

Needed = Callable[[int, int], bool]


def without_dead(launches: Sequence[Launch], every: Sequence[Sequence[Access]], needed: Needed) -> list[Launch]:
    """The launches that write what a later one reads, or what is ``needed(low, high)`` after them; and checks."""
    live: list[Launch] = []
    read = Ranges()
    for launch, found in zip(reversed(launches), reversed(every), strict=True):
        writes = [a for a in found if a.writes]
        if launch.checks or not writes or any(read.meets(a.low, a.high) or needed(a.low, a.high) for a in writes):
            live.append(launch)
            for access in found:
                if access.reads:
                    read.add(access.low, access.high)
    return live[::-1]


def without_repeated(launches: Sequence[Launch], every: Sequence[Sequence[Access]], needed: Needed) -> list[Launch]:
    """The launches without elementwise ones that an earlier one has done: who reads their results reads that one's."""
    return _Repeated(launches, every, needed).launches()


class _Repeated:
    def __init__(self, launches: Sequence[Launch], every: Sequence[Sequence[Access]], needed: Needed):
        self.left, self.every, self.needed = list(launches), [list(found) for found in every], needed

    def launches(self) -> list[Launch]:
        """Those that are left."""
        seen: dict[Any, int] = {}
        dropped = set()
        for number, launch in enumerate(self.left):
            key = self._key(number, launch)
            if key is not None and seen.setdefault(key, number) != number and self._replace(number, seen[key]):
                dropped.add(number)
        return [launch for number, launch in enumerate(self.left) if number not in dropped]

    def _key(self, number: int, launch: Launch) -> Any:
        """What a launch computes, equal for those that compute the same; None where that isn't known."""
        kernel, args, checks = launch
        if checks or not _is_flat(kernel):
            return None
        outputs = [args[w] for w in kernel.writes]
        if not all(a.span for a in self.every[number]):
            return None
        key: list[Any] = [kernel]
        for k, a in enumerate(args):
            if k in kernel.writes:
                continue
            if not is_array(a):
                key.append((type(a), getattr(a, "key", None), repr(a)))
            elif any(_share(a, out) for out in outputs):
                return None
            else:
                key.append((address_of(a), a.size, a.dtype, self._writer(*extent_of(a), number)))
        return tuple(key)

    def _writer(self, low: int, high: int, before: int) -> int:
        """The number of the last launch before this one that writes to a range of addresses, -1 if none does."""
        for number in range(before - 1, -1, -1):
            if self._writes(number, low, high):
                return number
        return -1

    def _writes(self, number: int, low: int, high: int) -> bool:
        return any(a.writes and a.low < high and low < a.high for a in self.every[number])

    def _touches(self, number: int, low: int, high: int) -> bool:
        return any(a.low < high and low < a.high for a in self.every[number])

    def _replace(self, number: int, by: int) -> bool:
        """Let what reads the results of a launch read those of an earlier one, if these stay as they are meanwhile."""
        kernel = self.left[number].kernel
        pairs = [(self.left[number].args[w], self.left[by].args[w]) for w in kernel.writes]
        after = range(number + 1, len(self.left))
        for mine, other in pairs:
            low, high = extent_of(mine)
            readers = [n for n in after if self._touches(n, low, high)]
            changed = range(by + 1, max(readers, default=number) + 1)
            if (
                self.needed(low, high) or any(self._writes(n, low, high) for n in after)
                or any(self._touches(n, low, high) for n in range(number))
                or any(self._writes(n, *extent_of(other)) for n in changed if n != number)
                or any(self.left[n].checks for n in readers)
            ):  # fmt: skip
                return False
        for mine, other in pairs:
            for n in [n for n in after if self._touches(n, *extent_of(mine))]:
                args = tuple(_moved(a, mine, other) for a in self.left[n].args)
                self.left[n] = self.left[n]._replace(args=args)
                self.every[n] = accesses(self.left[n])
        return True


def _is_flat(kernel: Any) -> bool:
    """Whether a kernel is elementwise, on arrays that it visits in the order of their memory."""
    if isinstance(kernel, CudaElementwise):
        return not kernel.strided
    return isinstance(kernel, ElementwiseKernel) and not isinstance(kernel, StridedKernel) and not kernel.halves


def _share(a: Any, b: Any) -> bool:
    (low, high), (other_low, other_high) = extent_of(a), extent_of(b)
    return low < other_high and other_low < high


def _moved(a: Any, of: Any, to: Any) -> Any:
    """The array that lies in ``to`` where ``a`` lies in ``of``; ``a`` itself if it isn't a part of that."""
    if not is_array(a) or not a.size or not _share(a, of):
        return a
    offset = address_of(a) - address_of(of)
    if is_on_device(a):
        return a.on(to.allocation, to.offset + offset)
    return np.ndarray(a.shape, a.dtype, to.reshape(-1).view(np.uint8), offset, a.strides)
