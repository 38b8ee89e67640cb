"""Sums, products and extremes over arrays, as loops ahead of the statement."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.kernels.adjoint.calls import Calls
from jitgrad.kernels.adjoint.known import DOTS, OVER
from jitgrad.kernels.adjoint.operations import TABLE, both, choice, compared, either, operated, truth
from jitgrad.kernels.adjoint.program import If, Refuse, Store
from jitgrad.kernels.adjoint.routine import shortened
from jitgrad.kernels.adjoint.sizes import constant, name, plus
from jitgrad.kernels.adjoint.values import Array, Items, Known, Scalar, Value, category, converted, no_element, wider

__all__ = ["Reductions", "arithmetic"]

Step = Callable[[Scalar, Scalar], Scalar]


def arithmetic(op: ast.operator, left: Scalar, right: Scalar) -> Scalar:
    """``left op right`` of an operator that the language has."""
    value = operated(op, left, right)
    assert value is not None
    return value


class Reductions(Calls):
    """Functions that take arrays to numbers or to smaller arrays."""

    def reduced(self, node: ast.Call, function: Any) -> Value | None:
        if function in OVER:
            given = (
                self.keywords(node, "a", "axis") if function in (np.argmax, np.argmin) else self.reduction(node, "a")
            )
            return self.over_axis(node, OVER[function], self.value(given["a"]), given)
        if function in DOTS and len(node.args) == 2:
            left, right = self.operands(node.args)
            return self.product(node, left, right, function in (np.inner, np.vdot))
        if function is np.outer:
            left, right = (self.in_memory(self.array(a), "copy") for a in node.args)
            at = lambda i: arithmetic(ast.Mult(), left.at(i[:1]), right.at(i[1:]))
            shape, dtype = [left.shape[0], right.shape[0]], _product_dtype(left, right)
            return Array(shape, dtype, at, [], None, _bases(left, right))
        if function is np.linalg.norm and len(node.args) == 1 and not node.keywords:
            return self.norm(self.settled(self.array(node.args[0])))
        if function is np.trace and len(node.args) == 1:
            value = self.in_memory(self.array(node.args[0]), "copy")
            diagonal = Array(value.shape[:1], value.dtype, lambda i: value.at([i[0], i[0]]), value.reads)
            return self.total("sum", diagonal)
        if function is np.diff and len(node.args) == 1 and not node.keywords:
            return self.differences(node)
        if function is np.flip and len(node.args) == 1 and not node.keywords:
            value = self.in_memory(self.array(node.args[0]), "copy")
            return self.subscript(
                _subscript(*[ast.Slice(None, None, ast.UnaryOp(ast.USub(), constant(1)))] * value.ndim), value
            )
        if function is np.cumsum and len(node.args) == 1:
            return self.running(node, self.settled(self.array(node.args[0])))
        if function is np.concatenate and len(node.args) == 1:
            return self.joined_arrays(node)
        if function is np.copyto and len(node.args) == 2:
            target, value_ = self.operands(node.args)
            if not isinstance(target, Array) or target.place is None:
                self.refuse(node, f"stores into what is no array: {shortened(node)}")
            self.store(node, target, value_)
            return Known(None)
        return None

    def reduction(self, node: ast.Call, first: str) -> dict[str, ast.expr]:
        found: dict[str, ast.expr] = dict(zip((first, "axis"), node.args))
        for keyword in node.keywords:
            if keyword.arg not in ("axis", "keepdims", first):
                self.refuse(node, f"passes {keyword.arg} in {shortened(node)}, which can't be differentiated")
            found[str(keyword.arg)] = keyword.value
        if len(node.args) > 2 or first not in found:
            self.refuse(node, f"passes arguments in {shortened(node)} that can't be differentiated; pass axis by name")
        return found

    def reduced_method(self, node: ast.Call, method: str, value: Array) -> Value | None:
        if method in OVER.values():
            given: dict[str, ast.expr] = dict(zip(("axis",), node.args))
            given |= {str(k.arg): k.value for k in node.keywords}
            if set(given) - {"axis", "keepdims"} or len(node.args) > 1:
                self.refuse(node, f"passes arguments in {shortened(node)} that can't be differentiated")
            return self.over_axis(node, method, value, given)
        if method == "dot" and len(node.args) == 1:
            return self.product(node, value, self.value(node.args[0]))
        if method == "cumsum" and not node.args:
            return self.running(node, self.settled(value))
        return None

    def of_all(self, node: ast.Call, function: Any) -> Value:
        value = self.value(node.args[0])
        kind = {max: "max", min: "min", sum: "sum"}[function]
        if isinstance(value, Items):
            start = Scalar(constant(0), "int64") if kind == "sum" else None
            values = [start, *value.values] if start else value.values
            build = (lambda *v: _added(v)) if kind == "sum" else TABLE[function]
            return self.elementwise(node, build, values)
        if not isinstance(value, Array) or value.ndim != 1:
            self.refuse(node, f"calls {shortened(node)} of what is no array of one dimension; write np.{kind}(...)")
        return self.total(kind, self.settled(value))

    def constantly(self, value: Scalar) -> Callable[[Sequence[ast.expr]], Scalar]:
        return lambda index: value

    # Over all elements

    def over_axis(self, node: ast.AST, kind: str, value: Value, given: dict[str, ast.expr]) -> Value:
        """The reduction over the axis that the call gives, or over all."""
        if isinstance(value, Items):
            value = self.listed_values(node, value.values)
        if isinstance(value, Scalar):
            value = Array([], {"float64": "float64"}.get(value.kind, value.kind), self.constantly(value))
        if not isinstance(value, Array):
            self.refuse(node, f"reduces what is no array: {shortened(node)}")
        value = self.settled(value)
        axis = self.value(given["axis"]) if "axis" in given else Known(None)
        if isinstance(axis, Known):
            if "keepdims" in given:
                self.refuse(node, f"keeps the dimensions of a number: {shortened(node)}")
            if kind.startswith("arg") and value.ndim != 1:
                self.refuse(node, f"asks for a place in {value.ndim} dimensions: {shortened(node)}; write loops")
            return self.total(kind, value)
        k = self.fixed(given["axis"])
        if not -value.ndim <= k < value.ndim:
            self.refuse(node, f"reduces over axis {k} of {value.ndim}: {shortened(node)}")
        result = self.along(kind, value, k % value.ndim)
        if "keepdims" in given and self.condition(given["keepdims"]).expression.value:  # type: ignore[attr-defined]
            slices: list[ast.expr] = [ast.Slice() for _ in result.shape]
            slices.insert(k % value.ndim, constant(None))
            kept = self.subscript(_subscript(*slices), result)
            assert isinstance(kept, Array)
            return kept
        return result

    def along(self, kind: str, value: Array, axis: int) -> Array:
        """The reduction over one axis."""
        shape = [s for k, s in enumerate(value.shape) if k != axis]

        def make(variable: str) -> None:
            def body(at: list[ast.expr]) -> None:
                inner = lambda i: value.at([*at[:axis], i[0], *at[axis:]])
                line = Array([value.shape[axis]], value.dtype, inner, value.reads)
                result = self.total(kind, line)
                self.emit(Store(variable, tuple(at), self.number(result, dtype)))

            self.nest(shape, body)

        dtype = {"any": "bool", "all": "bool", "argmax": "int64", "argmin": "int64"}.get(kind, value.dtype)
        if kind in ("sum", "prod"):
            dtype = _summed_dtype(dtype)
        if kind in ("mean", "var", "std") and not dtype.startswith("float"):
            dtype = "float64"
        return Array(shape, dtype, no_element, value.reads, None, set(value.scattered), make)

    def total(self, kind: str, value: Array) -> Scalar:
        """The reduction over all elements, as a variable."""
        if kind.startswith("arg"):
            return self.place_of(kind, value)
        if kind in ("mean", "var", "std"):
            return self.moment(kind, value)
        element = value.at([name("_")] * value.ndim).kind
        if kind == "sum":
            return self.folded("sum", _zero(element), value, lambda a, v: arithmetic(ast.Add(), a, v))
        if kind == "prod":
            one = Scalar(constant(1.0 if element == "float64" else 1), wider(element, "int64"))
            return self.folded("product", one, value, lambda a, v: arithmetic(ast.Mult(), a, v))
        if kind in ("any", "all"):
            join = either if kind == "any" else both
            return self.folded(kind, Scalar(constant(kind == "all"), "bool"), value, lambda a, v: join([a, truth(v)]))
        self.not_empty(value, "imum".join((kind, "")))
        if element == "float64":
            start = Scalar(constant(math.inf if kind == "min" else -math.inf), element)
        else:
            start = value.at([constant(0)] * value.ndim)
        return self.folded(kind, start, value, TABLE[max if kind == "max" else min])

    def not_empty(self, value: Array, what: str) -> None:
        tests = [
            Scalar(ast.Compare(s, [ast.LtE()], [constant(0)]), "bool") for s in value.shape if _positive(s) is not True
        ]
        if tests:
            message = f"zero-size array to reduction operation {what} which has no identity"
            self.emit(Refuse(either(tests).expression, "ValueError", message))

    def folded(self, base: str, start: Scalar, value: Array, step: Step) -> Scalar:
        """A variable that takes in one element after the other."""
        variable = self.numbered(base)
        self.assign(variable, start)
        self.nest(value.shape, lambda at: self.assign(variable, step(self.variable(variable), value.at(at))))
        return self.variable(variable)

    def moment(self, kind: str, value: Array) -> Scalar:
        total = self.total("sum", value)
        mean = Scalar(ast.BinOp(total.expression, ast.Div(), self.count(value).expression), "float64")
        if kind == "mean":
            return mean
        mean = self.temporary("mean", mean)
        squared = lambda i: Scalar(
            ast.Call(name("square"), [arithmetic(ast.Sub(), value.at(i), mean).expression], []), "float64"
        )
        spread = self.total("sum", Array(value.shape, value.dtype, squared, value.reads))
        variance = Scalar(ast.BinOp(spread.expression, ast.Div(), self.count(value).expression), "float64")
        return _root(self.temporary("variance", variance)) if kind == "std" else variance

    def norm(self, value: Array) -> Scalar:
        squares = lambda i: Scalar(ast.Call(name("square"), [converted(value.at(i), "float64")], []), "float64")
        return _root(self.total("sum", Array(value.shape, value.dtype, squares, value.reads)))

    def place_of(self, kind: str, value: Array) -> Scalar:
        """The index of the largest or smallest element: the first of several."""
        self.not_empty(value, kind)
        best = self.temporary("best", value.at([constant(0)]))
        place = self.numbered(kind)
        self.assign(place, Scalar(constant(0), "int64"))
        assert isinstance(best.expression, ast.Name)
        variable = best.expression.id

        def body(at: list[ast.expr]) -> None:
            op = ast.Gt() if kind == "argmax" else ast.Lt()
            with self.block() as inner:
                self.assign(variable, value.at(at))
                self.assign(place, Scalar(at[0], "int64"))
            self.emit(If(compared(op, value.at(at), best).expression, inner, []))

        self.nest(value.shape, body)
        return self.variable(place)

    # Products

    def product(self, node: ast.AST, left: Value, right: Value, last: bool = False) -> Value:
        """``left @ right``; last: whether the sum goes over the last dimension of both."""
        if isinstance(left, Scalar) or isinstance(right, Scalar):
            if isinstance(node, ast.BinOp):
                self.refuse(node, f"multiplies a number by @: {shortened(node)}; write *")
            return self.elementwise(node, TABLE[np.multiply], [left, right])
        if not isinstance(left, Array) or not isinstance(right, Array):
            self.refuse(node, f"multiplies what is no array: {shortened(node)}")
        if not (1 <= left.ndim <= 2 and 1 <= right.ndim <= 2) or (last and left.ndim + right.ndim > 2):
            self.refuse(
                node, f"multiplies arrays of {left.ndim} and {right.ndim} dimensions: {shortened(node)}; write loops"
            )
        if left.ndim + right.ndim > 2:  # elements are read more than once
            left, right = self.in_memory(left, "left"), self.in_memory(right, "right")
        else:
            left, right = self.settled(left), self.settled(right)
        self.agree([left.shape[-1]], [right.shape[0]], f"shapes of {shortened(node)} are not aligned")

        def total(rows: Sequence[ast.expr], columns: Sequence[ast.expr]) -> Scalar:
            at = lambda k: arithmetic(ast.Mult(), left.at([*rows, *k]), right.at([*k, *columns]))
            return self.total("sum", Array([left.shape[-1]], left.dtype, at))

        shape = [*left.shape[:-1], *right.shape[1:]]
        if not shape:
            return total([], [])
        dtype = _product_dtype(left, right)

        def make(variable: str) -> None:
            rows = left.ndim - 1
            store = lambda at: self.emit(Store(variable, tuple(at), self.number(total(at[:rows], at[rows:]), dtype)))
            self.nest(shape, store)

        return Array(shape, dtype, no_element, [*left.reads, *right.reads], None, _bases(left, right), make)

    # Others

    def differences(self, node: ast.Call) -> Value:
        value = self.in_memory(self.array(node.args[0]), "copy")
        rows: list[ast.expr] = [ast.Slice() for _ in value.shape[1:]]
        minus_one = ast.UnaryOp(ast.USub(), constant(1))
        after = self.subscript(_subscript(*rows, ast.Slice(constant(1), None)), value)
        before = self.subscript(_subscript(*rows, ast.Slice(None, minus_one)), value)
        return self.elementwise(node, lambda a, b: arithmetic(ast.Sub(), a, b), [after, before])

    def running(self, node: ast.AST, value: Array) -> Array:
        """``np.cumsum`` of one dimension."""
        if value.ndim != 1:
            self.refuse(node, f"sums up along {value.ndim} dimensions: {shortened(node)}; write loops")

        def make(variable: str) -> None:
            total = self.numbered("sum")
            self.assign(total, _zero(category(value.dtype)))

            def body(at: list[ast.expr]) -> None:
                self.assign(total, arithmetic(ast.Add(), self.variable(total), value.at(at)))
                self.emit(Store(variable, tuple(at), name(total)))

            self.nest(value.shape, body)

        return Array(value.shape, _summed_dtype(value.dtype), no_element, value.reads, None, _bases(value), make)

    def joined_arrays(self, node: ast.Call) -> Array:
        """``np.concatenate`` along the first dimension."""
        given = self.value(node.args[0])
        values = [v for v in given.values if isinstance(v, Array)] if isinstance(given, Items) else []
        if not values or not isinstance(given, Items) or len(values) < len(given.values):
            self.refuse(node, f"joins what are no arrays: {shortened(node)}")
        if any(self.fixed(k.value) for k in node.keywords) or len({v.ndim for v in values}) > 1:
            self.refuse(node, f"joins arrays along another than the first dimension: {shortened(node)}; write loops")
        values = [self.settled(v) for v in values]
        starts: list[ast.expr] = [constant(0)]
        for v in values:
            self.agree(v.shape[1:], values[0].shape[1:], "all the input array dimensions must match exactly")
            starts.append(plus(starts[-1], self.not_negative(v.shape[0])))

        def copy_elements(variable: str, v: Array, start: ast.expr) -> None:
            index = lambda at: (plus(start, at[0]), *at[1:])
            self.nest(v.shape, lambda at: self.emit(Store(variable, index(at), self.number(v.at(at), dtype))))

        dtype = _product_dtype(*values)

        def make(variable: str) -> None:
            for v, start in zip(values, starts):
                copy_elements(variable, v, start)

        shape = [starts[-1], *values[0].shape[1:]]
        reads = [p for v in values for p in v.reads]
        return Array(shape, dtype, no_element, reads, None, _bases(*values), make)


def _subscript(*parts: ast.expr) -> ast.Subscript:
    inner = parts[0] if len(parts) == 1 else ast.Tuple(list(parts), ast.Load())
    return ast.Subscript(name("_"), inner, ast.Load())


def _zero(kind: str) -> Scalar:
    return Scalar(constant(0.0 if kind == "float64" else 0), wider(kind, "int64"))


def _root(squares: Scalar) -> Scalar:
    """The root of a sum of squares. Where all of them are 0 its derivative counts as 0, as that of ``abs`` does."""
    none = compared(ast.Eq(), squares, Scalar(constant(0.0), "float64"))
    return choice(none, Scalar(constant(0.0), "float64"), TABLE[np.sqrt](squares))


def _summed_dtype(dtype: str) -> str:
    """The dtype of a sum or product of many elements: integers of any size, and truths, add up to int64."""
    return dtype if dtype.startswith("float") else "int64"


def _added(values: Sequence[Scalar]) -> Scalar:
    result = values[1] if len(values) > 1 else values[0]
    for v in values[2:]:
        result = arithmetic(ast.Add(), result, v)
    return result


def _positive(size: ast.expr) -> bool:
    return isinstance(size, ast.Constant) and isinstance(size.value, int) and size.value > 0


def _bases(*values: Array) -> set[str]:
    return {p.base for v in values for p in v.reads} | {n for v in values for n in v.scattered}


def _product_dtype(*values: Array) -> str:
    dtypes = {v.dtype for v in values}
    return dtypes.pop() if len(dtypes) == 1 else str(np.result_type(*map(np.dtype, dtypes)))
