"""Innermost loops whose reverse may run in any order, so that a compiler can use vectors.

The iterations of such a loop hand nothing on but sums, and none reads what an earlier one wrote. In the reverse sweep
it runs upwards, as one loop that computes everything and further loops for what would keep that one from using vectors:
derivatives that are added to neighbouring elements, and sums, wait in a row with one number for each iteration. What is
kept of such loops is addressed by rows too and not by a counter.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from jitgrad.kernels.adjoint.handed import Handed
from jitgrad.kernels.adjoint.nests import in_any_order, outer_of
from jitgrad.kernels.adjoint.plan import DEAR, Plan, Segment
from jitgrad.kernels.adjoint.pullback import Add, Clear, Let, Step
from jitgrad.kernels.adjoint.ssa import Branch, Carry, Define, Loop, Node, Value, Write, index_of, loaded, names

__all__ = ["Straight", "straight_loops"]

Index = tuple[ast.expr, ...]
Other = tuple[Add, list[tuple[str, bool]], int]  # what is added, the tests around it, the elements' distance
_FEW = 8  # iterations up to which a loop is unrolled instead


@dataclass
class Straight:
    """How the reverse of a loop is split.

    steps: all of its steps with the tests around them. undo_first: whether memory is put back in a loop ahead. apart:
    what is added in loops of their own, with the tests around it; handed: what is added to the next iteration's
    element; sums: what is added to one element or value by all iterations. outer: the loop around that goes upwards
    with it. independent: whether iterations may run at once.
    """

    loop: Loop
    segment: Segment
    steps: list[tuple[Step, list[tuple[str, bool]]]]
    undo_first: bool = False
    apart: list[tuple[Add, list[tuple[str, bool]]]] = field(default_factory=list)
    handed: list[Handed] = field(default_factory=list)
    sums: list[Add] = field(default_factory=list)
    outer: Loop | None = None
    independent: bool = False


def straight_loops(plan: Plan) -> dict[Loop, Straight]:
    """The loops of a program that may be split."""
    found = {}
    for node in plan.values.nodes():
        if isinstance(node, Loop) and (straight := _Judge(plan, node).straight()):
            found[node] = straight
    return found


def is_plain(plan: Plan, loop: Loop) -> bool:
    """Whether a compiler may use vectors for a loop in the forward sweep."""
    judge, parts = _Judge(plan, loop), plan.parts[loop.body]
    if loop.index is None or loop.counted or loop.carried or not judge.long():
        return False
    made = [n.value.expression for n in plan.values.nodes(loop.body) if isinstance(n, Define)]
    calls = [n for e in made if e is not None for n in ast.walk(e) if isinstance(n, ast.Call)]
    plain = not any(n.func.id in DEAR for n in calls)  # type: ignore[attr-defined]
    return plain and len(parts) == 1 and isinstance(parts[0], Segment)


class _Judge:
    def __init__(self, plan: Plan, loop: Loop):
        self.plan, self.values, self.loop, self.overlap = plan, plan.values, loop, plan.overlap

    def straight(self) -> Straight | None:
        loop, parts = self.loop, self.plan.parts[self.loop.body]
        if loop.index is None or loop.counted or not self.long():
            return None
        if len(parts) != 1 or not isinstance(parts[0], Segment) or not all(map(self._hands_on_sum, loop.carried)):
            return None
        self.segment = parts[0]
        self.nodes = list(self._in_segment(self.segment, []))
        self.steps = [(s, tests) for n, tests in self.nodes for s in self.plan.steps.get(n, ())]
        self.writes = [n for n, _ in self.nodes if isinstance(n, Write)]
        made = Straight(loop, self.segment, self.steps)
        if not self.steps or self._computes_much() or not self._memory(made):
            return None
        steps = [s for s, _ in self.steps]
        if not made.undo_first:
            made.outer = outer_of(self.plan, loop, steps, list(self._loads()))
        made.independent = in_any_order(self.plan, steps, self.writes)
        return made if self._derivatives(made) else None

    def _loads(self) -> list[Value]:
        """The elements that are read again."""
        again = {v for v, b in self.plan.again.items() if b is self.loop.body}
        again |= self.plan.within.get(self.segment, set())
        return [v for v in again if loaded(v) is not None and v not in self.plan.kept]

    def long(self) -> bool:
        """Whether it goes up or down by one, and not so few times that it is unrolled."""
        return self._by() != 0 and not self._short()

    def _by(self) -> int:
        text = ast.unparse(self.loop.bounds[2])
        return {"1": 1, "-1": -1}.get(text, 0)

    def _short(self) -> bool:
        start, stop, _ = self.loop.bounds
        if isinstance(start, ast.Constant) and isinstance(stop, ast.Constant):
            return abs(stop.value - start.value) < _FEW  # type: ignore[operator]
        return False

    def _in_segment(self, nodes: Iterable[Node], tests: list[tuple[str, bool]]) -> Iterator[tuple[Node, list]]:
        for node in nodes:
            yield node, tests
            if isinstance(node, Branch):
                test = ast.unparse(node.test)
                for side, block in ((True, node.body), (False, node.orelse)):
                    yield from self._in_segment(block.nodes, [*tests, (test, side)])

    def _hands_on_sum(self, c: Carry) -> bool:
        """Whether a variable's derivative is the same in all iterations, as that of a sum of what they add."""
        if not self.plan.active & {c.start.name, c.final.name}:
            return True
        if c.end is c.start:
            return True
        end = c.end
        if end is None or end.block is not self.loop.body:
            return False
        e = end.expression
        if not (isinstance(e, ast.BinOp) and isinstance(e.op, (ast.Add, ast.Sub)) and isinstance(e.left, ast.Name)):
            return False
        uses = [n for node in self.values.nodes(self.loop.body) for n in _read(node)]
        return e.left.id == c.start.name and uses.count(c.start.name) == 1 and end.name not in uses

    def _computes_much(self) -> bool:
        """Whether there are calls for which there are no vectors."""
        again = [v.expression for v in self.plan.within.get(self.segment, ()) if v not in self.plan.kept]
        done = [s.value for s, _ in self.steps if not isinstance(s, Clear)]
        calls = [n for e in [*again, *done] if e is not None for n in ast.walk(e) if isinstance(n, ast.Call)]
        return any(n.func.id in DEAR for n in calls)  # type: ignore[attr-defined]

    # -- memory -------------------------------------------------------------------------------------

    def _far(self, read: tuple[ast.expr, ...], written: tuple[ast.expr, ...]) -> int | str | None:
        """How many iterations after a read an element is written; None for never, "?" if unknown."""
        distances = self.overlap.distances(read, written, [self.loop])
        if distances is None:
            return None
        assert self.loop.index is not None
        far = distances.get(self.loop.index.name)
        return "?" if far is None else far * self._by()

    def _memory(self, made: Straight) -> bool:
        """Whether what is read again of memory is there, once all that the loop wrote has been put back."""
        item = self.segment
        undone = [w for w in self.writes if w in self.plan.undone]
        if any(self._far(w.index, w.index) != 0 for w in undone):
            return False  # an element that is written twice must get its older value last
        if len({(w.array, _text(w.index)) for w in undone}) != len({w.array for w in undone}):
            return False
        for load in self._loads():
            element = loaded(load)
            assert element is not None
            for write in [w for w in undone if w.array == element.value.id]:  # type: ignore[attr-defined]
                far = self._far(index_of(element), write.index)
                if far == "?" or (isinstance(far, int) and far < 0):
                    return False
                made.undo_first |= bool(far)
        if not made.undo_first:
            return True
        plain = all(w.block is self.loop.body and self._settled(w.index) for w in undone)
        return plain and not self.plan.early.get(item)

    # -- derivatives --------------------------------------------------------------------------------

    def _derivatives(self, made: Straight) -> bool:
        primary: dict[str, str] = {}  # the index at which the loop itself reads and adds derivatives, by array
        for write in self.writes:
            if self.values.family(write.array) not in self.plan.active:
                continue
            added = any(isinstance(s, Add) and s.index is not None and s.target == write.array for s, _ in self.steps)
            if not added and all(w.increment for w in self.writes if w.array == write.array):
                continue  # its derivatives are only read
            text = _text(write.index)
            if primary.setdefault(write.array, text) != text or self._far(write.index, write.index) != 0:
                return False
        written = {w.array: w.index for w in self.writes}
        # Of neighbours that are added to, the one at the element that is written stays in the loop.
        places = {_text(w.index) for w in self.writes}
        for step, _ in self.steps:
            if isinstance(step, Add) and step.index is not None and self._stride(step.index) == 1:
                if (text := _text(step.index)) in places:
                    primary.setdefault(step.target, text)
        others: list[Other] = []
        for step, tests in self.steps:
            if not isinstance(step, Add):
                continue
            if step.index is None:
                if self._outside(step.target):
                    made.sums.append(step)
                continue
            kind = self._stride(step.index)
            if kind is None:
                return False
            if kind == 0:
                if step.target in written:
                    return False
                made.sums.append(step)
                continue
            text = _text(step.index)
            # Elements that lie apart are added to one by one, in no more time than in a loop of their own.
            alone = kind == 2 and len(step.index) == 1 and not tests and made.independent
            if (kind == 1 or alone) and primary.setdefault(step.target, text) == text:
                continue
            others.append((step, tests, kind))
        made.handed = self._handed(others, primary)
        handed = {id(step) for h in made.handed for step in h.steps}
        return all(id(step) in handed or self._set_apart(made, (step, tests, kind)) for step, tests, kind in others)

    def _set_apart(self, made: Straight, other: Other) -> bool:
        """Have something added in a loop of its own, if that can be."""
        step, tests, kind = other
        written = {w.array: w.index for w in self.writes}
        assert step.index is not None
        if step.target in written:
            far = self._far(step.index, written[step.target])
            if far == "?" or (isinstance(far, int) and far <= 0):
                return False
        # Measured on a stencil of 100 x 100: rows that are gone through from the last to the first are slower.
        if len(step.index) > 1 and (made.outer is None or kind != 1):
            return False
        if not all(self._by_index(t) for t, _ in tests) or not self._settled(step.index):
            return False
        made.apart.append((step, tests))
        return True

    def _handed(self, others: Sequence[Other], primary: dict[str, str]) -> list[Handed]:
        """What is added beside an iteration's own elements, whose indices are given by text, and to the next one's."""
        assert self.loop.index is not None
        own: dict[str, Index] = {}
        for step, tests in self.steps:  # it is there in every iteration
            if not tests and not isinstance(step, Let) and step.index and _text(step.index) == primary.get(step.target):
                own[step.target] = step.index
        found: dict[str, Handed] = {}
        for step, _, _ in others:
            if step.target in own and step.index is not None:
                handed = found.setdefault(step.target, Handed(step.target, own[step.target], step.index))
                handed.steps.append(step)
        return [h for h in found.values() if all(map(self._settled, h.indices())) and self._is_next(h)]

    def _is_next(self, handed: Handed) -> bool:
        """Whether each iteration adds to just the element that is the next iteration's own."""
        assert self.loop.index is not None
        index, by = self.loop.index.name, self._by()
        for steps_index in handed.indices():
            for e, o in zip(steps_index, handed.own, strict=True):
                found, own = self.overlap.sum_of(e), self.overlap.sum_of(o)
                if found is None or own is None:
                    return False
                if any(n and "." not in n and n != index and not self._outside(n) for n in {*found, *own}):
                    return False
                ahead = {**own, "": own.get("", 0) + by * own.get(index, 0)}
                if any(found.get(n, 0) != ahead.get(n, 0) for n in {*found, *ahead}):
                    return False
        return True

    def _outside(self, name: str) -> bool:
        return self.loop.body not in self.values.by_name[name].block.ancestors()

    def _stride(self, index: tuple[ast.expr, ...]) -> int | None:
        """The distance in memory of the elements of two iterations: 0, 1, 2 for any other; None if unknown."""
        assert self.loop.index is not None
        found = 0
        for k, e in enumerate(index):
            if all(self._outside(n) for n in names(e)):
                continue
            sum_ = self.overlap.sum_of(e)
            if sum_ is None:
                return None
            if any(n and "." not in n and n != self.loop.index.name and not self._outside(n) for n in sum_):
                return None
            factor = sum_.get(self.loop.index.name, 0)
            if factor:
                found = 1 if k == len(index) - 1 and factor == self._by() else 2
        return found

    def _settled(self, index: tuple[ast.expr, ...]) -> bool:
        """Whether an index is made of the loop's own and what is known outside."""
        return all(self._outside(n) or self.values.by_name[n] is self.loop.index for e in index for n in names(e))

    def _by_index(self, test: str) -> bool:
        """Whether a test is one of indices and what is known outside of the loop."""
        value = self.values.by_name.get(test)
        if value is None:
            return test in ("True", "False")
        if value is self.loop.index or self._outside(test):
            return True
        if value.role != "defined" or value.expression is None or loaded(value) is not None:
            return False
        return all(self._by_index(n) for n in names(value.expression))


def _read(node: Node) -> list[str]:
    """The names of values that a node reads."""
    if isinstance(node, Define):
        return names(node.value.expression)
    if isinstance(node, Write):
        return [*names(node.amount), *(n for i in node.index for n in names(i))]
    if isinstance(node, Branch):
        sides = [s.name for m in node.merges for s in (m.yes, m.no) if s is not None]
        return [*names(node.test), *sides]
    return []


def _text(index: tuple[ast.expr, ...]) -> str:
    return ", ".join(map(ast.unparse, index))
