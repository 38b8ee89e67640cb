"""Declarations of the elementwise table as functions, methods, inplace methods and operators.

The functions made here are the fast path: for operands whose layouts were met before, a call is one look-up of a plan,
one launch, and one node if it is recorded. Everything else is left to ElementwiseOp, which plans it.

They have one shape: the look-up is by layouts, which are interned, and proves at once that the operands are tensors
that need no check, no broadcast and no wrapper's rule. What depends on the declaration alone is a closure variable. One
Python call costs as much as a kernel on 16 elements, so steps that could be functions are written out.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.layout import Layout, cache, layout_of
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.elementwise import ElementwiseOp, cast_number
from jitgrad.dispatch.elementwise_inplace import CASTS, PLAIN_NUMBERS, inplace_of
from jitgrad.dispatch.elementwise_plan import BackwardPlan, ForwardPlan
from jitgrad.dispatch.node_types import value_names
from jitgrad.dispatch.op_calls import register
from jitgrad.dispatch.operand_checks import NUMBERS
from jitgrad.dispatch.overriding import is_overriding
from jitgrad.dispatch.registry import OPS, place_in, public, published, set_method
from jitgrad.kernels.elementwise import arithmetic as table  # noqa: F401  (declares the ops)
from jitgrad.kernels.elementwise.declaration import Elementwise, on_declaration

__all__ = ["OPERATIONS"]

OPERATIONS: dict[str, ElementwiseOp] = {}


def _publish(op: type[Elementwise]) -> None:
    """Make the functions of a declaration; called by the table for each."""
    operation = OPERATIONS[op.name] = OPS[op.name] = ElementwiseOp(op)
    function = _function(operation)
    op.apply = staticmethod(function)
    operation.inplace = inplace_of(operation, f"{op.name}_")
    register(function, operation, own=True)
    register(operation.inplace, operation, in_place=True, own=True)
    module = _module_of(op)
    for name in (op.name, *op.aliases) if op.public else ():
        public(function, name, module=module)
        if op.in_place and not module:
            set_method(f"{name}_", operation.inplace, shared=False)
    for name in op.operators:
        operator = function if len(op.inputs) == 1 else _binary(operation, name)
        register(operator, operation, own=True)
        set_method(name, operator)


def _function(operation: ElementwiseOp) -> Callable[..., Tensor]:
    """The public function of an op, on the fast path that suits its operands."""
    op = operation.op
    paths = {("x",): _unary, ("x", "y"): _binary}
    path = paths.get((*op.inputs, *op.scalars), _general)
    if op.numbers_only or (len(op.inputs) == 1 and op.scalars):
        path = _numbered
    function = operation.function = path(operation)
    function.__name__ = function.__qualname__ = op.name
    function.__doc__ = op.__doc__
    vars(function)["operation"] = operation
    return function


def _general(operation: ElementwiseOp) -> Callable[..., Tensor]:
    """The fast path of all other ops: of three operands or more, tensors or numbers, and of two and options."""
    # {layout of each tensor, type of each number: the function of the operands}
    plans: dict[Any, Callable[[tuple[Any, ...]], Tensor]] = cache()
    get, op = plans.get, operation.op
    names = (*op.inputs, *op.scalars)

    def first(key: Any, operands: tuple[Any, ...]) -> Tensor:
        result = operation(*operands)
        if op.literals or not all(isinstance(k, Layout) or k in PLAIN_NUMBERS for k in key):
            return result  # as in ``_binary``
        found = [x if isinstance(x, Layout) else operation._number_key(k, operands[k]) for k, x in enumerate(key)]
        if (plan := operation.plans.get((*found, False))) is not None:
            tensors = tuple([k for k, x in enumerate(key) if isinstance(x, Layout)])
            rest = [cast_number(plan.dtype, op.scalars[n]) for n in names[len(key) :]]
            make = _runner(len(key), tensors, len(rest), bool(op.grads))
            scalars = [a.name for a in plan.arguments if a.kind == "scalar"]
            plans[key] = make(plan, functools.partial(cast_number, plan.dtype), rest, scalars, grad_state)
        return result

    def general(*operands: Any, out: Tensor | None = None, **named: Any) -> Tensor:
        if named or out is not None:
            return operation.general(*operands, out=out, **named)
        key = tuple([getattr(x, "_layout", None) or x.__class__ for x in operands])
        run = get(key)
        return first(key, operands) if run is None else run(operands)

    return general


_RUNNER = """\
def make(plan, cast, rest, scalars, grad_state):
    compute, planned, planning, {rest} = plan.compute, plan.backward_plans.get, plan.backward_plan, *rest
    def run(operands):
        {operands}, = operands
{casts}        result = compute({tensors}{numbers})
        if {recorded}:
            wants = ({wants}, )
            backward = planned(wants) or planning(wants)
            node = backward.record(result, {tensors})
            if backward.scalar_names: node.scalars = dict(zip(scalars, ({numbers})))
        return result
    return run
