"""Declarations from the table become functions, methods and nodes of the graph."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import dtypes
from ..autograd.grad_mode import state as grad_state
from ..autograd.node import Node, edge_of, next_sequence_number
from ..kernels import elementwise as table  # noqa: F401  (declares the ops)
from ..kernels.declaration import Elementwise, on_declaration
from ..kernels.emit import Argument
from ..kernels.launch import launch
from ..layout import CAPACITY, Layout, broadcast_shapes
from ..tensor import Tensor, wrap
from .arguments import check_category, check_devices, check_inplace_target, check_result_cast, number
from .plan import Plan, plan_elementwise
from .registry import FUNCTIONS, OPS, public

__all__ = ["ElementwiseNode", "ElementwiseOp"]


class Call:
    """All that is known of one op for one combination of operands: the forward plan, and for
    recording, which inputs each set of wanted gradients needs."""

    __slots__ = ("arguments", "backward", "dtype", "forward", "inputs", "op", "shape", "wants")

    def __init__(self, op: type[Elementwise], arguments: tuple[Argument, ...], inputs: tuple[Layout, ...],
                 dtype: np.dtype[Any], shape: tuple[int, ...], forward: Plan):  # fmt: skip
        self.op, self.arguments, self.inputs = op, arguments, inputs
        self.dtype, self.shape, self.forward = dtype, shape, forward
        self.wants: dict[tuple[bool, ...], Wanted] = {}


class Wanted:
    """What recording keeps, and what backward launches, for one set of inputs that want gradients."""

    __slots__ = ("call", "direct", "names", "passed", "plans", "rules", "save", "saves", "scalar_names")

    def __init__(self, call: Call, wants: tuple[bool, ...]):
        op, self.call = call.op, call
        self.names = [n for n, w in zip(array_names(call), wants, strict=True) if w and n in op.grads]
        self.rules = [op.grads[n] for n in self.names]
        self.passed = all(rule.passes_gradient for rule in self.rules)
        used = {p for rule in self.rules for p in rule.parameters}
        self.saves = [n for n in (*array_names(call), "out") if n in used]
        self.save = _saver(tuple(array_names(call)), tuple(self.saves))
        self.scalar_names = [a.name for a in call.arguments if a.kind == "scalar" and a.name in used]
        # Whether results go to the edges as they are: every input wanted, of the result's shape and dtype.
        self.direct = len(self.names) == len(wants) and all(
            x.shape == call.shape and x.numpy_dtype == call.dtype for x in call.inputs
        )
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
            [*(Argument(a, "array", condition=a in call.op.conditions) for a in arrays), *others], [g, *saved], call.dtype, call.shape,
            [inputs[n].numpy_dtype for n in self.names], conjugate=conjugate,
        )  # fmt: skip


@functools.cache
def _saver(operands: tuple[str, ...], saves: tuple[str, ...]) -> Callable[..., None]:
    """Return ``save(node, out, *operands)``, which keeps what the rules name.

    Written out as text, like a namedtuple's methods: it runs for every recorded op.
    """
    tensors = ["_alias(out)" if n == "out" else n for n in saves]
    versions = [f"{n}._counter[0]" for n in saves]
    text = (
        f"def save(node, out, {', '.join(operands)}):\n"
        f"    node.saved = ({''.join(t + ', ' for t in tensors)})\n"
        f"    node.versions = ({''.join(v + ', ' for v in versions)})\n"
        f"    node.edges = ({''.join(f'{n}._edge or edge_of({n}), ' for n in operands)})\n"
    )
    scope: dict[str, Any] = {"_alias": _alias, "edge_of": edge_of}
    exec(text, scope)
    return scope["save"]


def _alias(out: Tensor) -> Tensor:
    """The result outside the graph: a node must not hold its own output."""
    alias = wrap(out._data, out._layout)
    alias._counter = out._counter
    return alias


def array_names(call: Call) -> list[str]:
    """Names of the operands that are tensors."""
    return [a.name for a in call.arguments if a.kind == "array"]


class ElementwiseNode(Node):
    """A recorded elementwise op; each op has a subclass that carries its printed name."""

    wanted: Wanted
    scalars: dict[str, Any] = {}  # noqa: RUF012  (never written to: nodes set their own)

    def vjp(self, g: Any) -> tuple[Any, ...]:
        """Run the backward kernel, all wanted gradients in one loop."""
        saved, wanted = self.unpack(), self.wanted
        if wanted.passed:
            return self._shaped([g] * len(wanted.names))
        plan = wanted.plans.get(g._layout)
        if plan is None:
            plan = wanted.plans[g._layout] = wanted.plan(g._layout, [s._layout for s in saved])
        scalars = tuple([self.scalars[n] for n in wanted.scalar_names]) if self.scalars else ()
        arrays = plan.run([g._data, *[s._data for s in saved]], scalars)
        results = [wrap(a, lay) for a, lay in zip(arrays, plan.layouts, strict=True)]
        return results if wanted.direct else self._shaped(results)

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
            grad = grad.conj() if complex_rule else grad
            results.append(_cast_like(grad, self._input_layout(name)))
        return self._shaped(results)

    def _input_layout(self, name: str) -> Layout:
        call = self.wanted.call
        return call.inputs[array_names(call).index(name)]

    def _shaped(self, grads: list[Any]) -> tuple[Any, ...]:
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
            results.append(grad)
        return tuple(results)


def _cast_like(grad: Any, layout: Layout) -> Any:
    if grad._layout.dtype is layout.dtype:
        return grad
    if grad._layout.dtype.is_complex and not layout.dtype.is_complex:
        grad = grad.real
    return grad.to(layout.dtype)


class ElementwiseOp:
    """The callable behind ``jitgrad.NAME`` and ``Tensor.NAME`` of one declaration."""

    def __init__(self, op: type[Elementwise]):
        self.op, self.calls = op, {}
        self.calls: dict[Any, Call] = {}
        self.node_type = type(op.grad_name, (ElementwiseNode,), {"__doc__": op.__doc__})

    def __call__(self, *operands: Any, **named: Any) -> Tensor:
        """Apply the op to tensors and numbers; scalars of the declaration by position or name."""
        into, operands = named.pop("into", None), self._bind(operands, named) if named else operands
        key, tensors, numbers = [], [], []
        for operand in operands:
            if isinstance(operand, Tensor):
                key.append(operand._layout)
                tensors.append(operand)
            else:
                key.append(self._number_key(len(key), operand))
                numbers.append(operand)
        full_key = (*key, into)
        call = self.calls.get(full_key)
        if call is None:
            call = self._remember(full_key, self._plan(operands, tensors, into))
        scalars = tuple([_as(call.dtype, v) for a, v in _runtime_numbers(call, operands)]) if numbers else ()
        return self._run(call, tensors, operands, scalars, into)

    def _run(self, call: Call, tensors: list[Tensor], operands: Any, scalars: tuple[Any, ...], into: Any) -> Tensor:
        if into is not None:
            return self._run_into(call, tensors, operands, scalars)
        forward = call.forward
        out = wrap(forward.run([t._data for t in tensors], scalars)[0], forward.layouts[0])
        if grad_state.enabled:
            for t in tensors:
                if t._requires_grad:
                    self._record(call, tensors, operands, out)
                    break
        return out

    def _run_into(self, call: Call, tensors: list[Tensor], operands: Any, scalars: tuple[Any, ...]) -> Tensor:
        """Write the result into the first operand, as ``add_`` and its kind do."""
        target = tensors[0]
        record = grad_state.enabled and any(t._requires_grad for t in tensors)
        check_inplace_target(target, record)
        saved_inputs = [target.detach().clone(), *tensors[1:]] if record and self._saves_target(call) else tensors
        arrays = [t._data for t in tensors]
        arrays[1:] = [a.copy() if t._overlaps(target) else a for a, t in zip(arrays[1:], tensors[1:], strict=True)]
        call.forward.run(arrays, scalars, into=target._data)
        target._counter[0] += 1
        if record:
            self._record(call, tensors, operands, target, saved_inputs)
        return target

    def _saves_target(self, call: Call) -> bool:
        name = call.arguments[0].name
        return any(name in rule.parameters for rule in call.op.grads.values())

    def _record(self, call: Call, tensors: list[Tensor], operands: Any, out: Tensor,
                saved_inputs: list[Tensor] | None = None) -> None:  # fmt: skip
        grads = call.op.grads
        wants = tuple([t._requires_grad for t in tensors])
        wanted = call.wants.get(wants)
        if wanted is None:
            wanted = call.wants[wants] = Wanted(call, wants)
        if not grads:
            return
        node = self.node_type()
        node.wanted = wanted
        wanted.save(node, out, *(saved_inputs or tensors))
        if saved_inputs:
            node.edges = tuple([edge_of(t) for t in tensors])
        if wanted.scalar_names:
            node.scalars = {a.name: _as(call.dtype, v) for a, v in _runtime_numbers(call, operands)}
        node.sequence_number = next_sequence_number()
        if out._base is None:
            out._edge, out._requires_grad = (node, 0), True
        else:
            out._rebase((node, 0))

    def write(self, target: Tensor, other: Tensor) -> None:
        """Compute into ``target`` without a trace: for buffers that the engine owns."""
        key = (target._layout, other._layout, target._layout)
        call = self.calls.get(key)
        if call is None:
            call = self._remember(key, self._plan((target, other), [target, other], target._layout))
        call.forward.run([target._data, other._data], (), into=target._data)
        target._counter[0] += 1

    # -- the first call with these layouts ------------------------------------------------------

    def _bind(self, operands: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        op, given = self.op, dict(zip((*self.op.inputs, *self.op.scalars), operands, strict=False))
        renamed = {_KEYWORDS.get(k, k) if k not in (*op.inputs, *op.scalars) else k: v for k, v in named.items()}
        for key, value in renamed.items():
            if key not in (*op.inputs, *op.scalars) or key in given:
                raise TypeError(f"{op.name}() got an unexpected keyword argument '{key}'")
            given[key] = value
        values = {**op.scalars, **given}
        return tuple(values[n] for n in (*op.inputs, *op.scalars) if n in values)

    def _number_key(self, position: int, value: Any) -> Any:
        names = (*self.op.inputs, *self.op.scalars)
        if position >= len(names):
            raise TypeError(f"{self.op.name}() takes {len(names)} arguments but more were given")
        category = number(self.op.name, names[position], value)
        if value in self.op.literals.get(names[position], ()):
            return (category, float(value))
        return category

    def _plan(self, operands: tuple[Any, ...], tensors: list[Tensor], into: Any) -> Call:
        op = self.op
        if len(operands) < len(op.inputs):
            missing = ", ".join(repr(n) for n in op.inputs[len(operands) :])
            raise TypeError(f"{op.name}() missing required arguments: {missing}")
        check_devices(op.name, tensors)
        dtype, out_dtype = self._dtypes(operands, tensors)
        arguments = self._arguments(operands)
        inputs = tuple(t._layout for t in tensors)
        shape = tuple(broadcast_shapes(*(x.shape for x in inputs)))
        if into is not None:
            check_result_cast(out_dtype, into.dtype)
            if shape != into.shape:
                raise RuntimeError(
                    f"output with shape {list(into.shape)} doesn't match the broadcast shape {list(shape)}"
                )
        forward = plan_elementwise(
            f"{op.name}_forward", [(op.rule, "out")], arguments, inputs, dtype.numpy, shape,
            [out_dtype.numpy], into=into,
        )  # fmt: skip
        return Call(op, arguments, inputs, dtype.numpy, shape, forward)

    def _arguments(self, operands: tuple[Any, ...]) -> tuple[Argument, ...]:
        names = (*self.op.inputs, *self.op.scalars)
        values = {**self.op.scalars, **dict(zip(names, operands, strict=False))}
        arguments = []
        for name in names:
            value = values[name]
            if isinstance(value, Tensor):
                arguments.append(Argument(name, "array", condition=name in self.op.conditions))
            elif value in self.op.literals.get(name, ()):
                arguments.append(Argument(name, "literal", float(value)))
            else:
                arguments.append(Argument(name, "scalar"))
        return tuple(arguments)

    def _dtypes(self, operands: tuple[Any, ...], tensors: list[Tensor]) -> tuple[dtypes.dtype, dtypes.dtype]:
        """Return (compute dtype, result dtype)."""
        op = self.op
        promoting = [(n, v) for n, v in zip(op.inputs, operands, strict=False) if n not in op.conditions]
        layouts = [v._layout for _, v in promoting if isinstance(v, Tensor)]
        numbers = [dtypes.category_of(v) for _, v in promoting if not isinstance(v, Tensor)]
        common = dtypes.promote(
            [x.dtype for x in layouts if x.ndim], [x.dtype for x in layouts if not x.ndim], numbers
        )
        check_category(op, common)
        if op.kind == "float" and common.category < 2:
            common = dtypes.get_default_dtype()
        if op.kind == "bool":
            return common, dtypes.bool_
        return common, common.to_real() if op.kind == "real" else common

    def _remember(self, key: Any, call: Call) -> Call:
        if len(self.calls) >= CAPACITY:
            self.calls.clear()
        self.calls[key] = call
        return call


_KEYWORDS = {"input": "x", "self": "x", "other": "y", "exponent": "y"}


def _runtime_numbers(call: Call, operands: Any) -> list[tuple[Argument, Any]]:
    names = (*call.op.inputs, *call.op.scalars)
    values = {**call.op.scalars, **dict(zip(names, operands, strict=False))}
    return [(a, values[a.name]) for a in call.arguments if a.kind == "scalar"]


_CAST = {"b": int, "i": int, "u": int, "f": float, "c": complex}


def _as(dtype: np.dtype[Any], value: Any) -> Any:
    """A Python number of the compute dtype's category: one compiled overload per kernel."""
    return _CAST[dtype.kind](value)


