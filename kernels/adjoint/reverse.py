"""The reverse sweep: the program's statements from the last to the first, each handing derivatives to what it read.

``adjoint_of`` gives both sweeps as lines of Python. In the reverse sweep ``d_x`` is the derivative of the result in
``x``; each block begins with the values that were kept for it, each segment with those that it computes again.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from jitgrad.kernels.adjoint.activity import active_names
from jitgrad.kernels.adjoint.checkpoint import Stretches, entry_values, long_loops
from jitgrad.kernels.adjoint.choice import chosen_plan
from jitgrad.kernels.adjoint.forward import Forward
from jitgrad.kernels.adjoint.gather import Gather, gathers
from jitgrad.kernels.adjoint.plan import Segment
from jitgrad.kernels.adjoint.program import Program
from jitgrad.kernels.adjoint.pullback import Add, Let, Pullback, Step
from jitgrad.kernels.adjoint.rows import straight_loops
from jitgrad.kernels.adjoint.split import Split
from jitgrad.kernels.adjoint.ssa import (
    Block,
    Branch,
    Carry,
    Define,
    Loop,
    New,
    Node,
    Permute,
    Value,
    Values,
    Write,
)  # fmt: skip
from jitgrad.kernels.adjoint.to_ssa import values_of
from jitgrad.kernels.adjoint.write import element, expression_text, range_text

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


def adjoint_of(program: Program, wanted: Collection[str], states: int | None = None) -> Adjoint:
    """The sweeps for derivatives of the program's outputs in the parameters ``wanted``.

    states: how many states of a long loop are kept, from which its iterations are run again; 0 for the root of their
    number, None where whatever iterations need is kept.
    """
    return _Reverse(program, wanted, states).adjoint()


class _Reverse:
    def __init__(self, program: Program, wanted: Collection[str], states: int | None):
        self.program, self.wanted = program, list(wanted)
        self.values: Values = values_of(program)
        self.taken = {*program.kinds, *self.values.by_name}
        self.prefix = next(p for p in ("d_", "dd_", "ddd_", "grad_", "adjoint_of_")
                           if not any(n.startswith(p) for n in self.taken))  # fmt: skip
        self.active = active_names(self.values, wanted)
        self.inverses: dict[str, str] = {}  # by the name of a divisor
        self.divisors: dict[Node, dict[Value, None]] = {}  # of nodes, those of their own segment
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
        self.olds: dict[Write, str] = {}

    def _stretches(self, states: int | None) -> list[Stretches]:
        loops = [x for x in long_loops(self.values) if x.body in self.plan.reached] if states is not None else []
        for loop in loops:
            for value in entry_values(loop).values():
                self.plan.need(value, None)
        return [Stretches(self.values, loop, states or 0, self.unique) for loop in loops]

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

    def adjoint(self) -> Adjoint:
        """Both sweeps and the names around them."""
        forward = self.forward.lines()
        seeds: dict[str, str] = {}
        lines: list[str] = []
        for array, kind in self.program.kinds.items():
            if kind.ndim is None or not self.is_active(array) or not self._at_root(array):
                continue
            if array in self.program.outputs:
                seeds[array] = self.unique(f"seed_{array}")
                lines.append(f"{self.d(array)} = {seeds[array]}.copy()")
            else:
                lines.append(f"{self.d(array)} = np.zeros_like({array})")
        zeros = self._zeros(self.values.root)
        seeded: list[str] = []
        for output, value in self.values.results.items():
            if value.name in self.active:
                seeds[output] = self.unique(f"seed_{output}")
                seeded.append(f"{self.d(value.name)} += {seeds[output]}")
        gradients: dict[str, str | None] = {}
        for name in self.wanted:
            known = name in self.active or self.is_active(name)
            gradients[name] = self.d(name) if known else None
            if known and name in self.values.by_name:
                zeros.append(f"{self.d(name)} = 0.0")
        lines += [f"{row} = np.empty(0)" for split in self.splits.values() for row in split.rows]
        inverses = [f"{self.inverses[name]} = 1.0 / {name}" for name in self.everywhere]
        lines += [*inverses, *zeros, *seeded, *self._block(self.values.root)]
        families = {self.values.family(w.array) for w in self.plan.undone}
        families |= {self.values.family(n.array) for n in self.plan.replaced}
        families |= {self.values.family(a) for s in self.stretches.values() for a in s.arrays}
        touched = [a for a in self.program.kinds if self._at_root(a) and self.values.family(a) in families]
        return Adjoint(self.program, forward, _tidy(lines), seeds, gradients, touched)

    def _at_root(self, array: str) -> bool:
        """Whether an array exists when the forward sweep has ended."""
        if self.program.kinds[array].ndim is None:
            return False
        made = [n for n in self.values.nodes() if isinstance(n, New) and n.array == array]
        return array in self.values.roaming or all(n.block is self.values.root for n in made)

    # -- blocks -------------------------------------------------------------------------------------

    def _block(self, block: Block) -> list[str]:
        """The reverse of a block: what was kept for it, then its items from the last to the first."""
        lines = self._taken(block)
        for item in reversed(self.plan.parts[block]):
            if isinstance(item, Segment):
                lines += self._segment(item)
            elif isinstance(item, Loop):
                lines += self._loop(item)
            elif isinstance(item, Branch):
                lines += self._branch(item)
            elif isinstance(item, Permute):
                lines += self._permute(item) if item in self.plan.exchanges else []
            elif isinstance(item, New):
                lines += self._new(item)
        return lines

    def _zeros(self, block: Block) -> list[str]:
        """Derivatives of the values that a block defines, before anything is added to them."""
        own = [v for v in self.values.by_name.values() if v.name in self.active and v.block.holder() is block]
        return [f"{self.d(v.name)} = 0.0" for v in own if v.role in ("defined", "merged", "final")]

    def _with_zeros(self, block: Block, lines: list[str]) -> list[str]:
        used = set(re.findall(r"\w+", "\n".join(lines)))
        return _tidy([*(z for z in self._zeros(block) if z.split()[0] in used), *lines])

    def _taken(self, block: Block) -> list[str]:
        """The values that were kept for a run of a block, or are computed again for all of it."""
        lines = []
        counter = self.forward.counters.get(block)
        if counter is not None and block not in self.splits:
            lines.append(f"{counter} -= 1")
        root = block is self.values.root
        if not root:
            for value in [v for v, b in self.plan.kept.items() if b is block]:
                lines.append(f"{value.name} = {self.kept(value, block)}")
        again = {v.node: v for v, b in self.plan.again.items() if b is block and v not in self.plan.kept}
        news = [n for n in block.nodes if isinstance(n, New) and n.array not in self.values.roaming and not root]
        # Sizes are ahead of the arrays that have them, and these ahead of their elements.
        for node in sorted([n for n in (*again, *news) if n is not None], key=lambda n: n.order):
            if isinstance(node, New):
                lines += self._allocated(node)
            else:
                value = again[node]
                assert value.expression is not None
                lines.append(f"{value.name} = {expression_text(value.expression)}")
        return lines

    def _allocated(self, new: New) -> list[str]:
        """An array of one run of a block, and that of its derivatives."""
        lines = []
        kind = self.program.kinds[new.array]
        shape = "(" + "".join(f"{expression_text(n)}, " for n in new.shape) + ")"
        kept = self.forward.content_of.get(new)
        if kept is not None:
            name, counter = kept
            lines.append(f"{new.array} = np.empty({shape}, np.{kind.dtype})")
            lines.append(f"{counter} -= {new.array}.size")
            lines.append(f"{new.array}[...] = {name}[{counter}:{counter} + {new.array}.size].reshape({shape})")
        if self.is_active(new.array):
            lines.append(f"{self.d(new.array)} = np.zeros({shape}, np.{kind.dtype})")
        return lines

    def _new(self, new: New) -> list[str]:
        """What an array was filled with gets its derivative; a roaming array's name gets back what it stood for."""
        lines = []
        array, kind = new.array, self.program.kinds[new.array]
        if isinstance(new.fill, ast.Name) and new.fill.id in self.active and self.is_active(array):
            lines.append(f"{self.d(new.fill.id)} += {self.d(array)}.sum()")
        if new in self.plan.replaced:
            sizes, at, name, counter = self.forward.replaced[array]
            ndim = kind.ndim or 0
            shape = "(" + "".join(f"{sizes}[{at} + {k}], " for k in range(ndim)) + ")"
            lines += [
                f"{at} -= {ndim}",
                f"{array} = np.empty({shape}, np.{'bool_' if kind.dtype == 'bool' else kind.dtype})",
                f"{counter} -= {array}.size",
                f"{array}[...] = {name}[{counter}:{counter} + {array}.size].reshape({shape})",
            ]
            if self.is_active(array):
                lines.append(f"{self.d(array)} = np.zeros({shape}, np.{kind.dtype})")
        return lines

    def _permute(self, node: Permute) -> list[str]:
        """The exchange backwards: the names in ``sources`` get what those in ``targets`` have."""
        lines = [f"{', '.join(node.sources)} = {', '.join(node.targets)}"]
        if self.is_active(node.targets[0]):
            lines.append(f"{', '.join(map(self.d, node.sources))} = {', '.join(map(self.d, node.targets))}")
        return lines

    # -- loops and branches -------------------------------------------------------------------------

    def _loop(self, loop: Loop) -> list[str]:
        carried = [c for c in loop.carried if self.active & {c.start.name, c.final.name}]
        if loop.body not in self.plan.reached:
            return []
        body = self._with_zeros(loop.body, [*self._hand_back(carried), *self._block(loop.body)])
        if not body:
            return []
        lines = []
        for c in carried:
            final = self.d(c.final.name) if c.final.name in self.active else "0.0"
            lines.append(f"{self.d(c.start.name)} = {final}")
        if loop in self.stretches:
            lines += self.stretches[loop].reverse(self.forward.iteration(loop), body)
        elif loop in self.straight:
            lines += self.splits[loop.body].lines(body)
        elif loop.body in self.gathers:
            lines += self.gathers[loop.body].around([*self._head(loop), *_indented(body)])
        else:
            lines += [*self._head(loop), *_indented(body)]
        for c in carried:
            if c.first is not None and c.first.name in self.active:
                lines.append(f"{self.d(c.first.name)} += {self.d(c.start.name)}")
        return lines

    def _hand_back(self, carried: Sequence[Carry]) -> list[str]:
        """What an iteration hands on has the derivative of what the next one begins with."""
        carried = [c for c in carried if c.end is not c.start]
        starts = {c.start for c in carried}
        moved = {c: self.d(c.start.name) for c in carried}
        lines: list[str] = []
        if any(c.end in starts for c in carried):  # as in a, b = b, a + b
            moved = {c: self.unique("t") for c in carried}
            lines += [f"{t} = {self.d(c.start.name)}" for c, t in moved.items()]
            lines += [f"{self.d(c.start.name)} = 0.0" for c in carried]
            return [*lines, *self._to_ends(moved)]
        lines += self._to_ends(moved)
        return [*lines, *(f"{self.d(c.start.name)} = 0.0" for c in carried)]

    def _to_ends(self, moved: dict[Carry, str]) -> list[str]:
        ends = [(c.end, t) for c, t in moved.items() if c.end is not None and c.end.name in self.active]
        return [f"{self.d(end.name)} += {t}" for end, t in ends]

    def kept(self, key: Value | Write, block: Block) -> str:
        """Where the reverse sweep finds what a block has kept."""
        if block in self.splits:
            return f"{self.forward.rows[block][key][0]}[{self.splits[block].place}]"
        return self.forward.counted.get(key) or self.forward.field_of[key]

    def _head(self, loop: Loop) -> list[str]:
        """The loop's first line, with its iterations from the last to the first."""
        if loop.index is None:
            return [f"for _ in range({self.forward.field_of[loop]}):"]
        start, stop, step = map(expression_text, loop.bounds)
        index = loop.index.name
        if not loop.counted and step in ("1", "-1"):
            by, back = (-1, -1) if step == "1" else (1, 1)
            last, end = (_plus(loop.bounds[k], by) for k in (1, 0))
            return [f"for {index} in {range_text(last, end, ast.Constant(back))}:"]
        trips = self.forward.field_of[loop] if loop.counted else f"len(range({start}, {stop}, {step}))"
        number = self.unique("k")
        place = number if step == "1" else f"{number} * ({step})"
        place = place if start == "0" else f"{start} + {place}"
        return [f"for {number} in range({trips} - 1, -1, -1):", f"    {index} = {place}"]

    def _branch(self, branch: Branch) -> list[str]:
        sides = []
        for k, block in enumerate((branch.body, branch.orelse)):
            inner = self._block(block) if block in self.plan.reached else []
            sides.append(self._with_zeros(block, [*self._from_merges(branch, k), *inner]))
        return _if(expression_text(branch.test), *sides)

    def _from_merges(self, branch: Branch, side: int) -> list[str]:
        """Derivatives of the values behind a branch, handed to those of one side."""
        pairs = [(m.value, (m.yes, m.no)[side]) for m in branch.merges if m.value.name in self.active]
        return [f"{self.d(s.name)} += {self.d(v.name)}" for v, s in pairs if s is not None and s.name in self.active]

    # -- segments -----------------------------------------------------------------------------------

    def _segment(self, segment: Segment) -> list[str]:
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
                lines += _if(expression_text(node.test), *sides)
        return lines

    def tidy(self, lines: list[str]) -> list[str]:
        """The lines without what they don't need."""
        return _tidy(lines)

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
                lines += _if(expression_text(node.test), *sides)
        return lines

    def _adjoint(self, nodes: Sequence[Node]) -> list[str]:
        lines: list[str] = []
        for node in reversed(nodes):
            if isinstance(node, Branch):
                sides = [[*self._from_merges(node, k), *self._adjoint(block.nodes)]
                         for k, block in enumerate((node.body, node.orelse))]  # fmt: skip
                lines += _if(expression_text(node.test), *sides)
            else:
                made = [line for step in self.plan.steps.get(node, ())
                          for line in self._step(step, node.block.holder())]  # fmt: skip
                lines += [*self._quoted(node), *made] if made else []
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


