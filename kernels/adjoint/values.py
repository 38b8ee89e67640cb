"""What an expression of the user's text is while it is written out: a number, a tuple, an array, an object."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from jitgrad.kernels.adjoint.sizes import constant, integer, name, names_in, plus, size_of, times

__all__ = [
    "Array", "Conflict", "Fixed", "Items", "Known", "Place", "Scalar", "Span", "Value", "alike", "category",
    "converted", "element", "no_element", "stored", "whole", "wider",
]  # fmt: skip

ORDER = ("bool", "int64", "float64")


@dataclass
class Scalar:
    """A number: an expression of the language; kind: "bool", "int64" or "float64"."""

    expression: ast.expr
    kind: str


@dataclass
class Items:
    """A tuple, whose items are known one by one."""

    values: list[Value]


@dataclass
class Known:
    """An object of Python's that the text names: a function, a module, a dtype, None."""

    object: Any


@dataclass
class Conflict:
    """A name that holds one array or another; what: how to say so."""

    what: str


@dataclass
class Fixed:
    """One index in a dimension of an array."""

    index: ast.expr


@dataclass
class Span:
    """Indices ``start + step * i`` in a dimension of an array, i along ``dimension`` of the part."""

    start: ast.expr
    step: int
    dimension: int


@dataclass
class Place:
    """A part of the memory of an array: where each element of the part is."""

    base: str
    slots: list[Fixed | Span]
    shape: list[ast.expr]

    def index(self, at: Sequence[ast.expr]) -> tuple[ast.expr, ...]:
        """The element of the base at the part's index."""
        return tuple(
            s.index if isinstance(s, Fixed) else plus(s.start, times(constant(s.step), at[s.dimension]))
            for s in self.slots
        )

    @property
    def is_whole(self) -> bool:
        """Whether it is the array itself."""
        return len(self.shape) == len(self.slots) and all(
            isinstance(s, Span) and s.dimension == k and s.step == 1 and integer(s.start) == 0
            for k, s in enumerate(self.slots)
        )

    def text(self) -> str:
        """The same for two parts if each element is at the same place in both."""
        at = [name(f"_{k}") for k in range(len(self.shape))]
        return f"{self.base}[{', '.join(ast.unparse(i) for i in self.index(at))}]"


@dataclass
class Array:
    """An array, in memory or yet to be computed element by element.

    place: where it is if it is in memory. reads: the parts that its elements are computed from; scattered: the arrays
    of those that are read at other places than the element's own. make: fills a variable that is given the shape, for
    one that is not computed element by element. fill: what a new array is filled with; empty: whether with nothing.
    """

    shape: list[ast.expr]
    dtype: str
    at: Callable[[Sequence[ast.expr]], Scalar]
    reads: list[Place] = field(default_factory=list)
    place: Place | None = None
    scattered: set[str] = field(default_factory=set)
    make: Callable[[str], None] | None = None
    fill: Scalar | None = None
    empty: bool = False

    @property
    def ndim(self) -> int:
        return len(self.shape)


Value: TypeAlias = Scalar | Items | Known | Conflict | Array


def category(dtype: str) -> str:
    """The kind of scalar that an element is."""
    return "bool" if dtype == "bool" else "float64" if dtype.startswith("float") else "int64"


def element(base: str, index: Sequence[ast.expr]) -> ast.expr:
    """``base[index]``."""
    inner = index[0] if len(index) == 1 else ast.Tuple(list(index), ast.Load())
    return ast.Subscript(name(base), inner, ast.Load())


def whole(base: str, ndim: int) -> Place:
    """All of an array."""
    return Place(base, [Span(constant(0), 1, k) for k in range(ndim)], [size_of(base, k) for k in range(ndim)])


def stored(place: Place, dtype: str) -> Array:
    """The array that a part is."""

    def at(index: Sequence[ast.expr]) -> Scalar:
        return Scalar(element(place.base, place.index(index)), category(dtype))

    scattered = {place.base} & {n for i in place.index([name("_")] * len(place.shape)) for n in names_in(i)}
    return Array(list(place.shape), dtype, at, [place], place, scattered)


def converted(value: Scalar, kind: str) -> ast.expr:
    """The number as one of another kind, constants as such."""
    expression = value.expression
    if value.kind == kind or kind == "bool":
        return expression
    to = {"float64": float, "int64": int}[kind]
    if isinstance(expression, ast.Constant):
        return constant(to(expression.value))
    if isinstance(expression, ast.UnaryOp) and isinstance(expression.op, ast.USub):
        return ast.UnaryOp(ast.USub(), converted(Scalar(expression.operand, value.kind), kind))
    if value.kind == "bool" and kind == "float64":
        return ast.IfExp(expression, constant(1.0), constant(0.0))  # Numba has no float(bool)
    return ast.Call(name(to.__name__), [expression], [])


def wider(*kinds: str) -> str:
    """The kind that numbers of these kinds have together."""
    return max(kinds, key=ORDER.index)


def no_element(index: Sequence[ast.expr]) -> Scalar:
    """In place of the elements of an array that is made as a whole."""
    raise AssertionError("an array that is made as a whole")


def alike(one: Value, other: Value) -> bool:
    """Whether two values are the same."""
    if one is other:
        return True
    if isinstance(one, Scalar) and isinstance(other, Scalar):
        return (ast.unparse(one.expression), one.kind) == (ast.unparse(other.expression), other.kind)
    if isinstance(one, Array) and isinstance(other, Array):
        return one.place is not None and other.place is not None and one.place.text() == other.place.text()
    if isinstance(one, Items) and isinstance(other, Items):
        return len(one.values) == len(other.values) and all(map(alike, one.values, other.values))
    return isinstance(one, Known) and isinstance(other, Known) and one.object is other.object
