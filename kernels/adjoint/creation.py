"""New arrays, and methods of arrays."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from jitgrad.kernels.adjoint.expressions import Expressions
from jitgrad.kernels.adjoint.known import FILLS
from jitgrad.kernels.adjoint.operations import choice, compared, operated, truth
from jitgrad.kernels.adjoint.program import Store
from jitgrad.kernels.adjoint.routine import shortened
from jitgrad.kernels.adjoint.sizes import constant, integer, minus, name, names_in
from jitgrad.kernels.adjoint.values import Array, Items, Known, Scalar, Value, converted, no_element, whole, wider

__all__ = ["Creation"]

_DTYPES = {float: "float64", int: "int64", bool: "bool", np.bool_: "bool"}
_KNOWN = ("float64", "float32", "int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64", "bool")


class Creation(Expressions):
    """Arrays that an expression makes."""

    def made(self, node: ast.Call, function: Any) -> Value | None:
        """The array that a function of NumPy makes; None for another function."""
        if function in FILLS:
            return self.filled(node, function)
        if function in (np.copy, np.ascontiguousarray, np.asarray) and len(node.args) == 1:
            value = self.array(node.args[0])
            place = value.place if function is not np.copy else None
            return value if place and (function is np.asarray or place.is_whole) else copied(value)
        if function is np.array:
            return self.listed(node)
        if function in (np.eye, np.identity):
            return self.identity_matrix(node)
        if function is np.arange:
            return self.arranged(node)
        if function is np.linspace:
            return self.spaced(node)
        if function is np.transpose and len(node.args) == 1:
            value = self.array(node.args[0])
            return self.turned(value, list(range(value.ndim))[::-1])
        return self.reduced(node, function)

    def reduced(self, node: ast.Call, function: Any) -> Value | None:
        """The value of a function that sums or compares over an array; None for another function."""
        raise NotImplementedError

    def of_all(self, node: ast.Call, function: Any) -> Value:
        """``max(x)``, ``min(x)``, ``sum(x)``."""
        raise NotImplementedError

    def array(self, node: ast.expr) -> Array:
        """The value of an expression that must be an array."""
        value = self.value(node)
        if not isinstance(value, Array):
            self.refuse(node, f"uses {shortened(node)} as an array")
        return value

    def keywords(self, node: ast.Call, *allowed: str) -> dict[str, ast.expr]:
        """A call's arguments by name, those by position given the names in order."""
        found = dict(zip(allowed, node.args))
        for keyword in node.keywords:
            if keyword.arg not in allowed:
                self.refuse(node, f"passes {keyword.arg} in {shortened(node)}, which can't be differentiated")
            found[str(keyword.arg)] = keyword.value
        if len(node.args) > len(allowed):
            self.refuse(node, f"passes too many arguments: {shortened(node)}")
        return found

    def dtype(self, node: ast.expr | None, default: str) -> str:
        if node is None:
            return default
        value = self.value(node)
        found = value.object if isinstance(value, Known) else None
        if found is None:
            return default
        try:
            text = _DTYPES.get(found) or np.dtype(found).name
        except TypeError:
            text = ""
        if text not in _KNOWN:
            self.refuse(node, f"makes an array of dtype {shortened(node)}; write np.float64")
        return text

    def sizes(self, node: ast.expr) -> list[ast.expr]:
        """A shape: a number or a tuple of numbers."""
        value = self.value(node)
        values = value.values if isinstance(value, Items) else [value]
        shape = []
        for v in values:
            if not isinstance(v, Scalar) or v.kind == "float64":
                self.refuse(node, f"makes an array of a shape that is no integers: {shortened(node)}")
            shape.append(self.kept(v, "size").expression)
        return shape

    def filled(self, node: ast.Call, function: Any) -> Array:
        """``np.zeros`` and its kin."""
        fill = FILLS[function]
        like = function.__name__.endswith("_like")
        first = "prototype" if like else "shape"
        names = (first, "fill_value", "dtype") if fill is ... else (first, "dtype")
        given = self.keywords(node, *names)
        if first not in given:
            given[first] = given.pop("a", node)
        value = self.scalar(given["fill_value"]) if fill is ... else None
        if like:
            source = self.array(given[first])
            shape, default = [self.not_negative(s) for s in source.shape], source.dtype
        else:
            shape, default = self.sizes(given[first]), value.kind if value else "float64"
        dtype = self.dtype(given.get("dtype"), default)
        number = value if value else None if fill is None else Scalar(constant(fill), "int64")
        return self.constant_array(shape, dtype, self.once(number) if number else None)

    def constant_array(self, shape: list[ast.expr], dtype: str, number: Scalar | None) -> Array:
        kind = "float64" if dtype.startswith("float") else "bool" if dtype == "bool" else "int64"
        if number is not None:
            number = truth(number) if kind == "bool" else Scalar(converted(number, kind), kind)
        shown = number or Scalar(constant(0), kind)
        return Array(shape, dtype, lambda at: shown, [], None, set(), None, number, number is None)

    def listed(self, node: ast.Call) -> Array:
        """``np.array([...])`` of numbers, in rows or not."""
        given = self.keywords(node, "object", "dtype")
        items = given["object"]
        if not isinstance(items, (ast.List, ast.Tuple)):
            value = self.value(items)
            return self.listed_values(node, value.values) if isinstance(value, Items) else copied(self.array(items))
        rows = [list(r.elts) if isinstance(r, (ast.List, ast.Tuple)) else None for r in items.elts]
        nested = bool(rows) and rows[0] is not None
        if any(
            (r is not None) is not nested or (r is not None and rows[0] is not None and len(r) != len(rows[0]))
            for r in rows
        ):
            self.refuse(node, f"makes an array of rows of several lengths: {shortened(node)}")
        flat = [e for r in rows for e in (r or [])] if nested else items.elts
        values = [self.scalar(e) for e in flat]
        dtype = self.dtype(given.get("dtype"), wider(*[v.kind for v in values]) if values else "float64")
        shape: list[ast.expr] = [constant(len(rows)), constant(len(rows[0] or []))] if nested else [constant(len(rows))]
        columns = len(rows[0] or []) if nested else 0

        def make(variable: str) -> None:
            for k, v in enumerate(values):
                index = (constant(k // columns), constant(k % columns)) if nested else (constant(k),)
                self.emit(Store(variable, index, self.number(v, dtype)))

        reads = [whole(a, self.arrays[a].ndim or 0) for v in values for a in names_in(v.expression) & set(self.arrays)]
        return Array(shape, dtype, no_element, reads, None, {p.base for p in reads}, make)

    def listed_values(self, node: ast.AST, values: Sequence[Value]) -> Array:
        """An array of numbers that a tuple holds."""
        numbers = [v for v in values if isinstance(v, Scalar)]
        if len(numbers) < len(values) or not values:
            self.refuse(node, f"makes an array of what are no numbers: {shortened(node)}")
        dtype = wider(*[v.kind for v in numbers])

        def make(variable: str) -> None:
            for k, v in enumerate(numbers):
                self.emit(Store(variable, (constant(k),), self.number(v, dtype)))

        return Array([constant(len(values))], dtype, no_element, [], None, set(), make)

    def identity_matrix(self, node: ast.Call) -> Array:
        given = self.keywords(node, "N", "M", "k", "dtype") if len(node.args) < 2 else self.keywords(node, "N", "M")
        if "k" in given:
            self.refuse(node, f"makes a shifted identity: {shortened(node)}; write a loop")
        rows = self.sizes(given.get("N") or node.args[0])
        columns = self.sizes(given["M"]) if "M" in given else rows
        dtype = self.dtype(given.get("dtype"), "float64")
        one, zero = Scalar(constant(1.0), "float64"), Scalar(constant(0.0), "float64")
        at = lambda i: choice(compared(ast.Eq(), Scalar(i[0], "int64"), Scalar(i[1], "int64")), one, zero)
        return Array([*rows, *columns], dtype, at)

    def arranged(self, node: ast.Call) -> Array:
        """``np.arange`` of one to three numbers."""
        given = [self.once(self.scalar(a)) for a in node.args]
        dtype = self.dtype(next((k.value for k in node.keywords if k.arg == "dtype"), None), "")
        if len(given) == 1:
            given = [Scalar(constant(0), "int64"), given[0]]
        start, stop, step = [*given, Scalar(constant(1), "int64")][:3]
        if all(v.kind != "float64" for v in given):
            length = minus(stop.expression, start.expression)
            if integer(step.expression) != 1:
                number = integer(step.expression)
                if not number:
                    self.refuse(node, f"steps by what is no constant: {shortened(node)}")
                sign = constant(number - (1 if number > 0 else -1))
                length = ast.BinOp(ast.BinOp(length, ast.Add(), sign), ast.FloorDiv(), constant(number))
        else:
            span = operated(ast.Div(), Scalar(minus(stop.expression, start.expression), "float64"), step)
            assert span is not None
            length = ast.Call(name("int"), [ast.Call(name("ceil"), [span.expression], [])], [])
        length = self.temporary("length", Scalar(length, "int64")).expression if not self.steady(length) else length

        def at(i: Any) -> Scalar:
            moved = (
                operated(ast.Mult(), Scalar(i[0], "int64"), step)
                if integer(step.expression) != 1
                else Scalar(i[0], "int64")
            )
            assert moved is not None
            value = operated(ast.Add(), start, moved) if integer(start.expression) != 0 else moved
            assert value is not None
            return value

        return Array([length], dtype or ("float64" if any(v.kind == "float64" for v in given) else "int64"), at)

    def spaced(self, node: ast.Call) -> Array:
        given = self.keywords(node, "start", "stop", "num")
        start, stop = self.once(self.scalar(given["start"])), self.once(self.scalar(given["stop"]))
        count = self.sizes(given["num"])[0] if "num" in given else constant(50)
        difference = operated(ast.Sub(), stop, start)
        assert difference is not None
        parts = (
            ast.Call(name("max"), [minus(count, constant(1)), constant(1)], [])
            if integer(count) is None
            else minus(count, constant(1))
        )
        step = self.temporary("step", Scalar(ast.BinOp(difference.expression, ast.Div(), parts), "float64"))

        def at(i: Any) -> Scalar:
            return Scalar(
                ast.BinOp(start.expression, ast.Add(), ast.BinOp(i[0], ast.Mult(), step.expression)), "float64"
            )

        return Array([count], "float64", at)

    # Methods

    def method(self, node: ast.Call, method: str) -> Value:
        """``x.copy()`` and the like."""
        assert isinstance(node.func, ast.Attribute)
        value = self.value(node.func.value)
        if not isinstance(value, Array):
            self.refuse(node, f"calls {shortened(node.func)}, which can't be differentiated")
        if method == "copy":
            return copied(value)
        if method == "astype":
            dtype = self.dtype(node.args[0], value.dtype)
            cast = int if dtype.startswith(("int", "uint")) else bool if dtype == "bool" else float
            from jitgrad.kernels.adjoint.operations import TABLE

            return self.elementwise(node, TABLE[cast], [value], dtype)
        if method == "fill":
            self.store(node, value, self.scalar(node.args[0]))
            return Known(None)
        if method == "transpose" and not node.args:
            return self.turned(value, list(range(value.ndim))[::-1])
        if method == "item" and not node.args and not value.ndim:
            return value.at([])
        found = self.reduced_method(node, method, value)
        if found is None:
            self.no_method(node, method)
        return found

    def reduced_method(self, node: ast.Call, method: str, value: Array) -> Value | None:
        """``x.sum()`` and the like."""
        raise NotImplementedError

    def no_method(self, node: ast.Call, method: str) -> NoReturn:
        hint = ""
        if method in ("ravel", "reshape", "flatten"):
            hint = "; index the array by its own dimensions, or pass it reshaped"
        if method in ("append", "items", "keys", "get"):
            hint = "; keep numbers in arrays or variables"
        self.refuse(node, f"calls {shortened(node)}, which can't be differentiated{hint}")


def copied(value: Array) -> Array:
    """The elements in memory of their own, once they are bound to a name."""
    return Array(
        value.shape, value.dtype, value.at, value.reads, None, value.scattered, value.make, value.fill, value.empty
    )
