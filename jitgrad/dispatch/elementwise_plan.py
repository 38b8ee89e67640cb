"""Plans of an elementwise op for one combination of operands, and its node.

A ForwardPlan holds the launch for one combination of layouts and numbers, a BackwardPlan what recording and backward
need for one set of operands that require grad. Both are made once and found by identity of layouts afterwards.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.layout import Layout, halves, layout_of
from jitgrad.core.node import Node, edge_pair
from jitgrad.core.saved_tensors import define_saved_attributes
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.elementwise_recorder import backward_of, recorder_of
from jitgrad.dispatch.foresight import foreseen
from jitgrad.dispatch.half_ops import widened
from jitgrad.dispatch.launch_plan import LaunchPlan, plan_elementwise
from jitgrad.dispatch.node_types import node_type_for, value_names
from jitgrad.kernels.codegen.emit_cpu import Argument
from jitgrad.kernels.elementwise.declaration import Elementwise

__all__ = ["BackwardPlan", "ElementwiseNode", "ForwardPlan", "array_names"]


class ForwardPlan:
    """The launch of an op for one combination of operands, and the BackwardPlans for it.

    inputs: the layouts of the operands that are tensors. dtype: what the kernel computes in. shape: that of the result.
    compute: the launch's function, here, too, to save the fast path an attribute.
    """

    __slots__ = ("arguments", "backward_plans", "compute", "dtype", "inputs", "launch", "node_type", "op", "shape")

    def __init__(self, op: type[Elementwise], arguments: tuple[Argument, ...], inputs: tuple[Layout, ...],
                 dtype: np.dtype[Any], shape: tuple[int, ...], launch: LaunchPlan, node_type: type[Node]):  # fmt: skip
        self.node_type = node_type
        self.op, self.arguments, self.inputs = op, arguments, inputs
        self.dtype, self.shape, self.launch = dtype, shape, launch
        self.compute = launch.compute
        self.backward_plans: dict[tuple[bool, ...], BackwardPlan] = {}

    def backward_plan(self, wants: tuple[bool, ...]) -> BackwardPlan:
        """The plan for these operands requiring grad; ``wants`` has a flag for each tensor."""
        found = self.backward_plans.get(wants)
        if found is None:
            found = self.backward_plans[wants] = BackwardPlan(self, wants, self.node_type)
        return found


class BackwardPlan:
    """What a node saves, and what backward launches, for one set of operands that require grad.

    names: the operands that get a gradient. saves: the tensors that their rules need. scalar_names: the numbers that
    they need, whose values each node keeps. record: makes a node. vjp: runs one.
    computes: {layout of the incoming gradient: function that launches the backward kernel for it}.
    additions: {layouts of that gradient and of one that waits: function that launches the kernel which adds to it}.
    places: for each operand the number of its gradient among those of ``names``, -1 if it gets none, and its layout.
    """

    __slots__ = (
        "additions", "computes", "forward", "names", "places", "record", "rules", "saves", "scalar_names", "vjp",
    )  # fmt: skip

    def __init__(self, plan: ForwardPlan, wants: tuple[bool, ...], node_type: type[Node]):
        op, self.forward = plan.op, plan
        self.names = [n for n, w in zip(array_names(plan), wants, strict=True) if w and n in op.grads]
        self.rules = [op.grads[n] for n in self.names]
        used = {p for rule in self.rules for p in rule.parameters}
        define_saved_attributes(node_type, *_saved_attributes(plan))
        self.saves = [n for n in (*array_names(plan), "out") if n in used]
        self.scalar_names = [a.name for a in plan.arguments if a.kind == "scalar" and a.name in used]
        made = node_type_for(
            node_type, len(plan.inputs), adds=bool(self.saves) and self._adds(wants),
            plain_release=not (self.scalar_names and op.grad_name in _WRAPPING),
        )  # fmt: skip
        record = recorder_of(tuple(array_names(plan)), tuple(self.saves))(made, self)
        self.record: Callable[..., Any] = foreseen(op, record, functools.partial(self._recorded_first, record))
        self.computes: dict[Layout, Callable[..., Any]] = {}
        self.additions: dict[tuple[Layout, Layout], Callable[..., Any]] = {}
        self.vjp: Callable[..., Any] = self._backward()

    def _recorded_first(self, record: Callable[..., Any], node: Any) -> None:
        """Called with the plan's first node, ahead of the rehearsal of its backward: later nodes have none.

        The node gets its operands' numbers afterwards. Of these a rehearsal needs the type alone.
        """
        self.record = record
        number = +self.forward.dtype.type(1).item()  # + makes an int of True
        node.scalars = dict.fromkeys(self.scalar_names, number)

    def _adds(self, wants: tuple[bool, ...]) -> bool:
        """Whether this plan's nodes have ``vjp_into``: their one gradient can be added by the kernel that computes it.

        This saves a pass over memory, at the price of one more kernel to compile. Not 16-bit floats: PyTorch rounds a
        gradient before it adds it.
        """
        if sum(wants) != 1 or not self.names or self.forward.dtype.kind != "f":
            return False
        x = dict(zip(array_names(self.forward), self.forward.inputs, strict=True))[self.names[0]]
        like = x.shape == self.forward.shape and x.numpy_dtype == self.forward.dtype and x.device == "cpu"
        return like and x.numel >= ADDITION_SIZE and not self.rules[0].passes_gradient

    def _backward(self) -> Callable[..., Any]:
        """The function ``vjp(node, g)`` of this plan's nodes."""
        plan = self.forward
        every, result = array_names(plan), plan.launch.layouts[0]
        passed = all(rule.passes_gradient for rule in self.rules)
        # Whether every gradient has its input's shape, device and dtype, so that no sum over broadcast dims or cast has
        # to follow. Kernels write any dtype; a gradient that is passed on has that of the result.
        fits = all(
            x.shape == plan.shape and x.device == result.device and not (passed and x.dtype is not result.dtype)
            for n, x in zip(every, plan.inputs, strict=True) if n in self.names
        )  # fmt: skip
        # For each operand the number of its gradient among those that the kernel returns, -1 if it gets none.
        place = tuple([self.names.index(n) if n in self.names else -1 for n in every])
        self.places = tuple(zip(place, plan.inputs, strict=True))
        form = ("passed" if passed else "kernel") + ("" if fits else " shaped")
        return backward_of(form, place, len(self.saves), tuple(self.scalar_names))(self)

    def plan_launch(self, g: Layout, saved: tuple[Tensor, ...]) -> Callable[..., Any]:
        """Plan the backward kernel for a gradient of layout ``g``; return the function that launches it."""
        found = self.computes[g] = self._plan(g, [s._layout for s in saved]).compute
        return found

    def plan_addition(self, g: Layout, there: Layout, saved: tuple[Tensor, ...]) -> Callable[..., Any]:
        """Plan the kernel that adds the one gradient to a row-major tensor of layout ``there``; return its launcher."""
        launch = self._plan(g, [s._layout for s in saved], there)
        found = self.additions[g, there] = launch.write
        return found

    def _plan(self, g: Layout, saved: list[Layout], there: Layout | None = None) -> LaunchPlan:
        """One kernel that computes all wanted gradients. It reads each array once, however many rules need it.

        there: the layout of a tensor that the one wanted gradient is added to. The kernel's first array and its result
        are that tensor's.
        """
        plan, name, rules = self.forward, f"{self.forward.op.name}_backward", self.rules
        arrays, layouts = ["g", *self.saves], [g, *saved]
        if there is not None:
            name, rules = f"{name}_add", [rules[0].accumulated]
            arrays, layouts = [rules[0].parameters[0], *arrays], [there, *layouts]
        others = [a for a in plan.arguments if a.kind != "array" and any(a.name in r.parameters for r in self.rules)]
        inputs = dict(zip(array_names(plan), plan.inputs, strict=True))
        # The gradient of a holomorphic f is g * conj(f'): rules give g * f', so the kernel conjugates g and the result.
        conjugate = plan.op.holomorphic and plan.dtype.kind == "c"
        return plan_elementwise(
            name, [(r, f"grad_{n}") for r, n in zip(rules, self.names, strict=True)],
            [*(Argument(a, "array", condition=a in plan.op.conditions) for a in arrays), *others],
            layouts, plan.dtype, plan.shape,
            [x.numpy_dtype if x.shape == plan.shape else plan.dtype for x in map(inputs.__getitem__, self.names)],
            conjugate=conjugate, target=there, inplace=there is not None,
        )  # fmt: skip


