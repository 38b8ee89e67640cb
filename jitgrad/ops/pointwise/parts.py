"""Functions of few rows: the parts of floats, steps, constants."""

from __future__ import annotations

import functools
from typing import Any

from jitgrad.core import dtypes, return_types
from jitgrad.core.errors import must_be_tensor
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch import table
from jitgrad.dispatch.inplace_forms import inplace_form
from jitgrad.dispatch.operand_checks import NUMBERS
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.registry import method, public
from jitgrad.dispatch.underived import underived
from jitgrad.kernels.elementwise import parts  # noqa: F401  (declares the ops)
from jitgrad.ops.creation.constants import convert_number, filled_like
from jitgrad.ops.shape.copy import cast

__all__: list[str] = []

for _op in (table.gcd, table.lcm, table.ldexp):
    public(_op.operation.inplace, f"{_op.__name__}_", method_too=False)


def _check_tensors(op: str, **operands: Any) -> None:
    """TypeError for the first operand that is no tensor."""
    for place, (name, operand) in enumerate(operands.items(), 1):
        if not isinstance(operand, Tensor):
            raise must_be_tensor(op, name, place, operand)


@public
@takes_out
def frexp(input: Tensor) -> Any:
    """(mantissa, exponent) with ``input = mantissa * 2 ** exponent``, the mantissa from 1 / 2 to 1 in size.

    Exponents are int32; zeros, infinities and NaN have exponent 0. RuntimeError for tensors that are not of floats.
    """
    _check_tensors("frexp", input=input)
    if input._layout.dtype.category != 2:
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    exponent = cast(table.binary_exponent(input), dtypes.int32)
    return return_types.frexp(table.frexp_mantissa(input), exponent)


@public
@functools.partial(takes_out, iterated=True)
def heaviside(input: Tensor, values: Tensor) -> Tensor:
    """0 where ``input`` is negative, 1 where it is positive, ``values`` where it is 0. Not differentiable.

    RuntimeError unless both have one dtype, which is not complex.
    """
    _check_tensors("heaviside", input=input, values=values)
    if input._layout.dtype.is_complex or values._layout.dtype.is_complex:
        raise RuntimeError("heaviside is not yet implemented for complex tensors.")
    if input._layout.dtype is not values._layout.dtype:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")
    result = table.heaviside(input, values)
    recorded = grad_state.enabled and (input._requires_grad or values._requires_grad)
    return underived("aten::heaviside", result, input, values) if recorded else result


method(inplace_form(heaviside))


@functools.partial(public, method_too=False)
def fill(input: Tensor, value: Any) -> Tensor:
    """A tensor like ``input`` of the one ``value``: a number, or a tensor without dimensions."""
    _check_tensors("fill", input=input)
    recorded = grad_state.enabled and input._requires_grad
    if recorded or not isinstance(value, NUMBERS):
        return input.clone().fill_(value)
    return filled_like(input, convert_number(value, input.dtype))
