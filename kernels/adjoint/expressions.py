"""Expressions: of numbers as they are written, of whole arrays element by element."""

from __future__ import annotations

import ast
import types
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from jitgrad.kernels.adjoint.operations import (
    both,
    choice,
    compared,
    counted,
    either,
    inverted,
    negated,
    operated,
    truth,
)  # fmt: skip
from jitgrad.kernels.adjoint.program import If, Statement, Store, statements
from jitgrad.kernels.adjoint.routine import MISSING, calls_into, shortened
from jitgrad.kernels.adjoint.sizes import constant, integer, names_in, times
from jitgrad.kernels.adjoint.values import Array, Conflict, Fixed, Items, Known, Place, Scalar, Span, Value, stored
from jitgrad.kernels.adjoint.views import Views

__all__ = ["Expressions", "as_value"]


class Expressions(Views):
    """What each form of expression becomes."""

    def value(self, node: ast.expr) -> Value:
        """The value of an expression; statements that it needs are emitted."""
        method: Callable[[Any], Value] | None = getattr(self, f"of_{type(node).__name__.lower()}", None)
        if method is None:
            self.refuse(node, f"uses {shortened(node)}, which can't be differentiated")
        return method(node)

    def scalar(self, node: ast.expr) -> Scalar:
        """The value of an expression that must be a number."""
        value = self.value(node)
        if isinstance(value, Array) and not value.ndim:
            value = value.at([])
        if not isinstance(value, Scalar):
            self.refuse(node, f"uses {shortened(node)} as a number")
        return value

    def whole_number(self, node: ast.expr) -> Scalar:
        """The value of an expression that must be an integer."""
        value = self.scalar(node)
        if value.kind == "float64":
            self.refuse(node, f"uses a float where an integer belongs: {shortened(node)}; write int({shortened(node)})")
        return value

    def condition(self, node: ast.expr) -> Scalar:
        """The value of an expression as a condition."""
        if isinstance(node, ast.BoolOp):
            return self.joined(node, truth)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return inverted(self.condition(node.operand))
        value = self.value(node)
        if isinstance(value, Known) and value.object is None:
            return Scalar(constant(False), "bool")
        if isinstance(value, Array) and not value.ndim:
            value = value.at([])
        if not isinstance(value, Scalar):
            self.refuse(node, f"uses {shortened(node)} as a condition; write np.any(...), np.all(...) or len(...) > 0")
        return truth(value)

    # Leaves

    def of_constant(self, node: ast.Constant) -> Value:
        if node.value is None or node.value is ...:
            return Known(node.value)
        value = counted(node.value)
        if value is None:
            self.refuse(node, f"uses the constant {node.value!r}; only numbers can be differentiated")
        return value

    def of_name(self, node: ast.Name) -> Value:
        scope = self.scope
        if node.id in scope.env:
            value = scope.env[node.id]
            if isinstance(value, Conflict):
                self.refuse(node, value.what)
            return value
        if node.id in scope.locals:
            # Read in the text ahead of its assignment: one of an earlier iteration.
            variable = scope.variables.get(node.id) or self.fresh(node.id)
            scope.variables[node.id] = variable
            self.carried.add(variable)
            self.first_reads.setdefault(variable, (scope.routine, node))
            return self.variable(variable)
        found = scope.routine.resolve(node)
        if found is MISSING:
            self.refuse(node, f"uses the name {node.id}, which is not defined")
        value_ = as_value(found)
        if value_ is None:
            self.refuse(node, f"uses {node.id}, a {type(found).__name__} from outside; make it a parameter")
        return value_

    def of_attribute(self, node: ast.Attribute) -> Value:
        found = self.scope.routine.resolve(node)
        if found is not MISSING:
            value_ = as_value(found)
            if value_ is None:
                self.refuse(node, f"uses {shortened(node)}, a {type(found).__name__} from outside; make it a parameter")
            return value_
        value = self.value(node.value)
        if isinstance(value, Array):
            if node.attr == "shape":
                return Items([Scalar(self.not_negative(s), "int64") for s in value.shape])
            if node.attr == "size":
                return self.count(value)
            if node.attr == "ndim":
                return Scalar(constant(value.ndim), "int64")
            if node.attr == "dtype":
                return Known(np.dtype(value.dtype))
            if node.attr == "T":
                return self.turned(value, list(range(value.ndim))[::-1])
        if isinstance(value, Scalar) and node.attr in ("shape", "ndim"):
            return Items([]) if node.attr == "shape" else Scalar(constant(0), "int64")
        self.refuse(
            node, f"uses the attribute {shortened(node)}; attributes of arrays are shape, size, ndim, dtype and T"
        )

    def count(self, value: Array) -> Scalar:
        """The number of elements."""
        size: ast.expr = constant(1)
        for s in value.shape:
            size = times(size, self.not_negative(s))
        return Scalar(size, "int64")

    def turned(self, value: Array, order: Sequence[int]) -> Array:
        """The array with its dimensions in another order."""
        value = self.in_memory(value, "part")
        place = value.place
        assert place is not None
        slots = [
            s if isinstance(s, Fixed) else Span(s.start, s.step, list(order).index(s.dimension)) for s in place.slots
        ]
        return stored(Place(place.base, slots, [place.shape[k] for k in order]), value.dtype)

    def of_tuple(self, node: ast.Tuple) -> Value:
        return Items(self.operands(node.elts))

    def of_subscript(self, node: ast.Subscript) -> Value:
        value = self.value(node.value)
        if isinstance(value, Items):
            return self.item(node, value)
        if not isinstance(value, Array):
            self.refuse(node, f"takes an item of what is no array: {shortened(node)}")
        return self.subscript(node, value)

    def item(self, node: ast.Subscript, value: Items) -> Value:
        if isinstance(node.slice, ast.Slice):
            bounds = [
                None if b is None else self.fixed(b) for b in (node.slice.lower, node.slice.upper, node.slice.step)
            ]
            return Items(value.values[slice(*bounds)])
        k = self.fixed(node.slice)
        if not -len(value.values) <= k < len(value.values):
            self.refuse(node, f"takes an item that the tuple does not have: {shortened(node)}")
        return value.values[k]

    def fixed(self, node: ast.expr) -> int:
        """The value of an expression that must be a constant integer."""
        value = self.value(node)
        number = integer(value.expression) if isinstance(value, Scalar) else None
        if number is None:
            self.refuse(node, f"needs a constant here: {shortened(node)}")
        return number

    # Operators

    def operands(self, nodes: Sequence[ast.expr]) -> list[Value]:
        """The values of expressions in their order: what a later one stores does not change an earlier one."""
        values: list[Value] = []
        for node in nodes:
            start = len(self.out)
            value = self.value(node)
            stores = {s.array for s in statements(self.out[start:]) if isinstance(s, Store)}
            if stores:
                new = self.out[start:]
                del self.out[start:]
                values = [self.ahead(v, stores) for v in values]
                self.out += new
            values.append(value)
        return values

    def ahead(self, value: Value, stores: set[str]) -> Value:
        """The value as it is ahead of stores into arrays."""
        if isinstance(value, Scalar) and names_in(value.expression) & stores:
            return self.temporary("value", value)
        if isinstance(value, Array) and value.place is None and {p.base for p in value.reads} & stores:
            return self.materialised(value, "copy")
        return value

    def of_binop(self, node: ast.BinOp) -> Value:
        left, right = self.operands([node.left, node.right])
        if isinstance(node.op, ast.MatMult):
            return self.product(node, left, right)
        if isinstance(left, Items) and isinstance(right, Items) and isinstance(node.op, ast.Add):
            return Items(left.values + right.values)

        def build(a: Scalar, b: Scalar) -> Scalar:
            value = operated(node.op, a, b)
            if value is None:
                self.refuse(node, f"uses an operator that can't be differentiated: {shortened(node)}")
            return value

        return self.elementwise(node, build, [left, right])

    def product(self, node: ast.AST, left: Value, right: Value) -> Value:
        """``left @ right``."""
        raise NotImplementedError

    def of_unaryop(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.Not):
            return self.condition(node)
        value = self.value(node.operand)
        if isinstance(node.op, ast.USub):
            return self.elementwise(node, negated, [value])
        if isinstance(node.op, ast.UAdd):
            return value

        def invert(v: Scalar) -> Scalar:
            if v.kind != "bool":
                self.refuse(node, f"uses ~ of a number: {shortened(node)}")
            return inverted(v)

        return self.elementwise(node, invert, [value])

    def of_compare(self, node: ast.Compare) -> Value:
        if isinstance(node.ops[0], (ast.Is, ast.IsNot, ast.In, ast.NotIn)):
            return self.identity(node)
        values = self.operands([node.left, *node.comparators])
        parts = [
            self.elementwise(node, partial(compared, op), [a, b]) for op, a, b in zip(node.ops, values, values[1:])
        ]
        return parts[0] if len(parts) == 1 else self.elementwise(node, lambda *p: both(p), parts)

    def identity(self, node: ast.Compare) -> Value:
        left, right = self.value(node.left), self.value(node.comparators[0])
        if len(node.ops) > 1 or not isinstance(node.ops[0], (ast.Is, ast.IsNot)):
            self.refuse(node, f"uses {shortened(node)}; compare numbers by == and <")
        if not any(isinstance(v, Known) and v.object is None for v in (left, right)):
            self.refuse(node, f"compares objects: {shortened(node)}; only None can be asked for by is")
        equal = isinstance(left, Known) and isinstance(right, Known) and left.object is right.object
        return Scalar(constant(equal is isinstance(node.ops[0], ast.Is)), "bool")

    # What is evaluated only sometimes

    def attempt(self, evaluate: Callable[[], Value]) -> tuple[Value, list[Statement]]:
        """A value and the statements that it needs."""
        with self.block() as body:
            value = evaluate()
        return value, body

    def of_boolop(self, node: ast.BoolOp) -> Value:
        return self.joined(node, lambda v: v)

    def joined(self, node: ast.BoolOp, as_part: Callable[[Scalar], Scalar]) -> Scalar:
        """``a and b``: of conditions a condition, of numbers one of them."""
        is_and = isinstance(node.op, ast.And)
        evaluate = self.condition if as_part is truth else self.scalar
        result = evaluate(node.values[0])
        for other in node.values[1:]:
            stops = result.expression
            if result.kind == "bool" and isinstance(stops, ast.Constant) and bool(stops.value) is not is_and:
                return result
            value, body = self.attempt(partial(evaluate, other))
            assert isinstance(value, Scalar)
            if body:
                variable = self.numbered("test")
                self.assign(variable, result)
                body.append(self.assigned(variable, value))
                test = truth(self.variable(variable))
                self.emit(If((test if is_and else inverted(test)).expression, body, []))
                result = self.variable(variable)
            elif result.kind == value.kind == "bool":
                result = both([result, value]) if is_and else either([result, value])
            else:
                result = self.kept(result, "value")
                result = choice(result, value, result) if is_and else choice(result, result, value)
        return result

    def assigned(self, variable: str, value: Scalar) -> Statement:
        """``variable = value`` as a statement that goes elsewhere."""
        with self.block() as body:
            self.assign(variable, value)
        return body[0]

    def of_ifexp(self, node: ast.IfExp) -> Value:
        test = self.condition(node.test)
        if isinstance(test.expression, ast.Constant):
            return self.value(node.body if test.expression.value else node.orelse)
        first, body = self.attempt(lambda: self.value(node.body))
        second, orelse = self.attempt(lambda: self.value(node.orelse))
        values = [v.at([]) if isinstance(v, Array) and not v.ndim else v for v in (first, second)]
        one, other = values
        if not isinstance(one, Scalar) or not isinstance(other, Scalar):
            self.refuse(node, f"chooses between arrays: {shortened(node)}; write if and else")
        if not body and not orelse:
            return choice(test, one, other)
        variable = self.numbered("value")
        body.append(self.assigned(variable, one))
        orelse.append(self.assigned(variable, other))
        self.emit(If(test.expression, body, orelse))
        return self.variable(variable)


def as_value(found: Any) -> Value | None:
    """An object of Python's as a value; None for what a function may not name."""
    number = counted(found)
    if number is not None:
        return number
    if isinstance(found, tuple):
        values = [as_value(v) for v in found]
        return None if None in values else Items(values)  # type: ignore[arg-type]
    if isinstance(found, (types.ModuleType, np.dtype)) or callable(found) or calls_into(found) or found is None:
        return Known(found)
    return None
