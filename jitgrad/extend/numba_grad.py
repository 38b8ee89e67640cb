"""Gradients of Numba code without tensors: functions of numbers and arrays, also for callers that are compiled.

``numba_grad(f)`` is for who wants a gradient; ``f.adjoint`` and ``f.tangent`` of a differentiable function are what a
solver needs: products with the Jacobian from the left and from the right. Each is a Python function that runs compiled
code, and in a function compiled by ``numba.njit`` it is compiled with that function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.extend.derived_op import array_or_number, kind_of
from jitgrad.extend.differentiable import Differentiable, differentiable
from jitgrad.kernels.adjoint.callers import callable_from_numba
from jitgrad.kernels.adjoint.entries import Derivation
from jitgrad.kernels.adjoint.program import Kind
from jitgrad.kernels.compiler import compile_text

__all__ = ["numba_grad"]

Text = tuple[str, str]  # a function's name and the text that defines it


def numba_grad(function: Callable[..., Any], argnums: int | Sequence[int] = 0, *, value: bool = False) -> Any:
    """The gradient of a function that returns one float, for arrays and numbers: no tensors, no graph.

    function: what ``differentiable`` takes, or has made. argnums: the places of the arguments to differentiate by, from
    0; for one number the gradient is returned, for a sequence a tuple of them. Each has its argument's shape: an array,
    or a float. value: return the function's value, then the gradients, in one tuple.

    The result may be called from Python, and from functions that ``numba.njit`` compiles::

        @numba.njit
        def descend(x, steps):
            for _ in range(steps):
                x = x - 0.1 * gradient(x)
            return x

    TypeError if the function returns anything else than one float, or an argument to differentiate by is no float.
    """
    of = function if isinstance(function, Differentiable) else differentiable(function)
    single = isinstance(argnums, int)
    places = [argnums] if isinstance(argnums, int) else list(argnums)
    if of.outputs:
        raise TypeError(f"numba_grad: {of.name} writes into {of.outputs[0]!r}; give it a function that returns a float")
    for k in places:
        if not -len(of.inputs) <= k < len(of.inputs):
            raise TypeError(f"numba_grad: argnums has {k}, but {of.name} has {len(of.inputs)} parameters")

    def text(derivation: Derivation) -> Text:
        program = derivation.program
        wanted = tuple([program.parameters[k] for k in places])
        if not program.single or program.kinds[program.outputs[0]] != Kind("float64"):
            raise TypeError(f"numba_grad: {of.name} must return one float; f.adjoint takes seeds for other results")
        for n in wanted:
            if not program.kinds[n].floating:
                raise TypeError(f"numba_grad: the argument {n!r} of {of.name} is no float, and has no gradient")
        name, made = derivation.gradient_text(wanted, values=value, ones=True)
        if single and not value:
            made = _without_tuple(made)
        return name, made

    return _numba_function(of, False, text, "gradient", f"The gradient of {of.name} in argument {argnums}.")


def adjoint_function(of: Differentiable) -> Any:
    """``(arguments, a seed for each float result) -> the gradients of all floats among the arguments``, a tuple."""

    def text(derivation: Derivation) -> Text:
        return derivation.gradient_text(_floats(of, derivation), values=False, ones=False)

    return _numba_function(of, True, text, "adjoint", f"Products with the Jacobian of {of.name} from the left.")


def tangent_function(of: Differentiable) -> Any:
    """``(arguments, a direction for each float among them) -> (results..., their tangents...)``, a tuple."""

    def text(derivation: Derivation) -> Text:
        return derivation.tangent_text(_floats(of, derivation))

    return _numba_function(of, True, text, "tangent", f"The results of {of.name} and products with its Jacobian.")


def _floats(of: Differentiable, derivation: Derivation) -> tuple[str, ...]:
    """The parameters that have derivatives, but for those declared as constants."""
    program, constants = derivation.program, {*derivation.program.outputs, *of.op.constants}
    return tuple([n for n in program.parameters if program.kinds[n].floating and n not in constants])


def _without_tuple(text: str) -> str:
    """The text with ``return (x, )`` as ``return x``."""
    *lines, last = text.rstrip().split("\n")
    return "\n".join([*lines, last.replace("return (", "return ").replace(", )", "")]) + "\n"


def _numba_function(of: Differentiable, more: bool, text: Callable[[Derivation], Text], name: str, doc: str) -> Any:
    """A function of the parameters of ``of``, and of those more that the text's has, for Python and compiled code."""
    compiled: dict[tuple[Kind, ...], Any] = {}
    count = len(of.parameters)
    defaults = {n: p.default for n, p in of.signature.parameters.items() if p.default is not p.empty}

    def run(*args: Any) -> Any:
        kinds = tuple([kind_of(of.name, n, v) for n, v in zip(of.parameters, args[:count], strict=True)])
        derivation, given = of.derivation_of(kinds), [array_or_number(v) for v in args]
        of.checked_results(derivation, [v.copy() if isinstance(v, np.ndarray) and n in of.outputs else v
                                        for n, v in zip(of.parameters, given, strict=False)])  # fmt: skip
        if kinds not in compiled:
            compiled[kinds] = compile_text(*text(derivation))
        return compiled[kinds](*given)

    def text_for(kinds: tuple[Kind, ...]) -> Text:
        return text(of.derivation_of(kinds))

    made = callable_from_numba(f"{of.name}_{name}", of.parameters, more, defaults, run, text_for)
    made.__doc__ = doc
    return made
