"""The reverse sweep: the program's statements from the last to the first, each handing derivatives to what it read.

``adjoint_of`` gives both sweeps as lines of Python. In the reverse sweep ``d_x`` is the derivative of the result in
``x``; each block begins with the values that were kept for it, each segment with those that it computes again.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from jitgrad.kernels.adjoint.activity import active_names
from jitgrad.kernels.adjoint.forward import Forward
from jitgrad.kernels.adjoint.plan import Plan, Segment
from jitgrad.kernels.adjoint.program import Program
from jitgrad.kernels.adjoint.pullback import Add, Clear, Let, Pullback, Step, read_by
from jitgrad.kernels.adjoint.ssa import (
    Block, Branch, Carry, Define, Loop, New, Node, Permute, Value, Values, Write, values_of,
)  # fmt: skip
from jitgrad.kernels.adjoint.write import element, expression_text

__all__ = ["Adjoint", "adjoint_of"]


@dataclass
class Adjoint:
    """Both sweeps of a program.

    seeds: for each output that has a derivative, and gradients: for each wanted parameter, the name of its derivative
    (None where it is zero everywhere). restored: arrays whose memory the reverse sweep puts back as it goes.
    """

    program: Program
    forward: list[str]
    reverse: list[str]
    seeds: dict[str, str]
    gradients: dict[str, str | None]
    restored: list[str]


def adjoint_of(program: Program, wanted: Collection[str]) -> Adjoint:
    """The sweeps for derivatives of the program's outputs in the parameters ``wanted``."""
    return _Reverse(program, wanted).adjoint()


