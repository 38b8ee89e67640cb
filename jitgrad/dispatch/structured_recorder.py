"""The functions that make and run nodes of structured ops, generated as text once for each pattern of arguments.

A pattern is the kind of each argument: plain value, tensor or list of tensors, and whether it requires grad. For each
pattern of an op a GeneratedRecorder has four short functions, generated as namedtuple generates methods:
``record(out, *args)`` makes the node; ``vjp(node, g)`` computes gradients by backward kernels, or rules where there are
none; ``vjp_recorded(node, g)`` by the rules alone, on tensors with their history; ``values(node)`` returns what was
saved, by name. A generic form, which looks up at each call what is saved and wanted, takes longer than most kernels.
"""

from __future__ import annotations

import copy
from operator import attrgetter
from typing import Any

from jitgrad.core.node import SEVERAL, Node, announce_node, edge_of, edge_to, next_sequence_number, node_observers
from jitgrad.core.saved_tensors import define_saved_attributes
from jitgrad.core.storage import counter_of
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch import half_ops
from jitgrad.dispatch.node_types import edge_names, node_type_for, value_names
from jitgrad.dispatch.structured_node import title

__all__ = ["OTHER", "PLAIN_TYPES", "GeneratedRecorder", "argument_kind", "recorder_of"]

# The kinds of arguments: a value without gradient; a tensor; one that requires grad; a list of tensors; one with any
# that requires grad.
OTHER, TENSOR, WANTED, LIST, WANTED_LIST = range(5)
PLAIN_TYPES = frozenset([int, type(None), bool, float, str])


def argument_kind(value: Any) -> int:
    """The kind of an argument, one of the five constants above."""
    if type(value) in PLAIN_TYPES:  # first, because most are, and a recorded op asks for every argument
        return OTHER
    if isinstance(value, Tensor):
        return WANTED if value._requires_grad else TENSOR
    if not isinstance(value, (list, tuple)) or not value or type(value[0]) is int:
        return OTHER
    if not any(isinstance(v, Tensor) for v in value):
        return OTHER
    return WANTED_LIST if any(isinstance(v, Tensor) and v._requires_grad for v in value) else LIST


class GeneratedRecorder:
    """The functions of one op for one pattern of arguments, and the names of what its nodes save.

    wants: the inputs that get a gradient. lists: those of ``saved`` that are lists of tensors. inputs: the input of
    each edge; none where an input is a list, which has many.
    """

    __slots__ = ("_narrower", "_text", "inputs", "lists", "record", "saved", "saved_nontensors", "values", "vjp",
                 "vjp_into", "vjp_recorded", "wants")  # fmt: skip
    vjp_into: Any

    def __init__(self, op: Any, kinds: tuple[int, ...], half: bool):
        self._text = text = _Text(op, kinds, half)
        self._narrower: dict[tuple[bool, ...], tuple[Any, Any]] = {}
        self.inputs = text.inputs()
        self.wants, self.saved, self.saved_nontensors = text.wants, text.saved, text.saved_nontensors
        self.lists = tuple(n for n in text.saved if text.starred(n))
        define_saved_attributes(op.node_type, map(title, text.saved), map(title, text.saved_nontensors))
        scope = self._scope(text)
        # Functions of the core are globals of the text, not attributes of modules: one look-up each.
        exec(text.record() + text.vjp() + text.vjp_into() + text.vjp_recorded() + text.values(), scope)
        self.record, self.values = scope["record"], scope["values"]
        self.vjp, self.vjp_recorded, self.vjp_into = scope["vjp"], scope["vjp_recorded"], scope.get("vjp_into")

    def toward(self, leads: tuple[bool, ...]) -> tuple[Any, Any]:
        """``vjp`` and ``vjp_recorded`` for a run in which only edges that are True here lead to what is asked for."""
        if leads not in self._narrower:
            text = self._text.narrowed({n for n, to in zip(self.inputs, leads, strict=True) if to})
            scope = self._scope(text)
            exec(text.vjp() + text.vjp_recorded(), scope)
            self._narrower[leads] = scope["vjp"], scope["vjp_recorded"]
        return self._narrower[leads]

    def _scope(self, text: _Text) -> dict[str, Any]:
        """The names that the functions use."""
        op = text.op
        node_type = node_type_for(op.node_type, len(text.inputs()), text.saved_nontensors)
        scope: dict[str, Any] = {
            "recorder": self, "node_type": node_type, "zeros": (0,) * len(text.saved), "wants": text.wants,
            "new": object.__new__, "next_number": next_sequence_number, "__name__": __name__,
            "node_observers": node_observers, "announce_node": announce_node,
            "edge_of": edge_of, "alias": _alias, "attached": _attached,
            "connect": _connect, "layouts": _layouts, "layout_of": attrgetter("_layout"),
            "wide": half_ops.widened, "narrow": half_ops.narrowed, "wide_now": half_ops.widened_now,
            "narrow_now": half_ops.narrowed_now,
            "joint": op.joint_kernel[0] if op.joint_kernel else None, "onto": op.onto[0] if op.onto else None,
        }  # fmt: skip
        for name in text.wants:
            scope[f"rule_{name}"] = op.grads[name][0]
            scope[f"fast_{name}"] = (op.backward_kernels.get(name) or op.grads[name])[0]
        return scope


