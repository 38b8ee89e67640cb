"""The text of a loop that does several elementwise launches, and sums of what they compute, at once.

The loop goes through memory in tiles. For each tile an inner loop computes all values of an element one after another,
as the rules of the launches say, so that a value that only the others need never leaves a register:

    for start in range(0, size, 512):
        a0_tile, o0_tile = a0[start : start + 512], o0[start : start + 512]
        for i in range(width):
            v0 = exp(a0_tile[i])
            v1 = v0 * s0
            o0_tile[i] = v1

LLVM makes vector loops of what can't overlap, and compares addresses first, which it gives up for more than a few
arrays. Then results are put into a buffer on the stack, and go on from there. Sums add the tile's elements in
the compute dtype and tiles in double precision, as ``sum_rows`` does (kernels/loops/reduction.py).
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jitgrad.kernels.codegen.emit_cpu import Argument, element, fill, scalar_type
from jitgrad.kernels.codegen.rule_text import INLINE, words_text
from jitgrad.kernels.codegen.rules import Rule
from jitgrad.kernels.words.syntax import expression, parse

__all__ = ["NAME", "FusedLoop", "Step", "fused_text", "statements"]

NAME = "fused"
# Bytes of buffers on the stack: a quarter of a first-level cache. 512 elements are a tenth quicker than 1,024.
_BUFFERS, _MOST_TILE = 1 << 13, 512


class Step(NamedTuple):
    """One launch of a fused loop.

    rules, arguments, out_dtypes, conjugate: as in `elementwise_text`. operands: for each argument that is no literal
    an expression of its value, in the compute dtype. results: names for what the rules compute.
    """

    rules: tuple[tuple[Rule, str], ...]
    arguments: tuple[Argument, ...]
    out_dtypes: tuple[str, ...]
    conjugate: bool
    operands: tuple[str, ...]
    results: tuple[str, ...]


# Lines that are one {name} become the lines of that piece; see `emit_cpu.fill`.
_FLAT = """\
def {name}({parameters}):
    {constants}
    {buffers}
    for start in range(0, {first}.size, {tile}):
        width = min({tile}, {first}.size - start)
        {tiles}
        for i in range(width):
            {loads}
            {body}
            {stores}
        {copies}
"""
_ROWS = """\
def {name}({parameters}):
    {constants}
    {buffers}
    for r in range({first}.shape[0]):
        {rows}
        {totals}
        for start in range(0, {first}.shape[1], {tile}):
            width = min({tile}, {first}.shape[1] - start)
            {tiles}
            for i in range(width):
                {loads}
                {body}
                {stores}
            {copies}
            {sums}
        {results}
"""
# Sums may be reordered, rules may not.
_TILE_SUM = (
    INLINE.replace('{"contract"}', '{"contract", "reassoc", "nsz"}')
    + """
def tile_sum(values, width):
    total = T(0)
    for i in range(width):
        total += values[i]
    return total
"""
)


class FusedLoop(NamedTuple):
    """What a fused loop does; arrays and values go by names.

    dtype: what all steps compute in. arrays: (array, the value that is read from it). once: the same, of arrays of one
    element. scalars: (argument, value) of numbers. stored: (array, value, its dtype); it may
    be one of those that are read. summed: (array of results, value, its dtype). Arrays are vectors, but with ``summed``
    matrices, of which that gets the sum of each row. rows and columns: (array, the value that is read from it) of
    vectors that every row, or every column, of such matrices meets element by element.
    """

    dtype: str
    steps: tuple[Step, ...]
    arrays: tuple[tuple[str, str], ...]
    once: tuple[tuple[str, str], ...]
    scalars: tuple[tuple[str, str], ...]
    stored: tuple[tuple[str, str, str], ...]
    summed: tuple[tuple[str, str, str], ...]
    rows: tuple[tuple[str, str], ...] = ()
    columns: tuple[tuple[str, str], ...] = ()

    @property
    def by_rows(self) -> bool:
        """Whether the arrays that the loop goes through are matrices."""
        return bool(self.summed or self.rows or self.columns)

    @property
    def walked(self) -> list[str]:
        """The arrays that the loop goes through, each once."""
        return list(dict.fromkeys([*(a for a, _ in self.arrays), *(a for a, _, _ in self.stored)]))

    @property
    def parameters(self) -> list[str]:
        """The names of the kernel's arguments, in order."""
        pairs = *self.once, *self.rows, *self.columns, *((a, v) for a, v, _ in self.summed), *self.scalars
        return [*self.walked, *(name for name, _ in pairs)]


