"""Which launches become one loop: elementwise ones on the same number of elements, forward and backward together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.kernels.loops.reduction import ROW_SUMS
from jitgrad.kernels.program.addresses import is_on_device
from jitgrad.kernels.program.dependences import Access, Launch, Span, span_of
from jitgrad.kernels.program.fused_launch import fused_launch
from jitgrad.kernels.program.operands import ALL, Form, form_of
from jitgrad.kernels.program.order import Order

__all__ = ["fused"]

# Elements from which a loop of its own is worth the time to compile it. On a device it always is: what it spares is
# launches, and a launch costs the same for any number of elements.
FUSED_SIZE = 1 << 12
# Arrays of a loop: as many as a thread's part has room for (pool_code.BLOCK).
_MOST_ARRAYS = 12
# Elements of a row from which a sum may be taken in the loop: it then goes row by row.
_ROW_SIZE = 64
# Elements of a row from which a loop may go row by row for rows and columns: with shorter ones it gains nothing.
_BROADCAST_SIZE = 256


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
        self.forms = [form_of(made.kernel, made.args) for made in launches]
        self.sizes = [
            _loop_size(made, found, form) for made, found, form in zip(launches, every, self.forms, strict=True)
        ]
        self.sums = sums
        super().__init__(launches, every, needed, [size is not None for size in self.sizes])

    def group(self, first: int) -> list[int]:
        """The launches of a loop that begins with ``first``, and sums of rows that it can take."""
        group, size, width = {first: None}, 0, self._width(first)
        while len(group) > size:
            size = len(group)
            for number in self.left:
                own = self._width(number)
                alike = self.sizes[number] == self.sizes[first] and (own == width or own is None or width is None)
                if number not in group and alike and self.fits(number, group, True):
                    group[number], width = None, own or width
        found = self.connected(first, list(group))
        sums = self._row_sums(found)
        # The launches were found in an order that keeps dependences, so without the last ones the rest is still right.
        while len(found) > 1 and self._count_arrays(found, sums) > _MOST_ARRAYS:
            found = self.connected(first, found[: max(1, len(found) * 3 // 4)])
            sums = self._row_sums(found)
        return found + sums

    def joined(self, group: list[int]) -> list[Launch]:
        """The launch of a fused kernel."""
        elementwise = [(self.given[n], self.forms[n]) for n in group if self.sizes[n] is not None]
        sums = [self.given[n] for n in group if self.sizes[n] is None]
        return fused_launch(elementwise, sums, self.read_later)  # type: ignore[arg-type]

    def _width(self, number: int) -> int | None:
        form = self.forms[number]
        return None if form is None else form.width

    def _count_arrays(self, group: Sequence[int], sums: Sequence[int]) -> int:
        """How many arrays the loop of a group has."""
        inside = {*group, *sums}
        written = {a.span for n in group for a in self.every[n] if a.writes}
        forms = [form for n in group if (form := self.forms[n])]
        read = {span_of(a) for form in forms for a, _ in form.inputs} - written
        stored = [p for p in written if p and self.read_later(p.low, p.low + p.size * p.dtype.itemsize, inside)]
        return len(read) + len(stored) + len(sums)

    def _row_sums(self, group: Sequence[int]) -> list[int]:
        if not self.sums:
            return []
        values = {a.span for n in group for a in self.every[n] if a.writes}
        widths = {self._width(n) for n in group} - {None}
        found: list[int] = []
        for number in self.left:
            made = self.given[number]
            if made.kernel in ROW_SUMS and _can_be_summed(made, values) and self.fits(number, group, False):
                shape = made.args[0].shape
                if widths <= {shape[1]} and (not found or shape == self.given[found[0]].args[0].shape):
                    found.append(number)
        return found


def _loop_size(launch: Launch, found: Sequence[Access], form: Form | None) -> tuple[int, str, bool] | None:
    """(number of elements, compute dtype, whether on a device) of a launch that can be part of a loop, else None."""
    if form is None or launch.checks:
        return None
    size, on_device = form.outputs[0].size, is_on_device(form.outputs[0])
    if not on_device and (size < FUSED_SIZE or (form.width is not None and form.width < _BROADCAST_SIZE)):
        return None
    whole = [a for a, role in form.inputs if role == ALL]
    if any(a.size != size for a in (*whole, *form.outputs)):
        return None
    # A launch that is given all of its arrays visits all of them in order.
    if form.width is None and not all(a.span is not None for a in found):
        return None
    return None if _shifted(found) else (size, form.dtype, on_device)


def _shifted(found: Sequence[Access]) -> bool:
    """Whether a launch writes memory that it visits in another order as well."""
    return any(
        one.writes and one.span != other.span and one.low < other.high and other.low < one.high
        for one in found for other in found
    )  # fmt: skip


def _can_be_summed(launch: Launch, values: set[Span | None]) -> bool:
    x, out = launch.args
    return (
        not launch.checks and not is_on_device(x) and x.flags.c_contiguous and x.dtype.name in ("float32", "float64")
        and out.dtype == x.dtype and x.shape[1] >= _ROW_SIZE and span_of(x) in values
    )  # fmt: skip
