"""Innermost loops whose iterations wait for each other: what keeps the waiting short in their reverse.

What all iterations add to one element is added up in a variable. Where an iteration's derivatives all come from one
element, which the iteration before has written, the segment's own arithmetic is done for a derivative of 1 and
multiplied by that element at last: processors do it ahead of time.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from jitgrad.kernels.adjoint.plan import Plan, Segment
from jitgrad.kernels.adjoint.pullback import Add
from jitgrad.kernels.adjoint.ssa import Loop, Write, names
from jitgrad.kernels.adjoint.write import element, expression_text

__all__ = ["Gather", "gathers"]


class Gather:
    """A loop's reverse. totals: (element, variable); seed: the element that all derivatives come from."""

    def __init__(self, plan: Plan, loop: Loop, d: Callable[[str], str], unique: Callable[[str], str]):
        self.plan, self.loop, self.d = plan, loop, d
        self.nodes = list(plan.values.nodes(loop.body))
        self.steps = [s for n in self.nodes for s in plan.steps.get(n, ())]
        self.writes = [n for n in self.nodes if isinstance(n, Write) and plan.values.family(n.array) in plan.active]
        self.totals: dict[str, str] = {}
        for step in self.steps:
            if isinstance(step, Add) and step.index is not None and self._is_one_element(step):
                self.totals.setdefault(d(element(step.target, step.index)), "")
        self.totals = {target: unique("total") for target in self.totals}
        self.first = self._only_seed()
        self.seed = unique("seed") if self.first is not None else ""

    def _outside(self, name: str) -> bool:
        return self.loop.body not in self.plan.values.by_name[name].block.ancestors()

    def _is_one_element(self, step: Add) -> bool:
        """Whether it is the same one in all iterations, and no derivative is read from its array."""
        return all(self._outside(n) for e in step.index or () for n in names(e)) and all(
            w.array != step.target for w in self.writes
        )

    def _only_seed(self) -> Add | None:
        """The step that reads the only derivative which comes into an iteration, if others wait for that."""
        carried = any(self.plan.active & {c.start.name, c.final.name} for c in self.loop.carried)
        if carried or len(self.writes) != 1:
            return None
        write = self.writes[0]
        first = self.plan.steps[write][0] if write in self.plan.steps else None
        if write.increment or write.block is not self.loop.body:
            return None
        if not isinstance(first, Add) or first.index is not None:
            return None
        waits = [s for s in self.steps if isinstance(s, Add) and s.index is not None and s.target == write.array]
        ones = [s for s in waits if s.index is not None and self._is_next(s.index, write.index)]
        return first if ones and not self._outside(first.target) else None

    def _is_next(self, read: tuple[ast.expr, ...], written: tuple[ast.expr, ...]) -> bool:
        """Whether an element may be read that an earlier iteration wrote."""
        far = self.plan.overlap.distances(read, written, [self.loop])
        index = self.loop.index.name if self.loop.index is not None else ""
        return far is not None and (index not in far or far[index] != 0)

    def step(self, step: Add) -> list[str] | None:
        """The lines for what is added, if they are other than usual."""
        value = expression_text(step.value)
        if step is self.first:
            return [f"{self.seed} = {value}", f"{self.d(step.target)} += 1.0"]
        if self.first is not None and (step.index is not None or self._outside(step.target)):
            value = f"{self.seed} * ({value})" if not isinstance(step.value, ast.Name) else f"{self.seed} * {value}"
        elif step.index is None:
            return None
        target = step.target if step.index is None else element(step.target, step.index)
        return [f"{self.totals.get(self.d(target), self.d(target))} += {value}"]

    def around(self, lines: list[str]) -> list[str]:
        """The loop's lines, the totals set to 0 ahead of them and added to their elements behind.

        A loop without iterations has totals of 0, which are not added: the element's index may be beyond the array.
        """
        ends = []
        for target, total in self.totals.items():
            ends += [f"if {total} != 0.0:", f"    {target} += {total}"]
        return [*(f"{total} = 0.0" for total in self.totals.values()), *lines, *ends]


def gathers(plan: Plan, loop: Loop) -> bool:
    """Whether a loop is an innermost one that consists of statements without loops."""
    parts = plan.parts[loop.body]
    return loop.body in plan.reached and len(parts) == 1 and isinstance(parts[0], Segment)
