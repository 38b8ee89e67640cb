"""Operators of tensors, and functions that choose among the table's ops: by rounding mode, or by which operands are
numbers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from jitgrad.core.dtypes import category_of, complex128, float64
from jitgrad.core.errors import invalid_combination, must_be_tensor, scalar_type
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.tensor import Tensor
from jitgrad.core.wrapped import innermost_tensor
from jitgrad.dispatch import table
from jitgrad.dispatch.inplace_forms import inplace_form
from jitgrad.dispatch.older_order import older_order
from jitgrad.dispatch.operand_checks import NUMBERS, check_inplace_target
from jitgrad.dispatch.out_argument import into_out, takes_out
from jitgrad.dispatch.overriding import is_overriding
from jitgrad.dispatch.parameter_types import mark_explaining
from jitgrad.dispatch.registry import method, public, set_method
from jitgrad.dispatch.sizes import int_argument, number_argument
from jitgrad.dispatch.underived import underived
from jitgrad.kernels.launch import check, launch
from jitgrad.kernels.loops.zero_check import any_zero
from jitgrad.ops.creation.type_info import result_type
from jitgrad.ops.shape.copy import contiguous

__all__ = ["by_operands"]

Function = Callable[..., Any]


def published(name: str, inplace_function: bool = False) -> Callable[[Function], Function]:
    """Publish ``function(input, ..., inplace=False)`` as function, method and in-place method.

    inplace_function: whether ``jitgrad.NAME_`` is there too, which PyTorch has of some ops.
    """

    def publish(function: Function) -> Function:
        public_function = takes_out(function, name, iterated=True)

        @functools.wraps(function)
        def in_place(self: Tensor, *args: Any, **named: Any) -> Tensor:
            return function(self, *args, **named, inplace=True)

        in_place.__name__ = in_place.__qualname__ = f"{name}_"
        public(public_function, name)
        (public if inplace_function else method)(in_place, f"{name}_")
        return function

    return publish


def apply(op: table.Function, *operands: Any, inplace: bool = False) -> Tensor:
    """Apply one of the table's ops, the result written into the first operand if asked."""
    return op.operation.inplace(*operands) if inplace else op(*operands)


def by_operands(
    name: str, both: table.Function, right: table.Function | None = None, left: table.Function | None = None,
    check: Function | None = None, inplace_function: bool = False,
) -> Function:  # fmt: skip
    """Publish a binary function that is one op for two tensors, others if an operand is a number."""

    def function(input: Any, other: Any, *, inplace: bool = False) -> Tensor:
        if check is not None:
            check(input, other)
        if isinstance(other, Tensor):
            chosen = both if inplace or isinstance(input, Tensor) else (left or both)
        else:
            chosen = right or both
        return apply(chosen, input, other, inplace=inplace)

    _name(function, name, both.__doc__)
    return published(name, inplace_function)(function)


# -- sums and differences -------------------------------------------------------------------------


def _category(operands: tuple[Any, ...]) -> int:
    """The category of the dtype that the operands promote to: 0 bool, 1 integer, 2 floating point, 3 complex."""
    return max(o._layout.dtype.category if isinstance(o, Tensor) else category_of(o) for o in operands)


def _factor(op: str, alpha: Any, *operands: Any) -> Any:
    """``alpha`` as a number; TypeError if it is none, RuntimeError if its type is above that of the result.

    A bool is only for results that are bools.
    """
    alpha = number_argument(op, "alpha", None, alpha)
    if alpha.__class__ is float and operands[0].__class__ is Tensor and operands[0]._layout.dtype.category >= 2:
        return alpha
    result = _category(operands)
    if isinstance(alpha, bool) and result:
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    if result < 2 and isinstance(alpha, (float, complex)):
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    if result < 3 and isinstance(alpha, complex):
        raise RuntimeError("For non-complex input tensors, argument alpha must not be a complex number.")
    return alpha


