"""The reverse sweep: the program's statements from the last to the first, each handing derivatives to what it read.

``adjoint_of`` gives both sweeps as lines of Python. In the reverse sweep ``d_x`` is the derivative of the result in
``x``; each block begins with the values that were kept for it, each segment with those that it computes again.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Sequence

from jitgrad.kernels.adjoint.functions import Adjoint
from jitgrad.kernels.adjoint.plan import Segment
from jitgrad.kernels.adjoint.program import Program
from jitgrad.kernels.adjoint.ssa import Block, Branch, Carry, Loop, New, Permute
from jitgrad.kernels.adjoint.sweep import Sweep
from jitgrad.kernels.adjoint.tidy import if_lines, indented, tidy
from jitgrad.kernels.adjoint.write import expression_text, range_text

__all__ = ["adjoint_of"]


def adjoint_of(program: Program, wanted: Collection[str], states: int | None = None) -> Adjoint:
    """The sweeps for derivatives of the program's outputs in the parameters ``wanted``.

    states: for how many states of a long loop there is room, from which its iterations are run again; 0 for the root of
    their number, None where whatever iterations need is kept.
    """
    return _Reverse(program, wanted, states).adjoint()


class _Reverse(Sweep):
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
        lines += [f"{row} = np.zeros(0, np.float64)" for split in self.splits.values() for row in split.rows]
        inverses = [f"{self.inverses[name]} = 1.0 / {name}" for name in self.everywhere]
        lines += [*inverses, *zeros, *seeded, *self._block(self.values.root)]
        families = {self.values.family(w.array) for w in self.plan.undone}
        families |= {self.values.family(n.array) for n in self.plan.replaced}
        families |= {self.values.family(a) for s in self.stretches.values() for a in s.arrays}
        touched = [a for a in self.program.kinds if self._at_root(a) and self.values.family(a) in families]
        touched += [a for s in self.stretches.values() for a in s.changed()]
        return Adjoint(self.program, forward, tidy(lines), seeds, gradients, touched)

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
                lines += self.segment(item)
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
        return tidy([*(z for z in self._zeros(block) if z.split()[0] in used), *lines])

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
        # In the order of the text: a size, the array of that size, a value that is loaded from it.
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
            lines += self.gathers[loop.body].around([*self._head(loop), *indented(body)])
        elif loop in self.upward:
            lines += self.upward[loop].around(body)
        else:
            lines += [*self._head(loop), *indented(body)]
        lines += [line for split in self.splits.values() for line in split.totals(loop)]
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
            sides.append(self._with_zeros(block, [*self.from_merges(branch, k), *inner]))
        return if_lines(expression_text(branch.test), *sides)


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
