"""The checked form of a user's loop: each index is compared with its array's size before it is used.

Numba's own ``boundscheck=True`` says that an index is out of bounds, and neither which nor where. So in the checked
text ``x[i, j]`` reads ``x[_within(x, i, 0, 7), _within(x, j, 1, 8)]``, where 7 and 8 are the numbers of the two indices
in a list of places. ``_within`` (words/checked_index.py) returns the index or raises IndexError with these numbers.

Numba compares no index of ``x.flat`` with its size, and counts a negative one from before the array: here both are
refused.

What is left to Numba's check: slices (which never reach beyond an array), arrays as indices, indices after ``...``, and
arrays that only an expression with a call names.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

from jitgrad.kernels.words.syntax import copied

__all__ = ["Place", "checked_tree"]


class Place(NamedTuple):
    """Where an index stands: file, line and name of the function, the array, and the expression around the index."""

    file: str
    line: int
    function: str
    array: str
    expression: str


def checked_tree(tree: ast.FunctionDef, file: str, arrays: list[str], places: list[Place]) -> ast.FunctionDef:
    """The tree of a function with checks round its indices, whose places are added to ``places``.

    arrays: the parameters that can only be arrays or numbers, so that a constant index of them is one of an array. In
    other names it may be one of a tuple, whose type depends on its value.
    """
    tree = copied(tree)
    check = _Check(file, tree.name, arrays, places)
    tree.body = [check.visit(statement) for statement in tree.body]
    return ast.fix_missing_locations(tree)


class _Check(ast.NodeTransformer):
    def __init__(self, file: str, function: str, arrays: list[str], places: list[Place]):
        self.file, self.function, self.arrays, self.places = file, function, arrays, places

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        original = copied(node)
        self.generic_visit(node)
        flat = isinstance(original.value, ast.Attribute) and original.value.attr == "flat"
        base = original.value.value if flat else original.value  # type: ignore[attr-defined]
        # The array is evaluated twice, so it may only be a name or an item of one.
        if not _is_plain(base):
            return node
        if flat:
            place = self._place(original, base)
            node.slice = ast.Call(ast.Name("_within_flat", ast.Load()), [_as_operand(base), node.slice, place], [])
            return node
        array = _as_operand(original.value)
        indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        dimension, made = 0, list(indices)
        for k, index in enumerate(indices):
            if _is_constant(index, ...):
                break  # what follows counts from the last dimension
            if self._is_index(index, array):
                made[k] = self._call(original, array, index, dimension)
            dimension += not _is_constant(index, None)
        node.slice = ast.Tuple(made, ast.Load()) if isinstance(node.slice, ast.Tuple) else made[0]
        return node

    def _is_index(self, index: ast.expr, array: ast.expr) -> bool:
        if isinstance(index, (ast.Slice, ast.Starred)) or _is_constant(index, None):
            return False
        number = index.operand if isinstance(index, ast.UnaryOp) else index
        return not isinstance(number, ast.Constant) or (isinstance(array, ast.Name) and array.id in self.arrays)

    def _call(self, node: ast.Subscript, array: ast.expr, index: ast.expr, dimension: int) -> ast.Call:
        numbers = [ast.Constant(dimension), self._place(node, array)]
        return ast.Call(ast.Name("_within", ast.Load()), [copied(array), index, *numbers], [])

    def _place(self, node: ast.Subscript, array: ast.expr) -> ast.Constant:
        self.places.append(Place(self.file, node.lineno, self.function, ast.unparse(array), ast.unparse(node)))
        return ast.Constant(len(self.places) - 1)


def _is_plain(node: ast.expr) -> bool:
    if isinstance(node, ast.Subscript):
        return _is_plain(node.value) and not any(isinstance(n, ast.Call) for n in ast.walk(node.slice))
    return isinstance(node, ast.Name)


def _as_operand(node: ast.expr) -> ast.expr:
    """The expression as one that is read, its value's place in an assignment forgotten."""
    node = copied(node)
    node.ctx = ast.Load()  # type: ignore[attr-defined]
    return node


def _is_constant(node: ast.expr, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value