class _Reverse:
    def __init__(self, program: Program, wanted: Collection[str]):
        self.program, self.wanted = program, list(wanted)
        self.values: Values = values_of(program)
        self.taken = {*program.kinds, *self.values.by_name}
        self.prefix = next(p for p in ("d_", "dd_", "ddd_", "grad_", "adjoint_of_")
                           if not any(n.startswith(p) for n in self.taken))  # fmt: skip
        self.active = active_names(self.values, wanted)
        pullback = Pullback(self.active, self.values.family, self.d, self.unique)
        steps = {n: pullback.steps(n) for n in self.values.nodes()}
        self.plan = Plan(self.values, self.active, {n: s for n, s in steps.items() if s})
        self.forward = Forward(self.plan, self.unique)

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

    def is_active(self, array: str) -> bool:
        """Whether an array has derivatives."""
        return self.values.family(array) in self.active

    def adjoint(self) -> Adjoint:
        """Both sweeps and the names around them."""
        forward = self.forward.lines()
        seeds, lines = {}, _Lines(self.d)
        for output in self.program.outputs:
            value = self.values.results.get(output)
            if value is None and self.is_active(output):
                seeds[output] = self.unique(f"seed_{output}")
                lines.put(f"{self.d(output)} = {seeds[output]}.copy()")
            elif value is not None and value.name in self.active:
                seeds[output] = self.unique(f"seed_{output}")
                lines.add(value.name, seeds[output])
        for array, kind in self.program.kinds.items():
            if kind.ndim is not None and self.is_active(array) and array not in seeds and self._at_root(array):
                lines.put(f"{self.d(array)} = np.zeros_like({array})")
        self._block(self.values.root, lines)
        gradients: dict[str, str | None] = {}
        for name in self.wanted:
            known = name in self.active or self.is_active(name)
            gradients[name] = self.d(name) if known else None
            if name in self.values.by_name and known:
                lines.define(name)
        restored = {w.array for w in self.plan.undone}
        families = {self.values.family(a) for a in restored}
        touched = [a for a in self.program.kinds if self._at_root(a) and self.values.family(a) in families]
        return Adjoint(self.program, forward, lines.lines, seeds, gradients, touched)

    def _at_root(self, array: str) -> bool:
        """Whether an array exists when the forward sweep has ended."""
        if self.program.kinds[array].ndim is None:
            return False
        made = [n for n in self.values.nodes() if isinstance(n, New) and n.array == array]
        return all(n.block is self.values.root for n in made)

    # -- blocks -------------------------------------------------------------------------------------

    def _block(self, block: Block, lines: _Lines) -> None:
        """The reverse of a block: what was kept for it, then its items from the last to the first."""
        self._take_kept(block, lines)
        for item in reversed(self.plan.parts[block]):
            if isinstance(item, Segment):
                self._segment(item, lines)
            elif isinstance(item, Loop):
                self._loop(item, lines)
            elif isinstance(item, Branch):
                self._branch(item, lines)
            elif isinstance(item, Permute):
                self._permute(item, lines)
            elif isinstance(item, New) and item.fill is not None:
                self._fill(item, lines)

    def _take_kept(self, block: Block, lines: _Lines) -> None:
        root = block is self.values.root
        counter = self.forward.counters.get(block)
        if counter is not None:
            lines.put(f"{counter} -= 1")
        if not root:
            for value in [v for v, b in self.plan.kept.items() if b is block]:
                lines.put(f"{value.name} = {self.forward.field_of[value]}")
        again = [v for v, b in self.plan.again.items() if b is block and v not in self.plan.kept]
        for value in sorted(again, key=lambda v: v.node.order if v.node else 0):
            assert value.expression is not None
            lines.put(f"{value.name} = {expression_text(value.expression)}")
        if not root:
            for new in [n for n in block.nodes if isinstance(n, New)]:
                self._allocate(new, lines)

    def _allocate(self, new: New, lines: _Lines) -> None:
        """The arrays of one run of a block, and those of their derivatives."""
        kind = self.program.kinds[new.array]
        shape = "(" + "".join(f"{expression_text(n)}, " for n in new.shape) + ")"
        kept = self.forward.content_of.get(new)
        if kept is not None or any(w.array == new.array for w in self.plan.undone):
            lines.put(f"{new.array} = np.empty({shape}, np.{kind.dtype})")
        if kept is not None:
            name, counter = kept
            lines.put(f"{counter} -= {new.array}.size")
            lines.put(f"{new.array}[...] = {name}[{counter}:{counter} + {new.array}.size].reshape({shape})")
        if self.is_active(new.array):
            lines.put(f"{self.d(new.array)} = np.zeros({shape}, np.{kind.dtype})")

    def _fill(self, new: New, lines: _Lines) -> None:
        if self.is_active(new.array) and isinstance(new.fill, ast.Name) and new.fill.id in self.active:
            lines.add(new.fill.id, f"{self.d(new.array)}.sum()")

    def _permute(self, node: Permute, lines: _Lines) -> None:
        """The exchange backwards: the names in ``targets`` get what those in ``sources`` had."""
        lines.put(f"{', '.join(node.sources)} = {', '.join(node.targets)}")
        if self.is_active(node.targets[0]):
            lines.put(f"{', '.join(map(self.d, node.sources))} = {', '.join(map(self.d, node.targets))}")

    # -- loops and branches -------------------------------------------------------------------------

    def _loop(self, loop: Loop, lines: _Lines) -> None:
        carried = [c for c in loop.carried if c.start.name in self.active]
        body = _Lines(self.d)
        moves = [(c, self.unique("t")) for c in carried] if len(carried) > 1 else []
        for c, temporary in moves:
            body.put(f"{temporary} = {self.d(c.start.name)}", uses=[c.start.name])
        for c in carried:
            self._hand_back(c, dict(moves_of(moves)).get(c, ""), body)
        for c in carried:
            body.outer.add(c.start.name)
        self._block(loop.body, body)
        for c in carried:
            body.define(c.start.name)
        if not body.lines:
            return
        for c in carried:
            lines.move(c.start.name, c.final.name)
        lines.enter(body)
        for line in self._head(loop, lines):
            lines.put(line)
        lines.lines += [f"    {line}" for line in body.lines]
        if isinstance(self._head_index(loop), str):
            pass
        for c in carried:
            if c.first is not None and c.first.name in self.active:
                lines.add(c.first.name, self.d(c.start.name))

    def _hand_back(self, c: Carry, moved: str, body: _Lines) -> None:
        """What the iteration handed on has the derivative of what the next one began with."""
        seed = moved or self.d(c.start.name)
        if c.end is c.start:
            if moved:
                body.put(f"{self.d(c.start.name)} = {moved}")
            return
        if c.end is not None and c.end.name in self.active:
            body.add(c.end.name, seed)
        body.clear(c.start.name)

    def _head_index(self, loop: Loop) -> str | None:
        return loop.index.name if loop.index is not None else None

    def _head(self, loop: Loop, lines: _Lines) -> list[str]:
        """The loop's first line, with its iterations from the last to the first."""
        if loop.index is None:
            return [f"for _ in range({self._trips(loop, lines)}):"]
        start, stop, step = map(expression_text, loop.bounds)
        index = loop.index.name
        if not loop.counted and step in ("1", "-1"):
            one, back = ("-", "-1") if step == "1" else ("+", "1")
            last = f"range({_plus(stop, one)}, {_plus(start, one)}, {back})"
            return [f"for {index} in {last}:"]
        trips = self._trips(loop, lines) if loop.counted else f"len(range({start}, {stop}, {step}))"
        number = self.unique("k")
        value = f"{index} = {start} + {number} * ({step})" if step != "1" else f"{index} = {start} + {number}"
        return [f"for {number} in range({trips} - 1, -1, -1):", f"    {value}"]

    def _trips(self, loop: Loop, lines: _Lines) -> str:
        return self.forward.field_of[loop]

    def _branch(self, branch: Branch, lines: _Lines) -> None:
        sides = []
        for k, block in enumerate((branch.body, branch.orelse)):
            side = _Lines(self.d)
            for m in branch.merges:
                source = (m.yes, m.no)[k]
                if m.value.name in self.active and source is not None and source.name in self.active:
                    side.outer.add(m.value.name)
                    side.add(source.name, self.d(m.value.name))
            self._block(block, side)
            sides.append(side)
        self._put_sides(branch, sides, lines)

    def _put_sides(self, branch: Branch, sides: Sequence[_Lines], lines: _Lines) -> None:
        """``if test: ... else: ...``, then the merged values' derivatives are done with."""
        yes, no = sides
        if yes.lines or no.lines:
            for m in branch.merges:
                if m.value.name in self.active:
                    lines.define(m.value.name)
            own = {n for b in (branch.body, branch.orelse) for n in self._defined_in(b)}
            for side in sides:
                side.settle(own)
                lines.enter(side)
            test = expression_text(branch.test)
            if yes.lines:
                lines.put(f"if {test}:")
                lines.lines += [f"    {line}" for line in yes.lines]
            if no.lines:
                lines.put("else:" if yes.lines else f"if not {test}:")
                lines.lines += [f"    {line}" for line in no.lines]
        for m in branch.merges:
            if m.value.name in self.active:
                lines.clear(m.value.name)

    def _defined_in(self, block: Block) -> Iterable[str]:
        return (v.name for v in self.values.by_name.values() if block in v.block.ancestors())

    # -- segments -----------------------------------------------------------------------------------

    def _segment(self, segment: Segment, lines: _Lines) -> None:
        plan = self.plan
        within = {v for v in plan.within.get(segment, set()) if v not in plan.kept and v not in plan.again}
        early = within & plan.early.get(segment, set())
        lines.lines += self._again(segment, early, set())
        lines.lines += self._undo(segment, plan.undone, "saved")
        lines.lines += self._again(segment, within - early, plan.redone)
        lines.lines += self._undo(segment, plan.redone, "old")
        self._adjoint(segment, lines)

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
                lines += _if(expression_text(node.test), *sides)
        return lines

    def _old(self, write: Write) -> str:
        if not hasattr(self, "olds"):
            self.olds: dict[Write, str] = {}
        if write not in self.olds:
            self.olds[write] = self.unique("old")
        return self.olds[write]

    def _undo(self, nodes: Sequence[Node], chosen: set[Write], which: str) -> list[str]:
        """Puts memory back to what it was before the writes."""
        lines: list[str] = []
        for node in reversed(nodes):
            if isinstance(node, Write) and node in chosen:
                value = self._old(node) if which == "old" else self.forward.field_of[node]
                lines.append(f"{element(node.array, node.index)} = {value}")
            elif isinstance(node, Branch):
                sides = [self._undo(b.nodes, chosen, which) for b in (node.body, node.orelse)]
                lines += _if(expression_text(node.test), *sides)
        return lines

    def _adjoint(self, nodes: Sequence[Node], lines: _Lines) -> None:
        for node in reversed(nodes):
            if isinstance(node, Branch):
                sides = []
                for k, block in enumerate((node.body, node.orelse)):
                    side = _Lines(self.d)
                    for m in node.merges:
                        source = (m.yes, m.no)[k]
                        if m.value.name in self.active and source is not None and source.name in self.active:
                            side.outer.add(m.value.name)
                            side.add(source.name, self.d(m.value.name))
                    self._adjoint(block.nodes, side)
                    sides.append(side)
                self._put_sides(node, sides, lines)
            else:
                for step in self.plan.steps.get(node, ()):
                    self._step(step, lines)

    def _step(self, step: Step, lines: _Lines) -> None:
        if not isinstance(step, Clear):
            for name in read_by([step]):
                if name.startswith(self.prefix):
                    lines.define(name[len(self.prefix):])
        if isinstance(step, Let):
            lines.put(f"{step.name} = {expression_text(step.value)}")
        elif isinstance(step, Add) and step.index is not None:
            lines.put(f"{self.d(element(step.target, step.index))} += {expression_text(step.value)}")
        elif isinstance(step, Add):
            lines.add(step.target, expression_text(step.value))
        elif step.index is not None:
            lines.put(f"{self.d(element(step.target, step.index))} = 0.0")
        else:
            lines.clear(step.target)


class _Lines:
    """Lines of the reverse sweep, in which a derivative that is zero is not written down before it must be.

    The first thing that is added to it is then assigned. outer: names whose derivatives the lines around hold.
    """

    def __init__(self, d: object):
        self.d = d
        self.lines: list[str] = []
        self.set: set[str] = set()  # derivatives that these lines have assigned and that aren't zero again
        self.zero: set[str] = set()  # derivatives known to be zero and not assigned
        self.outer: set[str] = set()  # those that must have been assigned before these lines

    def put(self, line: str, uses: Sequence[str] = ()) -> None:
        self.outer.update(n for n in uses if n not in self.set)
        self.lines.append(line)

    def add(self, name: str, value: str) -> None:
        raise NotImplementedError

    def define(self, name: str) -> None:
        raise NotImplementedError

    def clear(self, name: str) -> None:
        raise NotImplementedError
