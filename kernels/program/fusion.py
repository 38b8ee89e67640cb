"""Which launches become one loop: elementwise ones on the same number of elements, forward and backward together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.kernels.elementwise.declaration import ElementwiseKernel, StridedKernel
from jitgrad.kernels.loops.reduction import sum_rows
from jitgrad.kernels.program.dependences import Access, Launch, Span, span_of
from jitgrad.kernels.program.fused_launch import fused_launch
from jitgrad.kernels.program.order import Order

__all__ = ["fused"]

# Elements from which a loop of its own is worth the time to compile it.
FUSED_SIZE = 1 << 12
# Arrays of a loop: as many as a thread's part has room for (pool_code.BLOCK).
_MOST_ARRAYS = 12
# Elements of a row from which a sum may be taken in the loop: it then goes row by row.
_ROW_SIZE = 64


def fused(
    launches: Sequence[Launch], every: Sequence[Sequence[Access]], needed: Callable[[int, int], bool],
    sums: bool = True,
) -> list[Launch]:  # fmt: skip
    """The launches with groups of them as one loop each.

    sums: whether loops may take sums of rows as well. The other arguments are those of `Order`.
    """
    return _Fusion(launches, every, needed, sums).launches()


class _Fusion(Order):
    def __init__(self, launches: Sequence[Launch], every: Sequence[Sequence[Access]], needed: Any, sums: bool):
        self.sizes = [_loop_size(made, found) for made, found in zip(launches, every, strict=True)]
        self.sums = sums
        super().__init__(launches, every, needed, [size is not None for size in self.sizes])

    def group(self, first: int) -> list[int]:
        """The launches of a loop that begins with ``first``, and sums of rows that it can take."""
        group, size = {first: None}, 0
        while len(group) > size:
            size = len(group)
            for number in self.left:
                if number not in group and self.sizes[number] == self.sizes[first] and self.fits(number, group, True):
                    group[number] = None
        found = self.connected(first, list(group))
        sums = self._row_sums(found)
        # The launches were found in an order that keeps dependences, so without the last ones the rest is still right.
        while len(found) > 1 and self._count_arrays(found, sums) > _MOST_ARRAYS:
            found = self.connected(first, found[: max(1, len(found) * 3 // 4)])
            sums = self._row_sums(found)
        return found + sums

    def joined(self, group: list[int]) -> list[Launch]:
        """The launch of a fused kernel."""
        elementwise = [self.given[n] for n in group if self.sizes[n] is not None]
        sums = [self.given[n] for n in group if self.sizes[n] is None]
        return fused_launch(elementwise, sums, self.read_later)

    def _count_arrays(self, group: Sequence[int], sums: Sequence[int]) -> int:
        """How many arrays the loop of a group has."""
        inside = {*group, *sums}
        written = {a.span for n in group for a in self.every[n] if a.writes}
        read = {a.span for n in group for a in self.every[n] if a.reads and a.span not in written}
        stored = [p for p in written if p and self.read_later(p.low, p.low + p.size * p.dtype.itemsize, inside)]
        return len(read) + len(stored) + len(sums)

    def _row_sums(self, group: Sequence[int]) -> list[int]:
        if not self.sums:
            return []
        values = {a.span for n in group for a in self.every[n] if a.writes}
        found: list[int] = []
        for number in self.left:
            made = self.given[number]
            if made.kernel is sum_rows and _can_be_summed(made, values) and self.fits(number, group, False):
                if not found or made.args[0].shape == self.given[found[0]].args[0].shape:
                    found.append(number)
        return found


def _loop_size(launch: Launch, found: Sequence[Access]) -> tuple[int, str] | None:
    """(number of elements, compute dtype) of a launch that can be part of a loop, else None."""
    kernel = launch.kernel
    if not isinstance(kernel, ElementwiseKernel) or isinstance(kernel, StridedKernel) or kernel.halves or launch.checks:
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
