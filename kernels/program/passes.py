"""What is improved about recorded launches before a program is made of them; each pass has a switch.

A pass takes launches and returns launches that leave the same in all memory that is needed afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jitgrad.kernels.program.dependences import Access, Launch, accesses
from jitgrad.kernels.program.fusion import fused
from jitgrad.kernels.program.row_blocks import in_row_blocks

__all__ = ["Passes", "improved"]


@dataclass(frozen=True)
class Passes:
    """Which passes are made.

    fusion: elementwise launches become one loop where they can. sums: such a loop takes sums of rows as well.
    row_blocks: launches that work row by row are done on some rows at a time.
    """

    fusion: bool = True
    sums: bool = True
    row_blocks: bool = True


def improved(
    stretches: Sequence[Sequence[Launch]], keeps: Callable[[int, int], bool], passes: Passes | None = None
) -> list[list[Launch]]:  # fmt: skip
    """The launches of each stretch, fewer and in another order.

    Between two stretches something else happens, so no launch is moved from one to another, nor across one with checks.
    ``keeps(low, high)``: whether memory in this range of addresses is needed after the last stretch.
    """
    passes = passes or Passes()
    made = []
    parts = [_parts(stretch) for stretch in stretches]
    later = [a for stretch in stretches for launch in stretch for a in accesses(launch) if a.reads]
    for stretch in parts:
        made.append(list[Launch]())
        for part in stretch:
            every = [accesses(launch) for launch in part]
            del later[: sum(a.reads for found in every for a in found)]
            made[-1] += _improved(part, every, lambda low, high: _is_read(later, low, high) or keeps(low, high), passes)
    return made


def _parts(launches: Sequence[Launch]) -> list[list[Launch]]:
    """The launches between those with checks, and each of these alone."""
    parts: list[list[Launch]] = [[]]
    for launch in launches:
        if launch.checks:
            parts += [[launch], []]
        else:
            parts[-1].append(launch)
    return [p for p in parts if p]


def _is_read(later: Sequence[Access], low: int, high: int) -> bool:
    return any(a.low < high and low < a.high for a in later)


def _improved(
    launches: Sequence[Launch], every: list[list[Access]], needed: Callable[[int, int], bool], passes: Passes
) -> list[Launch]:  # fmt: skip
    if passes.fusion and len(launches) > 1:
        launches = fused(launches, every, needed, passes.sums)
        every = [accesses(launch) for launch in launches]
    if passes.row_blocks and len(launches) > 1:
        launches = in_row_blocks(launches, every, needed)
    return list(launches)
