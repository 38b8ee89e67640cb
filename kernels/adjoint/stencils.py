"""Neighbours to which the reverse of a loop adds: they are gathered, so that each element is read and written once.

Where ``y[j]`` is made of ``x[j - 1]`` and ``x[j + 1]``, the loop that adds to the one waits for the stores of that
which has added to the other. One loop over the elements of ``x``, with zeros around what the iterations hand on,
does both.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jitgrad.kernels.adjoint.nests import steady
from jitgrad.kernels.adjoint.plan import Plan
from jitgrad.kernels.adjoint.pullback import Add
from jitgrad.kernels.adjoint.ssa import names

if TYPE_CHECKING:
    from jitgrad.kernels.adjoint.rows import Straight

__all__ = ["Stencil", "stencils"]

_WIDEST = 8  # elements that neighbours may be apart


@dataclass
class Stencil:
    """What a loop adds to neighbouring elements of an array.

    before: the indices but for the last; first: the least of the last. terms: (a step, where the iterations' numbers
    begin for it, counted from that element). span: by how many more elements than iterations there are.
    """

    target: str
    before: tuple[ast.expr, ...]
    first: dict[str, int]
    terms: list[tuple[Add, int]]
    span: int


def stencils(straight: Straight, plan: Plan) -> Iterator[Stencil]:
    """Those of a loop that goes up by one; what depends on tests is left out."""
    loop, overlap = straight.loop, plan.overlap
    assert loop.index is not None
    start, own = overlap.sum_of(loop.bounds[0]), loop.index.name
    if start is None or ast.unparse(loop.bounds[2]) != "1":
        return
    groups: dict[tuple[str, ...], list[tuple[Add, dict[str, int]]]] = {}
    for step, tests in straight.apart:
        assert step.index is not None
        last = overlap.sum_of(step.index[-1])
        if tests or last is None or last.get(own) != 1 or not steady(plan, step.index):
            continue
        at_hand = {*names(step.index[-1]), *names(loop.bounds[0])}
        if any(own in names(e) for e in step.index[:-1]) or not _variables({*last, *start}, plan) <= at_hand:
            continue
        rest = sorted((n, f) for n, f in last.items() if n and f)
        key = step.target, *map(ast.unparse, step.index[:-1]), str(rest)
        groups.setdefault(key, []).append((step, last))
    for found in groups.values():
        offsets = [last.get("", 0) for _, last in found]
        span = max(offsets) - min(offsets)
        if 0 < span <= _WIDEST:
            last = {**found[0][1], "": min(offsets), own: 0}
            first = {n: last.get(n, 0) + start.get(n, 0) for n in {*last, *start}}
            terms = [(step, min(offsets) - offset) for (step, _), offset in zip(found, offsets, strict=True)]
            yield Stencil(found[0][0].target, found[0][0].index[:-1], first, terms, span)  # type: ignore[index]


def _variables(sums: set[str], plan: Plan) -> set[str]:
    """The values that sums name."""
    return {n for n in sums if n in plan.values.by_name}
