"""Scalar rules: checked when they are declared, kept as syntax trees for the emitters.

A rule is a function of scalars in plain arithmetic and words. Its parameter names are its contract:
``g`` is the incoming gradient, ``out`` the op's result, any other name an input of the op.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from jitgrad.kernels.words import WORDS

__all__ = ["Rule", "RuleError"]

_ALLOWED = (
    ast.Module, ast.FunctionDef, ast.arguments, ast.arg, ast.Return, ast.Assign, ast.Expr, ast.Name,
    ast.Load, ast.Store, ast.Constant, ast.Call, ast.BinOp, ast.UnaryOp, ast.Compare,
    ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.USub, ast.UAdd,
    ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq, ast.BitAnd, ast.BitOr, ast.BitXor, ast.Invert,
)  # fmt: skip
_INSTEAD = {
    ast.IfExp: "where(condition, a, b)",
    ast.If: "where(condition, a, b)",
    ast.BoolOp: "logical_and(a, b), logical_or(a, b)",
    ast.Not: "logical_not(a)",
    ast.For: "a loop kernel (jitgrad.kernel_pair)",
    ast.While: "a loop kernel (jitgrad.kernel_pair)",
    ast.FloorDiv: "floor_divide(a, b)",
    ast.Mod: "remainder(a, b)",
    ast.Attribute: "a word",
    ast.Subscript: "a loop kernel (jitgrad.kernel_pair)",
}


class RuleError(TypeError):
    """A rule holds a construct that has no meaning on tensors or in a kernel."""


def _definition(function: Callable[..., Any]) -> ast.FunctionDef:
    """The definition of ``function``, its lines numbered as in its file."""
    code = function.__code__
    linecache.checkcache(code.co_filename)  # a reloaded module has another text
    text = "".join(linecache.getlines(code.co_filename, function.__globals__))
    found: Any = _definitions(text).get((code.co_firstlineno, function.__name__))
    if found is None:  # not a plain file: what Python finds by other means
        found = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
        ast.increment_lineno(found, code.co_firstlineno - 1)
    return found


@lru_cache(maxsize=2)
def _definitions(text: str) -> dict[tuple[int, str], ast.FunctionDef]:
    """{(line, name): definition} of a file's functions. A table has hundreds of rules: its file is parsed once."""
    try:
        body = ast.parse(text).body
    except SyntaxError:
        return {}
    return {(min([f.lineno, *(d.lineno for d in f.decorator_list)]), f.name): f for f in _functions(body)}


def _functions(body: list[ast.stmt]) -> Iterator[ast.FunctionDef]:
    for statement in body:
        if isinstance(statement, ast.FunctionDef):
            yield statement
        yield from _functions(getattr(statement, "body", []))


class Rule:
    """One rule: its parameters, the words that it calls, and its body as a syntax tree."""

    def __init__(self, op: str, function: Callable[..., Any]):
        self.op, self.function, self.name = op, function, function.__name__
        self.tree = _definition(function)
        code, defaults = function.__code__, function.__defaults__ or ()
        self.parameters = list(code.co_varnames[: code.co_argcount])
        self.defaults = dict(zip(self.parameters[len(self.parameters) - len(defaults) :], defaults, strict=True))
        self.words: set[str] = set()
        self._check()

    def _fail(self, node: ast.AST, what: str, instead: str) -> None:
        line = getattr(node, "lineno", self.tree.lineno)
        file = self.function.__code__.co_filename
        raise RuleError(
            f"{self.op}.{self.name}: {what} at {file}:{line} is not allowed in a rule; use {instead}. "
            f"Rules are plain arithmetic, comparisons and these words: {', '.join(sorted(WORDS))}"
        )

    def _check(self) -> None:
        self.tree.decorator_list = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call):
                self._check_call(node)
            elif isinstance(node, ast.Compare) and len(node.ops) > 1:
                self._fail(node, "a chained comparison", "logical_and(a < b, b < c)")
            elif not isinstance(node, _ALLOWED) and not isinstance(node, ast.expr_context):
                instead = next((text for kind, text in _INSTEAD.items() if isinstance(node, kind)), "a word")
                self._fail(node, f"'{type(node).__name__}'", instead)
            elif isinstance(node, ast.Assign) and not isinstance(node.targets[0], ast.Name):
                self._fail(node, "unpacking", "one name per assignment")
        if not isinstance(self.tree.body[-1], ast.Return):
            self._fail(self.tree.body[-1], "an ending without return", "return as the last statement")

    def _check_call(self, node: ast.Call) -> None:
        name = node.func.id if isinstance(node.func, ast.Name) else ast.unparse(node.func)
        if name not in WORDS:
            near = name.rsplit(".", 1)[-1].removeprefix("f")
            instead = f"the word {near}" if near in WORDS else {"max": "maximum", "min": "minimum"}.get(near, "a word")
            self._fail(node, f"the call of {name!r}", instead)
        if node.keywords:
            self._fail(node, "a keyword argument", "positions")
        self.words.add(name)

    @property
    def statements(self) -> list[ast.stmt]:
        """The body without its docstring."""
        return [s for s in self.tree.body if not isinstance(s, ast.Expr)]

    @property
    def passes_gradient(self) -> bool:
        """Whether the rule is just ``return g``: no kernel is needed for it."""
        last = self.statements[0]
        return isinstance(last, ast.Return) and isinstance(last.value, ast.Name) and last.value.id == "g"
