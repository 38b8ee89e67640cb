"""What is known of an elementwise op for one combination of operands, and how it is recorded."""

from __future__ import annotations

import functools
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import numpy as np

from ..autograd.node import FREED, Node, edge_of, modified, next_sequence_number, witness, witnesses
from ..autograd.saved import show_saved
from ..kernels.declaration import Elementwise
from ..kernels.emit import Argument
from ..layout import Layout
from ..storage import counter_of
from ..tensor import Tensor, wrap
from .plan import Plan, plan_elementwise
from .registry import FUNCTIONS

__all__ = ["Call", "ElementwiseNode", "Wanted", "array_names"]


class Call:
    """All that is known of one op for one combination of operands: the forward plan, and for
    recording, which inputs each set of wanted gradients needs."""

    __slots__ = ("arguments", "compute", "dtype", "forward", "inputs", "node_type", "op", "shape", "wants")

    def __init__(self, op: type[Elementwise], arguments: tuple[Argument, ...], inputs: tuple[Layout, ...],
                 dtype: np.dtype[Any], shape: tuple[int, ...], forward: Plan, node_type: type[Node]):  # fmt: skip
        self.node_type = node_type
        self.op, self.arguments, self.inputs = op, arguments, inputs
        self.dtype, self.shape, self.forward = dtype, shape, forward
        self.compute = forward.compute
        self.wants: dict[tuple[bool, ...], Wanted] = {}

    def want(self, wants: tuple[bool, ...]) -> Wanted:
        """What recording needs when these operands require grad."""
        found = self.wants.get(wants)
        if found is None:
            found = self.wants[wants] = Wanted(self, wants, self.node_type)
        return found


class Wanted:
    """What recording keeps, and what backward launches, for one set of inputs that want gradients."""

    __slots__ = (
        "call", "direct", "handed", "names", "passed", "place", "plans", "record", "rules", "saves", "scalar_names",
    )  # fmt: skip

    def __init__(self, call: Call, wants: tuple[bool, ...], node_type: type[Node]):
        op, self.call = call.op, call
        self.names = [n for n, w in zip(array_names(call), wants, strict=True) if w and n in op.grads]
        self.rules = [op.grads[n] for n in self.names]
        self.passed = all(rule.passes_gradient for rule in self.rules)
        used = {p for rule in self.rules for p in rule.parameters}
        show_saved(node_type, *_shown(call))
        self.saves = [n for n in (*array_names(call), "out") if n in used]
        made: Any = node_type
        made = _for_operands(made, len(call.inputs)) if self.saves else made
        self.record: Callable[..., Any] = _recorder(tuple(array_names(call)), tuple(self.saves))(made, self)
        self.scalar_names = [a.name for a in call.arguments if a.kind == "scalar" and a.name in used]
        # Whether gradients fit their inputs as the kernel writes them: no sum over broadcast dims.
        operands = zip(array_names(call), call.inputs, strict=True)
        device = call.forward.layouts[0].device
        self.direct = all(x.shape == call.shape and x.device == device for n, x in operands if n in self.names)
        # Whether they are the incoming gradient itself, as in a sum of equal shapes and dtypes.
        dtype = call.forward.layouts[0].dtype
        self.handed = self.passed and self.direct and all(x.dtype is dtype for x in call.inputs)
        every = array_names(call)
        self.place = tuple(self.names.index(n) if n in self.names else -1 for n in every)
        self.plans: dict[Layout, Plan] = {}

    def plan(self, g: Layout, saved: list[Layout]) -> Plan:
        """Return the backward kernel's plan for an incoming gradient of layout ``g``."""
        call = self.call
        arrays = ["g", *self.saves]
        others = [a for a in call.arguments if a.kind != "array" and any(a.name in r.parameters for r in self.rules)]
        inputs = dict(zip(array_names(call), call.inputs, strict=True))
        conjugate = call.op.holomorphic and call.dtype.kind == "c"
        return plan_elementwise(
            f"{call.op.name}_backward", [(r, f"grad_{n}") for r, n in zip(self.rules, self.names, strict=True)],
            [*(Argument(a, "array", condition=a in call.op.conditions) for a in arrays), *others],
            [g, *saved], call.dtype, call.shape,
            [x.numpy_dtype if x.shape == call.shape else call.dtype for x in map(inputs.__getitem__, self.names)],
            conjugate=conjugate,
        )  # fmt: skip


_EDGE = "({0}._edge or {0}._leaf_edge or edge_of({0})) if {0}._requires_grad else None"


def _edges(operands: tuple[str, ...], saving: bool) -> str:
    """The lines that set a node's edges.

    An attribute each where something is saved: of two containers that lead from node to node, Python's collector
    takes three times as long for a deep graph as of one (6.5 and 2.5 us an op in a chain of 400,000).
    """
    found = [_EDGE.format(n) for n in operands]
    if not saving:
        return f"        node.edges = ({', '.join(found)},)\n"
    return "".join(f"        node.edge{k} = {edge}\n" for k, edge in enumerate(found))


