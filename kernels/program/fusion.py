"""Which launches become one loop: elementwise ones on the same number of elements, forward and backward together.

Launches are put into another order, in which each still follows those that it depends on: whatever can't be part of a
loop first, so that loops begin as late as possible and find as much as possible that they can do.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Sequence
from typing import Any

from jitgrad.kernels.elementwise.declaration import ElementwiseKernel, StridedKernel
from jitgrad.kernels.loops.reduction import sum_rows
from jitgrad.kernels.program.dependences import Access, Launch, Span, span_of
from jitgrad.kernels.program.fused_kernel import fused_launch

__all__ = ["fused"]

# Elements from which a loop of its own is worth the time to compile it.
FUSED_SIZE = 1 << 12
# Arrays of a loop: as many as a thread's part has room for (pool_code.BLOCK).
_MOST_ARRAYS = 12
# Elements of a row from which a sum may be taken in the loop: it then goes row by row.
_ROW_SIZE = 64


def fused(
    launches: Sequence[Launch], every: Sequence[Sequence[Access]], dependences: Sequence[dict[int, bool]],
    needed: Callable[[int, int], bool], sums: bool = True,
) -> list[Launch]:  # fmt: skip
    """The launches with groups of them as one loop each.

    every: the accesses of each launch. dependences: see `dependences.dependences`. ``needed(low, high)``: whether
    memory is read after these launches. sums: whether loops may take sums of rows as well.
    """
    return _Order(launches, every, dependences, needed, sums).launches()


class _Order:
    def __init__(self, launches: Any, every: Any, dependences: Any, needed: Any, sums: bool):
        self.given, self.every, self.dependences, self.needed, self.sums = launches, every, dependences, needed, sums
        self.sizes = [_loop_size(made, found) for made, found in zip(launches, every, strict=True)]
        self.left = dict.fromkeys(range(len(launches)))
        self.followers: list[list[int]] = [[] for _ in launches]
        self.waits_for = [len(before) for before in dependences]
        for number, before in enumerate(dependences):
            for other in before:
                self.followers[other].append(number)
        self.ready = [self._entry(n) for n in self.left if not self.waits_for[n]]
        heapq.heapify(self.ready)

    def _entry(self, number: int) -> tuple[bool, int]:
        return self.sizes[number] is not None, number

    def launches(self) -> list[Launch]:
        """All launches, in an order that keeps dependences."""
        made: list[Launch] = []
        while self.ready:
            late, first = heapq.heappop(self.ready)
            if first not in self.left:
                continue
            group, sums = self._group(first) if late else ([first], [])
            for number in (*group, *sums):
                self._finish(number)
            if len(group) + len(sums) == 1:
                made.append(self.given[first])
            else:
                made += fused_launch([self.given[n] for n in group], [self.given[n] for n in sums], self._read_later)
        return made

    def _finish(self, number: int) -> None:
        del self.left[number]
        for other in self.followers[number]:
            self.waits_for[other] -= 1
            if not self.waits_for[other]:
                heapq.heappush(self.ready, self._entry(other))

    def _read_later(self, low: int, high: int, inside: Collection[int] = ()) -> bool:
        left = (a for n in self.left if n not in inside for a in self.every[n])
        return any(a.reads and a.low < high and low < a.high for a in left) or self.needed(low, high)

    def _group(self, first: int) -> tuple[list[int], list[int]]:
        """(the launches of a loop that begins with ``first``, sums of rows that it can take)."""
        group, size = {first: None}, 0
        while len(group) > size:
            size = len(group)
            for number in self.left:
                if number not in group and self.sizes[number] == self.sizes[first] and self._fits(number, group, True):
                    group[number] = None
        found = self._connected(first, list(group))
        sums = self._row_sums(found) if self.sums else []
        # The launches were found in an order that keeps dependences, so without the last ones the rest is still right.
        while len(found) > 1 and self._count_arrays(found, sums) > _MOST_ARRAYS:
            found = self._connected(first, found[: max(1, len(found) * 3 // 4)])
            sums = self._row_sums(found) if self.sums else []
        return found, sums

    def _connected(self, first: int, group: Sequence[int]) -> list[int]:
        """Those launches of a group that share memory with the first one, or with others that do."""
        spans, size = {a.span for a in self.every[first]}, 0
        while len(spans) > size:
            size = len(spans)
            for number in group:
                own = {a.span for a in self.every[number]}
                if not spans.isdisjoint(own):
                    spans |= own
        return [n for n in group if not spans.isdisjoint(a.span for a in self.every[n])]

    def _count_arrays(self, group: Sequence[int], sums: Sequence[int]) -> int:
        """How many arrays the loop of a group has."""
        inside = {*group, *sums}
        written = {a.span for n in group for a in self.every[n] if a.writes}
        read = {a.span for n in group for a in self.every[n] if a.reads and a.span not in written}
        stored = [p for p in written if p and self._read_later(p.low, p.low + p.size * p.dtype.itemsize, inside)]
        return len(read) + len(stored) + len(sums)

    def _fits(self, number: int, group: Collection[int], same_place: bool) -> bool:
        """Whether a launch waits for nothing but the group and, if asked, visits memory in the same order as that."""
        before = self.dependences[number].items()
        return all(n not in self.left or (n in group and (same or not same_place)) for n, same in before)

    def _row_sums(self, group: Sequence[int]) -> list[int]:
        values = {a.span for n in group for a in self.every[n] if a.writes}
        found: list[int] = []
        for number in self.left:
            made = self.given[number]
            if made.kernel is sum_rows and _can_be_summed(made, values) and self._fits(number, group, False):
                if not found or made.args[0].shape == self.given[found[0]].args[0].shape:
                    found.append(number)
        return found


def _loop_size(launch: Launch, found: Sequence[Access]) -> tuple[int, str] | None:
    """(number of elements, compute dtype) of a launch that can be part of a loop, else None."""
    kernel = launch.kernel
    if not isinstance(kernel, ElementwiseKernel) or isinstance(kernel, StridedKernel) or launch.checks:
        return None
    if not all(a.span is not None for a in found):
        return None
    once = [a.once for a in kernel.arguments if a.kind == "array"]
    walked = [a for a, o in zip(found, [*once, *(False for _ in kernel.rules)], strict=True) if not o]
    size = walked[-1].span.size  # type: ignore[union-attr]
    if size < FUSED_SIZE or any(a.span.size != size for a in walked):  # type: ignore[union-attr]
        return None
    return None if _shifted(found) else (size, kernel.dtype)


def _shifted(found: Sequence[Access]) -> bool:
    """Whether a launch writes memory that it visits in another order as well."""
    return any(
        one.writes and one.span != other.span and one.low < other.high and other.low < one.high
        for one in found for other in found
    )  # fmt: skip


def _can_be_summed(launch: Launch, values: set[Span | None]) -> bool:
    x, out = launch.args
    return (
        not launch.checks and x.flags.c_contiguous and x.dtype.name in ("float32", "float64") and out.dtype == x.dtype
        and x.shape[1] >= _ROW_SIZE and span_of(x) in values
    )  # fmt: skip
