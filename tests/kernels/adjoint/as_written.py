"""A function's program, run as plain Python, against the function itself."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.kernels.adjoint.parse import program_of
from jitgrad.kernels.adjoint.program import (
    FUNCTIONS,
    Assign,
    Exchange,
    For,
    Kind,
    Program,
    Statement,
    Store,
    blocks,
    statements,
)  # fmt: skip
from jitgrad.kernels.adjoint.write import HEAD, program_text

FLOAT, INT, BOOL = Kind("float64"), Kind("int64"), Kind("bool")
VECTOR, MATRIX = Kind("float64", 1), Kind("float64", 2)


def kind_of(value: Any) -> Kind:
    """The kind of an argument."""
    if isinstance(value, np.ndarray):
        return Kind(value.dtype.name, value.ndim)
    return BOOL if isinstance(value, bool) else INT if isinstance(value, int) else FLOAT


def text_of(function: Callable[..., Any], *arguments: Any) -> str:
    """The text of the program for such arguments."""
    plain = getattr(function, "py_func", function)
    return program_text(program_of(plain, [kind_of(a) for a in arguments]))


def built(text: str, name: str) -> Callable[..., Any]:
    """The function that a text defines."""
    space: dict[str, Any] = {}
    exec(HEAD + text, space)
    return space[name]


def _copies(arguments: tuple[Any, ...]) -> list[Any]:
    return [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]


_FORMS = (
    ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.IfExp, ast.Call, ast.Subscript,
    ast.Attribute, ast.Tuple, ast.expr_context, ast.operator, ast.unaryop, ast.cmpop, ast.boolop,
)  # fmt: skip


def _check_expression(program: Program, value: ast.expr, indices: set[str]) -> None:
    """Assert that an expression is of the language's forms, and reads no loop's index outside of the loop."""
    every = {s.index for s in statements(program.body) if isinstance(s, For)}
    for node in ast.walk(value):
        assert isinstance(node, _FORMS), ast.unparse(value)
        if isinstance(node, ast.Call):
            assert isinstance(node.func, ast.Name) and FUNCTIONS[node.func.id] == len(node.args), ast.unparse(value)
        elif isinstance(node, ast.Compare):
            assert len(node.ops) == 1, ast.unparse(value)
        elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            count = len(node.slice.elts) if isinstance(node.slice, ast.Tuple) else 1
            assert count == program.kinds[node.value.id].ndim, ast.unparse(value)
        elif isinstance(node, ast.Name):
            assert node.id in program.kinds or node.id in FUNCTIONS, node.id
            assert node.id not in every or node.id in indices, f"{node.id} outside of its loop: {ast.unparse(value)}"


def check_form(program: Program, body: list[Statement] | None = None, indices: frozenset[str] = frozenset()) -> None:
    """Assert that a program keeps to the language."""
    loops = {s.index for s in statements(program.body) if isinstance(s, For)}
    for s in program.body if body is None else body:
        assert s.line > 0
        expressions = [v for v in vars(s).values() if isinstance(v, ast.expr)]
        expressions += [v for t in vars(s).values() if isinstance(t, tuple) for v in t if isinstance(v, ast.expr)]
        for value in expressions:
            _check_expression(program, value, set(indices))
        if isinstance(s, Assign):
            assert s.target not in loops and s.target not in program.parameters, s.target
            assert program.kinds[s.target].ndim is None
        elif isinstance(s, Store):
            assert s.array not in program.parameters or s.array in program.outputs, s.array
            assert not s.increment or s.array not in {n.id for n in ast.walk(s.value) if isinstance(n, ast.Name)}
        elif isinstance(s, Exchange):
            assert len({program.kinds[t] for t in s.targets}) == 1 and not {*s.targets} & {*program.parameters}
        if isinstance(s, For):
            assert s.index not in indices
        inner = indices | {s.index} if isinstance(s, For) else indices
        for block in blocks(s):
            check_form(program, block, frozenset(inner))


def check(function: Callable[..., Any], *arguments: Any, compiled: bool = False) -> str:
    """Assert that the program gives what the function gives; its text."""
    import numba

    plain = getattr(function, "py_func", function)
    program = program_of(function, [kind_of(a) for a in arguments])
    check_form(program)
    text = program_text(program)
    own = built(text, program.name)
    if compiled:
        own = numba.njit(own)
    given, expected_arguments = _copies(arguments), _copies(arguments)
    result = own(*given)
    returned = plain(*expected_arguments)
    outs = [a for p, a in zip(program.parameters, expected_arguments) if p in program.outputs]
    values = [] if returned is None else list(returned) if isinstance(returned, tuple) else [returned]
    expected = [*outs, *values]
    found = [result] if program.single else list(result)
    assert len(found) == len(expected), text
    for name, f, e in zip(program.outputs, found, expected):
        np.testing.assert_allclose(f, e, rtol=1e-12, atol=1e-12, err_msg=text)
        kind = program.kinds[name]
        if kind.ndim is None:
            assert np.ndim(f) == 0, text
            assert not compiled or isinstance(f, {"float64": float, "int64": int, "bool": bool}[kind.dtype]), text
        else:
            assert f.dtype.name == kind.dtype, text
    for before, after in zip(expected_arguments, given):
        np.testing.assert_array_equal(before, after, err_msg=text)
    return text