# Nothing was written to, mostly: then nodes share one tuple of zeros, an object less for the collector to visit.
_KEEP = """\
        node.saved = ({saved})
        {numbers} = {versions}
        node.versions = ({numbers}) if {any} else zeros
"""
_RECORDER = """\
def make(node_type, wanted):
    def record(out, {parameters}):
        node = new(node_type)
        node.wanted = wanted
{keep}{edges}        node.sequence_number = next_sequence_number()
        if out._base is None:
            out._edge, out._requires_grad = (node, 0), True
        else:
            out._rebase((node, 0))
        if witnesses: witness(node)
        return node
    return record
"""


@functools.cache
def _recorder(operands: tuple[str, ...], saves: tuple[str, ...]) -> Callable[..., Callable[..., Any]]:
    """Return a maker of ``record(out, *operands)``, which makes the node of a result.

    Written out as text, like a namedtuple's methods: it runs for every recorded op.
    """
    numbers = [f"version{k}" for k in range(len(saves))]
    keep = _KEEP.format(
        saved="".join("_alias(out), " if n == "out" else f"{n}, " for n in saves),
        numbers="".join(f"{n}, " for n in numbers),
        versions="".join(f"{n}._counter[0], " for n in saves),
        any=" or ".join(numbers),
    )
    text = _RECORDER.format(
        parameters=", ".join(operands),
        keep=keep if saves else "",
        edges=_edges(operands, bool(saves)),
    )
    scope: dict[str, Any] = {"_alias": _alias, "edge_of": edge_of, "new": object.__new__}
    scope |= {"next_sequence_number": next_sequence_number, "witnesses": witnesses, "witness": witness}
    scope |= {"__name__": __name__, "zeros": (0,) * len(saves)}
    exec(text, scope)
    return scope["make"]


@functools.cache
def _for_operands(node_type: Any, count: int) -> Any:
    """The class of an op's nodes with ``count`` edges, which reads them as one tuple."""
    names = [f"edge{k}" for k in range(count)]
    read: Any = attrgetter(*names) if count > 1 else lambda node: (node.edge0,)

    def write(node: Any, edges: Any) -> None:
        for name, edge in zip(names, edges, strict=True):
            setattr(node, name, edge)

    body = {"edges": property(read, write), "__doc__": node_type.__doc__, "__module__": node_type.__module__}
    return type(node_type.__name__, (node_type,), body)


def _alias(out: Tensor) -> Tensor:
    """The result outside the graph: a node must not hold its own output."""
    alias = wrap(out._data, out._layout)
    alias._counter = counter_of(out)
    return alias


def array_names(call: Call) -> list[str]:
    """Names of the operands that are tensors."""
    return [a.name for a in call.arguments if a.kind == "array"]


# Ops that PyTorch applies to numbers as to tensors: a number is an input, without a node.
_WRAPPING = ("AddBackward0", "SubBackward0", "MulBackward0", "DivBackward0", "DivBackward2", "WhereBackward0")


_TITLES = {"x": "self", "y": "other", "out": "result", "low": "min", "high": "max", ("PowBackward0", "y"): "exponent"}


def _title(op: type[Elementwise], name: str) -> str:
    """PyTorch's name for what a rule calls ``name``."""
    return _TITLES.get((op.grad_name, name)) or _TITLES.get(name, name)


def _shown(call: Call) -> tuple[list[str], list[str]]:
    """PyTorch's names of the tensors, and of the numbers, that a node shows."""
    op, numbers = call.op, {a.name for a in call.arguments if a.kind != "array"}
    used = {p for rule in op.grads.values() for p in rule.parameters} - {"g"}
    if op.grad_name in _WRAPPING:
        numbers -= set(op.inputs)
    return [_title(op, n) for n in used - numbers], [_title(op, n) for n in used & numbers]


