"""Derived functions for callers that Numba compiles: their text is compiled with the caller, for its types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numba import types
from numba.extending import overload

from jitgrad.kernels.adjoint.program import Kind
from jitgrad.kernels.kernel_text import PRELUDE

__all__ = ["callable_from_numba"]


def callable_from_numba(
    name: str, parameters: Sequence[str], more: bool, defaults: dict[str, Any], run: Callable[..., Any],
    text_for: Callable[[tuple[Kind, ...]], tuple[str, str]],
) -> Any:  # fmt: skip
    """A function of these parameters, and of any number behind them if ``more``: ``run`` for callers from Python.

    text_for: (name, text) of the function to compile for parameters of given kinds. defaults: of parameters; they are
    left out where more parameters may follow.
    """

    def implementation(*args: Any) -> Any:
        kinds = tuple([_kind(name, n, t) for n, t in zip(parameters, args[: len(parameters)], strict=True)])
        made_name, text = text_for(kinds)
        scope: dict[str, Any] = {}
        exec(PRELUDE + text, scope)
        return with_defaults(scope[made_name])

    def with_defaults(function: Any) -> Any:
        found = tuple([defaults[n] for n in parameters if n in defaults])
        function.__defaults__ = None if more or not found else found
        return function

    listed = ", ".join([*parameters, *(["*more"] if more else [])])
    scope: dict[str, Any] = {"run": run, "implementation": implementation}
    # Numba compares the names of parameters of the function for Python and of what it compiles.
    exec(f"def called({listed}): return run({listed})\ndef typed({listed}): return implementation({listed})\n", scope)
    called, typed = with_defaults(scope["called"]), with_defaults(scope["typed"])
    called.__name__ = called.__qualname__ = name
    overload(called, jit_options={"error_model": "numpy", "nogil": True}, strict=False)(typed)
    return called


def _kind(function: str, name: str, given: Any) -> Kind:
    """The kind of an argument that has one of Numba's types, or of a default value."""
    value = getattr(given, "value", given) if isinstance(given, types.Omitted) else given
    for plain, dtype in ((bool, "bool"), (int, "int64"), (float, "float64")):
        if isinstance(value, plain):
            return Kind(dtype)
    found = types.unliteral(given)
    if isinstance(found, types.Array):
        return Kind(str(found.dtype), found.ndim)
    for kind, dtype in ((types.Boolean, "bool"), (types.Integer, "int64"), (types.Float, "float64")):
        if isinstance(found, kind):
            return Kind(dtype)
    raise TypeError(f"{function}: argument {name!r} must be a real number or an array of them, but its type is {given}")
