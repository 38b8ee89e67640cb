"""``numba_grad``: the gradient of Numba code without tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.extend.differentiable import Differentiable, differentiable
from jitgrad.extend.numba_functions import Text, numba_function
from jitgrad.kernels.adjoint.entries import Derivation
from jitgrad.kernels.adjoint.program import Kind

__all__ = ["numba_grad"]


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

    return numba_function(of, text, "gradient", f"The gradient of {of.name} in argument {argnums}.")


def _without_tuple(text: str) -> str:
    """The text with ``return (x, )`` as ``return x``."""
    *lines, last = text.rstrip().split("\n")
    return "\n".join([*lines, last.replace("return (", "return ").replace(", )", "")]) + "\n"