class ElementwiseNode(Node):
    """A recorded elementwise op; each op has a subclass that carries its printed name."""

    wanted: Wanted
    scalars: dict[str, Any] = {}

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """(node, output number) of every input that a gradient could flow to; (None, 0) where none does."""
        return tuple([edge or (None, 0) for edge in self._in_order(self.edges)])

    def _in_order(self, values: Any) -> tuple[Any, ...]:
        """What stands at the operands that are tensors, with None at the numbers that count as inputs."""
        op, found = self.wanted.call.op, dict(zip(array_names(self.wanted.call), values, strict=True))
        shown = [n for n in op.inputs if n in op.grads and (n in found or op.grad_name in _WRAPPING)]
        return tuple([found.get(n) for n in shown])

    def vjp(self, g: Any) -> Any:
        """Run the backward kernel, all wanted gradients in one loop."""
        saved, wanted = self.saved, self.wanted
        if saved is None:
            raise RuntimeError(FREED)
        for tensor, version in zip(saved, self.versions):
            if tensor._counter[0] != version:
                raise RuntimeError(modified(tensor, version, self))
        if wanted.handed:
            if len(wanted.names) == len(wanted.place):
                return [g] * len(wanted.place)
            return [g if k >= 0 else None for k in wanted.place]
        if wanted.passed:
            return self._shaped([g] * len(wanted.names))
        plan = wanted.plans.get(g._layout)
        if plan is None:
            plan = wanted.plans[g._layout] = wanted.plan(g._layout, [s._layout for s in saved])
        if wanted.scalar_names:
            results = plan.compute(g, *saved, *[self.scalars[n] for n in wanted.scalar_names])
        else:
            results = plan.compute(g, *saved)
        if not wanted.direct:
            return self._shaped(results if len(wanted.names) > 1 else (results,))
        if len(wanted.names) == 1:
            return [results if k == 0 else None for k in wanted.place]
        return results if len(wanted.names) == len(wanted.place) else [results[k] if k >= 0 else None
                                                                        for k in wanted.place]  # fmt: skip

    def release(self) -> None:
        """Drop what was saved; PyTorch saves the number of a product or quotient as a tensor, too."""
        if self.saved or (self.wanted.scalar_names and self.wanted.call.op.grad_name in _WRAPPING):
            self.saved = None

    def is_output(self, saved: Any) -> bool:
        """Whether a saved tensor is this op's result."""
        names = zip(self.wanted.saves, self.saved or (), strict=False)
        return any(name == "out" and tensor is saved for name, tensor in names)

    def output_number(self, index: int) -> int | None:
        """0 for the saved result, None for saved operands."""
        return 0 if self.wanted.saves[index] == "out" else None

    def saved_names(self) -> list[str]:
        """PyTorch's names of the saved tensors."""
        return [_title(self.wanted.call.op, n) for n in self.wanted.saves]

    def known_value(self, name: str) -> Any:
        """The number that was an operand or option; as a tensor where PyTorch makes one of it."""
        op = self.wanted.call.op
        for a in self.wanted.call.arguments:
            if a.kind != "array" and _title(op, a.name) == name:
                value = a.value if a.kind == "literal" else self.scalars.get(a.name)
                wrapped = value is not None and op.grad_name in _WRAPPING and a.name in op.inputs
                return FUNCTIONS["tensor"](value) if wrapped else value
        return None

    def vjp_recorded(self, g: Any) -> tuple[Any, ...]:
        """Apply the same rules to tensors: differentiable to any order."""
        wanted, op = self.wanted, self.wanted.call.op
        known = dict(zip(wanted.saves, self.unpack(), strict=True))
        if "out" in known:
            known["out"] = known["out"]._attached((self, 0))
        known |= {a.name: a.value for a in wanted.call.arguments if a.kind == "literal"}
        known |= self.scalars
        complex_rule = op.holomorphic and wanted.call.dtype.kind == "c"
        known["g"] = g.conj() if complex_rule else g
        results = []
        for name, rule in zip(wanted.names, wanted.rules, strict=True):
            grad = rule.function(*(known[p] for p in rule.parameters))
            if not isinstance(grad, Tensor):
                grad = FUNCTIONS["full_like"](g, grad)
            grad = grad.conj() if complex_rule else grad
            results.append(_cast_like(grad, self._input_layout(name)))
        return self._shaped(results)

    def _input_layout(self, name: str) -> Layout:
        call = self.wanted.call
        return call.inputs[array_names(call).index(name)]

    def _shaped(self, grads: Any) -> tuple[Any, ...]:
        """Sum gradients to their inputs' shapes and put them in the order of the edges."""
        found = dict(zip(self.wanted.names, grads, strict=True))
        results = []
        for name, layout in zip(array_names(self.wanted.call), self.wanted.call.inputs, strict=True):
            grad = found.get(name)
            if grad is not None:
                if grad._layout.shape != layout.shape:
                    grad = FUNCTIONS["sum_to_size"](grad, layout.shape)
                if grad._layout.dtype is not layout.dtype:
                    grad = _cast_like(grad, layout)
                if grad._layout.device != layout.device:  # of a tensor without dimensions
                    grad = grad.to(layout.device)
            results.append(grad)
        return tuple(results)


def _cast_like(grad: Any, layout: Layout) -> Any:
    if grad._layout.dtype is layout.dtype:
        return grad
    if grad._layout.dtype.is_complex and not layout.dtype.is_complex:
        grad = grad.real
    return grad.to(layout.dtype)
