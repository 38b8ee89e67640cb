"""Functions as syntax trees: what words, rules and loops are read from.

Every file of ``kernels/`` parses here, on first use of what it parses, never at import: parsing the rules of 133 ops
took longer than all else that ``import jitgrad`` does.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
import tokenize
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar, cast

from jitgrad.kernels.words.compiler_lock import compiler_lock

__all__ = [
    "SourceError",
    "Transformer",
    "copied",
    "definition",
    "expression",
    "lines_around",
    "nodes",
    "parameters",
    "parse",
    "read_once",
    "ships_with_jitgrad",
]

Tree = TypeVar("Tree", bound=ast.AST)
Value = TypeVar("Value")


class read_once(Generic[Value]):
    """A property that is worked out when first asked for, as ``functools.cached_property`` but under `compiler_lock`.

    That of Python 3.11 has a lock of its own, which a forked child may find held; later ones have none, and let two
    threads fill the same object.
    """

    def __init__(self, function: Callable[[Any], Value]):
        self.function, self.__doc__ = function, function.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> Value:
        with compiler_lock():
            name = self.function.__name__
            if name not in instance.__dict__:  # another thread may have been faster
                instance.__dict__[name] = self.function(instance)
            return instance.__dict__[name]


class SourceError(TypeError):
    """A function has no text to read, or its text holds what cannot be written into a kernel."""


def parse(text: str) -> ast.Module:
    """``ast.parse(text)``, in one thread at a time, and in none while another compiles."""
    with compiler_lock():
        return ast.parse(text)


def copied(tree: Tree) -> Tree:
    """The tree in nodes of its own, but for operators and contexts; ``copy.deepcopy`` takes five times as long."""
    made = tree.__class__.__new__(tree.__class__)
    made.__dict__.update(tree.__dict__)
    for field in tree._fields:
        value = getattr(tree, field, None)
        if isinstance(value, list):
            setattr(made, field, [copied(v) if isinstance(v, ast.AST) else v for v in value])
        elif isinstance(value, ast.AST) and value._fields:
            setattr(made, field, copied(value))
    return made


def nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a tree as they appear in its text. For what each process parses: `ast.walk` takes twice as long."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        children: list[ast.AST] = []
        for field in node._fields:
            value = getattr(node, field, None)
            if isinstance(value, list):
                children += [v for v in value if isinstance(v, ast.AST)]
            elif isinstance(value, ast.AST):
                children.append(value)
        waiting += reversed(children)


class Transformer(ast.NodeTransformer):
    """``ast.NodeTransformer`` in half the time: nodes without parts, such as contexts, are not visited."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Put what ``visit`` returns in the place of each of a node's parts."""
        for field in node._fields:
            value = getattr(node, field, None)
            if isinstance(value, list):
                made = [self.visit(v) if isinstance(v, ast.AST) else v for v in value]
                value[:] = [e for v in made for e in (v if isinstance(v, list) else [] if v is None else [v])]
            elif isinstance(value, ast.AST) and value._fields:
                setattr(node, field, self.visit(value))
        return node


def expression(text: str) -> ast.expr:
    """The tree of one expression."""
    return cast(ast.Expr, parse(text).body[0]).value


def parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of the function's parameters; `inspect.signature` takes 20 us, this 0.2."""
    code = function.__code__
    return code.co_varnames[: code.co_argcount]


def ships_with_jitgrad(module: str | None) -> bool:
    """Whether what the module declares is read from its file on first use: a user's may have changed by then.

    ``module``: the ``__module__`` of a function or class, None where it was made by ``exec``.
    """
    return (module or "").startswith("jitgrad.kernels.")


def lines_around(function: Callable[..., Any]) -> list[str]:
    """The lines of the function's file or notebook cell as they are now; none where Python knows no text."""
    file = function.__code__.co_filename
    linecache.checkcache(file)  # a module that was edited and reloaded has another text
    return linecache.getlines(file, function.__globals__)


def definition(function: Callable[..., Any], what: str, lines: list[str] | None = None) -> ast.FunctionDef:
    """The function's ``def`` without decorators, its line numbers those of its file; ``lines``: the file's text.

    ``what`` the function is (a word, a rule, a loop) goes into errors.

    SourceError where there is no text, or another function stands in the function's place.
    """
    code = function.__code__
    lines = lines_around(function) if lines is None else lines
    if not lines:
        raise SourceError(
            f"{function.__name__}: its source text is not available; define it in a file or a notebook cell"
        )
    try:
        found = _first_statement(lines, code.co_firstlineno - 1)
    except (SyntaxError, tokenize.TokenError, IndexError):  # a lambda's line need not be a statement
        found = None
    if not isinstance(found, ast.FunctionDef):
        raise SourceError(f"{function.__name__}: a {what} must be a function defined by def, on lines of its own")
    names = tuple(a.arg for a in (*found.args.posonlyargs, *found.args.args))
    if (found.name, names) != (code.co_name, parameters(function)):
        raise SourceError(f"{function.__name__}: {code.co_filename} has changed since it was imported; restart Python")
    found.decorator_list = []
    return found


def _first_statement(every: Sequence[str], first: int) -> ast.stmt:
    """The tree of the statement that begins with line ``first``, counted from 0."""
    lines, above = every[first:], "\n" * first  # so that each node has the number of its line in the file
    try:
        # To the next line that is not indented further. Were that within brackets, a string or the head, what is ahead
        # of it could not be parsed. `inspect.getblock` finds the end by tokens, in twenty times the time.
        start = next(k for k, line in enumerate(lines) if line.lstrip().startswith("def "))
        margin = len(lines[0]) - len(lines[0].lstrip())
        rest = enumerate(lines[start + 1 :], start + 1)
        end = next((k for k, line in rest if line[: margin + 1].strip()[:1] not in ("", "#")), None)
        return parse(above + textwrap.dedent("".join(lines[:end]))).body[0]
    except (SyntaxError, StopIteration):
        return parse(above + textwrap.dedent("".join(inspect.getblock(lines)))).body[0]
