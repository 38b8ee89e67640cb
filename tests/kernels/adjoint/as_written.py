"""A function's program, run as plain Python, against the function itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.kernels.adjoint.parse import program_of
from jitgrad.kernels.adjoint.program import Kind
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


def check(function: Callable[..., Any], *arguments: Any, compiled: bool = False) -> str:
    """Assert that the program gives what the function gives; its text."""
    import numba

    plain = getattr(function, "py_func", function)
    program = program_of(function, [kind_of(a) for a in arguments])
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
