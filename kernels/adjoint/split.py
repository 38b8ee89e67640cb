"""The reverse of a loop whose iterations may run in any order, as the text of several loops: see `rows`."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from jitgrad.kernels.adjoint.bases import Base, base_of, by_bases, counted, openings
from jitgrad.kernels.adjoint.handed import HandedOn
from jitgrad.kernels.adjoint.overlap import sum_text
from jitgrad.kernels.adjoint.pullback import Add, Clear
from jitgrad.kernels.adjoint.rows import Straight
from jitgrad.kernels.adjoint.ssa import Loop, names
from jitgrad.kernels.adjoint.stencils import Stencil, stencils
from jitgrad.kernels.adjoint.tidy import indented, tidy
from jitgrad.kernels.adjoint.write import element, expression_text, place_in_row, range_text
from jitgrad.kernels.codegen.source import ANY_ORDER
from jitgrad.kernels.words.syntax import copied

if TYPE_CHECKING:
    from jitgrad.kernels.adjoint.sweep import Sweep

__all__ = ["Split"]


class Split:
    """The loops that reverse one loop. rows: the arrays in which they hand numbers on.

    What goes to several neighbours is handed on by one loop, ahead of which the row has zeros around it (``pads``).
    """

    def __init__(self, straight: Straight, sweep: Sweep):
        self.straight, self.sweep, self.loop = straight, sweep, straight.loop
        assert self.loop.index is not None
        self.start, self.stop, self.by = self.loop.bounds
        self.place = place_in_row(ast.Name(self.loop.index.name, ast.Load()), self.start, self.by)
        self.rows: list[str] = []
        self.row_of: dict[int, str] = {}  # {id of a step: the row that holds what it adds}
        self.sum_of: dict[int, str] = {}
        self.sums: dict[str, tuple[str, str]] = {}  # target: (its sum in an iteration, the row of these)
        at = lambda target: lambda index: sweep.d(element(target, index))
        self.handed = [HandedOn(h, at(h.target), sweep.unique) for h in straight.handed]
        self.again: set[int] = set()  # ids of steps that add what another one has put into a row
        self.outer = straight.outer if straight.outer not in sweep.stretches else None
        self._name_rows()
        self.lasting = self._lasting()
        self.groups = list(stencils(straight, sweep.plan))
        self.pads: dict[str, int] = {}
        for group in self.groups:
            for step, _ in group.terms:
                row = self.row_of[id(step)]
                self.pads[row] = max(group.span, self.pads.get(row, 0))
        self.bases = self._name_bases()

    def _name_rows(self) -> None:
        shared: dict[str, str] = {}
        for step, tests in self.straight.apart:
            text = expression_text(self._origin(step.value))
            if tests or not isinstance(step.value, ast.Name) or text not in shared:
                row = self._row()
                if not tests:
                    shared[text] = row
            else:
                row = shared[text]
                self.again.add(id(step))
            self.row_of[id(step)] = row
        for step in self.straight.sums:
            target = self._target(step)
            if target not in self.sums:
                self.sums[target] = self.sweep.unique("added"), self._row()
            self.sum_of[id(step)] = self.sums[target][0]

    def _lasting(self) -> set[str]:
        """Sums whose rows are added up when all loops have ended, and not each time that this one has."""
        values = self.sweep.values.by_name
        steps = [s for s in self.straight.sums if s.index is None and self.loop.block.loops()]
        return {self._target(s) for s in steps if not values[s.target].block.loops()}

    def totals(self, loop: Loop) -> list[str]:
        """Behind a loop: the lines for sums that have been waiting for its end."""
        if not self.lasting or loop is not self.loop.block.loops()[-1]:
            return []
        rows = [(target, self.sums[target][1]) for target in self.sums if target in self.lasting]
        return [f"{target} += summed({row}, {row}.size)" for target, row in rows]

    def _in_row(self, row: str) -> str:
        """Where a row has an iteration's number."""
        pad = self.pads.get(row, 0)
        return f"{row}[{self.place} + {pad}]" if pad else f"{row}[{self.place}]"

    def _row(self) -> str:
        self.rows.append(self.sweep.unique("row"))
        return self.rows[-1]

    def _origin(self, value: ast.expr) -> ast.expr:
        """The derivative that one is a copy of."""
        adds: dict[str, list[tuple[Add, bool]]] = {}
        for step, tests in self.straight.steps:
            if isinstance(step, Add) and step.index is None:
                adds.setdefault(self.sweep.d(step.target), []).append((step, bool(tests)))
        while isinstance(value, ast.Name) and len(found := adds.get(value.id, [])) == 1:
            step, tested = found[0]
            if tested or not isinstance(step.value, ast.Name):
                break
            value = step.value
        return value

    def _target(self, step: Add) -> str:
        return self.sweep.d(step.target if step.index is None else element(step.target, step.index))

    def step(self, step: Add) -> list[str] | None:
        """The lines for what is added, if it isn't added where it is computed."""
        value = expression_text(step.value)
        if id(step) in self.sum_of:
            return [f"{self.sum_of[id(step)]} += {value}"]
        for handed in self.handed:
            if id(step) in handed.steps:
                return [f"{handed.made} += {value}"]
        if id(step) in self.row_of:
            return [] if id(step) in self.again else [f"{self._in_row(self.row_of[id(step)])} = {value}"]
        return None

    def lines(self, body: Sequence[str]) -> list[str]:
        """All loops. body: the lines of the first."""
        lines = self._openings()
        if self.straight.undo_first:
            lines += self._over(self.sweep.undo(self.straight.segment))
        ends = [f"{row}[{self.place}] {'+' if target in self.lasting else ''}= {total}"
                for target, (total, row) in self.sums.items()]  # fmt: skip
        zeros = [f"{total} = 0.0" for total, _ in self.sums.values()]
        inner = tidy([*zeros, *(h.begin() for h in self.handed), *body, *ends])
        for h in self.handed:
            inner = h.end(inner)
        lines += [*(h.ahead() for h in self.handed), *self._over(inner)]
        lines += [line for h in self.handed for line in h.behind()]
        for target, (total, row) in self.sums.items():
            if target in self.lasting:
                continue
            if "[" in target:  # a loop without iterations adds 0, and its index may be beyond the array
                lines += [f"{total} = summed({row}, {self.length})", f"if {total} != 0.0:", f"    {target} += {total}"]
            else:
                lines.append(f"{target} += summed({row}, {self.length})")
        together = {id(step) for group in self.groups for step, _ in group.terms}
        for step, tests in self.straight.apart:
            if id(step) in together:
                continue
            added = [f"{self._target(step)} += {self._in_row(self.row_of[id(step)])}"]
            for test, side in reversed(tests):
                text = expression_text(self._inlined(ast.Name(test, ast.Load())))
                added = [f"if {text}:" if side else f"if not ({text}):", *(f"    {line}" for line in added)]
            lines += self._over(added)
        for group in self.groups:  # last: it would wait for the stores of the row that it reads one place further
            lines += self._gathered(group)
        return [*openings(self.bases), *lines, *self._closings()]

    def _gathered(self, group: Stencil) -> list[str]:
        """The loop over all elements that get anything. There are none if the loop has no iterations."""
        first, place = sum_text(group.first, {}), self.sweep.unique("k")
        if not first.isdigit():
            base = self.sweep.unique("first")
            opened, first = [f"{base} = max({first}, 0)"], base
        else:
            opened = []
        last = place if first == "0" else f"{first} + {place}"
        terms = []
        for step, offset in group.terms:
            row = self.row_of[id(step)]
            terms.append(f"{row}[{sum_text({place: 1, '': self.pads[row] + offset}, {})}]")
        index = ", ".join([*map(expression_text, group.before), last])
        inner = f"{self.sweep.d(group.target)}[{index}] += {' + '.join(terms)}"
        head = f"for {place} in range({self.length} + {group.span}):{self.mark}"
        return [*opened, f"if {self.length} > 0:", f"    {head}", f"        {inner}"]

    @property
    def mark(self) -> str:
        """What loops say whose iterations may run at once."""
        return ANY_ORDER if self.straight.independent else ""

    def around(self, body: Sequence[str]) -> list[str]:
        """The loop around, upwards. What it keeps is read in the order in which it was kept."""
        assert self.outer is not None and self.outer.index is not None
        head = [f"for {self.outer.index.name} in {range_text(*self.outer.bounds)}:", *(f"    {line}" for line in body)]
        counter = self.sweep.forward.counters.get(self.loop.body)
        if counter is None or not self.sweep.forward.rows.get(self.loop.body):
            return head
        runs = f"len({range_text(*self.outer.bounds)}) * len({range_text(self.start, self.stop, self.by)})"
        back = f"{counter} -= {runs}"
        return [back, *head, back]

    def _closings(self) -> list[str]:
        fields = self.sweep.forward.rows.get(self.loop.body)
        return [f"{self.sweep.forward.counters[self.loop.body]} += {self.length}"] if fields and self.outer else []

    def _name_bases(self) -> list[Base]:
        """For the indices at which derivatives are."""
        found: dict[str, Base] = {}
        values, overlap, own = self.sweep.values, self.sweep.plan.overlap, self.loop.index
        assert own is not None
        start = overlap.sum_of(self.start) if ast.unparse(self.by) == "1" else None
        start = start if {n for n in start or () if n in values.by_name} <= {*names(self.start)} else None
        indices = [i for s, _ in self.straight.steps if isinstance(s, (Add, Clear)) and s.index for i in s.index]
        for i in indices:
            text, sum_ = expression_text(i), overlap.sum_of(i)
            # What the index doesn't name itself may not be at hand.
            if text in found or not {n for n in sum_ or () if n in values.by_name} <= {*names(i), own.name}:
                continue
            if (base := base_of(text, sum_, own.name, overlap, {}, self.sweep.unique, start)) is not None:
                found[text] = base
        return list(found.values())

    def _openings(self) -> list[str]:
        """How many iterations there are, and rows of that many numbers."""
        forward, body = self.sweep.forward, self.loop.body
        fields = forward.rows.get(body, {})
        if not self.rows and not fields:
            return []
        self.length = forward.lengths.get(body) or self.sweep.unique(f"n_{self.loop.origin.index}")  # type: ignore[attr-defined]
        lines = [f"{self.length} = len({range_text(self.start, self.stop, self.by)})"]
        if fields:
            counter = forward.counters[body]
            lines += [] if self.outer else [f"{counter} -= {self.length}"]
            lines += [f"{row} = {name}[{counter}:{counter} + {self.length}]" for row, name in fields.values()]
        lasting = {self.sums[target][1] for target in self.lasting}
        for row in self.rows:
            pad = self.pads.get(row, 0)
            size = f"{self.length} + {2 * pad}" if pad else self.length
            made = f"widened({row}, {size})" if pad or row in lasting else f"np.empty(2 * {size}, np.float64)"
            lines += [f"if {size} > {row}.size:", f"    {row} = {made}"]
            lines += [f"{row}[{self.length} + {pad + k}] = 0.0" for k in range(pad)]
        return lines

    def _over(self, body: Sequence[str]) -> list[str]:
        assert self.loop.index is not None
        head = f"for {self.loop.index.name} in {range_text(self.start, self.stop, self.by)}:{self.mark}"
        body = by_bases(body, self.bases)
        ahead, end = counted(self.bases, body)
        return [*ahead, head, *indented([*body, *end])] if body else []

    def _inlined(self, e: ast.expr) -> ast.expr:
        """A test by the loop's index and what is known outside."""
        values, inside = self.sweep.values, self.loop.body

        class Inlined(ast.NodeTransformer):
            def visit_Name(self, node: ast.Name) -> ast.expr:
                value = values.by_name.get(node.id)
                if value is None or value.expression is None or inside not in value.block.ancestors():
                    return node
                return self.visit(copied(value.expression))

        return Inlined().visit(copied(e))