def _if(test: str, yes: Sequence[str], no: Sequence[str]) -> list[str]:
    lines: list[str] = []
    if yes:
        lines += [f"if {test}:", *_indented(yes)]
    if no:
        lines += ["else:" if yes else f"if not {test}:", *_indented(no)]
    return lines


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _plus(e: ast.expr, one: int) -> ast.expr:
    """e + one, as written by hand."""
    if isinstance(e, ast.UnaryOp) and isinstance(e.op, ast.USub) and isinstance(e.operand, ast.Constant):
        e = ast.Constant(-e.operand.value)  # type: ignore[operator]
    if isinstance(e, ast.Constant) and isinstance(e.value, int):
        return ast.Constant(e.value + one)
    if isinstance(e, ast.BinOp) and isinstance(e.op, (ast.Add, ast.Sub)) and isinstance(e.right, ast.Constant):
        if isinstance(e.right.value, int):
            total = (e.right.value if isinstance(e.op, ast.Add) else -e.right.value) + one
            sign: ast.operator = ast.Add() if total > 0 else ast.Sub()
            return ast.BinOp(e.left, sign, ast.Constant(abs(total))) if total else e.left
    return ast.BinOp(e, ast.Add() if one > 0 else ast.Sub(), ast.Constant(1))


_ZERO = re.compile(r"( *)(\w+) = 0\.0$")


def _tidy(lines: list[str]) -> list[str]:
    """The lines with the first thing that is added to a zero assigned in its place, and no zeros that nobody reads."""
    kept: list[str | None] = list(lines)
    for k, line in enumerate(lines):
        if found := _ZERO.match(line):
            _merge_zero(kept, k, found[1], found[2])
    return [line for line in kept if line is not None]


def _merge_zero(lines: list[str | None], at: int, indent: str, name: str) -> None:
    word = re.compile(rf"\b{name}\b")
    for k in range(at + 1, len(lines)):
        line = lines[k]
        if line is None:
            continue
        if len(line) - len(line.lstrip()) < len(indent):
            return  # what follows may read it, in another iteration
        if word.search(line):
            start = f"{indent}{name} += "
            if line.startswith(start) and not word.search(line[len(start):]):
                lines[k] = f"{indent}{name} = {line[len(start):]}"
                lines[at] = None
            return