def fused_text(loop: FusedLoop) -> str:
    """The text of the function ``fused`` that does what ``loop`` says."""
    body, words = [], set[str]()
    for number, step in enumerate(loop.steps):
        lines, called = statements(step, number, loop.dtype)
        body += lines
        words |= called
    direct = loop.stored if _compared(loop) <= _MOST_COMPARED else ()
    buffered = dict.fromkeys((v, kind) for a, v, kind in (*loop.stored, *loop.summed) if (a, v, kind) not in direct)
    tile, walked = _tile_size([kind for _, kind in buffered]), loop.walked
    cut = "{0}_row" if loop.by_rows else "{0}"
    pieces = {
        "constants": [f"{v} = {a}[0]" for a, v in loop.once] + [f"{v} = T({n})" for n, v in loop.scalars],
        "buffers": [f"{v}_tile = scratch({tile}, np.{scalar_type(kind)})" for v, kind in buffered],
        "rows": [f"{a}_row = {a}[r]" for a in walked] + [f"{v} = {a}[r]" for a, v in loop.columns],
        "totals": [f"{s}_total = np.float64(0)" for s, _, _ in loop.summed],
        "tiles": [f"{a}_tile = {cut.format(a)}[start : start + {tile}]" for a in walked]
        + [f"{a}_tile = {a}[start : start + {tile}]" for a, _ in loop.rows],
        "loads": [f"{v} = {a}_tile[i]" for a, v in (*loop.arrays, *loop.rows)],
        "body": body,
        "stores": [f"{a}_tile[i] = {v}" for a, v, _ in direct] + [f"{v}_tile[i] = {v}" for v, _ in buffered],
        "copies": [
            line for a, v, _ in loop.stored if not direct
            for line in ("for i in range(width):", f"    {a}_tile[i] = {v}_tile[i]")
        ],
        "sums": [f"{s}_total += tile_sum({v}_tile, width)" for s, v, _ in loop.summed],
        "results": [f"{s}[r] = {s}_total" for s, _, _ in loop.summed],
    }
    head = f"T = np.{scalar_type(loop.dtype)}\n{_TILE_SUM if loop.summed else ''}{words_text(words, loop.dtype)}\n"
    return head + fill(
        _ROWS if loop.by_rows else _FLAT, pieces, name=NAME, parameters=", ".join(loop.parameters), first=walked[0],
        tile=str(tile),
    )  # fmt: skip


# Pairs of addresses that LLVM compares before a vector loop; more, and it makes none.
_MOST_COMPARED = 8


def _compared(loop: FusedLoop) -> int:
    """Pairs of arrays one of which is stored to."""
    stored = {a for a, _, _ in loop.stored}
    pairs = itertools.combinations([*loop.walked, *(a for a, _ in loop.rows)], 2)
    return sum(a in stored or b in stored for a, b in pairs)


def _tile_size(kinds: Sequence[str]) -> int:
    """Elements of a tile, given the dtypes of what is buffered."""
    size = _MOST_TILE
    while size > 128 and size * sum(np.dtype(kind).itemsize for kind in kinds) > _BUFFERS:
        size //= 2
    return size


class _Rename(ast.NodeTransformer):
    def __init__(self, names: dict[str, ast.expr]):
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.names.get(node.id, node)


def statements(step: Step, number: int, dtype: str) -> tuple[list[str], set[str]]:
    """(lines that compute a step's results from its operands, the words that they call)."""
    body, values, words = element(step.rules, step.arguments, step.out_dtypes, dtype, step.conjugate)
    results = [
        f"{name} = np.{scalar_type(kind)}({value})"
        for name, kind, value in zip(step.results, step.out_dtypes, values, strict=True)
    ]
    tree = parse("\n".join([*body, *results]))
    names: dict[str, ast.expr] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id not in step.results:
            names[node.id] = ast.Name(f"{node.id}_{number}", node.ctx)
    given = [a for a in step.arguments if a.kind != "literal"]
    names |= {a.name: expression(operand) for a, operand in zip(given, step.operands, strict=True)}
    return ast.unparse(ast.fix_missing_locations(_Rename(names).visit(tree))).splitlines(), words