"""


@functools.cache
def _runner(count: int, tensors: tuple[int, ...], rest: int, differentiable: bool) -> Callable[..., Any]:
    """``make(plan, cast, rest, scalars, grad_state)``, which returns the function of ``count`` operands.

    tensors: the places of those that are tensors; others are numbers, after which come ``rest`` more.
    """
    given, numbers = [f"a{k}" for k in tensors], [f"a{k}" for k in range(count) if k not in tensors]
    more = [f"r{k}" for k in range(rest)]
    wants = [f"{t}._requires_grad" for t in given]
    text = _RUNNER.format(
        rest="".join([f"{r}, " for r in more]), operands=", ".join([f"a{k}" for k in range(count)]),
        casts="".join([f"        {n} = cast({n})\n" for n in numbers]),
        tensors="".join([f"{t}, " for t in given]), numbers="".join([f"{n}, " for n in [*numbers, *more]]),
        recorded=f"grad_state.enabled and ({' or '.join(wants)})" if differentiable else "False",
        wants=", ".join(wants),
    )  # fmt: skip
    scope: dict[str, Any] = {}
    exec(text, scope)
    make: Callable[..., Any] = scope["make"]
    return make


def _unary(operation: ElementwiseOp) -> Callable[..., Tensor]:
    """The fast path of ops of one tensor."""
    plans: dict[Any, ForwardPlan] = cache()
    get, differentiable = plans.get, bool(operation.op.grads)

    def unary(input: Any, *, out: Tensor | None = None) -> Tensor:
        x = input
        if out is not None:
            return operation.apply_out(out, (x,))
        if not isinstance(x, Tensor):
            return operation(x)
        plan = get(x._layout)
        if plan is None:
            result = operation(x)
            # A wrapped tensor has taken its level's path, a sparse one that of its form: there is no plan.
            if x._level is None and (planned := operation.plans.get((x._layout, False))) is not None:
                plans[x._layout] = planned
            return result
        result = plan.compute(x)
        if x._requires_grad and differentiable and grad_state.enabled:
            backward = plan.backward_plans.get((True,)) or plan.backward_plan((True,))
            backward.record(result, x)
        return result

    return unary


def _binary(operation: ElementwiseOp, operator: str = "") -> Callable[..., Tensor]:
    """The fast path of ops of two tensors, or of one and a number. operator: the name of the operator to be."""
    plans: dict[Any, ForwardPlan] = cache()
    get, op = plans.get, operation.op
    differentiable = bool(op.grads)
    (slot,) = value_names(op.inputs[1:2])  # the attribute in which a node keeps the number

    def first(key: Any, x: Tensor, y: Any) -> Tensor:
        """The first call with these layouts: it is planned, and the plan kept for the fast path."""
        if operator and not isinstance(y, (Tensor, *NUMBERS)):
            # ``==`` is the one operator that takes an array itself; of others NumPy computes the result.
            if op.name == "eq" and isinstance(y, np.ndarray) and dtypes.has_dtype(y):
                return operation(x, wrap(y, layout_of(y)))
            if is_overriding(y):
                return getattr(x, operator)(y) if operation.overridden((x, y)) else operation(x, y)
            return NotImplemented  # Python then tries the other operand's method
        result = operation(x, y)
        # A literal's value would have to be part of the key, and NumPy's numbers are not worth a key of their own.
        if not op.literals and (isinstance(y, Tensor) or type(y) in PLAIN_NUMBERS):
            second = y._layout if isinstance(y, Tensor) else operation._number_key(1, y)
            if (plan := operation.plans.get((x._layout, second, False))) is not None:
                plans[key] = plan
        return result

    def with_number(x: Any, y: Any) -> Tensor:
        """The fast path of a tensor and a Python number, found by the type of the number."""
        plan = get((x._layout, type(y))) if isinstance(x, Tensor) else None
        if plan is None:
            return first((x._layout, type(y)), x, y) if isinstance(x, Tensor) else operation(x, y)
        y = CASTS[plan.dtype.kind](y)
        result = plan.compute(x, y)
        if x._requires_grad and differentiable and grad_state.enabled:
            backward: BackwardPlan = plan.backward_plans.get((True,)) or plan.backward_plan((True,))
            node = backward.record(result, x)
            if backward.scalar_names:  # the number in the compute dtype, as the backward kernel wants it
                setattr(node, slot, y)
        return result

    def binary(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
        if out is not None:
            return operation.apply_out(out, (input, other))
        kind = other.__class__
        if kind is float or kind is int:  # an error that is caught takes 0.5 us
            return with_number(input, other)
        try:  # free while nothing is raised, where two isinstance would be paid by every call
            plan = get((input._layout, other._layout))
        except AttributeError:
            return with_number(input, other)
        if plan is None:
            return first((input._layout, other._layout), input, other)
        result = plan.compute(input, other)
        if (input._requires_grad or other._requires_grad) and differentiable and grad_state.enabled:
            wants = (input._requires_grad, other._requires_grad)
            backward: BackwardPlan = plan.backward_plans.get(wants) or plan.backward_plan(wants)
            backward.record(result, input, other)
        return result

    return binary


def _numbered(operation: ElementwiseOp) -> Callable[..., Tensor]:
    """The fast path of ops of one tensor and numbers, such as exponents, bounds and slopes."""
    plans: dict[Any, tuple[ForwardPlan, bool, type, tuple[Any, ...]]] = cache()
    get, op = plans.get, operation.op
    names, literals, differentiable = (*op.inputs, *op.scalars)[1:], op.literals, bool(op.grads)

    def first(key: Any, x: Tensor, numbers: tuple[Any, ...]) -> Tensor:
        result = operation(x, *numbers)
        if any(isinstance(n, Tensor) for n in numbers):
            return result
        planned = (x._layout, *(operation._number_key(k, n) for k, n in enumerate(numbers, 1)), False)
        if (plan := operation.plans.get(planned)) is not None:
            cast, literal = CASTS[plan.dtype.kind], bool(literals) and plan.arguments[1].kind == "literal"
            plans[key] = plan, literal, cast, tuple(cast(op.scalars[n]) for n in names[len(numbers) :])
        return result

    def numbered(input: Any, *numbers: Any, out: Tensor | None = None, **named: Any) -> Tensor:
        if named or out is not None or not isinstance(input, Tensor):
            return operation.general(input, *numbers, out=out, **named)
        # The value of a number that may be a literal decides the kernel, of others only the type.
        key = (input._layout, *map(type, numbers), *(numbers if literals else ()))
        entry = get(key)
        if entry is None:
            return first(key, input, numbers)
        plan, literal, cast, rest = entry
        values = (*map(cast, numbers), *rest)  # takes half the time of a comprehension
        result = plan.compute(input) if literal else plan.compute(input, *values)
        if input._requires_grad and differentiable and grad_state.enabled:
            backward = plan.backward_plans.get((True,)) or plan.backward_plan((True,))
            node = backward.record(result, input)
            if backward.scalar_names:
                node.scalars = dict(zip(names, values))
        return result

    return numbered


def _module_of(op: type[Elementwise]) -> str:
    """The module that an op is a function of, such as "special"; "" for jitgrad itself."""
    return op.public if isinstance(op.public, str) else ""


def _taken(op: type[Elementwise], name: str) -> str:
    """What is published already under ``name``, which declaration ``op`` wants to have; "" if nothing is."""
    if not op.public:
        return ""
    place = place_in(_module_of(op), name)
    if published(place) is not None:
        return f"jitgrad.{place}"
    if _module_of(op):
        return ""
    return f"Tensor.{name}" if hasattr(Tensor, name) else ""


on_declaration(_publish, _taken)
