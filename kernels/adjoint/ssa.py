"""A program in which every scalar has one definition: what the analyses and the reverse sweep work on.

A `Value` is what one assignment gives to a variable. Where paths meet there are values of their own: behind a branch
(`Merge`), and for what a loop's iterations hand on (`Carry`). Loads of elements, and calls of functions that cost
something, are values too, so that each is computed, kept or reversed once however large the expression around it.

Expressions name values. The program's own statements, by which the forward sweep is written, are kept beside them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from jitgrad.kernels.adjoint.program import Kind, Program, Statement

__all__ = [
    "Block", "Branch", "Carry", "Define", "Loop", "Merge", "New", "Node", "Permute", "Value", "Values", "Write",
    "index_of", "inner_blocks", "loaded", "names",
]  # fmt: skip


@dataclass(eq=False)
class Value:
    """What one definition gives.

    role: "parameter", "defined" by its expression, "merged" behind a branch, a loop's "index", what is "carried" into
    an iteration, or "final" behind a loop. now: an expression of the program's own variables for it, true where it has
    just been defined (of a temporary: ahead of its statement).
    """

    name: str
    kind: Kind
    role: str
    block: Block
    now: ast.expr
    expression: ast.expr | None = None
    temporary: bool = False
    node: Node | None = None


@dataclass(eq=False)
class Node:
    """What the reverse sweep goes through one by one; order: its place in the text."""

    origin: Statement
    block: Block
    order: int


@dataclass(eq=False)
class Define(Node):
    """A value from an expression."""

    value: Value


@dataclass(eq=False)
class Write(Node):
    """An element that is written, or added to."""

    array: str
    index: tuple[ast.expr, ...]
    amount: ast.expr
    increment: bool


@dataclass(eq=False)
class New(Node):
    """An array that is allocated."""

    array: str
    shape: tuple[ast.expr, ...]
    fill: ast.expr | None


@dataclass(eq=False)
class Permute(Node):
    """Arrays whose names are exchanged."""

    targets: tuple[str, ...]
    sources: tuple[str, ...]


@dataclass(eq=False)
class Merge:
    """``value`` is ``yes`` behind the branch's body and ``no`` behind the other; None where a path defines none."""

    value: Value
    yes: Value | None
    no: Value | None


@dataclass(eq=False)
class Branch(Node):
    """if test. simple: neither loops nor allocations are within."""

    test: ast.expr
    body: Block
    orelse: Block
    merges: list[Merge] = field(default_factory=list)
    simple: bool = True


@dataclass(eq=False)
class Carry:
    """A variable of a loop: ``start`` in its iteration, ``end`` behind the body; first is the one before the loop."""

    start: Value
    first: Value | None
    end: Value | None
    final: Value


@dataclass(eq=False)
class Loop(Node):
    """A for or while loop; index is None for while. counted: whether only running it tells how often its body runs."""

    index: Value | None
    bounds: tuple[ast.expr, ...]
    body: Block
    carried: list[Carry] = field(default_factory=list)
    counted: bool = False
    entry: dict[str, Value] = field(default_factory=dict)  # the values of variables ahead of it


@dataclass(eq=False)
class Block:
    """Nodes in order. owner: the loop or branch that it is a part of; simple: whether of a simple branch."""

    parent: Block | None
    owner: Node | None = None
    nodes: list[Node] = field(default_factory=list)
    simple: bool = False

    def ancestors(self) -> Iterator[Block]:
        """This block and those around it, innermost first."""
        block: Block | None = self
        while block is not None:
            yield block
            block = block.parent

    def holder(self) -> Block:
        """The block that runs as a whole: this one, or that around the simple branches that it is in."""
        return next(b for b in self.ancestors() if not b.simple)

    def loops(self) -> list[Loop]:
        """The loops around, innermost first."""
        return [b.owner for b in self.ancestors() if isinstance(b.owner, Loop)]


@dataclass(eq=False)
class Values:
    """A program's values: by name, the root block, and what the scalar outputs are at its end.

    families: for arrays whose names are exchanged with others' one name for all of these. roaming, moving: see `lives`.
    """

    program: Program
    root: Block
    by_name: dict[str, Value]
    results: dict[str, Value]
    families: dict[str, str]
    roaming: set[str]
    moving: set[str]

    def family(self, array: str) -> str:
        """The name of the arrays that may have this one's memory."""
        return self.families.get(array, array)

    def nodes(self, block: Block | None = None) -> Iterator[Node]:
        """All nodes within a block, in the order of the text."""
        for node in (block or self.root).nodes:
            yield node
            for inner in inner_blocks(node):
                yield from self.nodes(inner)


def inner_blocks(node: Node) -> tuple[Block, ...]:
    """The blocks that are parts of a node."""
    if isinstance(node, Branch):
        return node.body, node.orelse
    return (node.body,) if isinstance(node, Loop) else ()


def names(expression: ast.expr | None) -> list[str]:
    """The names of values in an expression; those of arrays and functions are none."""
    if expression is None:
        return []
    if isinstance(expression, ast.Name):
        return [expression.id]
    if isinstance(expression, ast.Call):
        return [n for a in expression.args for n in names(a)]
    if isinstance(expression, ast.Subscript):
        return names(expression.slice) if isinstance(expression.value, ast.Name) else []
    return [n for child in ast.iter_child_nodes(expression) if isinstance(child, ast.expr) for n in names(child)]


def loaded(value: Value) -> ast.Subscript | None:
    """The element that a value is loaded from."""
    e = value.expression
    return e if isinstance(e, ast.Subscript) and isinstance(e.value, ast.Name) else None


def index_of(element: ast.Subscript) -> tuple[ast.expr, ...]:
    """The indices of ``A[i, j]``."""
    return tuple(element.slice.elts) if isinstance(element.slice, ast.Tuple) else (element.slice,)
