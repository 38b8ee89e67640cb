"""Operators and functions of numbers: what each is in the language, and which kind of number it gives."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.kernels.adjoint.sizes import call, constant, integer
from jitgrad.kernels.adjoint.values import Scalar, converted, wider

__all__ = [
    "OPERATORS",
    "TABLE",
    "both",
    "choice",
    "compared",
    "counted",
    "either",
    "inverted",
    "negated",
    "operated",
    "truth",
]

_FLOAT = (  # noqa: SIM905
    "exp expm1 log log1p log2 log10 sqrt cbrt sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh erf erfc "
    "gamma lgamma degrees radians atan2 hypot copysign"
).split()
_BOOL = ("isnan", "isinf", "isfinite")
_NUMPY = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh",
    "atan2": "arctan2",
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.GtE: operator.ge,
    ast.Gt: operator.gt,
}  # fmt: skip

Build = Callable[..., Scalar]


def operated(op: ast.operator, left: Scalar, right: Scalar) -> Scalar | None:
    """``left op right``; None for an operator that the language lacks."""
    kind = wider(left.kind, right.kind, "int64")
    if isinstance(op, (ast.BitAnd, ast.BitOr, ast.BitXor)) and left.kind == right.kind == "bool":
        if isinstance(op, ast.BitXor):
            return Scalar(ast.Compare(left.expression, [ast.NotEq()], [right.expression]), "bool")
        return both([left, right]) if isinstance(op, ast.BitAnd) else either([left, right])
    if isinstance(op, (ast.LShift, ast.RShift, ast.BitAnd)) and kind == "int64":
        return _bits(op, left, right)
    if isinstance(op, ast.Div):
        kind = "float64"
    elif isinstance(op, ast.Pow):
        exponent = integer(right.expression)
        if kind == "int64" and exponent is not None and exponent < 0:
            left, kind = Scalar(converted(left, "float64"), "float64"), "float64"
    elif not isinstance(op, (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)):
        return None
    numbers = [Scalar(converted(s, "int64"), "int64") if s.kind == "bool" else s for s in (left, right)]
    return Scalar(ast.BinOp(numbers[0].expression, op, numbers[1].expression), kind)


def _bits(op: ast.operator, left: Scalar, right: Scalar) -> Scalar | None:
    """Shifts by constants, and ``i & 1``, as the divisions that they are."""
    number = integer(right.expression)
    if number is None or number < 0:
        return None
    if isinstance(op, ast.BitAnd):
        if number & (number + 1):
            return None
        return Scalar(ast.BinOp(left.expression, ast.Mod(), constant(number + 1)), "int64")
    arithmetic = ast.Mult() if isinstance(op, ast.LShift) else ast.FloorDiv()
    return Scalar(ast.BinOp(left.expression, arithmetic, constant(1 << number)), "int64")


def negated(value: Scalar) -> Scalar:
    """``-value``."""
    if isinstance(value.expression, ast.Constant):
        return Scalar(_number(-value.expression.value), wider(value.kind, "int64"))  # type: ignore[operator]
    return Scalar(ast.UnaryOp(ast.USub(), converted(value, wider(value.kind, "int64"))), wider(value.kind, "int64"))


def _number(value: Any) -> ast.expr:
    """A number as an expression; negative ones as Python reads them."""
    if value < 0 or (value == 0 and math.copysign(1, value) < 0):
        return ast.UnaryOp(ast.USub(), constant(-value))
    return constant(value)


def counted(value: Any) -> Scalar | None:
    """A number of the user's file as a constant; None for other objects."""
    if isinstance(value, (bool, np.bool_)):
        return Scalar(constant(bool(value)), "bool")
    if isinstance(value, (int, np.integer)):
        return Scalar(_number(int(value)), "int64")
    if isinstance(value, (float, np.floating)):
        return Scalar(_number(float(value)), "float64")
    return None


def truth(value: Scalar) -> Scalar:
    """The number as a condition."""
    if value.kind == "bool":
        return value
    if isinstance(value.expression, ast.Constant):
        return Scalar(constant(bool(value.expression.value)), "bool")
    zero = constant(0 if value.kind == "int64" else 0.0)
    return Scalar(ast.Compare(value.expression, [ast.NotEq()], [zero]), "bool")