OPERATIONS: dict[str, ElementwiseOp] = {}


def _publish(op: type[Elementwise]) -> None:
    """Make a declaration's function, methods, in-place method and operators."""
    operation = OPERATIONS[op.name] = ElementwiseOp(op)
    function = _function(operation)
    OPS[op.name] = operation
    for name in (op.name, *op.aliases):
        public(function, name, function_too=op.function, method_too=op.method)
        if op.method and op.kind != "bool":
            setattr(Tensor, f"{name}_", _inplace(operation, f"{name}_"))
    for name in op.operators:
        setattr(Tensor, name, function)


def _function(operation: ElementwiseOp) -> Callable[..., Tensor]:
    """The public function: a fast road for tensors alone, the general one for everything else."""
    fast: dict[Any, Call] = {}
    get, general, record = fast.get, operation.__call__, operation._record
    op, node_type = operation.op, operation.node_type

    def remember(x: Tensor, y: Tensor) -> Tensor:
        out = general(x, y)
        call = operation.calls[x._layout, y._layout, None]
        if call.forward.as_is and not call.forward.layouts[0].device != "cpu":
            fast[x._layout, y._layout] = call
        return out

    def unary(x: Any, *rest: Any, **named: Any) -> Tensor:
        return general(x, *rest, **named)

    def binary(x: Any, y: Any, *rest: Any, **named: Any) -> Tensor:
        if rest or named or not isinstance(y, Tensor) or not isinstance(x, Tensor):
            return general(x, y, *rest, **named)
        call = get((x._layout, y._layout))
        if call is None:
            return remember(x, y)
        forward = call.forward
        layout = forward.layouts[0]
        data = np.empty(layout.shape, layout.numpy_dtype)
        launch(forward.kernel, x._data, y._data, data)
        out = wrap(data, layout)
        if (x._requires_grad or y._requires_grad) and grad_state.enabled:
            wanted = call.wants.get((x._requires_grad, y._requires_grad))
            if wanted is None:
                record(call, (x, y), (x, y), out)
                return out
            node = node_type()
            node.wanted = wanted
            wanted.save(node, out, x, y)
            node.sequence_number = next_sequence_number()
            out._edge, out._requires_grad = (node, 0), True
        return out

    simple = len(op.inputs) == 2 and not op.scalars
    function = binary if simple else unary
    function.__name__ = function.__qualname__ = op.name
    function.__doc__ = op.__doc__
    return function


def _inplace(operation: ElementwiseOp, name: str) -> Callable[..., Tensor]:
    def inplace(self: Tensor, *operands: Any, **named: Any) -> Tensor:
        return operation(self, *operands, **named, into=self._layout)

    inplace.__name__ = inplace.__qualname__ = name
    inplace.__doc__ = f"In-place version of ``{operation.op.name}``."
    return inplace


on_declaration(_publish)
