"""What is known of an elementwise op for one combination of operands, and how it is recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.layout import Layout, layout_of
from jitgrad.core.node import Node, edge_pair
from jitgrad.core.saved_tensors import define_saved_attributes
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.elementwise_recorder import backward_of, node_type_for, recorder_of
from jitgrad.dispatch.launch_plan import LaunchPlan, plan_elementwise
from jitgrad.kernels.codegen.emit_cpu import Argument
from jitgrad.kernels.elementwise.declaration import Elementwise

__all__ = ["BackwardPlan", "ElementwiseNode", "ForwardPlan", "array_names"]


class ForwardPlan:
    """How an op is launched for one combination of operands (layouts and kinds of numbers), and how its backward is
    for each set of operands that require grad."""

    __slots__ = ("arguments", "backward_plans", "compute", "dtype", "inputs", "launch", "node_type", "op", "shape")

    def __init__(self, op: type[Elementwise], arguments: tuple[Argument, ...], inputs: tuple[Layout, ...],
                 dtype: np.dtype[Any], shape: tuple[int, ...], launch: LaunchPlan, node_type: type[Node]):  # fmt: skip
        self.node_type = node_type
        self.op, self.arguments, self.inputs = op, arguments, inputs
        self.dtype, self.shape, self.launch = dtype, shape, launch
        self.compute = launch.compute
        self.backward_plans: dict[tuple[bool, ...], BackwardPlan] = {}

    def backward_plan(self, wants: tuple[bool, ...]) -> BackwardPlan:
        """What recording needs when these operands require grad."""
        found = self.backward_plans.get(wants)
        if found is None:
            found = self.backward_plans[wants] = BackwardPlan(self, wants, self.node_type)
        return found


class BackwardPlan:
    """What recording keeps, and what backward launches, for one set of inputs that want gradients."""

    __slots__ = (
        "computes", "forward", "names", "record", "rules", "saves", "scalar_names", "vjp",
    )  # fmt: skip

    def __init__(self, plan: ForwardPlan, wants: tuple[bool, ...], node_type: type[Node]):
        op, self.forward = plan.op, plan
        self.names = [n for n, w in zip(array_names(plan), wants, strict=True) if w and n in op.grads]
        self.rules = [op.grads[n] for n in self.names]
        used = {p for rule in self.rules for p in rule.parameters}
        define_saved_attributes(node_type, *_shown(plan))
        self.saves = [n for n in (*array_names(plan), "out") if n in used]
        made: Any = node_type
        made = node_type_for(made, len(plan.inputs)) if self.saves else made
        self.record: Callable[..., Any] = recorder_of(tuple(array_names(plan)), tuple(self.saves))(made, self)
        self.scalar_names = [a.name for a in plan.arguments if a.kind == "scalar" and a.name in used]
        self.computes: dict[Layout, Callable[..., Any]] = {}
        self.vjp: Callable[..., Any] = self._backward()

    def _backward(self) -> Callable[..., Any]:
        """``vjp(node, g)`` for the nodes of this pattern."""
        plan = self.forward
        every, result = array_names(plan), plan.launch.layouts[0]
        passed = all(rule.passes_gradient for rule in self.rules)
        # Whether gradients fit their inputs as they come: no sum over broadcast dims. A kernel writes any dtype.
        fits = all(
            x.shape == plan.shape and x.device == result.device and not (passed and x.dtype is not result.dtype)
            for n, x in zip(every, plan.inputs, strict=True) if n in self.names
        )  # fmt: skip
        place = tuple([self.names.index(n) if n in self.names else -1 for n in every])
        form = ("passed" if passed else "kernel") + ("" if fits else " shaped")
        return backward_of(form, place, len(self.saves), tuple(self.scalar_names))(self)

    def plan_launch(self, g: Layout, saved: tuple[Tensor, ...]) -> Callable[..., Any]:
        """Plan the backward kernel for an incoming gradient of layout ``g``; return what launches it."""
        found = self.computes[g] = self._plan(g, [s._layout for s in saved]).compute
        return found

    def _plan(self, g: Layout, saved: list[Layout]) -> LaunchPlan:
        plan = self.forward
        arrays = ["g", *self.saves]
        others = [a for a in plan.arguments if a.kind != "array" and any(a.name in r.parameters for r in self.rules)]
        inputs = dict(zip(array_names(plan), plan.inputs, strict=True))
        conjugate = plan.op.holomorphic and plan.dtype.kind == "c"
        return plan_elementwise(
            f"{plan.op.name}_backward", [(r, f"grad_{n}") for r, n in zip(self.rules, self.names, strict=True)],
            [*(Argument(a, "array", condition=a in plan.op.conditions) for a in arrays), *others],
            [g, *saved], plan.dtype, plan.shape,
            [x.numpy_dtype if x.shape == plan.shape else plan.dtype for x in map(inputs.__getitem__, self.names)],
            conjugate=conjugate,
        )  # fmt: skip


def array_names(plan: ForwardPlan) -> list[str]:
    """Names of the operands that are tensors."""
    return [a.name for a in plan.arguments if a.kind == "array"]


# Ops that PyTorch applies to numbers as to tensors: a number is an input, without a node.
_WRAPPING = ("AddBackward0", "SubBackward0", "MulBackward0", "DivBackward0", "DivBackward2", "WhereBackward0")


_TITLES = {"x": "self", "y": "other", "out": "result", "low": "min", "high": "max", ("PowBackward0", "y"): "exponent"}


def _title(op: type[Elementwise], name: str) -> str:
    """PyTorch's name for what a rule calls ``name``."""
    return _TITLES.get((op.grad_name, name)) or _TITLES.get(name, name)


