"""Where in a program arrays are made and used."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import fields

from jitgrad.kernels.adjoint.program import Allocate, Assign, Exchange, Program, Statement, Store, blocks
from jitgrad.kernels.words.syntax import copied

__all__ = ["moving", "names_read", "roaming"]

Path = tuple[int, ...]  # the blocks around a statement, by the ids of their lists


def roaming(program: Program) -> set[str]:
    """Arrays whose names stand for more than one allocation, or outlive the block that allocates: ``x`` behind

        if c:
            x = np.zeros(3)
        else:
            x = np.ones(5)

    The reverse sweep can't make such an array, or its derivative, where its block begins.
    """
    made: dict[str, list[Path]] = defaultdict(list)
    used: dict[str, list[Path]] = defaultdict(list)
    exchanged: set[str] = set()
    for s, path in _with_paths(program.body, ()):
        if isinstance(s, Allocate):
            made[s.array].append(path)
        elif isinstance(s, Store):
            used[s.array].append(path)
        elif isinstance(s, Exchange):
            exchanged.update(s.targets)
        for name in names_read(s):
            used[name].append(path)
    for name in program.outputs:
        used[name].append(())
    found: set[str] = set()
    for array, paths in made.items():
        home = paths[0]
        leaves = array in exchanged or any(path[: len(home)] != home for path in used[array])
        if len(paths) > 1 or (home and leaves):
            found.add(array)
    return found


def _with_paths(body: Sequence[Statement], path: Path) -> Iterator[tuple[Statement, Path]]:
    for s in body:
        yield s, path
        for block in blocks(s):
            yield from _with_paths(block, (*path, id(block)))


def names_read(s: Statement) -> Iterator[str]:
    """All names in a statement's own expressions."""
    for f in fields(s):
        value = getattr(s, f.name)
        for e in value if isinstance(value, tuple) else (value,):
            if isinstance(e, ast.expr):
                yield from (n.id for n in ast.walk(e) if isinstance(n, ast.Name))


def moving(program: Program, families: dict[str, str]) -> set[str]:
    """Arrays whose sizes may change: those that roam, and those exchanged with arrays that may have other sizes."""
    found = roaming(program)
    shapes = _Shapes(program)
    members: dict[str, list[str]] = defaultdict(list)
    for array, family in families.items():
        members[family].append(array)
    for arrays in members.values():
        if found & set(arrays) or len({shapes.text(a) for a in arrays}) > 1:
            found |= set(arrays)
    return found


class _Shapes(ast.NodeTransformer):
    """Shapes of arrays by what is assigned once: sizes of other arrays, and variables."""

    def __init__(self, program: Program):
        assigns: dict[str, list[ast.expr]] = defaultdict(list)
        self.shapes: dict[str, list[tuple[ast.expr, ...]]] = defaultdict(list)
        for s, _ in _with_paths(program.body, ()):
            if isinstance(s, Assign):
                assigns[s.target].append(s.value)
            elif isinstance(s, Allocate):
                self.shapes[s.array].append(s.shape)
        self.once = {v: found[0] for v, found in assigns.items() if len(found) == 1 and v not in program.parameters}
        self.changing = {v for v, found in assigns.items() if len(found) > 1}

    def text(self, array: str) -> str:
        """The array's shape; a text of its own where it is not known."""
        found = self.shapes.get(array, [])
        if len(found) != 1:
            return array
        shape = [self.visit(copied(n)) for n in found[0]]
        changing = any(isinstance(n, ast.Name) and n.id in self.changing for e in shape for n in ast.walk(e))
        return array if changing else ", ".join(map(ast.unparse, shape))

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.visit(copied(self.once[node.id])) if node.id in self.once else node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        if isinstance(node.value, ast.Attribute) and isinstance(node.value.value, ast.Name):
            found = self.shapes.get(node.value.value.id, [])
            if len(found) == 1 and isinstance(node.slice, ast.Constant):
                return self.visit(copied(found[0][int(node.slice.value)]))  # type: ignore[arg-type]
        return node
