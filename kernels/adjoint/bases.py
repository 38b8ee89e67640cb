"""Indices of which a part stays as it is while a loop runs: that part gets a variable, which surely isn't negative.

A compiler has to reckon with indices that count from an array's end, and to compute each index with a comparison. Of
``first + 2 * j`` it sees the way through memory if it knows that ``first`` isn't negative. In a loop that becomes
vectors it still computes such an index for each element, unless the text adds the distance in each iteration.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from jitgrad.kernels.adjoint.overlap import Overlap, Sum, sum_text
from jitgrad.kernels.adjoint.plan import Plan
from jitgrad.kernels.adjoint.program import Assign, For, Store, statements
from jitgrad.kernels.adjoint.ssa import Define, Loop, Write, index_of, loaded, names
from jitgrad.kernels.adjoint.write import expression_text

__all__ = ["Base", "base_of", "bases_of", "by_bases", "counted", "openings"]


@dataclass
class Base:
    """text: an index; name: the variable; rest: what it holds; by: the index by it.

    step: by how much it is counted on in each iteration, where it is the index itself.
    """

    text: str
    name: str
    rest: str
    by: str
    step: int = 0


def base_of(
    text: str, sum_: Sum | None, own: str, overlap: Overlap, variables: Mapping[str, str], unique: Callable[[str], str],
    start: Sum | None = None,
) -> Base | None:  # fmt: skip
    """For an index that is a sum with the loop's index ``own``. variables: what the text calls the sum's values.

    start: where the loop begins, if it goes up by one and what lies apart may be counted on.
    """
    if sum_ is None or sum_.get(own, 0) <= 0:
        return None
    rest = {n: f for n, f in sum_.items() if n != own}
    factor, index = sum_[own], variables.get(own, own)
    if start is not None and factor > 1 and overlap.natural_sum(sum_):
        first = {n: rest.get(n, 0) + factor * start.get(n, 0) for n in {*rest, *start}}
        name = unique("place")
        return Base(text, name, sum_text(first, variables), name, factor)
    if all("." in n or not n for n in rest) or not overlap.natural_sum(rest):
        return None
    name = unique("first")
    by = f"{name} + {index}" if factor == 1 else f"{name} + {factor} * {index}"
    return Base(text, name, sum_text(rest, variables), by)


def bases_of(
    plan: Plan, loop: Loop, known: Callable[[str, Loop], bool], unique: Callable[[str], str]
) -> list[Base]:  # fmt: skip
    """For the forward sweep's indices. known: whether a variable holds a value while a loop runs."""
    found: dict[str, Base] = {}
    origin, values, own = loop.origin, plan.values.by_name, loop.index
    assert isinstance(origin, For) and own is not None
    assigned = {s.target for s in statements(origin.body) if isinstance(s, Assign)}
    for index, written in _indices(plan, loop):
        text, sum_ = expression_text(written), plan.overlap.sum_of(index)
        variables = {n: values[n] for n in sum_ or () if n in values}
        # The same text stands for the same index wherever it is in the loop.
        if text in found or {origin.index, *names(written)} & assigned:
            continue
        if all(v is own or known(n, loop) for n, v in variables.items()):
            now = {n: expression_text(v.now) for n, v in variables.items()}
            if (base := base_of(text, sum_, own.name, plan.overlap, now, unique)) is not None:
                found[text] = base
    return list(found.values())


def _indices(plan: Plan, loop: Loop) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The indices of elements in a loop: of values, and of the program's variables."""
    for node in plan.values.nodes(loop.body):
        if isinstance(node, Define):
            element, now = loaded(node.value), node.value.now
            if element is not None and isinstance(now, ast.Subscript):
                yield from zip(index_of(element), index_of(now), strict=True)
        elif isinstance(node, Write) and isinstance(node.origin, Store):
            yield from zip(node.index, node.origin.index, strict=True)


def openings(bases: Iterable[Base]) -> list[str]:
    """The lines ahead of all loops that have these indices."""
    return [f"{base.name} = max({base.rest}, 0)" for base in bases if not base.step]


def counted(bases: Iterable[Base], body: Sequence[str]) -> tuple[list[str], list[str]]:
    """The lines ahead of one loop, and at the end of its body, for the indices that are counted on there.

    They are of a type without signs: for others an overflow would have to be reckoned with.
    """
    used = [base for base in bases if base.step and any(re.search(rf"\b{base.name}\b", line) for line in body)]
    first = [b.rest if b.rest.isdigit() else f"max({b.rest}, 0)" for b in used]
    ahead = [f"{b.name} = np.uint64({at})" for b, at in zip(used, first, strict=True)]
    return ahead, [f"{b.name} += np.uint64({b.step})" for b in used]


def by_bases(lines: Sequence[str], bases: Iterable[Base]) -> list[str]:
    """A loop's lines with their indices by the variables."""
    lines = list(lines)
    for base in bases:
        # An index as a whole: the same text may be the end of a longer one.
        whole = re.compile(rf"(?:(?<=\[)|(?<=, )){re.escape(base.text)}(?=[\],])")
        lines = [line if line.lstrip().startswith("#") else whole.sub(base.by, line) for line in lines]
    return lines
