"""where, clamp and their kin, closeness, and combinations of three tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.core.errors import (
    cpp_type,
    invalid_combination,
    must_be_tensor,
    not_implemented_for,
    overflow,
    scalar_type,
)
from jitgrad.core.layout import intern
from jitgrad.core.tensor import Tensor, recording, wrap
from jitgrad.core.user_frame import warn_once
from jitgrad.dispatch import table
from jitgrad.dispatch.batch_rules import check_one_shape
from jitgrad.dispatch.older_order import older_order
from jitgrad.dispatch.operand_checks import NUMBERS
from jitgrad.dispatch.out_argument import check_out, into_out
from jitgrad.dispatch.registry import method, public, set_method
from jitgrad.dispatch.sizes import is_real
from jitgrad.ops.creation.constants import ones_like
from jitgrad.ops.pointwise.arithmetic import apply, published

__all__ = ["clamp", "clamp_max", "clamp_min", "constant_in", "where"]


# -- where ----------------------------------------------------------------------------------------


def _condition(condition: Any) -> Tensor:
    if not isinstance(condition, Tensor):
        raise must_be_tensor("where", "condition", 1, condition)
    dtype = condition._layout.dtype
    if dtype.name == "bool":
        return condition
    if dtype.name == "uint8":
        warn_once(
            "where received a uint8 condition tensor. This behavior is deprecated and will be removed in a future "
            "version of PyTorch. Use a boolean condition instead."
        )
        return condition != 0
    raise RuntimeError(
        f"where expected condition to be a boolean tensor, but got a tensor with dtype {scalar_type(dtype)}"
    )


def where(condition: Any, input: Any = None, other: Any = None, *, out: Any = None) -> Any:
    """``input`` where the condition holds, else ``other``; the three broadcast.

    ``condition`` is a boolean tensor, the others are tensors or numbers. With the condition alone:
    the indices of its true elements, a tensor for each dimension.
    """
    if input is None and other is None:
        check_one_shape("where", condition)
        return condition.nonzero(as_tuple=True)
    result = apply(table.where, _condition(condition), input, other)
    if out is None:
        return result
    check_out(out, (condition, input, other))
    return into_out("where", result, out)


public(where, method_too=False)


@method
def _where(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    """This tensor where the condition holds, else ``other``."""
    return where(condition, self, other)


set_method("where", _where)

_ALWAYS = wrap(np.array(True), intern(np.dtype(np.bool_), ()))


def constant_in(value: Any, x: Any) -> Any:
    """``value`` as a function of ``x`` whose derivative is zero; see the word of that name."""
    if not (isinstance(x, Tensor) and recording(x)):
        return value
    return table.where(_ALWAYS, value, x)


# -- clamp ----------------------------------------------------------------------------------------


_PLAIN = (int, float)


def _clamp_op(x: Any, min: Any, max: Any) -> table.Function:
    """Which op of the table clamps with these bounds."""
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    given = [b for b in (min, max) if b is not None]
    tensors = [isinstance(b, Tensor) for b in given]
    if any(tensors) and not all(tensors):
        raise invalid_combination("clamp", (x, min, max))
    if min is not None and max is not None:
        return table.clamp if all(tensors) else table.clamp_numbers
    if max is None:
        return table.clamp_low if all(tensors) else table.clamp_low_number
    return table.clamp_high if all(tensors) else table.clamp_high_number


def clamp(input: Tensor, min: Any = None, max: Any = None, *, inplace: bool = False) -> Tensor:
    """``input`` kept between ``min`` and ``max``: numbers, tensors that broadcast, or None.

    Where the bounds cross the result is ``max``. The gradient flows at the bounds, not beyond.
    """
    if type(min) in _PLAIN:  # most calls: nothing to look for
        if type(max) in _PLAIN:
            return apply(table.clamp_numbers, input, min, max, inplace=inplace)
        if max is None:
            return apply(table.clamp_low_number, input, min, inplace=inplace)
    elif min is None and type(max) in _PLAIN:
        return apply(table.clamp_high_number, input, max, inplace=inplace)
    if isinstance(min, NUMBERS) or isinstance(max, NUMBERS):
        min, max = _as_number(min), _as_number(max)
    return apply(_clamp_op(input, min, max), input, *[b for b in (min, max) if b is not None], inplace=inplace)


def _as_number(bound: Any) -> Any:
    """Beside a number a tensor without dims is one, too, as for PyTorch's arguments; unless it requires grad."""
    if isinstance(bound, Tensor) and not bound._layout.ndim and not bound._requires_grad:
        return bound.item()
    return bound


