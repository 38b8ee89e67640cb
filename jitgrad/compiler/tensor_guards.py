"""Guards of a tensor that was there before: what a recording depends on, and the history that backward may come by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.compiler.guards import Attributes, Guards
from jitgrad.compiler.recording import nodes_behind
from jitgrad.compiler.tensor_notes import TensorNote, hooks_of
from jitgrad.compiler.trust import ABSENT
from jitgrad.core.inference import is_inference
from jitgrad.core.node import LEAF, edge_of, node_of
from jitgrad.core.tensor import Tensor

__all__ = ["depend_on_tensor", "depend_on_writes"]


def depend_on_tensor(
    guards: Guards, note: TensorNote, expression: Callable[[TensorNote], str], *, moves: bool, linked: bool,
    passes_on: bool,
) -> None:  # fmt: skip
    """Add the conditions under which another tensor, or this one in another state, will do.

    expression: what a tensor is called in the text; moves: whether it may be another one. passes_on: whether gradients
    of results may be asked for outside; linked: whether they then flow to this one, leaf or not, along its edge.
    """
    here, name, tensor = expression(note), guards.name, note.tensor
    facts: dict[str, Any] = {"_layout": note.layout, "_requires_grad": note.requires_grad}
    conditions: list[str] = []
    if not linked or note.history_counts:
        if note.edge is None:
            facts["_edge"] = None
        else:
            conditions.append(f"{here}._edge is not None")
    if not passes_on or note.reached:  # else the engine calls the hooks
        facts["_leaf_hooks"] = None
    if note.apart:
        others = "".join(f"{expression(n)}, " for n in note.apart)
        guards.always.append(f"{here}._edge is not None and {name(_is_apart)}({here}, ({others}))")
    if note.inference_counts:
        conditions.append(f"{name(is_inference)}({here}) is {note.inference}")
    if note.grad_is_known or (note.grad_read and note.grad is None):
        facts["_grad"] = note.grad
    if moves:
        conditions += [f"{here}.{attribute} is {name(value)}" for attribute, value in facts.items()]
        own = f"{here}.__dict__.get"
        conditions += [name.equals(f"{own}({name(key)}, {name(ABSENT)})", value) for key, value in note.own.items()]
        start = f"type({here}) is {name(type(note.tensor))}"
        if note.owner is not None:
            start = f"type({here} := {expression(note.owner)}._grad) is {name(type(note.tensor))}"
        conditions += [f"{here}._level is None", f"type({here}._data) is {name(type(note.data))}"]
        guards.always.append(" and ".join([start, *conditions]))
    else:
        facts["_data"] = note.data
        guards.depends_on_own(tensor, Attributes(tensor, tuple(facts), tuple(facts.values())))
        for condition in conditions:
            guards.depends_on_own(tensor, condition)
        for attribute, value in note.own.items():
            guards.depends_on_attribute(tensor, attribute, value)
    if note.reached:
        _depend_on_node(guards, note, here, moves)
    _depend_on_counter(guards, note, expression)


def _depend_on_node(guards: Guards, note: TensorNote, here: str, moves: bool) -> None:
    """Add the condition that the node at which gradients of a tensor arrive has no hooks.

    That of a leaf says by ``special`` that it has none, and is the same as long as the leaf is one.
    """
    node = note.tensor._leaf_edge
    if note.edge is None and not moves and node is not None:
        guards.depends_on_own(node, Attributes(node, ("special",), (LEAF,)))
    elif note.edge is None:
        guards.always.append(f"({here}._leaf_edge is None or {here}._leaf_edge.special is {guards.name(LEAF)})")
    else:
        guards.always.append(f"not {guards.name(hooks_of)}({here})")


def _depend_on_counter(guards: Guards, note: TensorNote, expression: Callable[[TensorNote], str]) -> None:
    """Add the condition that a tensor shares its version counter with the one that the run's writes are credited to.

    The conditions of both come first: their text binds the variables of gradients. UNWRITTEN is the counter of every
    tensor that was never written to, so that two of these share nothing.
    """
    if note.counts_with is not None:
        here, there = expression(note), expression(note.counts_with)
        guards.always.append(f"{here}._counter is {there}._counter is not UNWRITTEN")


def depend_on_writes(
    guards: Guards, notes: Sequence[TensorNote], written: Sequence[TensorNote], expression: Callable[[TensorNote], str],
    moves: Callable[[TensorNote], bool], differentiates: bool,
) -> None:  # fmt: skip
    """Add the conditions under which the same in-place ops are allowed as in the recording.

    A write to a view of a leaf is an error, and one to what shares its version counter with a tensor that backward
    needs. differentiates: whether backward is run, or can be run through results. Gradients are left out: backward
    needs none of them.
    """
    name = guards.name
    for note in written:
        base = f"{expression(note)}._base"
        if moves(note) or note.tensor._base is not None:
            required = note.tensor._base is not None and note.tensor._base._requires_grad
            guards.always.append(f"({base} is not None and {base}._requires_grad) is {required}")
    given = [n for n in notes if moves(n) and n.owner is None] if differentiates else []
    for note in given:
        others = [n for n in (notes if note in written else written) if n.owner is None and not _shares(note, n)]
        if others:
            those, here = "".join(f"{expression(n)}, " for n in others), f"{expression(note)}._counter"
            guards.always.append(f"({here} is UNWRITTEN or {name(_is_counter_of_none)}({here}, ({those})))")


def _shares(note: TensorNote, other: TensorNote) -> bool:
    return note is other or note.tensor._counter is other.tensor._counter


def _is_counter_of_none(counter: Any, tensors: Sequence[Tensor]) -> bool:
    for tensor in tensors:  # noqa: SIM110  (no generator: this is asked in every call)
        if tensor._counter is counter:
            return False
    return True


def _is_apart(tensor: Any, others: Sequence[Tensor]) -> bool:
    """Whether backward through the history of a tensor comes by none of the others."""
    first = node_of(tensor._edge)
    behind = nodes_behind([first]) - {first}
    return not any((edge := edge_of(other)) is not None and node_of(edge) in behind for other in others)
