"""Ranges of addresses, of which it is asked whether one overlaps any."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

__all__ = ["Ranges"]


class Ranges:
    """A set of addresses as ranges ``low`` to ``high``, in order and apart from each other."""

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()):
        self._lows: list[int] = []
        self._highs: list[int] = []
        for low, high in sorted(ranges):  # so that each comes last
            self.add(low, high)

    def add(self, low: int, high: int) -> None:
        """Add a range; those that it overlaps or touches become one with it."""
        if low >= high:
            return
        first, last = bisect_left(self._highs, low), bisect_right(self._lows, high)
        if first < last:
            low, high = min(low, self._lows[first]), max(high, self._highs[last - 1])
        self._lows[first:last], self._highs[first:last] = [low], [high]

    def meets(self, low: int, high: int) -> bool:
        """Whether a range shares an address with any."""
        first = bisect_right(self._highs, low)  # the first that ends behind where this one begins
        return low < high and first < len(self._lows) and self._lows[first] < high