# Elements from which such a kernel pays.
ADDITION_SIZE = 1 << 15


def array_names(plan: ForwardPlan) -> list[str]:
    """Names of the operands that are tensors."""
    return [a.name for a in plan.arguments if a.kind == "array"]


# Nodes of ops for which PyTorch makes a tensor of a number: an entry of ``next_functions``, without a node.
_WRAPPING = ("AddBackward0", "SubBackward0", "MulBackward0", "DivBackward0", "DivBackward2", "WhereBackward0")


# PyTorch's names of operands in ``_saved_NAME``; by (node, operand) where one op's differs.
_TITLES = {"x": "self", "y": "other", "out": "result", "low": "min", "high": "max", ("PowBackward0", "y"): "exponent"}


def _title(op: type[Elementwise], name: str) -> str:
    """PyTorch's name for what a rule calls ``name``."""
    return _TITLES.get((op.grad_name, name)) or _TITLES.get(name, name)


def _saved_attributes(plan: ForwardPlan) -> tuple[list[str], list[str]]:
    """PyTorch's names of the tensors, and of the numbers, that nodes of a plan have as ``_saved_NAME``."""
    op, numbers = plan.op, {a.name for a in plan.arguments if a.kind != "array"}
    numbers |= set(op.inputs[1:]) if op.numbers_only else set()
    used = {p for rule in op.grads.values() for p in rule.parameters} - {"g"}
    if op.grad_name in _WRAPPING:
        numbers -= set(op.inputs)
    return [_title(op, n) for n in used - numbers], [_title(op, n) for n in used & numbers]