def inverted(value: Scalar) -> Scalar:
    """``not value``."""
    condition = truth(value).expression
    if isinstance(condition, ast.Constant):
        return Scalar(constant(not condition.value), "bool")
    return Scalar(ast.UnaryOp(ast.Not(), condition), "bool")


def _joined(op: ast.boolop, values: Sequence[Scalar], neutral: bool) -> Scalar:
    left: list[ast.expr] = []
    for value in values:
        condition = truth(value).expression
        if isinstance(condition, ast.Constant):
            if condition.value is not neutral:
                return Scalar(constant(not neutral), "bool") if not left else _chain(op, [*left, condition])
            continue
        left.append(condition)
    return _chain(op, left) if left else Scalar(constant(neutral), "bool")


def _chain(op: ast.boolop, conditions: list[ast.expr]) -> Scalar:
    flat: list[ast.expr] = []
    for c in conditions:
        flat += c.values if isinstance(c, ast.BoolOp) and type(c.op) is type(op) else [c]
    return Scalar(flat[0] if len(flat) == 1 else ast.BoolOp(op, flat), "bool")


def both(values: Sequence[Scalar]) -> Scalar:
    """``a and b``, of conditions."""
    return _joined(ast.And(), values, True)


def either(values: Sequence[Scalar]) -> Scalar:
    """``a or b``, of conditions."""
    return _joined(ast.Or(), values, False)


def compared(op: ast.cmpop, left: Scalar, right: Scalar) -> Scalar:
    """``left < right`` and the like."""
    a, b = integer(left.expression), integer(right.expression)
    if a is not None and b is not None:
        return Scalar(constant(_COMPARE[type(op)](a, b)), "bool")
    return Scalar(ast.Compare(left.expression, [op], [right.expression]), "bool")


def choice(condition: Scalar, first: Scalar, second: Scalar) -> Scalar:
    """``first if condition else second``."""
    kind = wider(first.kind, second.kind)
    test = truth(condition).expression
    if isinstance(test, ast.Constant):
        return Scalar(converted(first if test.value else second, kind), kind)
    return Scalar(ast.IfExp(test, converted(first, kind), converted(second, kind)), kind)


def _called(function: str, *kinds: str) -> Build:
    """Of a function whose result is a float (no kinds), or the widest of its arguments' and ``kinds``."""

    def build(*values: Scalar) -> Scalar:
        kind = wider(*kinds, *(v.kind for v in values)) if kinds else "float64"
        arguments = [converted(v, "int64") if v.kind == "bool" else v.expression for v in values]
        return Scalar(call(function, *arguments), kind)

    return build


def _fixed(function: str, kind: str) -> Build:
    return lambda value: Scalar(call(function, value.expression), kind)


def _cast(kind: str) -> Build:
    def build(value: Scalar) -> Scalar:
        if kind == "bool":
            return truth(value)
        if kind == "int64" and value.kind == "float64":
            return Scalar(call("int", value.expression), kind)
        return Scalar(converted(value, kind), kind)

    return build


def _operator(op: type[ast.operator]) -> Build:
    def build(left: Scalar, right: Scalar) -> Scalar:
        value = operated(op(), left, right)
        assert value is not None
        return value

    return build


def _comparison(op: type[ast.cmpop]) -> Build:
    return lambda left, right: compared(op(), left, right)


def _extreme(function: str) -> Build:
    def build(*values: Scalar) -> Scalar:
        result = values[0]
        for value in values[1:]:
            kind = wider(result.kind, value.kind)
            result = Scalar(call(function, converted(result, kind), converted(value, kind)), kind)
        return result

    return build


def _rounded(function: str, as_int: bool) -> Build:
    def build(value: Scalar) -> Scalar:
        if value.kind != "float64":
            return Scalar(converted(value, "int64"), "int64")
        inner = call(function, value.expression)
        return Scalar(call("int", inner), "int64") if as_int else Scalar(inner, "float64")

    return build


