"""The in-place methods of elementwise declarations, on fast paths as their functions are (elementwise_publish.py).

A write that is not recorded, of operands whose layouts were met before, is one look-up and one launch. All else is left
to ElementwiseOp.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from jitgrad.core.errors import must_be_tensor
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.inference import check_write
from jitgrad.core.layout import cache
from jitgrad.core.storage import UNWRITTEN
from jitgrad.core.tensor import Tensor
from jitgrad.core.transform_guards import check_capture, scopes
from jitgrad.dispatch.elementwise import ElementwiseOp
from jitgrad.dispatch.operand_checks import NUMBERS
from jitgrad.kernels.elementwise.declaration import Elementwise

__all__ = ["CASTS", "PLAIN_NUMBERS", "inplace_of"]

# NumPy's kind of the compute dtype -> the Python type that a kernel gets numbers in: one compiled overload each.
CASTS: dict[str, type] = {"b": bool, "i": int, "u": int, "f": float, "c": complex}
PLAIN_NUMBERS = (bool, int, float)  # the types of numbers that plans of the fast paths are kept for


def inplace_of(operation: ElementwiseOp, name: str) -> Callable[..., Tensor]:
    """The inplace method. Its fast path is that of unrecorded writes, such as an optimiser's steps."""
    plans: dict[Any, _Write] = cache()
    get, op = plans.get, operation.op
    alone = len(op.inputs) == 2 and not op.scalars and not op.literals  # one operand beside the target, and no more
    several = _inplace_of_several(operation, general := _planning_inplace(operation, name, plans), get)
    lone = _inplace_of_none(general, get)

    def inplace(self: Tensor, *operands: Any, **named: Any) -> Tensor:
        if scopes:
            check_capture(self, op.name)
        if named:
            return general(self, *operands, **named)
        if not operands:
            return lone(self)
        if not alone or len(operands) != 1:
            return several(self, operands)
        try:
            other, base, counter = operands[0], self._base, self._counter
        except AttributeError:  # no tensor, which the other path says
            return general(self, *operands)
        if counter is UNWRITTEN:  # count_write, written out; and now only views of this memory have the same counter
            counter = self._counter = [0]
        viewed = base is not None and (self._view_kind or base._requires_grad)
        if isinstance(other, Tensor):
            found = get((self._layout, other._layout))
            # Left to the slow path: recording, operands that share the target's memory, views with a history.
            recorded = (self._requires_grad or other._requires_grad) and grad_state.enabled
            if found is None or recorded or other._counter is counter or viewed:
                return general(self, other)
            value = other
        else:
            found = get((self._layout, type(other)))
            if found is None or (self._requires_grad and grad_state.enabled) or viewed:
                return general(self, other)
            value = found.cast(other)
        try:
            counter[0] += 1
        except RuntimeError:  # an inference tensor's, which refuses with the words for saving
            check_write(self)
        found.write(self, value, self._data)
        return self

    inplace.__name__ = inplace.__qualname__ = name
    inplace.__doc__ = f"In-place version of ``{op.name}``."
    return inplace


class _Write(NamedTuple):
    """What an inplace method keeps of a plan: ``write(target, *tensors, *numbers, *rest, array)``.

    tensors, numbers: the places of the operands that are arrays and numbers of the kernel. rest: the numbers that were
    left out. cast: makes a number what the kernel takes.
    """

    write: Callable[..., None]
    cast: type
    tensors: tuple[int, ...]
    numbers: tuple[int, ...]
    rest: tuple[Any, ...]


