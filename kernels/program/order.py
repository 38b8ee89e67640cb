"""Launches in another order, in which each still follows those that it depends on, so that groups of them meet.

Whatever can't be part of a group comes first, so that groups begin as late as possible and find as much as possible.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Sequence

from jitgrad.kernels.program.dependences import Access, Launch, dependences

__all__ = ["Order"]


class Order:
    """Base of passes that make groups of launches.

    every: the accesses of each launch. ``needed(low, high)``: whether memory is read after these launches.
    late: whether a launch can be part of a group.
    """

    def __init__(
        self, launches: Sequence[Launch], every: Sequence[Sequence[Access]], needed: Callable[[int, int], bool],
        late: Sequence[bool],
    ):  # fmt: skip
        self.given, self.every, self.needed, self.late = launches, every, needed, late
        if not any(late):  # all stay as they are
            return
        self.before = dependences(every)
        self.left = dict.fromkeys(range(len(launches)))
        self.followers: list[list[int]] = [[] for _ in launches]
        self.waits_for = [len(before) for before in self.before]
        for number, before in enumerate(self.before):
            for other in before:
                self.followers[other].append(number)
        self.ready = [(self.late[n], n) for n in self.left if not self.waits_for[n]]
        heapq.heapify(self.ready)

    def launches(self) -> list[Launch]:
        """All launches, in an order that keeps dependences."""
        made: list[Launch] = []
        if not any(self.late):
            return list(self.given)
        while self.ready:
            late, first = heapq.heappop(self.ready)
            if first not in self.left:
                continue
            group = self.group(first) if late else [first]
            for number in group:
                self._finish(number)
            made += self.joined(group) if len(group) > 1 else [self.given[first]]
        return made

    def group(self, first: int) -> list[int]:
        """The numbers of launches that are to be joined with the first one, and of that, in order."""
        raise NotImplementedError

    def joined(self, group: list[int]) -> list[Launch]:
        """What takes the place of a group, none of which is among those that are left any more."""
        raise NotImplementedError

    def _finish(self, number: int) -> None:
        del self.left[number]
        for other in self.followers[number]:
            self.waits_for[other] -= 1
            if not self.waits_for[other]:
                heapq.heappush(self.ready, (self.late[other], other))

    def read_later(self, low: int, high: int, inside: Collection[int] = ()) -> bool:
        """Whether anything reads memory that is neither done nor, by its number, inside a group."""
        left = (a for n in self.left if n not in inside for a in self.every[n])
        return any(a.reads and a.low < high and low < a.high for a in left) or self.needed(low, high)

    def fits(self, number: int, group: Collection[int], in_order: bool) -> bool:
        """Whether a launch waits for nothing but a group and, if asked, visits memory in the same order as that."""
        before = self.before[number].items()
        return all(n not in self.left or (n in group and (same or not in_order)) for n, same in before)

    def connected(self, first: int, group: Sequence[int]) -> list[int]:
        """Those launches of a group that share memory with the first one, or with others that do."""
        own = {n: {a.span for a in self.every[n] if a.span} for n in group}
        spans, size = own[first], -1
        while len(spans) > size:
            size = len(spans)
            spans = spans.union(*(s for s in own.values() if not spans.isdisjoint(s)))
        return [n for n in group if not spans.isdisjoint(own[n])]
