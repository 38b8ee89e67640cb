"""The slow path of elementwise ops: operands are bound, checked, planned once for their layouts, and launched.

The fast path (elementwise_publish.py) comes here with whatever it has no plan for: new layouts, keywords, ``out=``,
wrapped tensors, writes that are recorded.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.errors import must_be, overflow, type_name
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.inference import check_write
from jitgrad.core.layout import Layout, broadcast_shapes, cache, halves, intern
from jitgrad.core.node import edge_of
from jitgrad.core.storage import UNWRITTEN, count_write
from jitgrad.core.tensor import Tensor
from jitgrad.core.wrapped import outermost_wrapped
from jitgrad.dispatch.copying import copy_before_write, filled, strided_copy
from jitgrad.dispatch.elementwise_plan import ElementwiseNode, ForwardPlan
from jitgrad.dispatch.launch_plan import plan_elementwise
from jitgrad.dispatch.operand_checks import (
    NUMBERS,
    check_category,
    check_devices,
    check_history,
    check_kernel,
    check_memory,
    check_result_cast,
    overlaps,
)  # fmt: skip
from jitgrad.dispatch.out_argument import check_out, into_out
from jitgrad.dispatch.overriding import retried
from jitgrad.dispatch.parameter_types import PUBLIC_NAMES
from jitgrad.dispatch.registry import FUNCTIONS
from jitgrad.dispatch.sparse_calls import among, apply_form
from jitgrad.kernels.codegen.emit_cpu import Argument
from jitgrad.kernels.elementwise.declaration import Elementwise
from jitgrad.kernels.words.syntax import read_once

__all__ = ["ElementwiseOp", "cast_number"]


class ElementwiseOp:
    """The callable behind ``jitgrad.NAME`` and ``Tensor.NAME`` of one declaration."""

    def __init__(self, op: type[Elementwise]):
        self.op = op
        # {(layout, or category of a number, of each operand; whether inplace): plan}
        self.plans: dict[Any, ForwardPlan] = cache()
        self.writes: dict[Any, ForwardPlan] = cache()  # those of ``write``
        self.function: Any = self.general  # the fast paths, set by elementwise_publish.py
        self.inplace: Any = None

    @read_once
    def node_type(self) -> type[ElementwiseNode]:
        """The class of the op's nodes, which is what ``grad_fn`` shows; made when the op is first planned."""
        return type(self.op.grad_name, (ElementwiseNode,), {"__doc__": self.op.__doc__})

    def general(self, *operands: Any, out: Tensor | None = None, **named: Any) -> Tensor:
        """Apply the op; with ``out`` the result is written there, and ``out`` returned."""
        if out is None:
            return self(*operands, **named)
        if not named:
            return self.apply_out(out, operands)
        result = self(*operands, **named)
        if not self.op.allows_internal_overlap:
            check_out(out, (*operands, *named.values()))
        return into_out(self.op.name, result, out)

    def apply_out(self, out: Tensor, operands: tuple[Any, ...]) -> Tensor:
        """Apply the op, write the result to ``out``, and return that.

        The kernel writes to ``out`` itself if that has the layout of a new result. Else the result is computed and then
        copied, with all checks and warnings: in a first call, which is planned there, for tensors that require grad,
        operands that share the memory of ``out`` but aren't it, and views with a history.
        """
        if not self._writes_out(operands, out):
            result = self(*operands)
            if not self.op.allows_internal_overlap:
                check_out(out, operands)
            into_out(self.op.name, result, out)
        return out

    def __call__(self, *operands: Any, **named: Any) -> Tensor:
        """Apply the op to tensors and numbers, given by position or by name.

        The keyword ``inplace`` makes the first operand the target. NotImplementedError, RuntimeError and TypeError for
        operands that the declaration, or PyTorch, refuses.
        """
        inplace, operands = named.pop("inplace", False), self._bind(operands, named) if named else operands
        key, tensors, numbers = [], [], []
        for operand in operands:
            if isinstance(operand, Tensor):
                key.append(operand._layout)
                tensors.append(operand)
            else:
                if operand.__class__ not in NUMBERS and self.overridden(operands):
                    return (self.inplace if inplace else self.function)(*operands)
                key.append(self._number_key(len(key), operand))
                numbers.append(operand)
        if grad_state.levels and (wrapped := outermost_wrapped(tensors)) is not None:
            return wrapped.elementwise(wrapped._level, self, self._with_numbers(operands), inplace)
        if halves and among(tensors):
            return apply_form(self.op.name + "_" * inplace, operands)
        if inplace and self.op.grads:
            check_history(tensors[0], grad_state.enabled and any(t._requires_grad for t in tensors))
        elif inplace:  # PyTorch asks for no history where there is no derivative: ``logical_not_`` may write to a leaf
            check_write(tensors[0])
        if inplace and not self.op.allows_internal_overlap:
            check_memory(tensors[0]._layout)
        full_key = (*key, inplace)
        plan = self.plans.get(full_key)
        if plan is None:
            if not tensors and self.op.numbers_alone and operands:
                return self(_without_dims(operands[0]), *operands[1:])
            if (numeric := self._with_numbers(operands)) is not operands:
                return self(*numeric, inplace=inplace)
            plan = self.plans[full_key] = self._plan(operands, tensors, tensors[0]._layout if inplace else None)
        runtime = _runtime_numbers(plan, operands) if numbers or self.op.scalars else []
        scalars = tuple([cast_number(plan.dtype, v) for _, v in runtime])
        return self._run(plan, tensors, operands, scalars, inplace)

    def overridden(self, operands: tuple[Any, ...]) -> bool:
        """Whether the call is to be made again, since an operand turns out to take over ops (see overriding.py)."""
        error = TypeError(f"{self.op.name}(): an operand is no tensor")
        if retried(error, operands, {}, above=2):
            return True
        if hasattr(error, "_met_override"):  # for the function that goes on to this op
            raise error
        return False

    def _run(
        self, plan: ForwardPlan, tensors: list[Tensor], operands: Any, scalars: tuple[Any, ...], inplace: bool
    ) -> Tensor:  # fmt: skip
        if inplace:
            return self._run_into(plan, tensors, operands, scalars)
        out = plan.launch.compute(*tensors, *scalars)
        if grad_state.enabled:
            for t in tensors:
                if t._requires_grad:
                    self._record(plan, tensors, operands, out)
                    break
        return out

    def _run_into(self, plan: ForwardPlan, tensors: list[Tensor], operands: Any, scalars: tuple[Any, ...]) -> Tensor:
        """Write the result into the first operand, the target of the inplace form."""
        target = tensors[0]
        record = bool(self.op.grads) and grad_state.enabled and any(t._requires_grad for t in tensors)
        saved_inputs = [copy_before_write(target), *tensors[1:]] if record and self._saves_target(plan) else tensors
        others = [strided_copy(t) if overlaps(target, t) else t for t in tensors[1:]]
        plan.launch.write(target, *others, *scalars, target._data)
        count_write(target)
        if record:
            before = target._edge
            self._record(plan, tensors, operands, target, saved_inputs)
            if target._base is None:  # the recorder has rebased a view already
                target._rebase(target._edge, before)
        return target

    def _saves_target(self, plan: ForwardPlan) -> bool:
        """Whether a gradient rule needs the first operand, which an inplace op overwrites."""
        name = plan.arguments[0].name
        return any(name in rule.parameters for rule in plan.op.grads.values())

    def _record(self, plan: ForwardPlan, tensors: list[Tensor], operands: Any, out: Tensor,
                saved_inputs: list[Tensor] | None = None) -> None:  # fmt: skip
        """Make the node of ``out``. saved_inputs: what is saved instead of ``tensors``, whose edges the node gets."""
        grads = plan.op.grads
        wants = tuple([t._requires_grad for t in tensors])
        if not grads:
            return
        backward = plan.backward_plan(wants)
        edges = tuple([edge_of(t) for t in tensors])  # before ``out``, perhaps one of them, is rebased
        node = backward.record(out, *(saved_inputs or tensors))
        if saved_inputs:
            node.edges = edges
        if backward.scalar_names:
            node.scalars = {a.name: cast_number(plan.dtype, v) for a, v in _runtime_numbers(plan, operands)}

    def _writes_out(self, operands: tuple[Any, ...], out: Any) -> bool:
        """Let the kernel write to ``out`` itself, if it may; whether it did."""
        tensors, numbers = operands, bool(self.op.scalars)
        try:
            plan = self.plans.get((*[x._layout for x in operands], False))  # the last: not in place
        except AttributeError:
            tensors, numbers = tuple([x for x in operands if isinstance(x, Tensor)]), True
            if not all(isinstance(x, (Tensor, *NUMBERS)) for x in operands):
                return False
            key = [getattr(x, "_layout", None) or self._number_key(k, x) for k, x in enumerate(operands)]
            plan = self.plans.get((*key, False))
        if plan is None or type(out) is not Tensor or plan.launch.layouts[0] is not out._layout:
            return False
        counter, base, recorded = out._counter, out._base, out._requires_grad
        if counter is UNWRITTEN:  # now only views of this memory have the same counter
            counter = out._counter = [0]
        for x in tensors:
            # An operand may be ``out`` itself: each element is read before it is written to.
            if (x._counter is counter and x is not out) or type(x) is not Tensor:
                return False
            recorded = recorded or x._requires_grad
        viewed = base is not None and (out._view_kind or base._requires_grad)
        if viewed or grad_state.levels or (recorded and grad_state.enabled) or out._layout.device != "cpu":
            return False
        if out is operands[0]:  # there are kernels for that
            self(*operands, inplace=True)
            return True
        try:
            counter[0] += 1
        except RuntimeError:  # an inference tensor's, which refuses with the words for saving
            check_write(out)
        if numbers:
            given = [cast_number(plan.dtype, v) for _, v in _runtime_numbers(plan, operands)]
            plan.launch.write(*tensors, *given, out._data)
        else:
            plan.launch.write(*tensors, out._data)
        return True

    def write(self, target: Tensor, other: Tensor) -> None:
        """Compute ``op(target, other)`` into ``target``, not recorded: for gradients that the engine owns."""
        plan = self.writes.get((target._layout, other._layout))
        if plan is None:
            plan = self._plan((target, other), [target, other], target._layout)
            self.writes[target._layout, other._layout] = plan
        try:
            count_write(target)
        except RuntimeError:
            check_write(target)  # raises with the words for a write; the counter's are those for saving
        plan.launch.write(target, other, target._data)

    # -- planning, once for each combination of operands ----------------------------------------

    def _bind(self, operands: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        """The operands in the order of the declaration, keywords and defaults included; TypeError for unknown ones."""
        op, bound = self.op, dict(zip((*self.op.inputs, *self.op.scalars), operands, strict=False))
        renamed = {_KEYWORDS.get(k, k) if k not in (*op.inputs, *op.scalars) else k: v for k, v in named.items()}
        for key, value in renamed.items():
            if key not in (*op.inputs, *op.scalars) or key in bound:
                raise TypeError(f"{op.name}() got an unexpected keyword argument '{key}'")
            bound[key] = value
        values = {**op.scalars, **bound}
        return tuple(values[n] for n in (*op.inputs, *op.scalars) if n in values)

    def _with_numbers(self, operands: tuple[Any, ...]) -> tuple[Any, ...]:
        """The operands with numbers for tensors among the options, such as a slope; ``operands`` if there are none.

        TypeError for a tensor with dims, and for one that requires grad: options have no gradient.
        """
        first = len(self.op.inputs)
        options = operands[first : first + len(self.op.scalars)]  # more than that ``_plan`` refuses
        if not any(isinstance(v, Tensor) for v in options):
            return operands
        for position, value in enumerate(options, first):
            if isinstance(value, Tensor) and (value._layout.ndim or value._requires_grad):
                raise self._refused(position, value)
        return (*operands[:first], *[v.item() if isinstance(v, Tensor) else v for v in operands[first:]])

    def _number_key(self, position: int, value: Any) -> Any:
        """The part of a plan's key that stands for a number: its category, which decides dtypes.

        For a literal (an exponent of 2, say) also the value, because there is a kernel for it. TypeError for anything
        that is no number.
        """
        names = (*self.op.inputs, *self.op.scalars)
        if position >= len(names):
            raise TypeError(f"{self.op.name}() takes {len(names)} arguments but more were given")
        name, op = names[position], self.op
        allowed = name in op.scalars or op.numbers is None or name in op.numbers
        if not (allowed and isinstance(value, NUMBERS)):
            raise self._refused(position, value)
        category = dtypes.category_of(value)
        if value in self.op.literals.get(names[position], ()):
            return (category, float(value))  # type: ignore[arg-type]
        return category

    def _refused(self, position: int, value: Any) -> TypeError:
        """The error for an operand that is neither a tensor nor a number, or a number where only a tensor may be.

        It names no op that users don't know, such as a variant for numbers: the public function that was called then
        says which of its arguments is wrong (see parameter_types.py).
        """
        op = self.op
        name = (*op.inputs, *op.scalars)[position]
        kind = "Number" if name in op.scalars else "Tensor"
        if not op.public and op.name not in FUNCTIONS:
            return TypeError(f"must be {kind}, not {type_name(value)}")
        several = position and name in op.inputs and "z" in op.inputs
        label = f"tensor{position}" if several else PUBLIC_NAMES.get(name, name)
        return must_be(op.name, label, position + 1, kind, value)

    def _plan(self, operands: tuple[Any, ...], tensors: list[Tensor], target: Layout | None) -> ForwardPlan:
        op = self.op
        most = len(op.inputs) + len(op.scalars)
        if len(operands) > most:
            raise TypeError(f"{op.name}() takes {most} arguments but {len(operands)} were given")
        if len(operands) < len(op.inputs):
            missing = ", ".join(repr(n) for n in op.inputs[len(operands) :])
            raise TypeError(f"{op.name}() missing required arguments: {missing}")
        if not tensors:
            raise self._refused(0, operands[0])
        check_devices(op.name, [t._layout for t in tensors])
        dtype, out_dtype = self._dtypes(operands, target)
        arguments = self._arguments(operands, dtype)
        dtype = dtype.compute
        inputs = tuple(t._layout for t in tensors)
        shapes = [x.shape for x in inputs]
        shape = tuple(broadcast_shapes(*(shapes[::-1] if op.memory_order == "last input first" else shapes)))
        if target is not None:
            if shape != target.shape:
                raise RuntimeError(
                    f"output with shape {list(target.shape)} doesn't match the broadcast shape {list(shape)}"
                )
        beside_numbers = len(inputs) < len(op.inputs) and op.memory_order in ("inputs", "last input first")
        launch = plan_elementwise(
            f"{op.name}_forward", [(op.rule, "out")], arguments, inputs, dtype.numpy, shape, [out_dtype.numpy],
            target=target, order="several shapes" if beside_numbers else op.memory_order, inplace=target is not None,
        )  # fmt: skip
        return ForwardPlan(op, arguments, inputs, dtype.numpy, shape, launch, self.node_type)

    def _arguments(self, operands: tuple[Any, ...], dtype: dtypes.dtype) -> tuple[Argument, ...]:
        """How the kernel gets each operand: as an array, a number at run time, or a literal in its text."""
        names = (*self.op.inputs, *self.op.scalars)
        values = {**self.op.scalars, **dict(zip(names, operands, strict=False))}
        arguments = []
        for name in names:
            value = values[name]
            rounded = dtype.name if dtype.is_half and self._is_rounded(name, value, dtype) else ""
            if isinstance(value, Tensor):
                arguments.append(Argument(name, "array", condition=name in self.op.conditions, rounded=rounded))
            elif value in self.op.literals.get(name, ()):
                arguments.append(Argument(name, "literal", float(value)))
            else:
                arguments.append(Argument(name, "scalar", rounded=rounded))
        return tuple(arguments)

    def _is_rounded(self, name: str, value: Any, half: dtypes.dtype) -> bool:
        """Whether an operand is rounded to ``half``, as PyTorch converts it; the op itself computes in float32."""
        rounds = self.op.inputs if self.op.rounds is None else self.op.rounds
        if not isinstance(value, Tensor):
            return name in rounds
        if name in self.op.conditions or value._layout.dtype is half:
            return False
        return bool(value._layout.ndim) or name in rounds

    def _dtypes(self, operands: tuple[Any, ...], target: Layout | None) -> tuple[dtypes.dtype, dtypes.dtype]:
        """(the dtype that the kernel computes in, that of the result). A condition, as of ``where``, does not count."""
        op = self.op
        promoting = [(n, v) for n, v in zip(op.inputs, operands, strict=False) if n not in op.conditions]
        layouts = [v._layout for _, v in promoting if isinstance(v, Tensor)]
        numbers = [dtypes.category_of(v) for _, v in promoting if not isinstance(v, Tensor)]
        common = dtypes.promote(
            [x.dtype for x in layouts if x.ndim], [x.dtype for x in layouts if not x.ndim], numbers
        )
        check_category(op, common, [x.dtype.category for x in layouts] + numbers)
        compute = dtypes.get_default_dtype() if op.kind == "float" and common.category < 2 else common
        result = {"bool": dtypes.bool_, "real": compute.to_real()}.get(op.kind, compute)
        if target is not None:
            if op.kind == "real" and target.dtype.is_complex:
                raise RuntimeError(f"In-place {op.name} is not supported for complex tensors.")
            check_result_cast(result, target.dtype)
        check_kernel(op, common)
        return (dtypes.float64 if op.in_double and compute.category == 2 else compute), result


# PyTorch's names of operands -> the declarations'.
def _without_dims(number: Any) -> Tensor:
    """A tensor without dims of a number, of the dtype that numbers of its kind have."""
    dtype = dtypes.default_for(dtypes.category_of(number))
    return filled(intern(dtype.numpy, (), None, "cpu"), number)


_KEYWORDS = {"input": "x", "self": "x", "other": "y", "exponent": "y", "a": "x", "x1": "x", "x2": "y"}


def _runtime_numbers(plan: ForwardPlan, operands: Any) -> list[tuple[Argument, Any]]:
    """The numbers that the kernel gets as arguments, with their values in this call."""
    names = (*plan.op.inputs, *plan.op.scalars)
    values = {**plan.op.scalars, **dict(zip(names, operands, strict=False))}
    return [(a, values[a.name]) for a in plan.arguments if a.kind == "scalar"]


# NumPy's kind of the compute dtype -> the Python type that kernels get numbers in.
_CAST = {"b": int, "i": int, "u": int, "f": float, "c": complex}


def cast_number(dtype: np.dtype[Any], value: Any) -> Any:
    """A number as the Python type of the compute dtype: a kernel is compiled for one type of number, not for each."""
    if isinstance(value, complex) and dtype.kind != "c":
        raise overflow(dtypes.from_numpy_dtype(dtype))
    return _CAST[dtype.kind](value)