def _scaled(name: str, fast: table.Function, scaled: table.Function) -> Function:
    """Publish a sum or difference that is ``fast`` unless ``alpha`` is given, and its in-place method; return that."""
    fast_in_place = fast.operation.inplace

    def function(input: Any, other: Any, *older: Any, alpha: Any = 1, out: Any = None) -> Tensor:
        if older:
            input, other, alpha = older_order(name, ("input", "other"), ("alpha",), (input, other, *older))
        if alpha.__class__ is int and alpha == 1:  # nearly always; the op without alpha has the shorter path
            return fast(input, other) if out is None else fast(input, other, out=out)
        return scaled(input, other, _factor(name, alpha, input, other), out=out)

    def in_place(self: Tensor, other: Any, *older: Any, alpha: Any = 1) -> Tensor:
        if older:
            self, other, alpha = older_order(f"{name}_", ("input", "other"), ("alpha",), (self, other, *older))
        if alpha.__class__ is int and alpha == 1:
            return fast_in_place(self, other)
        return scaled.operation.inplace(self, other, _factor(f"{name}_", alpha, self, other))

    _name(function, name, f"{scaled.operation.op.__doc__}\n\nShapes broadcast; dtypes promote.")
    _name(in_place, f"{name}_", f"In-place version of ``{name}``.")
    mark_explaining(function)  # the table's ops do
    public(function)
    return method(in_place, f"{name}_", fast=True)


def _name(function: Function, name: str, doc: str | None) -> None:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc


add_ = _scaled("add", table.add, table.add_scaled)
sub_ = _scaled("sub", table.sub, table.sub_scaled)
_scaled("subtract", table.sub, table.sub_scaled)


