"""Derived functions of numbers and arrays, without tensors, also for callers that are compiled.

``f.adjoint`` and ``f.tangent`` of a differentiable function are what a solver needs: products with the Jacobian from
the left and from the right; ``numba_grad(f)`` returns its gradient. Each is a Python function that runs compiled code,
and in a function compiled by ``numba.njit`` it is compiled with that function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jitgrad.extend.derived_op import array_or_number, kind_of
from jitgrad.kernels.adjoint.callers import callable_from_numba
from jitgrad.kernels.adjoint.entries import Derivation
from jitgrad.kernels.adjoint.program import Kind
from jitgrad.kernels.compiler import compile_text

if TYPE_CHECKING:
    from jitgrad.extend.differentiable import Differentiable

__all__ = ["Text", "adjoint_function", "numba_function", "tangent_function"]

Text = tuple[str, str]  # a function's name and the text that defines it


def adjoint_function(of: Differentiable) -> Any:
    """``(arguments, a seed for each float result) -> the gradients of all floats among the arguments``, a tuple."""

    def text(derivation: Derivation) -> Text:
        return derivation.gradient_text(_floats(of, derivation), values=False, ones=False)

    doc = f"Products with the Jacobian of {of.name} from the left."
    return numba_function(of, text, "adjoint", doc, "seed", lambda derivation: derivation.floats())


def tangent_function(of: Differentiable) -> Any:
    """``(arguments, a direction for each float among them) -> (results..., their tangents...)``, a tuple."""

    def text(derivation: Derivation) -> Text:
        return derivation.tangent_text(_floats(of, derivation))

    doc = f"The results of {of.name} and products with its Jacobian."
    return numba_function(of, text, "tangent", doc, "direction", lambda derivation: _floats(of, derivation))


def _floats(of: Differentiable, derivation: Derivation) -> tuple[str, ...]:
    """The parameters that have derivatives, but for those declared as constants."""
    program, constants = derivation.program, {*derivation.program.outputs, *of.op.constants}
    return tuple([n for n in program.parameters if program.kinds[n].floating and n not in constants])


def numba_function(
    of: Differentiable, text: Callable[[Derivation], Text], name: str, doc: str, what: str = "",
    more: Callable[[Derivation], Sequence[str]] = lambda derivation: (),
) -> Any:  # fmt: skip
    """A function of the parameters of ``of``, and of one more for each name in ``more``, for Python and compiled code.

    what: those more are called, "" where there are none; each is of the shape of what it is for.
    """
    compiled: dict[tuple[Kind, ...], Any] = {}
    count, title = len(of.parameters), f"{of.name}.{name}"
    defaults = {n: p.default for n, p in of.signature.parameters.items() if p.default is not p.empty}

    def run(*args: Any) -> Any:
        kinds = tuple([kind_of(of.name, n, v) for n, v in zip(of.parameters, args[:count], strict=True)])
        derivation, given = of.derivation_of(kinds), [array_or_number(v) for v in args]
        of.checked_results(derivation, [v.copy() if isinstance(v, np.ndarray) and n in of.outputs else v
                                        for n, v in zip(of.parameters, given, strict=False)])  # fmt: skip
        if kinds not in compiled:
            compiled[kinds] = compile_text(*text(derivation))
        further = {n: derivation.program.kinds[n] for n in more(derivation)}
        _compare_dimensions(title, what, further, given[count:])
        try:
            return compiled[kinds](*given)
        except ValueError as error:
            raise _of_shape(title, error) from None

    def text_for(kinds: tuple[Kind, ...]) -> Text:
        return text(of.derivation_of(kinds))

    made = callable_from_numba(f"{of.name}_{name}", of.parameters, bool(what), defaults, run, text_for)
    made.__doc__ = doc
    return made


def _compare_dimensions(title: str, what: str, wanted: dict[str, Kind], given: Sequence[Any]) -> None:
    """Refuse arguments behind a function's own that are other than those wanted in number, kind or dimensions."""
    if len(given) != len(wanted):
        raise TypeError(f"{title}(): a {what} of each of {[*wanted]} is wanted, but got {len(given)}")
    for (n, kind), value in zip(wanted.items(), given, strict=True):
        ndim, got = kind.ndim or 0, kind_of(title, f"{what} of {n}", value).ndim or 0
        if ndim != got:
            raise ValueError(f"{title}(): the {what} of {n!r} must have {ndim} dimensions, but has {got}")


def _of_shape(title: str, error: ValueError) -> ValueError:
    """The error of compiled code, with the shapes in its message if it is about these."""
    if len(error.args) != 3:
        return error
    must, got, wanted = error.args
    return ValueError(f"{title}(): {must} {wanted}, but has {got}")
