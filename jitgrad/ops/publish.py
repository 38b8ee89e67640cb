"""Declarations from the table become functions, methods, in-place methods and operators.

The functions made here are the fast road of every op: operands that were seen before cost one
look-up by layout, one launch, and one node if anything is recorded. Whatever is new or unusual goes
to ``ElementwiseOp``, which plans it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..autograd.grad_mode import state as grad_state
from ..kernels import elementwise as table  # noqa: F401  (declares the ops)
from ..kernels.declaration import Elementwise, on_declaration
from ..layout import cache
from ..tensor import Tensor
from .arguments import NUMBERS
from .calls import Call, Wanted
from .elementwise import ElementwiseOp
from .registry import OPS, public

__all__ = ["OPERATIONS"]

OPERATIONS: dict[str, ElementwiseOp] = {}
_CASTS: dict[str, type] = {"b": bool, "i": int, "u": int, "f": float, "c": complex}


def _publish(op: type[Elementwise]) -> None:
    operation = OPERATIONS[op.name] = OPS[op.name] = ElementwiseOp(op)
    function = _function(operation)
    for name in (op.name, *op.aliases):
        public(function, name, function_too=op.function, method_too=op.method)
        if op.method:
            setattr(Tensor, f"{name}_", _inplace(operation, f"{name}_"))
    for name in op.operators:
        setattr(Tensor, name, function if len(op.inputs) == 1 else _binary(operation, operator=True))


def _function(operation: ElementwiseOp) -> Callable[..., Tensor]:
    op = operation.op
    roads = {("x",): _unary, ("x", "y"): _binary}
    function = operation.function = roads.get((*op.inputs, *op.scalars), _general)(operation)
    function.__name__ = function.__qualname__ = op.name
    function.__doc__ = op.__doc__
    return function


def _general(operation: ElementwiseOp) -> Callable[..., Tensor]:
    def general(*operands: Any, **named: Any) -> Tensor:
        return operation.general(*operands, **named)

    return general


def _unary(operation: ElementwiseOp) -> Callable[..., Tensor]:
    calls: dict[Any, Call] = cache()
    get, differentiable = calls.get, bool(operation.op.grads)

    def unary(input: Any, *, out: Tensor | None = None) -> Tensor:
        x = input
        if out is not None or not isinstance(x, Tensor):
            return operation.general(x, out=out)
        call = get(x._layout)
        if call is None:
            result = operation(x)
            if x._tangent is None:
                calls[x._layout] = operation.calls[x._layout, None]
            return result
        result = call.compute(x)
        if x._requires_grad and differentiable and grad_state.enabled:
            wanted = call.wants.get((True,)) or call.want((True,))
            wanted.record(result, x)
        return result

    return unary


def _binary(operation: ElementwiseOp, operator: bool = False) -> Callable[..., Tensor]:
    calls: dict[Any, Call] = cache()
    get, op = calls.get, operation.op
    differentiable = bool(op.grads)

    def first(key: Any, x: Tensor, y: Any) -> Tensor:
        """The first call with these layouts: plan it, and remember it for the fast road."""
        if operator and not isinstance(y, (Tensor, *NUMBERS)):
            return NotImplemented
        result = operation(x, y)
        if not op.literals and (isinstance(y, Tensor) or type(y) in (bool, int, float)):
            second = y._layout if isinstance(y, Tensor) else operation._number_key(1, y)
            if (call := operation.calls.get((x._layout, second, None))) is not None:
                calls[key] = call
        return result

    def with_number(x: Any, y: Any) -> Tensor:
        """The road of a tensor and a Python number."""
        call = get((x._layout, type(y))) if isinstance(x, Tensor) else None
        if call is None:
            return first((x._layout, type(y)), x, y) if isinstance(x, Tensor) else operation(x, y)
        y = _CASTS[call.dtype.kind](y)
        result = call.compute(x, y)
        if x._requires_grad and differentiable and grad_state.enabled:
            wanted: Wanted = call.wants.get((True,)) or call.want((True,))
            node = wanted.record(result, x)
            if wanted.scalar_names:
                node.scalars = {op.inputs[1]: y}
        return result

    def binary(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
        if out is not None:
            return operation.general(input, other, out=out)
        try:
            call = get((input._layout, other._layout))
        except AttributeError:
            return with_number(input, other)
        if call is None:
            return first((input._layout, other._layout), input, other)
        result = call.compute(input, other)
        if (input._requires_grad or other._requires_grad) and differentiable and grad_state.enabled:
            wants = (input._requires_grad, other._requires_grad)
            wanted: Wanted = call.wants.get(wants) or call.want(wants)
            wanted.record(result, input, other)
        return result

    return binary


def _inplace(operation: ElementwiseOp, name: str) -> Callable[..., Tensor]:
    def inplace(self: Tensor, *operands: Any, **named: Any) -> Tensor:
        return operation(self, *operands, **named, into=self._layout)

    inplace.__name__ = inplace.__qualname__ = name
    inplace.__doc__ = f"In-place version of ``{operation.op.name}``."
    return inplace


on_declaration(_publish)
