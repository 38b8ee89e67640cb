"""A function whose last statement is a loop over ``numba.prange``, for threads: each runs a share of the rows.

Every thread runs the function from its start, with the bounds of its share in the place of the loop's. What rows write
into is joined row by row, what they add to is summed; and since gradients are linear in the seeds, so are they, if each
share gets the seeds of its own rows. Threads share what they read, and arrays that the caller gave to be written into,
each its own rows.

Rows must be independent for that, which `shares_of` reads off the text: a row writes into its own row of arrays, reads
no other row of these, and adds to scalars that begin with a constant. Of other functions, ``prange`` is ``range``.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace

from jitgrad.kernels.adjoint import program as p
from jitgrad.kernels.adjoint.program import For, Kind, Program, Statement
from jitgrad.kernels.words.syntax import copied, expression

__all__ = ["Shares", "shares_of"]


@dataclass
class Shares:
    """program: with two parameters more, the number of the share and of all, and two outputs more, its bounds.

    first: of scalar outputs that rows add to, what they begin with. rows: outputs that rows write into. Other outputs
    are the same in every share.
    """

    program: Program
    first: dict[str, float]
    rows: set[str]


def shares_of(program: Program) -> Shares | None:
    """The program in shares; None where its rows may depend on one another, or where it has none."""
    *before, loop = program.body or [p.Refuse(ast.Constant(False), "", "")]
    if not (isinstance(loop, For) and loop.rows and loop.leave is None and _is_one(loop.step)):
        return None
    if not (isinstance(loop.start, ast.Constant) and isinstance(loop.start.value, int) and loop.start.value >= 0):
        return None  # row -1 is the last one of an array, and another share's
    if any(isinstance(s, p.Store) and s.array in program.parameters for s in p.statements(before)):
        return None  # each thread would do so, and undo what rows of others have written
    inner = list(p.statements(loop.body))
    made = {s.array for s in inner if isinstance(s, p.Allocate)}
    written = {s.array for s in inner if isinstance(s, p.Store)} - made
    if any(isinstance(s, p.Exchange) for s in inner) or not _own_rows(inner, written, loop.index):
        return None
    first = _sums(before, loop, program)
    if first is None:
        return None
    return Shares(_program(program, before, loop), {n: v for n, v in first.items() if n in program.outputs},
                  {n for n in program.outputs if n in written})  # fmt: skip


def _program(program: Program, before: list[Statement], loop: For) -> Program:
    taken = set(program.kinds)
    names = []
    for base in ("part", "parts", "first_row", "last_row"):
        while base in taken:
            base += "_1"
        names.append(base)
    part, parts, low, high = names
    share = {low: f"start + max(stop - start, 0) * {part} // {parts}",
             high: f"start + max(stop - start, 0) * ({part} + 1) // {parts}"}  # fmt: skip
    bounds = {"start": loop.start, "stop": loop.stop}
    lines = [p.Assign(n, _Fill(bounds).visit(expression(e)), line=loop.line) for n, e in share.items()]
    mine = replace(loop, start=ast.Name(low, ast.Load()), stop=ast.Name(high, ast.Load()))
    kinds = {**program.kinds, **dict.fromkeys(names, Kind("int64"))}
    return replace(
        program, parameters=[*program.parameters, part, parts], outputs=[*program.outputs, low, high],
        body=[*before, *lines, mine], kinds=kinds, single=False,
    )  # fmt: skip


class _Fill(ast.NodeTransformer):
    def __init__(self, values: dict[str, ast.expr]):
        self.values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return copied(self.values[node.id]) if node.id in self.values else node


def _own_rows(inner: Sequence[Statement], written: set[str], index: str) -> bool:
    """Whether every use of an array that rows write into is of the row's own part."""
    for s in inner:
        if isinstance(s, p.Store) and s.array in written and not _starts_with(s.index, index):
            return False
        for e in _expressions(s):
            for node in ast.walk(e):
                if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in written:
                    indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
                    if not _starts_with(indices, index):
                        return False
    return True


def _sums(before: Sequence[Statement], loop: For, program: Program) -> dict[str, float] | None:
    """{scalar: what it begins with} of those that rows add to; None where a row hands on anything else."""
    defined = {s.target for s in p.statements(before) if isinstance(s, p.Assign)} | set(program.parameters)
    assigned = [s for s in p.statements(loop.body) if isinstance(s, p.Assign)]
    found: dict[str, float] = {}
    for s in assigned:
        if s.target not in defined:
            if s.target in program.outputs:
                return None  # its value behind the loop is that of the last row
            continue
        first = [b for b in p.statements(before) if isinstance(b, p.Assign) and b.target == s.target]
        known = len(first) == 1 and first[0] in before and isinstance(first[0].value, ast.Constant)
        if not known or not _adds(s) or not program.kinds[s.target].floating:
            return None
        found[s.target] = float(first[0].value.value)  # type: ignore[attr-defined]
    for inner in p.statements(loop.body):
        sums = isinstance(inner, p.Assign) and inner.target in found
        own = [_added(inner)] if sums else _expressions(inner)
        if any(isinstance(n, ast.Name) and n.id in found for e in own for n in ast.walk(e)):
            return None  # it depends on the rows before
    return found


def _adds(s: p.Assign) -> bool:
    """Whether the statement is ``s = s + e`` or ``s = s - e``."""
    e = s.value
    sums = isinstance(e, ast.BinOp) and isinstance(e.op, (ast.Add, ast.Sub))
    return sums and isinstance(e.left, ast.Name) and e.left.id == s.target  # type: ignore[attr-defined]


def _added(s: Statement) -> ast.expr:
    return s.value.right  # type: ignore[attr-defined]


def _expressions(s: Statement) -> list[ast.expr]:
    found = [v for v in vars(s).values() if isinstance(v, ast.expr)]
    for v in vars(s).values():
        if isinstance(v, tuple):
            found += [x for x in v if isinstance(x, ast.expr)]
    return found


def _starts_with(indices: Sequence[ast.expr], index: str) -> bool:
    first = indices[0] if indices else None
    return isinstance(first, ast.Name) and first.id == index


def _is_one(e: ast.expr) -> bool:
    return isinstance(e, ast.Constant) and e.value == 1
