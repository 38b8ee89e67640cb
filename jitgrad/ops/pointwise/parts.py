"""Parts of floats and their inverse, steps, and Python's functions applied to every element."""

from __future__ import annotations

import functools
from typing import Any

from jitgrad.core import dtypes, return_types
from jitgrad.core.errors import must_be_tensor
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch import table
from jitgrad.dispatch.inplace_forms import inplace_form
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.registry import method, public
from jitgrad.dispatch.underived import underived
from jitgrad.kernels.elementwise import parts
from jitgrad.ops.pointwise.arithmetic import power

__all__: list[str] = []

for _op in (parts.Gcd, parts.Lcm):
    public(_op.apply.operation.inplace, f"{_op.name}_", method_too=False)


@public
@takes_out
def frexp(input: Tensor) -> Any:
    """(mantissa, exponent) with ``input = mantissa * 2 ** exponent``, the mantissa from 1 / 2 to 1 in size.

    Exponents are int32; zeros, infinities and NaN have exponent 0. RuntimeError for tensors that are not of floats.
    """
    if not isinstance(input, Tensor):
        raise must_be_tensor("frexp", "input", 1, input)
    if input._layout.dtype.category != 2:
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    exponent = table.binary_exponent(input.detach()).to(dtypes.int32)
    return return_types.frexp(table.frexp_mantissa(input), exponent)


@public
@functools.partial(takes_out, iterated=True)
def ldexp(input: Tensor, other: Tensor) -> Tensor:
    """``input * 2 ** other``."""
    for place, operand in enumerate((input, other), 1):
        if not isinstance(operand, Tensor):
            raise must_be_tensor("ldexp", ("input", "other")[place - 1], place, operand)
    return table.mul(input, power(2.0, other))


public(inplace_form(ldexp))


@public
@functools.partial(takes_out, iterated=True)
def heaviside(input: Tensor, values: Tensor) -> Tensor:
    """0 where ``input`` is negative, 1 where it is positive, ``values`` where it is 0. Not differentiable.

    RuntimeError unless both have one dtype, which is not complex.
    """
    for place, operand in enumerate((input, values), 1):
        if not isinstance(operand, Tensor):
            raise must_be_tensor("heaviside", ("input", "values")[place - 1], place, operand)
    if input._layout.dtype.is_complex or values._layout.dtype.is_complex:
        raise RuntimeError("heaviside is not yet implemented for complex tensors.")
    if input._layout.dtype is not values._layout.dtype:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")
    return underived("aten::heaviside", table.heaviside(input, values), input, values)


method(inplace_form(heaviside))


@public
def fill(input: Tensor, value: Any) -> Tensor:
    """A tensor like ``input`` of the one ``value``: a number, or a tensor without dimensions."""
    if not isinstance(input, Tensor):
        raise must_be_tensor("fill", "input", 1, input)
    return input.clone().fill_(value)
