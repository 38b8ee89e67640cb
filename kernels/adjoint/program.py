"""The language that is differentiated: loops, branches, and assignments to one scalar or one element of an array.

Expressions are Python's syntax trees of a few forms, all of them scalar:

- ``x``, ``1.5``, ``True``: variables and constants, infinity and NaN among these;
- ``+ - * / // % **`` of two, ``- + not`` of one, ``< <= == != >= >`` of two, ``and`` and ``or``, ``a if c else b``;
- ``f(x, ...)`` of a function in `FUNCTIONS`, by its plain name;
- ``A[i, j]``: an element; as many indices as the array has dimensions (an array without dimensions is read ``A[()]``);
- ``A.shape[0]``: a size; the number is a constant.

A variable is a scalar or an array for the whole program, and has one `Kind`. Scalars are values; arrays are references
to memory that no two names share, except that `Exchange` permutes names. Statements do what Python does with the text
that `write` makes of them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = [
    "FUNCTIONS", "Allocate", "Assign", "Exchange", "For", "If", "Kind", "Program", "Refuse", "Statement", "Store",
    "While", "blocks", "statements",
]  # fmt: skip

# Scalar functions of the language, and how many arguments they have.
FUNCTIONS = {
    **dict.fromkeys(
        ("exp", "expm1", "log", "log1p", "log2", "log10", "sqrt", "cbrt", "sin", "cos", "tan", "sinh", "cosh", "tanh",
         "asin", "acos", "atan", "asinh", "acosh", "atanh", "erf", "erfc", "gamma", "lgamma", "abs", "sign", "floor",
         "ceil", "trunc", "round", "int", "float", "bool", "isnan", "isinf", "isfinite", "square", "degrees",
         "radians"),
        1),
    **dict.fromkeys(("atan2", "hypot", "copysign", "fmod", "min", "max", "pow"), 2),
}  # fmt: skip


class Kind(NamedTuple):
    """What a variable holds: ``dtype`` is NumPy's name of its numbers ("float64", "float32", "int64", "bool", ...).

    ndim: None for a scalar, else the array's number of dimensions. Scalars are "float64", "int64" or "bool".
    """

    dtype: str
    ndim: int | None = None

    @property
    def floating(self) -> bool:
        """Whether its numbers can have derivatives."""
        return self.dtype.startswith("float")


@dataclass(kw_only=True, eq=False)
class Statement:
    """A statement; ``line`` is that of the user's file that it comes from."""

    line: int = 0


@dataclass(eq=False)
class Assign(Statement):
    """``target = value``: a scalar."""

    target: str
    value: ast.expr


@dataclass(eq=False)
class Store(Statement):
    """``array[index] = value``, or ``+=`` if it is an increment, whose value does not read that element."""

    array: str
    index: tuple[ast.expr, ...]
    value: ast.expr
    increment: bool = False


@dataclass(eq=False)
class Allocate(Statement):
    """``array = np.full(shape, fill)``, a new array; fill is None for one that is not filled."""

    array: str
    shape: tuple[ast.expr, ...]
    fill: ast.expr | None


@dataclass(eq=False)
class Exchange(Statement):
    """``a, b, c = b, c, a``: the arrays' names permuted. All have one Kind."""

    targets: tuple[str, ...]
    sources: tuple[str, ...]


@dataclass(eq=False)
class Refuse(Statement):
    """``if test: raise error(message)``; error is the name of a built-in exception."""

    test: ast.expr
    error: str
    message: str


@dataclass(eq=False)
class For(Statement):
    """``for index in range(start, stop, step): body``, left behind the body's end when ``leave`` is true.

    The index is assigned to by nothing else and not read outside of the loop. leave: a boolean scalar that the body
    assigns. rows: whether it was ``prange``.
    """

    index: str
    start: ast.expr
    stop: ast.expr
    step: ast.expr
    body: list[Statement]
    leave: str | None = None
    rows: bool = False


@dataclass(eq=False)
class While(Statement):
    """``while test: body``, left behind the body's end when ``leave`` is true."""

    test: ast.expr
    body: list[Statement]
    leave: str | None = None


@dataclass(eq=False)
class If(Statement):
    """``if test: body else: orelse``."""

    test: ast.expr
    body: list[Statement]
    orelse: list[Statement]


@dataclass(eq=False)
class Program:
    """A function in this language.

    parameters: in the user's order; arrays among them that ``outputs`` don't name are only read, and no scalar
    parameter is assigned to. outputs: the variables that hold the results when the body has run, in the user's order:
    scalars, arrays that the body allocates, and array parameters that it writes to. single: whether the function
    returns its one result as such and not as a tuple of one. kinds: of every variable. A scalar that some paths don't
    assign is never read on those.
    """

    name: str
    file: str
    parameters: list[str]
    outputs: list[str]
    body: list[Statement]
    kinds: dict[str, Kind]
    single: bool = True
    source: list[str] = field(default_factory=list)  # the user's lines; line 1 is source[0]


def blocks(statement: Statement) -> list[list[Statement]]:
    """The lists of statements within a statement."""
    if isinstance(statement, If):
        return [statement.body, statement.orelse]
    return [statement.body] if isinstance(statement, (For, While)) else []


def statements(body: Sequence[Statement]) -> Iterator[Statement]:
    """All statements of a body and those within them, in the order of the text."""
    for s in body:
        yield s
        for block in blocks(s):
            yield from statements(block)