@public
def rsub(input: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """``other - alpha * input``."""
    return apply(table.rsub if isinstance(other, Tensor) else table.rsub_number, input, other, alpha)


# -- quotients and remainders ---------------------------------------------------------------------


def _refuse_zero(input: Any, other: Any) -> None:
    """Integer division by zero is an error, as on PyTorch's CPU, if there is an element to divide."""
    if other.__class__ in (int, float) and other != 0:
        return
    if isinstance(input, Tensor) and not input._layout.numel:
        return
    if _category((input, other)) != 1:
        return
    if not isinstance(other, Tensor):
        if isinstance(other, NUMBERS) and other == 0:
            _fail_at_zero()
        return
    found = np.zeros(1, np.int64)
    values = innermost_tensor(other).detach()  # all samples', as PyTorch divides them
    launch(any_zero, contiguous(values)._data.reshape(-1), found)
    check(found, _fail_at_zero)


def _fail_at_zero(*_: Any) -> NoReturn:
    raise RuntimeError("ZeroDivisionError")


remainder = by_operands("remainder", table.remainder, table.remainder_number, check=_refuse_zero)
fmod = by_operands("fmod", table.fmod, table.fmod_number, check=_refuse_zero)


# A mode of None gives the quotient a node of another name, as in PyTorch.
_NOT_GIVEN: Any = type("NotGiven", (), {"__repr__": lambda self: "None"})()


def _div(name: str) -> tuple[Function, Function]:
    """Publish the quotient and its in-place method; return both."""
    fast, fast_in_place = table.div, table.div.operation.inplace

    def function(input: Any, other: Any, *, rounding_mode: str | None = _NOT_GIVEN, out: Any = None) -> Tensor:
        if rounding_mode is _NOT_GIVEN:
            return fast(input, other) if out is None else fast(input, other, out=out)
        op = _rounded(rounding_mode, input, other)
        if op is table.div_trunc and _of_halves(input, other):
            return into_out("div", table.trunc(fast(input, other)), out)
        return op.operation.general(input, other, out=out)

    def in_place(self: Tensor, other: Any, *, rounding_mode: str | None = _NOT_GIVEN) -> Tensor:
        if rounding_mode is _NOT_GIVEN:
            return fast_in_place(self, other)
        if rounding_mode == "trunc" and _of_halves(self, other):
            return table.trunc.operation.inplace(fast_in_place(self, other))
        return apply(_rounded(rounding_mode, self, other), self, other, inplace=True)

    _name(function, name, _DIV)
    _name(in_place, f"{name}_", f"In-place version of ``{name}``.")
    mark_explaining(function)
    return public(function), method(in_place, f"{name}_", fast=True)


_DIV = """``input / other``, in floating point also for integers.

With ``rounding_mode="trunc"`` or ``"floor"`` the quotient is rounded towards zero or down, integers
stay integers, and the gradient is zero.
"""


def _of_halves(x: Any, y: Any) -> bool:
    """Whether a quotient is a 16-bit float. PyTorch rounds it to such before it takes the whole part."""
    dtypes = [v._layout.dtype for v in (x, y) if isinstance(v, Tensor)]
    return any(d.is_half for d in dtypes) and result_type(x, y).is_half


def _rounded(mode: str | None, input: Any, other: Any) -> table.Function:
    if mode is None:
        return table.div_unrounded
    if not isinstance(mode, str):
        raise invalid_combination("div", (input, other), rounding_mode=mode)
    if mode not in ("floor", "trunc"):
        raise RuntimeError(f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{mode}'")
    _refuse_zero(input, other)
    return table.div_floor if mode == "floor" else table.div_trunc


div, div_ = _div("div")
_div("divide")
public(table.div, "true_divide")
method(table.div.operation.inplace, "true_divide_", fast=True)


@published("floor_divide")
def floor_divide(input: Any, other: Any, *, inplace: bool = False) -> Tensor:
    """``input / other`` rounded down; RuntimeError for integers by zero. Not differentiable."""
    _refuse_zero(input, other)
    required = getattr(input, "_requires_grad", False) or getattr(other, "_requires_grad", False)
    if not (required and grad_state.enabled) and (inplace or not grad_state.levels):
        return apply(table.div_floor, input, other, inplace=inplace)
    if inplace:
        # The write is not recorded, so what recording would have refused is checked here.
        check_inplace_target(input, True)
        apply(table.div_floor, input.detach(), other.detach() if isinstance(other, Tensor) else other, inplace=inplace)
        return underived("aten::floor_divide_", input, input, other)
    plain = [o.detach() if isinstance(o, Tensor) else o for o in (input, other)]
    return underived("aten::floor_divide", apply(table.div_floor, *plain), input, other)


# -- powers and others by kind of operand ---------------------------------------------------------


@published("pow")
def power(input: Any, exponent: Any, *, inplace: bool = False) -> Tensor:
    """``input`` to the power ``exponent``, tensors or numbers.

    RuntimeError for integers to a negative number; negative floats to a broken power are NaN.
    """
    if isinstance(exponent, Tensor):
        return apply(table.pow if isinstance(input, Tensor) else table.number_pow, input, exponent, inplace=inplace)
    of_integers = isinstance(input, Tensor) and input._layout.dtype.category < 2
    if of_integers and not isinstance(exponent, (float, complex)) and exponent < 0:
        raise RuntimeError("Integers to negative integer powers are not allowed.")
    if of_integers and isinstance(exponent, bool) and input._layout.dtype.category == 0:
        return apply(table.bitwise_or, input, not exponent, inplace=inplace)  # x ** True is x, x ** False is true
    return apply(table.pow_number, input, exponent, inplace=inplace)


@public
@functools.partial(takes_out, iterated=True)
def float_power(input: Any, exponent: Any) -> Tensor:
    """``input`` to the power ``exponent`` in double precision."""
    wide = complex128 if _category((input, exponent)) == 3 else float64
    return power(*(o.to(wide) if isinstance(o, Tensor) else o for o in (input, exponent)))


def _check_double(self: Tensor, exponent: Any) -> None:
    other = exponent._layout.dtype.is_complex if isinstance(exponent, Tensor) else isinstance(exponent, complex)
    wide = complex128 if self._layout.dtype.is_complex or other else float64
    if self._layout.dtype is not wide:
        raise RuntimeError(
            f"the base given to float_power_ has dtype {scalar_type(self.dtype)} but the operation's result requires "
            f"dtype {scalar_type(wide)}"
        )


method(inplace_form(float_power, check=_check_double))


def polygamma(n: int, input: Tensor) -> Tensor:
    """The ``n``-th derivative of ``digamma``; RuntimeError for a negative ``n``."""
    n = int_argument("polygamma", "n", 1, n)
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    return digamma_derivative(n, input)


def digamma_derivative(n: float, x: Tensor) -> Tensor:
    """The ``n``-th derivative of ``digamma``, for rules, whose numbers are floats; n is whole and not negative."""
    return table.digamma(x) if n == 0 else apply(table.polygamma, x, int(n))


public(takes_out(polygamma, iterated=True), method_too=False)


def _polygamma_method(self: Tensor, n: int) -> Tensor:
    """The n-th derivative of digamma, n >= 0."""
    return polygamma(n, self)


method(_polygamma_method, "polygamma")
method(inplace_form(_polygamma_method))


@published("square", inplace_function=True)
def square(input: Tensor, *, inplace: bool = False) -> Tensor:
    """``input ** 2``."""
    if not isinstance(input, Tensor):
        raise must_be_tensor("square", "input", 1, input)
    return apply(table.pow_number, input, 2, inplace=inplace)


xlogy = by_operands("xlogy", table.xlogy, table.xlogy_right, table.xlogy_left, inplace_function=True)
copysign = by_operands("copysign", table.copysign, table.copysign_number)


@public
def positive(input: Tensor) -> Tensor:
    """``input`` itself; RuntimeError for booleans."""
    if input._layout.dtype.category == 0:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


@published("sgn")
def sgn(input: Tensor, *, inplace: bool = False) -> Tensor:
    """The sign; of complex numbers ``input / abs(input)``, 0 at 0."""
    complex_input = isinstance(input, Tensor) and input._layout.dtype.is_complex
    return apply(table.sgn_complex if complex_input else table.sgn_real, input, inplace=inplace)


@published("round", inplace_function=True)
def round(input: Tensor, *, decimals: int = 0, inplace: bool = False) -> Tensor:
    """The nearest integer, of two equally near ones the even one; ``decimals`` moves the point."""
    if decimals == 0:
        return apply(table.round, input, inplace=inplace)
    return apply(table.round_decimals, input, 10.0**decimals, inplace=inplace)


# -- operators ------------------------------------------------------------------------------------


def _operator(function: Function) -> Function:
    """An operator's method; Python asks an operand that is neither tensor nor number for its reflected operator."""

    @functools.wraps(function)
    def operator(self: Tensor, other: Any) -> Any:
        known = isinstance(other, (Tensor, *NUMBERS)) or is_overriding(other)
        return function(self, other) if known else NotImplemented

    return operator


def _reversed(function: Function) -> Function:
    return lambda self, other: function(other, self)


def _invert(self: Tensor) -> Tensor:
    if self._layout.dtype.category >= 2:
        raise TypeError("~ (operator.invert) is only implemented on integer and Boolean-type tensors")
    return table.bitwise_not(self)


def _divided_by(self: Tensor, other: Any) -> Any:
    # An array too: NumPy multiplies it with the reciprocal and gets a tensor, as ``array / tensor`` does in PyTorch.
    numerator = isinstance(other, (Tensor, np.ndarray, *NUMBERS)) or is_overriding(other)
    return self.reciprocal() * other if numerator else NotImplemented


for _title, _function in {
    "__pow__": power, "__floordiv__": floor_divide, "__mod__": remainder, "__rsub__": rsub,
    "__rpow__": _reversed(power), "__rfloordiv__": _reversed(floor_divide),
    "__rmod__": _reversed(remainder), "__rlshift__": _reversed(table.bitwise_left_shift),
    "__rrshift__": _reversed(table.bitwise_right_shift), "__iadd__": add_, "__isub__": sub_,
    "__imul__": table.mul.operation.inplace, "__itruediv__": div_,
    "__ifloordiv__": Tensor.floor_divide_, "__imod__": Tensor.remainder_,
    "__ipow__": Tensor.pow_,
    "__iand__": table.bitwise_and.operation.inplace, "__ior__": table.bitwise_or.operation.inplace,
    "__ixor__": table.bitwise_xor.operation.inplace,
    "__ilshift__": table.bitwise_left_shift.operation.inplace,
    "__irshift__": table.bitwise_right_shift.operation.inplace,
}.items():  # fmt: skip
    method(_operator(_function), _title)
method(_divided_by, "__rtruediv__")
method(_divided_by, "__rdiv__")
method(div, "__div__")
method(div_, "__idiv__")
set_method("__invert__", _invert)
set_method("__pos__", positive)
