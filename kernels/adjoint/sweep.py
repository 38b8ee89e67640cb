"""The reverse of stretches of statements without loops, and the names that the whole reverse sweep uses."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence

from jitgrad.kernels.adjoint.activity import active_names
from jitgrad.kernels.adjoint.binomial import Binomial
from jitgrad.kernels.adjoint.checkpoint import Stretches, entry_values, long_loops
from jitgrad.kernels.adjoint.choice import chosen_plan
from jitgrad.kernels.adjoint.forward import Forward
from jitgrad.kernels.adjoint.gather import Gather, gathers
from jitgrad.kernels.adjoint.plan import Segment
from jitgrad.kernels.adjoint.program import Program
from jitgrad.kernels.adjoint.pullback import Add, Let, Pullback, Step
from jitgrad.kernels.adjoint.rows import straight_loops
from jitgrad.kernels.adjoint.split import Split
from jitgrad.kernels.adjoint.ssa import Block, Branch, Define, Loop, Node, Value, Values, Write
from jitgrad.kernels.adjoint.tidy import if_lines
from jitgrad.kernels.adjoint.to_ssa import values_of
from jitgrad.kernels.adjoint.write import element, expression_text

__all__ = ["Sweep"]


class Sweep:
    """What the reverse sweep knows, and how it goes through one segment; `reverse` is about blocks and loops."""

    def __init__(self, program: Program, wanted: Collection[str], states: int | None):
        self.program, self.wanted = program, list(wanted)
        self.values: Values = values_of(program)
        self.taken = {*program.kinds, *self.values.by_name}
        self.prefix = next(p for p in ("d_", "dd_", "ddd_", "grad_", "adjoint_of_")
                           if not any(n.startswith(p) for n in self.taken))  # fmt: skip
        self.active = active_names(self.values, wanted)
        self.inverses: dict[str, str] = {}  # {divisor: the variable that holds 1 / divisor}
        self.divisors: dict[Node, dict[Value, None]] = {}  # {node: divisors that its own segment defines}
        pullback = Pullback(self.active, self.values.family, self.d, self.unique, self.inverse)
        steps = {n: pullback.steps(n) for n in self.values.nodes()}
        self.plan = chosen_plan(self.values, self.active, {n: s for n, s in steps.items() if s}, self.divisors)
        self.everywhere = [n for n in self.inverses if self.values.by_name[n].block is self.values.root]
        for name in self.everywhere:
            self.plan.need(self.values.by_name[name], None)
        self.stretches = {s.loop: s for s in self._stretches(states)}
        self.straight = {x: s for x, s in straight_loops(self.plan).items() if x not in self.stretches}
        self.forward = Forward(self.plan, self.unique, list(self.stretches.values()), self.straight)
        other = {**self.straight, **self.stretches}
        loops = [n for n in self.values.nodes() if isinstance(n, Loop) and n not in other and gathers(self.plan, n)]
        self.gathers = {x.body: Gather(self.plan, x, self.d, self.unique) for x in loops}
        self.splits = {x.body: Split(s, self) for x, s in self.straight.items()}
        self.upward = {s.outer: s for s in self.splits.values() if s.outer is not None}
        self.olds: dict[Write, str] = {}

    def _stretches(self, states: int | None) -> list[Stretches]:
        loops = [x for x in long_loops(self.values) if self.plan.keeps_in(x)] if states is not None else []
        for loop in loops:
            for value in entry_values(loop).values():
                self.plan.need(value, None)
        kind = Binomial if states else Stretches
        return [kind(self.values, loop, states or 0, self.unique) for loop in loops]

    def d(self, name: str) -> str:
        """The name of the derivative of the result in what has this name."""
        return f"{self.prefix}{name}"

    def unique(self, base: str) -> str:
        """A name that is not in use."""
        name, k = base, 0
        while name in self.taken:
            k += 1
            name = f"{base}_{k}"
        self.taken.add(name)
        return name

    def inverse(self, divisor: ast.expr, node: Node) -> ast.expr | None:
        """A variable for 1 / divisor of a node in a loop: one for all loops, or for a segment without tests."""
        if not isinstance(divisor, ast.Name) or not node.block.loops():
            return None
        value = self.values.by_name[divisor.id]
        everywhere = value.block is self.values.root
        if not value.kind.floating or not (everywhere or node.block is value.block.holder()):
            return None
        if value.name not in self.inverses:
            self.inverses[value.name] = self.unique(f"per_{value.name}")
        if not everywhere:
            self.divisors.setdefault(node, {})[value] = None
        return ast.Name(self.inverses[value.name], ast.Load())

    def is_active(self, array: str) -> bool:
        """Whether an array has derivatives."""
        return self.values.family(array) in self.active

    def kept(self, key: Value | Write, block: Block) -> str:
        """Where the reverse sweep finds what a block has kept."""
        if block in self.splits:
            return f"{self.forward.rows[block][key][0]}[{self.splits[block].place}]"
        return self.forward.counted.get(key) or self.forward.field_of[key]

    def from_merges(self, branch: Branch, side: int) -> list[str]:
        """Derivatives of the values behind a branch, handed to those of one side."""
        pairs = [(m.value, (m.yes, m.no)[side]) for m in branch.merges if m.value.name in self.active]
        return [f"{self.d(s.name)} += {self.d(v.name)}" for v, s in pairs if s is not None and s.name in self.active]

    # -- segments -----------------------------------------------------------------------------------

    def segment(self, segment: Segment) -> list[str]:
        plan = self.plan
        within = {v for v in plan.within.get(segment, set()) if v not in plan.kept and v not in plan.again}
        early = within & plan.early.get(segment, set())
        undone = any(segment is s.segment and s.undo_first for s in self.straight.values())
        return [
            *self._again(segment, early, set()),
            *([] if undone else self.undo(segment)),
            *self._again(segment, within - early, plan.redone),
            *self._undo(segment, plan.redone, "old"),
            *(f"{self.inverses[v.name]} = 1.0 / {v.name}" for v in self._divisors(segment)),
            *self._adjoint(segment),
        ]

    def _divisors(self, segment: Segment) -> dict[Value, None]:
        return {value: None for node in segment for value in self.divisors.get(node, ())}

    def _again(self, nodes: Sequence[Node], wanted: set[Value], redone: set[Write]) -> list[str]:
        """Computes values again, in the order of the text, with the writes that they read."""
        lines: list[str] = []
        for node in nodes:
            if isinstance(node, Define) and node.value in wanted:
                assert node.value.expression is not None
                lines.append(f"{node.value.name} = {expression_text(node.value.expression)}")
            elif isinstance(node, Write) and node in redone:
                target, sign = element(node.array, node.index), "+=" if node.increment else "="
                lines += [f"{self._old(node)} = {target}", f"{target} {sign} {expression_text(node.amount)}"]
            elif isinstance(node, Branch):
                sides = []
                for k, block in enumerate((node.body, node.orelse)):
                    side = self._again(block.nodes, wanted, redone)
                    for m in node.merges:
                        source = (m.yes, m.no)[k]
                        if m.value in wanted and source is not None:
                            side.append(f"{m.value.name} = {source.name}")
                    sides.append(side)
                lines += if_lines(expression_text(node.test), *sides)
        return lines

    def undo(self, segment: Segment) -> list[str]:
        """Puts memory back to what it was before a segment."""
        return self._undo(segment, self.plan.undone, "saved")

    def _old(self, write: Write) -> str:
        if write not in self.olds:
            self.olds[write] = self.unique("old")
        return self.olds[write]

    def _undo(self, nodes: Sequence[Node], chosen: set[Write], which: str) -> list[str]:
        """Puts memory back to what it was before the writes."""
        lines: list[str] = []
        for node in reversed(nodes):
            if isinstance(node, Write) and node in chosen:
                value = self._old(node) if which == "old" else self.kept(node, node.block.holder())
                lines.append(f"{element(node.array, node.index)} = {value}")
            elif isinstance(node, Branch):
                sides = [self._undo(b.nodes, chosen, which) for b in (node.body, node.orelse)]
                lines += if_lines(expression_text(node.test), *sides)
        return lines

    def _adjoint(self, nodes: Sequence[Node]) -> list[str]:
        lines: list[str] = []
        last: list[str] = []
        for node in reversed(nodes):
            if isinstance(node, Branch):
                sides = [[*self.from_merges(node, k), *self._adjoint(block.nodes)]
                         for k, block in enumerate((node.body, node.orelse))]  # fmt: skip
                lines += if_lines(expression_text(node.test), *sides)
            else:
                made = [line for step in self.plan.steps.get(node, ())
                          for line in self._step(step, node.block.holder())]  # fmt: skip
                quoted = self._quoted(node)
                lines += [*(quoted if quoted != last else []), *made] if made else []
                last = quoted if made else last
        return lines

    def _quoted(self, node: Node) -> list[str]:
        """The user's line that a node comes from, ahead of its reverse."""
        number, source = node.origin.line, self.program.source
        text = source[number - 1].strip() if 0 < number <= len(source) else ""
        return [f"# {number}: {text}"] if text else []

    def _step(self, step: Step, block: Block) -> list[str]:
        if isinstance(step, Let):
            return [f"{step.name} = {expression_text(step.value)}"]
        if isinstance(step, Add):
            split = self.splits.get(block)
            if split is not None and (line := split.step(step)) is not None:
                return line
            if block in self.gathers and (line := self.gathers[block].step(step)) is not None:
                return line
            target = step.target if step.index is None else element(step.target, step.index)
            return [f"{self.d(target)} += {expression_text(step.value)}"]
        # Derivatives of values begin with zero in each run of their block.
        return [] if step.index is None else [f"{self.d(element(step.target, step.index))} = 0.0"]