published("clamp", inplace_function=True)(clamp)
published("clip", inplace_function=True)(clamp)


def _refuse_bools(kernel: str, input: Tensor, bound: Any) -> None:
    if isinstance(bound, bool) and isinstance(input, Tensor) and input._layout.dtype.category == 0:
        raise not_implemented_for(kernel, input._layout.dtype)


@published("clamp_min", inplace_function=True)
def clamp_min(input: Tensor, min: Any, *, inplace: bool = False) -> Tensor:
    """``input``, but at least ``min``: a number or a tensor."""
    _refuse_bools("clamp_min_scalar_cpu", input, min)
    return apply(table.clamp_min if isinstance(min, Tensor) else table.clamp_min_number, input, min, inplace=inplace)


@published("clamp_max", inplace_function=True)
def clamp_max(input: Tensor, max: Any, *, inplace: bool = False) -> Tensor:
    """``input``, but at most ``max``: a number or a tensor."""
    _refuse_bools("clamp_max_scalar_cpu", input, max)
    return apply(table.clamp_max if isinstance(max, Tensor) else table.clamp_max_number, input, max, inplace=inplace)


# -- three tensors --------------------------------------------------------------------------------


_PRODUCT = ("input", "tensor1", "tensor2")


@published("addcmul")
def addcmul(
    input: Tensor, tensor1: Tensor, tensor2: Tensor, *older: Tensor, value: Any = 1, inplace: bool = False
) -> Tensor:
    """``input + value * tensor1 * tensor2``; shapes broadcast, dtypes promote."""
    if older:
        given = input, tensor1, tensor2, *older
        input, tensor1, tensor2, value = older_order("addcmul", _PRODUCT, ("value",), given)
    return apply(table.addcmul, input, tensor1, tensor2, value, inplace=inplace)


@published("addcdiv")
def addcdiv(
    input: Tensor, tensor1: Tensor, tensor2: Tensor, *older: Tensor, value: Any = 1, inplace: bool = False
) -> Tensor:
    """``input + value * tensor1 / tensor2``; RuntimeError for two integer tensors."""
    if older:
        given = input, tensor1, tensor2, *older
        input, tensor1, tensor2, value = older_order("addcdiv", _PRODUCT, ("value",), given)
    if tensor1._layout.dtype.category < 2 and tensor2._layout.dtype.category < 2:
        raise RuntimeError(
            "Integer division with addcdiv is no longer supported, and in a future  release addcdiv will perform a "
            "true division of tensor1 and tensor2. The historic addcdiv behavior can be implemented as (input + value "
            "* torch.trunc(tensor1 / tensor2)).to(input.dtype) for integer inputs and as (input + value * tensor1 / "
            "tensor2) for float inputs. The future addcdiv behavior is just the latter implementation: (input + value "
            "* tensor1 / tensor2), for all dtypes."
        )
    return apply(table.addcdiv, input, tensor1, tensor2, value, inplace=inplace)


@published("lerp")
def lerp(input: Tensor, end: Tensor, weight: Any, *, inplace: bool = False) -> Tensor:
    """``input + weight * (end - input)``; ``weight`` is a number or a tensor."""
    if isinstance(weight, Tensor) and weight._layout.dtype is not input._layout.dtype and is_real(weight):
        weight = weight.item()
    tensors = {"end": end, "weight": weight} if isinstance(weight, Tensor) else {"end": end}
    for name, tensor in tensors.items():
        if tensor._layout.dtype is not input._layout.dtype:
            titles = [cpp_type(d) for d in (input._layout.dtype, tensor._layout.dtype)]
            raise RuntimeError(f"expected dtype {titles[0]} for `{name}` but got dtype {titles[1]}")
    if input._layout.dtype.category < 2:
        kind = "tensor" if isinstance(weight, Tensor) else "scalar"
        raise not_implemented_for(f"lerp_kernel_{kind}", input._layout.dtype)
    if isinstance(weight, complex) and not input._layout.dtype.is_complex:
        raise overflow(input._layout.dtype)
    return apply(table.lerp if isinstance(weight, Tensor) else table.lerp_number, input, end, weight, inplace=inplace)


# -- parts of complex numbers ------------------------------------------------------------------------------------


@public
def isreal(input: Tensor) -> Tensor:
    """Whether the imaginary part is zero."""
    if input._layout.dtype.is_complex:
        return input.imag == 0
    return ones_like(input, dtype=(input == input)._layout.dtype)
