"""Derivatives of the language's operators and functions, as expressions.

`partials` gives them for arguments that are simple expressions (they are written more than once) and the expression's
own value. Where a function has a kink or a jump, the derivative of one side is taken: of ``max(a, b)`` at a tie that of
``a``, of ``abs`` at zero 0.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence

from jitgrad.kernels.words.syntax import expression

__all__ = ["operator_of", "partials", "product"]

# By name: the derivative in x (and y), from x, y and the function's value v. A missing one is zero.
_RULES: dict[str, tuple[str, ...]] = {
    "exp": ("v",), "expm1": ("v + 1.0",), "log": ("1.0 / x",), "log1p": ("1.0 / (1.0 + x)",),
    "log2": (f"{1 / math.log(2)!r} / x",), "log10": (f"{1 / math.log(10)!r} / x",), "sqrt": ("0.5 / v",),
    "cbrt": ("1.0 / (3.0 * v * v)",), "square": ("2.0 * x",),
    "sin": ("cos(x)",), "cos": ("-sin(x)",), "tan": ("1.0 + v * v",),
    "sinh": ("cosh(x)",), "cosh": ("sinh(x)",), "tanh": ("1.0 - v * v",),
    "asin": ("1.0 / sqrt(1.0 - x * x)",), "acos": ("-1.0 / sqrt(1.0 - x * x)",), "atan": ("1.0 / (1.0 + x * x)",),
    "asinh": ("1.0 / sqrt(1.0 + x * x)",), "acosh": ("1.0 / sqrt(x * x - 1.0)",), "atanh": ("1.0 / (1.0 - x * x)",),
    "erf": (f"{2 / math.sqrt(math.pi)!r} * exp(-x * x)",), "erfc": (f"{-2 / math.sqrt(math.pi)!r} * exp(-x * x)",),
    "gamma": ("v * digamma(x)",), "lgamma": ("digamma(x)",), "digamma": ("polygamma(1.0, x)",),
    "polygamma": ("0.0", "polygamma(x + 1.0, y)"),
    "abs": ("sign(x)",), "float": ("1.0",), "degrees": (f"{180 / math.pi!r}",), "radians": (f"{math.pi / 180!r}",),
    "atan2": ("y / (x * x + y * y)", "-x / (x * x + y * y)"), "hypot": ("x / v", "y / v"),
    "copysign": ("sign(x) * copysign(1.0, y)",), "fmod": ("1.0", "-trunc(x / y)"),
    "max": ("1.0 if x >= y else 0.0", "0.0 if x >= y else 1.0"),
    "min": ("1.0 if x <= y else 0.0", "0.0 if x <= y else 1.0"),
    "%": ("1.0", "-floor(x / y)"), "/": ("1.0 / y", "-v / y"), "*": ("y", "x"),
    "+": ("1.0", "1.0"), "-": ("1.0", "-1.0"),
    # x ** 0 is 1 everywhere, at 0 too. 0 ** y and its derivative are 0 for y > 0; the logarithm would make that nan.
    "**": ("0.0 if y == 0.0 else y * x ** (y - 1.0)", "v * log(x) if x > 0.0 else 0.0"),
}  # fmt: skip
_RULES["pow"] = _RULES["**"]
_OPERATORS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Mod: "%", ast.Pow: "**", ast.FloorDiv: "//",
}  # fmt: skip


def operator_of(node: ast.BinOp) -> str:
    """The operator's sign."""
    return _OPERATORS[type(node.op)]


class _Fill(ast.NodeTransformer):
    def __init__(self, names: dict[str, ast.expr]):
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.names.get(node.id, node)


def _filled(rule: str, names: dict[str, ast.expr]) -> ast.expr:
    found: ast.expr = _Fill(names).visit(expression(rule))
    return found


def partials(node: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """(argument, derivative in it) of an operator or a call, for all arguments in which it isn't zero everywhere."""
    if isinstance(node, ast.UnaryOp):
        return [(node.operand, ast.Constant(-1.0 if isinstance(node.op, ast.USub) else 1.0))]
    if isinstance(node, ast.BinOp):
        arguments: Sequence[ast.expr] = (node.left, node.right)
        name = operator_of(node)
        if name == "**" and isinstance(node.right, ast.Constant):
            return [(node.left, _power_of_constant(node.left, node.right.value))]
    else:
        assert isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        arguments, name = node.args, node.func.id
        if name == "pow" and isinstance(arguments[1], ast.Constant):
            return [(arguments[0], _power_of_constant(arguments[0], arguments[1].value))]
    names = {**dict(zip("xy", arguments, strict=False)), "v": value}
    return [(a, _filled(rule, names)) for a, rule in zip(arguments, _RULES.get(name, ()), strict=False)]


def _power_of_constant(base: ast.expr, exponent: object) -> ast.expr:
    assert isinstance(exponent, (int, float))
    if exponent == 2:
        return product(ast.Constant(2.0), base)
    lower = ast.Constant(exponent - 1)
    return product(ast.Constant(float(exponent)), ast.BinOp(base, ast.Pow(), lower) if lower.value != 1 else base)


def product(left: ast.expr, right: ast.expr) -> ast.expr:
    """left * right in its shortest form."""
    if isinstance(right, ast.IfExp):  # a side that isn't taken contributes nothing, whatever left is
        return ast.IfExp(right.test, product(left, right.body), product(left, right.orelse))
    for one, other in ((left, right), (right, left)):
        if _is(one, 1.0):
            return other
        if _is(one, -1.0):
            return ast.UnaryOp(ast.USub(), other)
    if _is(left, 0.0) or _is(right, 0.0):
        return ast.Constant(0.0)
    if isinstance(right, ast.BinOp) and isinstance(right.op, ast.Div):  # a * (1 / b) is a / b
        return ast.BinOp(product(left, right.left), ast.Div(), right.right)
    if isinstance(right, ast.UnaryOp) and isinstance(right.op, ast.USub):
        return ast.UnaryOp(ast.USub(), product(left, right.operand))
    return ast.BinOp(left, ast.Mult(), right)


def _is(node: ast.expr, value: float) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is float and node.value == value