def _planning_inplace(operation: ElementwiseOp, name: str, plans: dict[Any, _Write]) -> Callable[..., Tensor]:
    """The inplace method for all operands, which keeps what the fast paths may use."""
    op = operation.op

    def general(self: Tensor, *operands: Any, **named: Any) -> Tensor:
        try:
            layout = self._layout
            result = operation(self, *operands, **named, inplace=True)
        except (TypeError, AttributeError):
            if not isinstance(self, Tensor):
                kind = type(self).__name__
                raise TypeError(
                    f"descriptor '{name}' for 'torch._C.TensorBase' objects doesn't apply to a '{kind}' object"
                ) from None
            if op.public and len(op.inputs) < 3:  # others are called by functions, which look at their own arguments
                _check_operands(name, op, operands)
            raise
        if named or not all(isinstance(x, Tensor) or type(x) in PLAIN_NUMBERS for x in operands):
            return result
        found = [x._layout if isinstance(x, Tensor) else operation._number_key(k, x) for k, x in enumerate(operands, 1)]
        plan = operation.plans.get((layout, *found, True))
        if plan is not None and not (op.literals and any(isinstance(x, Tensor) for x in operands)):
            kinds, given = [a.kind for a in plan.arguments[1:]], range(len(operands))
            cast = CASTS[plan.dtype.kind]
            left_out = [a.name for a in plan.arguments[1 + len(operands) :] if a.kind == "scalar"]
            key = (layout, *[x._layout if isinstance(x, Tensor) else x.__class__ for x in operands])
            plans[(*key, *operands) if op.literals else key] = _Write(
                plan.launch.write, cast, tuple([k for k in given if kinds[k] == "array"]),
                tuple([k for k in given if kinds[k] == "scalar"]), tuple([cast(op.scalars[n]) for n in left_out]),
            )  # fmt: skip
        return result

    return general


def _inplace_of_none(general: Callable[..., Tensor], get: Any) -> Callable[[Tensor], Tensor]:
    """The fast path of no operands beside the target, with the same cases that are left to ``general`` as for one."""

    def lone(self: Tensor) -> Tensor:
        try:
            found, base, counter = get((self._layout,)), self._base, self._counter
        except AttributeError:
            return general(self)
        recorded = self._requires_grad and grad_state.enabled
        if found is None or recorded or (base is not None and (self._view_kind or base._requires_grad)):
            return general(self)
        if counter is UNWRITTEN:
            counter = self._counter = [0]
        try:
            counter[0] += 1
        except RuntimeError:
            check_write(self)
        found.write(self, *found.rest, self._data)
        return self

    return lone


def _inplace_of_several(operation: ElementwiseOp, general: Callable[..., Tensor], get: Any) -> Callable[..., Tensor]:
    """The fast path of any number of operands, with the same cases that are left to ``general`` as that of one."""
    literals = operation.op.literals

    def several(self: Tensor, operands: tuple[Any, ...]) -> Tensor:
        try:
            key = (self._layout, *[getattr(x, "_layout", None) or x.__class__ for x in operands])
            base, counter, recorded = self._base, self._counter, self._requires_grad
        except AttributeError:
            return general(self, *operands)
        found = get((*key, *operands) if literals else key)  # the value of a literal decides the kernel
        if found is None:
            return general(self, *operands)
        if counter is UNWRITTEN:
            counter = self._counter = [0]
        tensors = [operands[k] for k in found.tensors]
        for t in tensors:
            recorded = recorded or t._requires_grad
            if t._counter is counter:
                return general(self, *operands)
        if (recorded and grad_state.enabled) or (base is not None and (self._view_kind or base._requires_grad)):
            return general(self, *operands)
        try:
            counter[0] += 1
        except RuntimeError:
            check_write(self)
        found.write(self, *tensors, *[found.cast(operands[k]) for k in found.numbers], *found.rest, self._data)
        return self

    return several


def _check_operands(name: str, op: type[Elementwise], operands: tuple[Any, ...]) -> None:
    """TypeError, in PyTorch's words, for what an inplace method cannot take.

    Called after the op has failed on it.
    """
    most = len(op.inputs) + len(op.scalars) - 1
    if len(operands) > most:
        takes = "no arguments" if not most else f"{most} positional argument{'s' if most > 1 else ''}"
        found = f"({len(operands)} given)" if not most else f"but {len(operands)} were given"
        raise TypeError(f"{'' if most else 'TensorBase.'}{name}() takes {takes} {found}")
    for place, (operand, named) in enumerate(zip(operands, (*op.inputs, *op.scalars)[1:], strict=False), 2):
        refused = op.numbers is not None and named in op.inputs and named not in op.numbers
        if not isinstance(operand, Tensor) and (refused or not isinstance(operand, NUMBERS)):
            title = "other" if named == "y" else named
            raise must_be_tensor(name, title, place, operand)