def _round(as_int: bool) -> Build:
    def build(value: Scalar) -> Scalar:
        if value.kind != "float64":
            return Scalar(converted(value, "int64"), "int64")
        inner = call("round", value.expression)
        return Scalar(inner, "int64") if as_int else Scalar(call("float", inner), "float64")

    return build


def _clipped(value: Scalar, low: Scalar, high: Scalar) -> Scalar:
    return _extreme("min")(_extreme("max")(value, low), high)


def _reciprocal(value: Scalar) -> Scalar:
    return _operator(ast.Div)(Scalar(constant(1.0), "float64"), value)


def _exp2(value: Scalar) -> Scalar:
    return _operator(ast.Pow)(Scalar(constant(2.0), "float64"), value)


def _power(left: Scalar, right: Scalar) -> Scalar:
    value = operated(ast.Pow(), left, right)
    assert value is not None
    return value


def _of_floats(function: str) -> Build:
    return lambda *values: Scalar(call(function, *[converted(v, "float64") for v in values]), "float64")


def _table() -> dict[Any, Build]:
    table: dict[Any, Build] = {}
    for n in _FLOAT:
        for found in (getattr(math, n, None), getattr(np, _NUMPY.get(n, n), None)):
            if found is not None:
                table[found] = _called(n)
    for n in _BOOL:
        table[getattr(math, n)] = table[getattr(np, n)] = _fixed(n, "bool")
    for n, op in (
        ("add", ast.Add), ("subtract", ast.Sub), ("multiply", ast.Mult), ("divide", ast.Div), ("mod", ast.Mod),
        ("true_divide", ast.Div), ("floor_divide", ast.FloorDiv), ("remainder", ast.Mod), ("power", ast.Pow),
    ):  # fmt: skip
        table[getattr(np, n)] = _operator(op)
    for n, compare in (
        ("less", ast.Lt), ("less_equal", ast.LtE), ("equal", ast.Eq), ("not_equal", ast.NotEq), ("greater", ast.Gt),
        ("greater_equal", ast.GtE),
    ):  # fmt: skip
        table[getattr(np, n)] = _comparison(compare)
    table |= dict.fromkeys((abs, np.abs, np.absolute), _called("abs", "int64"))
    table |= dict.fromkeys((np.fabs, math.fabs), _of_floats("abs"))
    table |= dict.fromkeys((max, np.maximum, np.fmax), _extreme("max"))
    table |= dict.fromkeys((min, np.minimum, np.fmin), _extreme("min"))
    table |= dict.fromkeys((np.sign,), _called("sign", "int64")) | {np.square: _called("square", "int64")}
    table |= {np.fmod: _called("fmod", "int64"), math.fmod: _of_floats("fmod")}
    table |= {
        math.floor: _rounded("floor", True),
        math.ceil: _rounded("ceil", True),
        math.trunc: _rounded("trunc", True),
    }
    table |= {np.floor: _rounded("floor", False), np.ceil: _rounded("ceil", False), np.trunc: _rounded("trunc", False)}
    table |= {round: _round(True), np.round: _round(False), np.rint: _round(False), np.fix: _rounded("trunc", False)}
    table |= dict.fromkeys((float, np.float64, np.float32), _cast("float64"))
    table |= dict.fromkeys((int, np.int64, np.int32, np.intp), _cast("int64"))
    table |= dict.fromkeys((bool, np.bool_), _cast("bool"))
    table |= {pow: _power, math.pow: _of_floats("pow"), np.float_power: _of_floats("pow")}
    table |= {np.where: choice, np.clip: _clipped, np.reciprocal: _reciprocal, np.exp2: _exp2, np.negative: negated}
    table |= {np.deg2rad: _called("radians"), np.rad2deg: _called("degrees")}
    table |= {np.logical_and: lambda a, b: both([a, b]), np.logical_or: lambda a, b: either([a, b])}
    return table | {np.logical_not: inverted}


# What a function of numbers is in the language, by the function object.
TABLE = _table()
# The operators that `operated` knows, for checks ahead of it.
OPERATORS = (
    ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.BitAnd, ast.BitOr, ast.BitXor, ast.LShift,
    ast.RShift, ast.MatMult,
)  # fmt: skip