class ElementwiseNode(Node):
    """A recorded elementwise op; each op has a subclass with its printed name.

    scalars: {name: value} of the number operands that were kept for gradient rules, an attribute each (node_types.py).
    """

    planned = True
    backward_plan: BackwardPlan

    @property
    def scalars(self) -> dict[str, Any]:
        op = self.backward_plan.forward.op
        names = (*op.inputs, *op.scalars)
        kept = [getattr(self, slot, None) for slot in value_names(names)]
        return {name: value for name, value in zip(names, kept, strict=True) if value is not None}

    @scalars.setter
    def scalars(self, values: dict[str, Any]) -> None:
        for slot, value in zip(value_names(tuple(values)), values.values(), strict=True):
            setattr(self, slot, value)

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """(node, output number) of every input that a gradient could flow to; (None, 0) where none does."""
        return tuple(map(edge_pair, self._in_order(self.edges)))

    def _in_order(self, values: Any) -> tuple[Any, ...]:
        """``values``, one for each operand that is a tensor, as one for each entry of ``next_functions``.

        Without the operands that have no gradient rule, and with None for a number that counts as an input.
        """
        plan = self.backward_plan.forward
        op, found = plan.op, dict(zip(array_names(plan), values, strict=True))
        entries = [n for n in op.inputs if n in op.grads and (n in found or op.grad_name in _WRAPPING)]
        return tuple([found.get(n) for n in entries])

    def vjp(self, g: Any) -> Any:
        """The gradients of the operands, all computed by one launch."""
        return self.backward_plan.vjp(self, g)

    def vjp_into(self, g: Any, there: Any) -> None:
        """Add the gradient of the one operand that has one to ``there``, row-major and of that operand's shape."""
        backward, saved = self.backward_plan, self.unpack()
        find, numbers = backward.additions.get, [getattr(self, slot) for slot in value_names(backward.scalar_names)]
        add = find((g._layout, there._layout)) or backward.plan_addition(g._layout, there._layout, saved)
        add(there, g, *saved, *numbers, there._data)

    def frees(self) -> bool:
        """Whether a second backward raises. PyTorch saves the number of a product as a tensor, so it does, too."""
        plan = self.backward_plan
        return bool(self.saved or (plan.scalar_names and plan.forward.op.grad_name in _WRAPPING))

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
        """A number that was an operand, as a tensor if PyTorch has made one of it."""
        op = self.backward_plan.forward.op
        for a in self.backward_plan.forward.arguments:
            if a.kind != "array" and _title(op, a.name) == name:
                value = a.value if a.kind == "literal" else self.scalars.get(a.name)
                wrapped = value is not None and op.grad_name in _WRAPPING and a.name in op.inputs
                return _as_tensor(value) if wrapped else value
        return None

    def vjp_recorded(self, g: Any) -> tuple[Any, ...]:
        """Apply the rules, which the kernel was generated from, to tensors: differentiable to any order."""
        backward, op = self.backward_plan, self.backward_plan.forward.op
        values = dict(zip(backward.saves, self.unpack(), strict=True))
        if "out" in values:
            # It was saved without its edge, which would be a cycle.
            values["out"] = values["out"]._attached(self.edge_of_output(0))
        values |= {a.name: a.value for a in backward.forward.arguments if a.kind == "literal"}
        values |= self.scalars
        complex_rule = op.holomorphic and backward.forward.dtype.kind == "c"
        values["g"] = g.conj_physical() if complex_rule else g
        if halves:  # 16-bit floats: the rules compute in float32, and only their result is rounded, as in the kernel
            values = {k: widened(v) for k, v in values.items()}
        results = []
        for name, rule in zip(backward.names, backward.rules, strict=True):
            grad = rule.function(*(values[p] for p in rule.parameters))
            if not isinstance(grad, Tensor):  # a rule may be a constant
                grad = g.new_full(g.shape, grad)
            grad = grad.conj_physical() if complex_rule else grad
            results.append(_cast_like(grad, self._input_layout(name)))
        return self.shaped(results, recorded=True)

    def _input_layout(self, name: str) -> Layout:
        plan = self.backward_plan.forward
        return plan.inputs[array_names(plan).index(name)]

    def shaped(self, grads: Any, recorded: bool = False) -> tuple[Any, ...]:
        """``grads`` in the order of the edges, each with its input's shape, dtype and device."""
        results = []
        for place, layout in self.backward_plan.places:
            grad = None if place < 0 else grads[place]
            fits = grad is None or grad._layout is layout
            results.append(grad if fits else _fitted(grad, layout, recorded))
        return tuple(results)


def _fitted(grad: Any, layout: Layout, recorded: bool) -> Any:
    """A gradient summed over the dims along which its input, of ``layout``, was repeated, in that dtype and there."""
    if grad._layout.shape != layout.shape:
        grad = grad.sum_to_size(layout.shape) if recorded else grad._summed_like(layout)
    if grad._layout.dtype is not layout.dtype:
        grad = _cast_like(grad, layout)
    if grad._layout.device != layout.device:  # that of a CPU tensor without dimensions, beside CUDA ones
        grad = grad.to(layout.device)
    return grad


def _as_tensor(number: Any) -> Tensor:
    """A number as an unrecorded tensor without dimensions, of the dtype that ``tensor(number)`` has."""
    data = np.asarray(number, dtypes.default_for(dtypes.category_of(number)).numpy)
    return wrap(data, layout_of(data))


def _cast_like(grad: Any, layout: Layout) -> Any:
    """A gradient in the dtype of its input: the real part, if that is real."""
    if grad._layout.dtype is layout.dtype:
        return grad
    if grad._layout.dtype.is_complex and not layout.dtype.is_complex:
        grad = grad.real
    return grad.to(layout.dtype)
