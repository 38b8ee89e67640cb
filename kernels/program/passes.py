"""What is improved about recorded launches before a program is made of them; each pass has a switch.

A pass takes launches and returns launches that leave the same in all memory that is needed afterwards.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jitgrad.kernels.program.dependences import Access, Launch, accesses
from jitgrad.kernels.program.fusion import fused
from jitgrad.kernels.program.redundant import without_dead, without_repeated
from jitgrad.kernels.program.row_blocks import in_row_blocks

__all__ = ["Passes", "improved"]


@dataclass(frozen=True)
class Passes:
    """Which passes are made.

    dead: launches are left out whose results nobody reads. repeated: so are elementwise ones that compute what is
    there. constants: so are those on Python's numbers alone (jitgrad/compiler/constants.py). fusion: elementwise
    launches become one loop where they can. sums: such a loop takes sums of rows as well.
    row_blocks: launches that work row by row are done on some rows at a time.
    """

    dead: bool = True
    repeated: bool = True
    constants: bool = True
    fusion: bool = True
    sums: bool = True
    row_blocks: bool = True


def improved(
    stretches: Sequence[Sequence[Launch]], keeps: Callable[[int, int], bool], passes: Passes | None = None
) -> list[list[Launch]]:  # fmt: skip
    """The launches of each stretch, fewer and in another order.

    Between two stretches something else happens, so no launch is moved from one to another, nor across one with checks.
    ``keeps(low, high)``: whether memory in this range of addresses is needed after the last stretch.
    It is for the caller to see that what shares no memory now shares none when the launches are run.
    """
    passes, made = passes or Passes(), []
    every = [[accesses(launch) for launch in stretch] for stretch in stretches]
    later = [a for stretch in every for found in stretch for a in found if a.reads]

    def needed(low: int, high: int) -> bool:
        return any(a.low < high and low < a.high for a in later) or keeps(low, high)

    for stretch, touched in zip(stretches, every, strict=True):
        made.append(list[Launch]())
        for part in _parts(stretch):
            found, touched = touched[: len(part)], touched[len(part) :]
            del later[: sum(a.reads for those in found for a in those)]
            made[-1] += _improved(part, found, needed, passes)
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


def _improved(
    launches: Sequence[Launch], every: Sequence[Sequence[Access]], needed: Callable[[int, int], bool], passes: Passes
) -> Sequence[Launch]:
    for wanted, improve in (
        (passes.repeated, without_repeated), (passes.dead, without_dead),
        (passes.fusion, functools.partial(fused, sums=passes.sums)), (passes.row_blocks, in_row_blocks),
    ):  # fmt: skip
        if wanted:
            known = {id(launch): found for launch, found in zip(launches, every, strict=True)}
            made = improve(launches, every, needed)
            every = [known.get(id(launch)) or accesses(launch) for launch in made]
            launches = made
    return launches
