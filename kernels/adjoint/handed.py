"""What the reverse of a loop adds to the element that is the next iteration's own: it waits in a variable.

Where ``y[j]`` is made of ``x[j]`` and ``x[j + 1]``, the reverse adds to ``d_x[j]`` what iteration ``j`` has for it
together with what the one before has handed on, so that each element is read and written once and no second loop goes
over the array. The sums are those of the two loops but for the order of their two terms.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from jitgrad.kernels.adjoint.pullback import Add
from jitgrad.kernels.adjoint.tidy import add_last

__all__ = ["Handed", "HandedOn"]

Index = tuple[ast.expr, ...]


@dataclass
class Handed:
    """What is handed on for the array ``target``.

    own: the index of an iteration's own element; next: that of the next iteration's own; steps: the additions to it.
    """

    target: str
    own: Index
    next: Index
    steps: list[Add] = field(default_factory=list)

    def indices(self) -> Iterator[Index]:
        """Those of the steps, all of which are next."""
        yield from (step.index for step in self.steps if step.index is not None)


class HandedOn:
    """The lines for one array. element: makes the text of an element of its derivatives."""

    def __init__(self, handed: Handed, element: Callable[[Index], str], unique: Callable[[str], str]):
        self.own, self.next = element(handed.own), element(handed.next)
        self.held, self.made = unique("handed"), unique("handing")
        self.steps = {id(step) for step in handed.steps}

    def ahead(self) -> str:
        """Ahead of the loop."""
        return f"{self.held} = 0.0"

    def begin(self) -> str:
        """Where an iteration begins."""
        return f"{self.made} = 0.0"

    def end(self, lines: Sequence[str]) -> list[str]:
        """An iteration's lines with those behind them."""
        return [*add_last(lines, self.own, self.held), f"{self.held} = {self.made}"]

    def behind(self) -> list[str]:
        """Behind the loop, what the last iteration has handed on. Zero is not added: after no iterations at all the
        element may lie beyond the array.
        """
        return [f"if {self.held} != 0.0:", f"    {self.next} += {self.held}"]