def _shown(plan: ForwardPlan) -> tuple[list[str], list[str]]:
    """PyTorch's names of the tensors, and of the numbers, that a node shows."""
    op, numbers = plan.op, {a.name for a in plan.arguments if a.kind != "array"}
    numbers |= set(op.inputs[1:]) if op.numbers_only else set()
    used = {p for rule in op.grads.values() for p in rule.parameters} - {"g"}
    if op.grad_name in _WRAPPING:
        numbers -= set(op.inputs)
    return [_title(op, n) for n in used - numbers], [_title(op, n) for n in used & numbers]


class ElementwiseNode(Node):
    """A recorded elementwise op; each op has a subclass that carries its printed name."""

    backward_plan: BackwardPlan
    scalars: dict[str, Any] = {}

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """(node, output number) of every input that a gradient could flow to; (None, 0) where none does."""
        return tuple(map(edge_pair, self._in_order(self.edges)))

    def _in_order(self, values: Any) -> tuple[Any, ...]:
        """What stands at the operands that are tensors, with None at the numbers that count as inputs."""
        plan = self.backward_plan.forward
        op, found = plan.op, dict(zip(array_names(plan), values, strict=True))
        shown = [n for n in op.inputs if n in op.grads and (n in found or op.grad_name in _WRAPPING)]
        return tuple([found.get(n) for n in shown])

    def vjp(self, g: Any) -> Any:
        """Run the backward kernel, which computes all wanted gradients in one loop."""
        return self.backward_plan.vjp(self, g)

    def release(self) -> None:
        """Drop what was saved; PyTorch saves the number of a product or quotient as a tensor, too."""
        if self.saved or (self.backward_plan.scalar_names and self.backward_plan.forward.op.grad_name in _WRAPPING):
            self.saved = None

    def is_output(self, saved: Any) -> bool:
        """Whether a saved tensor is this op's result."""
        names = zip(self.backward_plan.saves, self.saved or (), strict=False)
        return any(name == "out" and tensor is saved for name, tensor in names)

    def output_number(self, index: int) -> int | None:
        """0 for the saved result, None for saved operands."""
        return 0 if self.backward_plan.saves[index] == "out" else None

    def saved_names(self) -> list[str]:
        """PyTorch's names of the saved tensors."""
        return [_title(self.backward_plan.forward.op, n) for n in self.backward_plan.saves]

    def nontensor_value(self, name: str) -> Any:
        """The number that was an operand or option; as a tensor where PyTorch makes one of it."""
        op = self.backward_plan.forward.op
        for a in self.backward_plan.forward.arguments:
            if a.kind != "array" and _title(op, a.name) == name:
                value = a.value if a.kind == "literal" else self.scalars.get(a.name)
                wrapped = value is not None and op.grad_name in _WRAPPING and a.name in op.inputs
                return _as_tensor(value) if wrapped else value
        return None

    def vjp_recorded(self, g: Any) -> tuple[Any, ...]:
        """Apply the same rules to tensors: differentiable to any order."""
        backward, op = self.backward_plan, self.backward_plan.forward.op
        known = dict(zip(backward.saves, self.unpack(), strict=True))
        if "out" in known:
            known["out"] = known["out"]._attached(self)
        known |= {a.name: a.value for a in backward.forward.arguments if a.kind == "literal"}
        known |= self.scalars
        complex_rule = op.holomorphic and backward.forward.dtype.kind == "c"
        known["g"] = g.conj() if complex_rule else g
        results = []
        for name, rule in zip(backward.names, backward.rules, strict=True):
            grad = rule.function(*(known[p] for p in rule.parameters))
            if not isinstance(grad, Tensor):
                grad = g.new_full(g.shape, grad)
            grad = grad.conj() if complex_rule else grad
            results.append(_cast_like(grad, self._input_layout(name)))
        return self.shaped(results)

    def _input_layout(self, name: str) -> Layout:
        plan = self.backward_plan.forward
        return plan.inputs[array_names(plan).index(name)]

    def shaped(self, grads: Any) -> tuple[Any, ...]:
        """Sum gradients to their inputs' shapes and put them in the order of the edges."""
        found = dict(zip(self.backward_plan.names, grads, strict=True))
        results, plan = [], self.backward_plan.forward
        for name, layout in zip(array_names(plan), plan.inputs, strict=True):
            grad = found.get(name)
            if grad is not None:
                if grad._layout.shape != layout.shape:
                    grad = grad.sum_to_size(layout.shape)
                if grad._layout.dtype is not layout.dtype:
                    grad = _cast_like(grad, layout)
                if grad._layout.device != layout.device:  # of a tensor without dimensions
                    grad = grad.to(layout.device)
            results.append(grad)
        return tuple(results)


def _as_tensor(number: Any) -> Tensor:
    data = np.asarray(number, dtypes.default_for(dtypes.category_of(number)).numpy)
    return wrap(data, layout_of(data))


def _cast_like(grad: Any, layout: Layout) -> Any:
    if grad._layout.dtype is layout.dtype:
        return grad
    if grad._layout.dtype.is_complex and not layout.dtype.is_complex:
        grad = grad.real
    return grad.to(layout.dtype)
