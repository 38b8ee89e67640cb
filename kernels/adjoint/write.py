"""Programs as Python text that Numba compiles."""

from __future__ import annotations

import ast
import copy
import math
from collections.abc import Sequence

from jitgrad.kernels.adjoint.program import (
    Allocate,
    Assign,
    Exchange,
    For,
    If,
    Program,
    Refuse,
    Statement,
    Store,
    While,
)  # fmt: skip

__all__ = ["HEAD", "element", "expression_text", "place_in_row", "program_text", "statement_lines"]

# What the text of programs names. The functions are Numba's, as in the user's own text.
HEAD = """\
import math
import numpy as np
from math import inf, nan
"""
# Functions of the language whose names in Python are not `math.NAME`.
_PYTHON = {
    **{n: n for n in ("_within", "digamma", "polygamma")},
    **{n: n for n in ("abs", "int", "float", "bool", "min", "max", "round")},
    **{n: f"np.{n}" for n in ("cbrt", "fmod", "sign", "square")},
    "floor": "np.floor", "ceil": "np.ceil", "trunc": "np.trunc",
}  # fmt: skip


def _named(node: ast.AST) -> ast.AST:
    """A copy with functions and numbers by Python's names. Parts of the tree may be shared, so nothing is changed."""
    if isinstance(node, ast.Constant) and isinstance(node.value, float) and not math.isfinite(node.value):
        name: ast.expr = ast.Name("nan" if math.isnan(node.value) else "inf", ast.Load())
        return name if node.value != -math.inf else ast.UnaryOp(ast.USub(), name)
    made = copy.copy(node)
    for field, value in ast.iter_fields(node):
        if isinstance(value, list):
            setattr(made, field, [_named(v) if isinstance(v, ast.AST) else v for v in value])
        elif isinstance(value, ast.AST):
            setattr(made, field, _named(value))
    if isinstance(made, ast.Call) and isinstance(made.func, ast.Name):
        made.func.id = _PYTHON.get(made.func.id, f"math.{made.func.id}")
    return made


def expression_text(value: ast.expr) -> str:
    """The expression in Python, its functions by the names that Numba knows."""
    return ast.unparse(_named(value))


def element(array: str, index: Sequence[ast.expr]) -> str:
    """``array[index]``."""
    return f"{array}[{', '.join(map(expression_text, index)) or '()'}]"


def statement_lines(body: Sequence[Statement], kinds: dict) -> list[str]:
    """The lines of statements."""
    lines: list[str] = []
    for s in body:
        lines += _lines(s, kinds)
    return lines


def _inner(body: Sequence[Statement], kinds: dict, *last: str) -> list[str]:
    return [f"    {line}" for line in ([*statement_lines(body, kinds), *last] or ["pass"])]


def _lines(s: Statement, kinds: dict) -> list[str]:
    if isinstance(s, Assign):
        return [f"{s.target} = {expression_text(s.value)}"]
    if isinstance(s, Store):
        return [f"{element(s.array, s.index)} {'+=' if s.increment else '='} {expression_text(s.value)}"]
    if isinstance(s, Allocate):
        return [allocation(s, kinds[s.array].dtype)]
    if isinstance(s, Exchange):
        return [f"{', '.join(s.targets)} = {', '.join(s.sources)}"]
    if isinstance(s, Refuse):
        return [f"if {expression_text(s.test)}:", f"    raise {s.error}({s.message!r})"]
    if isinstance(s, If):
        lines = [f"if {expression_text(s.test)}:", *_inner(s.body, kinds)]
        return [*lines, "else:", *_inner(s.orelse, kinds)] if s.orelse else lines
    if isinstance(s, For):
        head = f"for {s.index} in {range_text(s.start, s.stop, s.step)}:"
        return [head, *_inner(s.body, kinds, *_leave(s.leave))]
    assert isinstance(s, While)
    return [f"while {expression_text(s.test)}:", *_inner(s.body, kinds, *_leave(s.leave))]


def _leave(flag: str | None) -> list[str]:
    return [f"if {flag}:", "    break"] if flag else []


def allocation(s: Allocate, dtype: str) -> str:
    """``array = np.zeros((n, m), np.float64)`` and the like."""
    shape = "(" + "".join(f"{expression_text(n)}, " for n in s.shape) + ")"
    dtype = "bool_" if dtype == "bool" else dtype
    if s.fill is None:
        return f"{s.array} = np.empty({shape}, np.{dtype})"
    if isinstance(s.fill, ast.Constant) and s.fill.value in (0, 1):
        return f"{s.array} = np.{'ones' if s.fill.value else 'zeros'}({shape}, np.{dtype})"
    return f"{s.array} = np.full({shape}, {expression_text(s.fill)}, np.{dtype})"


def range_text(start: ast.expr, stop: ast.expr, step: ast.expr) -> str:
    """``range(...)`` in its shortest form."""
    if not (isinstance(step, ast.Constant) and step.value == 1):
        return f"range({', '.join(map(expression_text, (start, stop, step)))})"
    if isinstance(start, ast.Constant) and start.value == 0:
        return f"range({expression_text(stop)})"
    return f"range({expression_text(start)}, {expression_text(stop)})"


def place_in_row(index: ast.expr, start: ast.expr, step: ast.expr) -> str:
    """Which iteration has an index, where the step is 1 or -1."""
    if ast.unparse(step) == "-1":
        return expression_text(ast.BinOp(start, ast.Sub(), index))
    if isinstance(start, ast.Constant) and start.value == 0:
        return expression_text(index)
    return expression_text(ast.BinOp(index, ast.Sub(), start))


def program_text(program: Program) -> str:
    """The program as the definition of one function, which returns its outputs."""
    lines = _inner(program.body, program.kinds)
    results = ", ".join(program.outputs) + ("" if program.single else ",") if program.outputs else "()"
    head = f"def {program.name}({', '.join(program.parameters)}):"
    return "\n".join([head, *lines, f"    return {results}"]) + "\n"
