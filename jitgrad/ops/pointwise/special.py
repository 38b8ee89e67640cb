"""Special functions whose arguments decide which row of the table is applied, or which are made of several rows.

Those that are one row are published by kernels/elementwise/bessel.py, orthogonal_polynomials.py and probability.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from jitgrad.core import dtypes
from jitgrad.core.errors import must_be_tensor, not_implemented_for
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch import table
from jitgrad.dispatch.inplace_forms import inplace_form
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.registry import method, public
from jitgrad.dispatch.sizes import int_argument
from jitgrad.dispatch.underived import underived
from jitgrad.kernels.elementwise import bessel, probability  # noqa: F401  (declare the ops)
from jitgrad.ops.creation.ranges import arange
from jitgrad.ops.pointwise.arithmetic import apply, published

__all__: list[str] = []

public(table.i0.operation.inplace, "i0_", method_too=False)


def _derived_in_second(op: table.Function, name: str, title: str) -> Callable[..., Tensor]:
    """``op`` as a function that refuses gradients for its first operand: PyTorch has no derivative in it."""
    error = f"the derivative for '{title}' is not implemented."

    def function(input: Any, other: Any, *, inplace: bool = False) -> Tensor:
        if grad_state.enabled and isinstance(input, Tensor) and input._requires_grad and not inplace:
            input = underived(name, input.detach(), input, error=NotImplementedError(error))
        return apply(op, input, other, inplace=inplace)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = op.__doc__
    return function


for _op, _name in ((table.igamma, "igamma"), (table.igammac, "igammac")):
    published(_name)(_derived_in_second(_op, _name, f"{_name}: input"))
_zeta = _derived_in_second(table.special_zeta, "special_zeta", "zeta")
public(takes_out(_zeta, "special_zeta", iterated=True), module="special")


@functools.partial(takes_out, iterated=True)
def special_xlog1py(input: Any, other: Any) -> Tensor:
    """``input * log1p(other)``, tensors or numbers; 0 where ``input`` is 0 and ``other`` is not NaN."""
    if isinstance(other, Tensor):
        return apply(table.special_xlog1py if isinstance(input, Tensor) else table.xlog1py_left, input, other)
    return apply(table.xlog1py_right, input, other)


public(special_xlog1py, module="special")


def mvlgamma(input: Tensor, p: int) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension ``p``.

    That is the sum of ``lgamma(input - j / 2)`` over j < p, and p (p - 1) / 4 log(pi). RuntimeError for p < 1.
    """
    if not isinstance(input, Tensor):
        raise must_be_tensor("mvlgamma", "input", 1, input)
    p = int_argument("mvlgamma", "p", 2, p)
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    dtype = input._layout.dtype
    if dtype.is_complex:
        raise not_implemented_for("arange_cpu", dtype)
    real = dtype if dtype.category == 2 else dtypes.get_default_dtype()
    steps = arange(0.5 * (1 - p), 0.25, 0.5, dtype=real, device=input.device)
    return (input.unsqueeze(-1) + steps).lgamma().sum(-1) + 0.28618247146235004 * (p * (p - 1))


public(takes_out(mvlgamma))
method(inplace_form(mvlgamma))
