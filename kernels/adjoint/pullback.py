"""The reverse of single statements: what each adds to the derivatives of the values that it reads."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from jitgrad.kernels.adjoint.activity import sources
from jitgrad.kernels.adjoint.derivatives import partials, product
from jitgrad.kernels.adjoint.ssa import Define, Node, Write, index_of, loaded, names

__all__ = ["Add", "Clear", "Let", "Pullback", "Step"]


@dataclass
class Let:
    """``name = value``: a temporary of the reverse sweep."""

    name: str
    value: ast.expr


@dataclass
class Add:
    """Adds to the derivative of a value, or of an element of an array where ``index`` is given."""

    target: str
    value: ast.expr
    index: tuple[ast.expr, ...] | None = None


@dataclass
class Clear:
    """Sets the derivative of an element to zero; index None: of a value."""

    target: str
    index: tuple[ast.expr, ...] | None = None


Step = Let | Add | Clear


class Pullback:
    """Writes the reverse of nodes.

    active: names of values and of arrays' families. d: the name of a derivative. inverse: for a divisor of a node's
    what to multiply by instead, if it's there.
    """

    def __init__(
        self, active: set[str], family: Callable[[str], str], d: Callable[[str], str], unique: Callable[[str], str],
        inverse: Callable[[ast.expr, Node], ast.expr | None],
    ):  # fmt: skip
        self.active, self.family, self.d, self.unique, self.inverse = active, family, d, unique, inverse

    def steps(self, node: Node) -> list[Step]:
        """The reverse of a node that defines a value or writes an element."""
        self.node = node
        if isinstance(node, Define):
            return self._define(node)
        if isinstance(node, Write) and self.family(node.array) in self.active:
            return self._write(node)
        return []

    def _define(self, node: Define) -> list[Step]:
        value = node.value
        if value.name not in self.active or value.expression is None:
            return []
        seed = ast.Name(self.d(value.name), ast.Load())
        element = loaded(value)
        if element is not None:
            array: str = element.value.id  # type: ignore[attr-defined]
            return [Add(array, seed, index_of(element)), Clear(value.name)]
        own: ast.expr = ast.Name(value.name, ast.Load())
        quotient = isinstance(value.expression, ast.BinOp) and isinstance(value.expression.op, ast.Div)
        if not isinstance(value.expression, ast.Call) and not quotient:
            own = value.expression  # the derivatives of x * y need x and y, not the product
        return [*self._pull(value.expression, seed, own), Clear(value.name)]

    def _write(self, node: Write) -> list[Step]:
        index = node.index
        inner = index[0] if len(index) == 1 else ast.Tuple(list(index), ast.Load())
        seed: ast.expr = ast.Subscript(ast.Name(self.d(node.array), ast.Load()), inner, ast.Load())
        steps: list[Step] = []
        clear: list[Step] = [] if node.increment else [Clear(node.array, index)]
        if isinstance(node.amount, ast.Name):
            return [*self._pull(node.amount, seed, node.amount), *clear]
        if self._used(node.amount):
            temporary = self.unique("t")
            steps.append(Let(temporary, seed))
            seed = ast.Name(temporary, ast.Load())
        return [*steps, *clear, *self._pull(node.amount, seed, node.amount)]

    def _used(self, e: ast.expr) -> bool:
        return any(n in self.active for n in sources(e))

    def _pull(self, e: ast.expr, seed: ast.expr, own: ast.expr) -> Iterator[Step]:
        """Hands ``seed``, the derivative of the result in e's value, to the values that e is made of."""
        if isinstance(e, ast.Name):
            if e.id in self.active:
                yield Add(e.id, seed)
        elif isinstance(e, ast.IfExp):
            nothing = ast.Constant(0.0)
            yield from self._pull(e.body, ast.IfExp(e.test, seed, nothing), e.body)
            yield from self._pull(e.orelse, ast.IfExp(e.test, nothing, seed), e.orelse)
        elif isinstance(e, ast.BinOp) and isinstance(e.op, ast.Div):
            if self._used(e.right):
                yield from self._pull_quotient(e, seed, own)
            elif self._used(e.left):
                yield from self._pull(e.left, self._divided(seed, e.right), e.left)
        elif isinstance(e, (ast.BinOp, ast.UnaryOp, ast.Call)):
            parts = [(a, slope) for a, slope in partials(e, own) if self._used(a)]
            if not isinstance(seed, ast.Name) and len(parts) > 1:
                temporary = self.unique("t")
                yield Let(temporary, seed)
                seed = ast.Name(temporary, ast.Load())
            for argument, slope in parts:
                yield from self._pull(argument, product(seed, slope), argument)

    def _pull_quotient(self, e: ast.BinOp, seed: ast.expr, own: ast.expr) -> Iterator[Step]:
        """Of x / y with an active y: one division more than the quotient's own, of 1 / y none."""
        temporary = self.unique("t")
        share = ast.Name(temporary, ast.Load())
        inverse = isinstance(e.left, ast.Constant) and e.left.value == 1
        yield Let(temporary, product(seed, own) if inverse else self._divided(seed, e.right))
        if self._used(e.left):
            yield from self._pull(e.left, share, e.left)
        if own is e:  # a part of an expression, whose value has no name
            own = self._divided(e.left, e.right)
        yield from self._pull(e.right, ast.UnaryOp(ast.USub(), ast.BinOp(share, ast.Mult(), own)), e.right)

    def _divided(self, seed: ast.expr, by: ast.expr) -> ast.expr:
        inverse = self.inverse(by, self.node)
        return ast.BinOp(seed, ast.Div(), by) if inverse is None else ast.BinOp(seed, ast.Mult(), inverse)


def read_by(steps: list[Step]) -> list[str]:
    """The names in what steps compute, those of derivatives and temporaries among them."""
    found: list[str] = []
    for s in steps:
        if not isinstance(s, Clear):
            found += names(s.value)
        if not isinstance(s, Let):
            found += [n for i in s.index or () for n in names(i)]
    return found
