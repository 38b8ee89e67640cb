"""A user's function as it was written: its syntax tree, its file, and what the names in it mean."""

from __future__ import annotations

import ast
import builtins
import types
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from jitgrad.kernels.words.syntax import SourceError, definition, lines_around

__all__ = ["MISSING", "Routine", "assigned_names", "calls_into", "shortened"]

MISSING = object()
# As they were at the declaration: a file may be edited while a process runs what it was.
_lines: WeakKeyDictionary[Callable[..., Any], list[str]] = WeakKeyDictionary()


class Routine:
    """One function of the user's."""

    def __init__(self, function: Callable[..., Any]):
        function = plain_function(function)
        self.function, self.name = function, function.__name__
        self.file = function.__code__.co_filename
        if function not in _lines:
            _lines[function] = lines_around(function)
        self.lines = _lines[function]
        self.tree = definition(function, "differentiable function", self.lines)
        arguments = self.tree.args
        self.parameters = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        self.locals = {*self.parameters, *assigned_names(self.tree.body)}
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        self._cells = dict(cells)

    def defaults(self) -> dict[str, Any]:
        """{parameter: its default}."""
        positional = self.function.__defaults__ or ()
        names = self.parameters[: self.function.__code__.co_argcount]
        pairs = dict(zip(names[len(names) - len(positional) :], positional, strict=True))
        return {**pairs, **(self.function.__kwdefaults__ or {})}

    def meaning(self, name: str) -> Any:
        """What a name that is not local stands for; MISSING if it is not defined."""
        if name in self._cells:
            try:
                return self._cells[name].cell_contents
            except ValueError:  # a function that is defined further down
                return MISSING
        return self.function.__globals__.get(name, getattr(builtins, name, MISSING))

    def resolve(self, node: ast.expr) -> Any:
        """The object that ``np.linalg.norm`` or ``helper`` stands for; MISSING for what is no such path."""
        if isinstance(node, ast.Name):
            return MISSING if node.id in self.locals else self.meaning(node.id)
        if isinstance(node, ast.Attribute):
            owner = self.resolve(node.value)
            return getattr(owner, node.attr, MISSING) if isinstance(owner, types.ModuleType) else MISSING
        return MISSING

    def fault(self, node: ast.AST | int, what: str) -> SourceError:
        """The error that names this function and the line of ``node``."""
        line = node if isinstance(node, int) else getattr(node, "lineno", self.tree.lineno)
        return SourceError(f"{self.name} {what} ({self.file}:{line})")


def plain_function(function: Any) -> Callable[..., Any]:
    """The Python function that a compiled one was made from."""
    return getattr(function, "py_func", function)


def calls_into(value: Any) -> bool:
    """Whether a call of the object can be written out: a function of Python's, or one compiled from it."""
    return isinstance(plain_function(value), types.FunctionType)


def assigned_names(body: list[ast.stmt]) -> set[str]:
    """The names that statements assign to."""
    nodes = (n for s in body for n in ast.walk(s))
    return {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, (ast.Store, ast.Del))}


def shortened(node: ast.AST, limit: int = 60) -> str:
    """The text of a construct on one line."""
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= limit else text[: limit - 3] + "..."
