"""A user's function as it was written: its syntax tree, its file, and what the names in it mean."""

from __future__ import annotations

import ast
import builtins
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from jitgrad.kernels.words.syntax import SourceError, definition, lines_around

__all__ = [
    "MISSING", "Routine", "assigned_names", "calls_into", "found_by", "lines_of", "plain_function", "recorded",
    "shortened",
]  # fmt: skip

MISSING = object()
# As they were at the declaration: a file may be edited while a process runs what it was.
_lines: WeakKeyDictionary[Callable[..., Any], list[str]] = WeakKeyDictionary()


Meanings = dict[Callable[..., Any], dict[str, Any]]  # by function what the dotted names in it stood for


class _Recording(threading.local):
    """seen: what names stood for, since recording began. given: what they stand for, whatever they do now."""

    seen: Meanings | None = None
    given: Meanings = {}


_recording = _Recording()


@contextmanager
def recorded(given: Meanings | None = None) -> Iterator[Meanings]:
    """The functions that are read meanwhile, and what names in them stand for; ``given``: meanings of some."""
    before = _recording.seen, _recording.given
    seen: Meanings = {}
    _recording.seen, _recording.given = seen, given or {}
    try:
        yield seen
    finally:
        _recording.seen, _recording.given = before


def lines_of(function: Callable[..., Any]) -> list[str]:
    """The lines of a function's file, as they were when they were first asked for."""
    if function not in _lines:
        _lines[function] = lines_around(function)
    return _lines[function]


def found_by(function: Callable[..., Any], path: str) -> Any:
    """What a dotted name that is not local stands for in a function; MISSING if it is not defined."""
    name, *attributes = path.split(".")
    code, value = function.__code__, function.__globals__.get(name, getattr(builtins, name, MISSING))
    if name in code.co_freevars:
        try:
            value = function.__closure__[code.co_freevars.index(name)].cell_contents  # type: ignore[index]
        except ValueError:  # a function that is defined further down
            value = MISSING
    for attribute in attributes:
        value = getattr(value, attribute, MISSING) if isinstance(value, types.ModuleType) else MISSING
    return value


class Routine:
    """One function of the user's."""

    stored: set[str] | None = None  # the names of arrays that it stores into, once they have been asked for

    def __init__(self, function: Callable[..., Any]):
        function = plain_function(function)
        self.function, self.name = function, function.__name__
        self.file = function.__code__.co_filename
        self.lines = lines_of(function)
        self.tree = definition(function, "differentiable function", self.lines)
        arguments = self.tree.args
        self.parameters = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        self.locals = {*self.parameters, *assigned_names(self.tree.body)}
        if _recording.seen is not None:
            _recording.seen.setdefault(function, {})

    def defaults(self) -> dict[str, Any]:
        """{parameter: its default}."""
        positional = self.function.__defaults__ or ()
        names = self.parameters[: self.function.__code__.co_argcount]
        pairs = dict(zip(names[len(names) - len(positional) :], positional, strict=True))
        return {**pairs, **(self.function.__kwdefaults__ or {})}

    def meaning(self, path: str) -> Any:
        """What a dotted name that is not local stands for; MISSING if it is not defined."""
        given = _recording.given.get(self.function, {})
        value = given[path] if path in given else found_by(self.function, path)
        if _recording.seen is not None:
            _recording.seen.setdefault(self.function, {})[path] = value
        return value

    def resolve(self, node: ast.expr) -> Any:
        """The object that ``np.linalg.norm`` or ``helper`` stands for; MISSING for what is no such path."""
        path = _path(node)
        return self.meaning(path) if path and path.partition(".")[0] not in self.locals else MISSING

    def fault(self, node: ast.AST | int, what: str) -> SourceError:
        """The error that names this function and the line of ``node``."""
        line = node if isinstance(node, int) else getattr(node, "lineno", self.tree.lineno)
        return SourceError(f"{self.name} {what} ({self.file}:{line})")


def _path(node: ast.expr) -> str:
    """The dotted name that an expression is; "" for any other."""
    if isinstance(node, ast.Attribute):
        owner = _path(node.value)
        return owner and f"{owner}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


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