def _unrecorded(*args: Any) -> None:
    """The recorder of calls of which no input requires grad."""


def recorder_of(op: Any, kinds: tuple[int, ...], half: bool = False) -> Any:
    """The function ``record(out, *args)`` for calls of an op with arguments of these kinds.

    half: whether float16 or bfloat16 is among them, with which backward computes in float32.
    """
    half = half and (half_ops.computed_widely(op) or bool(op.backward_kernels or op.joint_kernel))
    half = half and op.name not in half_ops.MOVING_BACK
    key = ("half", *kinds) if half else kinds
    if key in op.recorders:
        return op.recorders[key]
    inputs = [op.parameters.index(n) for n in op.grads]
    wanted = any(kinds[k] in (WANTED, WANTED_LIST) for k in inputs)
    found = op.recorders[key] = GeneratedRecorder(op, kinds, half).record if wanted else _unrecorded
    return found


class _Text:
    """The texts of a recorder's functions. Attributes are those of GeneratedRecorder, ``kinds`` by parameter."""

    def __init__(self, op: Any, kinds: tuple[int, ...], half: bool):
        self.op, self.half = op, half
        self.kinds = dict(zip(op.parameters, kinds, strict=True))
        self.wants = tuple(n for n in op.grads if self.kinds[n] in (WANTED, WANTED_LIST))
        used = {p for n in self.wants for p in op.grads[n][1]}
        used |= {p for n in self.wants if n in op.backward_kernels for p in op.backward_kernels[n][1]}
        used |= set(op.joint_kernel[1]) if op.joint_kernel else set()
        used |= set(op.onto[1]) if op.onto else set()
        used -= {"g", "there", "wants"}
        # Sorted, so that one pattern has one text, whatever the order in which a set returns its items.
        self.named = [n for n in op.results if n in used]  # those that a rule needs by themselves
        self.saved = sorted(n for n in used if n in ("out", *op.results) or self.kinds.get(n, OTHER) != OTHER)
        self.saved_nontensors = sorted(used - set(self.saved))

    def narrowed(self, wants: set[str]) -> _Text:
        """The same pattern, of which only the gradients of these inputs are computed."""
        text = copy.copy(self)
        text.wants = tuple(n for n in self.wants if n in wants)
        return text

    def inputs(self) -> tuple[str, ...]:
        """The input of each edge; none if there are lists."""
        if WANTED_LIST in map(self.kinds.__getitem__, self.op.grads):
            return ()
        return tuple(n for n in self.op.grads if self.kinds[n] in (TENSOR, WANTED))

    def starred(self, name: str) -> bool:
        """Whether a saved name is a list, which the tuple of saved tensors contains item by item."""
        return self.op.multiple_results if name == "out" else self.kinds.get(name) in (LIST, WANTED_LIST)

    def record(self) -> str:
        """The text of ``record``, which makes a node without calling any function of the graph's beside ``edge_of``."""
        lines = [
            "node = new(node_type)",
            "node.recorder = recorder",
            *self.keep(),
            *map("{} = {}".format, self.slots(), map(self.nontensor_value, self.saved_nontensors)),
            *self.connect_inputs(),
            "node.sequence_number = next_number()",
        ]
        if self.half:
            lines.append(f"node.input_dtypes = ({_tuple(self.input_dtypes())})")
        first = next(n for n in self.op.grads if self.kinds[n] != OTHER)
        # An op that writes into its first input returns it: then the node goes on from that tensor's history.
        lines += ["connect(node, out)"] if self.op.multiple_results else [
            f"if out is {first}: out._rebase(node)",
            "elif out._layout.dtype.category >= 2: out._edge, out._requires_grad = node, True",
        ]  # fmt: skip
        lines.append("if node_observers: announce_node(node)")
        return f"def record(out, {', '.join(self.op.parameters)}):\n" + "".join(f"    {line}\n" for line in lines)

    def keep(self) -> list[str]:
        """The lines that save tensors and their versions; what is empty is read from the class."""
        saved, versions = [], []
        for n in self.saved:
            one = "alias({})" if n == "out" or n in self.named else "{}"  # a node must not hold its own output
            star, value = self.starred(n), f"out[{self.op.results.index(n)}]" if n in self.named else n
            saved.append(f"*[{one.format('t')} for t in {n}]" if star else one.format(value))
            versions.append(f"*[t._counter[0] for t in {n}]" if star else f"{value}._counter[0]")
        if not saved:
            return []
        lines = [f"node.saved = ({_tuple(saved)})"]
        if any(map(self.starred, self.saved)):
            return [*lines, f"node.versions = ({_tuple(versions)})"]
        # Mostly no saved tensor was ever written to: then nodes share one tuple of zeros.
        numbers = [f"version{k}" for k in range(len(saved))]
        lines.append(f"{_tuple(numbers)} = {_tuple(versions)}")
        return [*lines, f"node.versions = ({_tuple(numbers)}) if {' or '.join(numbers)} else zeros"]

    def slots(self) -> list[str]:
        """The attributes of the saved values that are no tensors."""
        return [f"node.{name}" for name in value_names(self.saved_nontensors)]

    def connect_inputs(self) -> list[str]:
        """The lines that set the edges."""
        inputs = self.inputs()
        edge = "{0}._edge or {0}._leaf_edge or edge_of({0})"  # a call only for a leaf's first use
        if inputs:
            names = zip(edge_names(len(inputs)), inputs, strict=True)
            return [f"node.{name} = {edge.format(n)}" for name, n in names if self.kinds[n] == WANTED]
        forms = {WANTED: edge, TENSOR: "None", WANTED_LIST: "*[edge_of(t) for t in {0}]"}
        edges = [forms[self.kinds[n]].format(n) for n in self.op.grads if self.kinds[n] in forms]
        return [f"node.edges = ({_tuple(edges)})"]

    def input_dtypes(self) -> list[str]:
        """The expressions of the dtypes of the inputs, in the order of the edges."""
        forms = {TENSOR: "None", WANTED: "{}._layout.dtype", WANTED_LIST: "*[t._layout.dtype for t in {}]"}
        return [forms[self.kinds[n]].format(n) for n in self.op.grads if self.kinds[n] in forms]

    def nontensor_value(self, name: str) -> str:
        """The expression of a saved name that is no tensor."""
        if name == "out_layout":
            return "layouts(out)" if self.op.multiple_results else "[out._layout]"
        if name.endswith("_layout") and name not in self.kinds:
            stem = name.removesuffix("_layout")
            form = {TENSOR: "{}._layout", WANTED: "{}._layout", LIST: "[*map(layout_of, {})]",
                    WANTED_LIST: "[*map(layout_of, {})]"}.get(self.kinds.get(stem, OTHER), "layouts({})")  # fmt: skip
            return form.format(stem)
        return name

    def unpack(self) -> str:
        """The lines that assign the saved values to the rules' names, after the check of versions."""
        lines = []
        names = _tuple([f"*{n}" if self.starred(n) else n for n in self.saved])
        if "*" in names:
            lines.append(f"    {names} = node.unpack()")
        elif names:  # what ``unpack`` does, written out for the usual case
            versions = [f"_version{k}" for k in range(len(self.saved))]
            changed = [f"{n}._counter[0] != {v}" for n, v in zip(self.saved, versions, strict=True)]
            lines.append(f"    {names} = node.saved or node.unpack()")
            lines.append(f"    {_tuple(versions)} = node.versions")
            lines.append(f"    if {' or '.join(changed)}: {names} = node.unpack()")
        if self.saved_nontensors:
            lines.append(f"    {_tuple(self.saved_nontensors)} = {_tuple(self.slots())}")
        return "\n".join(lines) + "\n"

    def results(self, now: str = "") -> str:
        """The line that returns the gradients in the order of the edges. now: "_now" for those outside the graph."""
        parts = []
        for n in self.op.grads:
            if n in self.wants:
                parts.append(f"*grad_{n}" if self.kinds[n] == WANTED_LIST else f"grad_{n}")
            elif self.kinds[n] in (TENSOR, WANTED):
                parts.append("None")
        grads = f"({_tuple(parts)})"
        return f"    return {f'narrow{now}(node.input_dtypes, {grads})' if self.half else grads}\n"

    def head(self, name: str) -> str:
        """The first lines of ``vjp`` and its kind; an op of several results gets as many gradients, in a tuple."""
        return f"def {name}(node, {'*g' if self.op.multiple_results else 'g'}):\n{self.unpack()}"

    def vjp(self) -> str:
        """The text of ``vjp``. A gradient that ``kernels`` leaves out comes from a kernel or rule of its own."""
        lines = []
        if self.op.joint_kernel:
            lines.append(f"    found = joint({', '.join(self.op.joint_kernel[1])})")
        for n in self.wants:
            parameters = (self.op.backward_kernels.get(n) or self.op.grads[n])[1]
            call = f"fast_{n}({', '.join(parameters)})"
            lines.append(f"    grad_{n} = found['{n}'] if '{n}' in found else {call}" if self.op.joint_kernel
                         else f"    grad_{n} = {call}")  # fmt: skip
        return self.head("vjp") + self.widen("_now") + "\n".join(lines) + "\n" + self.results("_now")

    def vjp_into(self) -> str:
        """The text of ``vjp_into``, if the op has one."""
        if self.op.onto is None:
            return ""
        return f"def vjp_into(node, g, there):\n{self.unpack()}    onto({', '.join(self.op.onto[1])})\n"

    def widen(self, now: str = "") -> str:
        """The lines that make float32 of what is of 16 bits."""
        names = ["g", *self.saved, *self.saved_nontensors] if self.half else []
        return "".join([f"    {n} = wide{now}({n})\n" for n in names])

    def attach(self) -> str:
        """The line that gives saved outputs, which nodes hold without edges, their history back."""
        recorded = [n for n in self.named if n not in self.op.constants]
        named = [f"    {n} = attached({n}, node, {self.op.results.index(n)})\n" for n in recorded]
        if "out" not in self.saved:
            return "".join(named)
        several = "tuple([attached(o, node, k) for k, o in enumerate(out)])"
        return f"    out = {several if self.op.multiple_results else 'attached(out, node, 0)'}\n" + "".join(named)

    def vjp_recorded(self) -> str:
        rules = [f"    grad_{n} = rule_{n}({', '.join(self.op.grads[n][1])})" for n in self.wants]
        return self.head("vjp_recorded") + self.attach() + self.widen() + "\n".join(rules) + "\n" + self.results()

    def values(self) -> str:
        names = ", ".join(f"'{n}': {n}" for n in [*self.saved, *self.saved_nontensors])
        return f"def values(node):\n{self.unpack()}{self.attach()}    return {{{names}}}\n"


def _tuple(parts: list[str]) -> str:
    return "".join(p + ", " for p in parts)


def _layouts(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [v._layout for v in value]
    return getattr(value, "_layout", None)  # none where a number or nothing was given


def _alias(out: Tensor) -> Tensor:
    """A saved output: the same memory and counter without the edge, with which tensor and node would be a cycle."""
    alias = wrap(out._data, out._layout)
    alias._counter = counter_of(out)
    return alias


def _attached(tensor: Tensor, node: Node, number: int) -> Tensor:
    """A saved output with its history; one of integers has none."""
    return tensor._attached(node.edge_of_output(number)) if tensor._layout.dtype.category >= 2 else tensor


def _connect(node: Node, outs: Any) -> None:
    """Make each result an output of the node, but for those of integers, such as the indices of ``sort``."""
    if len(outs) > 1:
        node.n_outputs, node.special = len(outs), SEVERAL
    op: Any = type(node).op  # type: ignore[attr-defined]
    for k, o in enumerate(outs):
        if o._layout.dtype.category >= 2 and not (op.constants and op.results[k] in op.constants):
            o._edge, o._requires_grad = edge_to(node, k), True
