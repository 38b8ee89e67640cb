"""Integer expressions: building them in their shortest form, and what is known of their differences."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

__all__ = [
    "Linear", "call", "constant", "integer", "linear", "minus", "name", "names_in", "plus", "same", "size_of", "times",
]  # fmt: skip


class Linear:
    """A sum ``a * x + b * y + constant``; terms: {text of x: (x, a)}."""

    def __init__(self, terms: dict[str, tuple[ast.expr, int]], number: int):
        self.terms = {k: t for k, t in terms.items() if t[1]}
        self.number = number

    def add(self, other: Linear, factor: int = 1) -> Linear:
        """This one and ``factor`` times the other."""
        terms = dict(self.terms)
        for key, (term, times_) in other.terms.items():
            terms[key] = (term, terms.get(key, (term, 0))[1] + factor * times_)
        return Linear(terms, self.number + factor * other.number)

    def expression(self) -> ast.expr:
        """The sum as an expression, what is added first."""
        result: ast.expr | None = None
        ordered = sorted(self.terms.values(), key=lambda t: t[1] < 0)
        for term, factor in ordered:
            part = term if abs(factor) == 1 else ast.BinOp(constant(abs(factor)), ast.Mult(), term)
            if result is None:
                result = part if factor > 0 else ast.UnaryOp(ast.USub(), part)
            else:
                result = ast.BinOp(result, ast.Add() if factor > 0 else ast.Sub(), part)
        if result is None:
            return constant(self.number)
        if not self.number:
            return result
        return ast.BinOp(result, ast.Add() if self.number > 0 else ast.Sub(), constant(abs(self.number)))


def linear(value: ast.expr, expand: Callable[[ast.expr], ast.expr] = lambda e: e) -> Linear:
    """The expression as a sum; ``expand`` gives what a name or a size is known to equal."""
    number = integer(value)
    if number is not None:
        return Linear({}, number)
    if isinstance(value, ast.BinOp) and isinstance(value.op, (ast.Add, ast.Sub)):
        sign = 1 if isinstance(value.op, ast.Add) else -1
        return linear(value.left, expand).add(linear(value.right, expand), sign)
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
        return Linear({}, 0).add(linear(value.operand, expand), -1)
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult):
        left, right = linear(value.left, expand), linear(value.right, expand)
        for number_, sum_ in ((left, right), (right, left)):
            if not number_.terms:
                return Linear({}, 0).add(sum_, number_.number)
    known = expand(value)
    if known is not value:
        return linear(known, expand)
    return Linear({ast.unparse(value): (value, 1)}, 0)


def constant(value: object) -> ast.Constant:
    """A number as an expression."""
    return ast.Constant(value)  # type: ignore[arg-type]


def name(text: str) -> ast.Name:
    """A variable as an expression."""
    return ast.Name(text, ast.Load())


def call(function: str, *arguments: ast.expr) -> ast.Call:
    """A call of one of the language's functions."""
    return ast.Call(name(function), list(arguments), [])


def size_of(array: str, dimension: int) -> ast.expr:
    """``array.shape[dimension]``."""
    return ast.Subscript(ast.Attribute(name(array), "shape", ast.Load()), constant(dimension), ast.Load())


def integer(value: ast.expr | None) -> int | None:
    """The number that a constant expression is, None for another."""
    if isinstance(value, ast.Constant) and type(value.value) is int:
        return value.value
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
        inner = integer(value.operand)
        return None if inner is None else -inner
    return None


def plus(left: ast.expr, right: ast.expr) -> ast.expr:
    """Their sum."""
    return linear(left).add(linear(right)).expression()


def minus(left: ast.expr, right: ast.expr) -> ast.expr:
    """Their difference."""
    return linear(left).add(linear(right), -1).expression()


def times(left: ast.expr, right: ast.expr) -> ast.expr:
    """Their product."""
    for one, other in ((left, right), (right, left)):
        if integer(one) == 1:
            return other
        if (number := integer(one)) is not None:
            return Linear({}, 0).add(linear(other), number).expression()
    return ast.BinOp(left, ast.Mult(), right)


def same(left: ast.expr, right: ast.expr, known: Mapping[str, ast.expr] | None = None) -> bool | None:
    """Whether two sizes are equal; None where only the run can tell. ``known``: what names and sizes equal."""
    definitions = known or {}
    difference = linear(left, lambda e: definitions.get(ast.unparse(e), e)).add(
        linear(right, lambda e: definitions.get(ast.unparse(e), e)), -1
    )
    if difference.terms:
        return None
    return difference.number == 0


def names_in(value: ast.AST) -> set[str]:
    """The variables, scalars and arrays, that an expression reads."""
    return {n.id for n in ast.walk(value) if isinstance(n, ast.Name)}
