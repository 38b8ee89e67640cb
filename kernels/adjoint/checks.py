"""A program whose indices are compared with sizes before they are used: for first calls, and for ``check=True``.

Errors name the place in the user's file.
"""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass, field

from jitgrad.kernels.adjoint import program as p
from jitgrad.kernels.adjoint.program import Program, Statement
from jitgrad.kernels.adjoint.write import expression_text, statement_lines
from jitgrad.kernels.words.syntax import copied

__all__ = ["Places", "checked_lines"]


@dataclass
class Places:
    """Where indices stand: the array, the expression and the line of each."""

    program: Program
    found: list[tuple[str, str, int]] = field(default_factory=list)

    def located(self, error: IndexError) -> IndexError:
        """The error of an index with its place in the user's file."""
        if len(error.args) != 4:
            return IndexError(f"{error} in {self.program.name} ({self.program.file})")
        place, index, dimension, size = error.args
        array, expression, line = self.found[place]
        text = self.program.source[line - 1].strip() if 0 < line <= len(self.program.source) else expression
        return IndexError(
            f"index {index} is out of bounds for dimension {dimension} with size {size} of {array!r}: "
            f"{text} in {self.program.name} ({self.program.file}:{line})"
        )


def checked_lines(program: Program) -> tuple[list[str], Places]:
    """The program's lines with checks, and where each stands."""
    places = Places(program)
    body = [_checked(s, places) for s in program.body]
    return statement_lines(body, program.kinds), places


def _checked(s: Statement, places: Places) -> Statement:
    made = copy.copy(s)
    check = _Check(places, s.line)
    for name, value in vars(s).items():
        if isinstance(value, ast.expr):
            setattr(made, name, check.visit(copied(value)))
    if isinstance(made, p.Store):
        whole = f"{made.array}[{', '.join(map(expression_text, made.index))}]"
        made.index = tuple(check.index(made.array, k, i, whole) for k, i in enumerate(made.index))
    elif isinstance(made, p.If):
        made.body, made.orelse = ([_checked(x, places) for x in b] for b in (made.body, made.orelse))
    elif isinstance(made, (p.For, p.While)):
        made.body = [_checked(x, places) for x in made.body]
    return made


class _Check(ast.NodeTransformer):
    def __init__(self, places: Places, line: int):
        self.places, self.line = places, line

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if not isinstance(node.value, ast.Name):
            return node
        whole, array = expression_text(node), node.value.id
        several = isinstance(node.slice, ast.Tuple)
        indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        made = [self.index(array, k, i, whole) for k, i in enumerate(indices)]
        node.slice = ast.Tuple(made, ast.Load()) if several else made[0]
        return node

    def index(self, array: str, dimension: int, index: ast.expr, whole: str) -> ast.expr:
        """The index, compared with the size of a dimension when it is computed."""
        self.places.found.append((array, whole, self.line))
        numbers = [ast.Constant(dimension), ast.Constant(len(self.places.found) - 1)]
        arguments = [ast.Name(array, ast.Load()), self.visit(copied(index)), *numbers]
        return ast.Call(ast.Name("_within", ast.Load()), arguments, [])
