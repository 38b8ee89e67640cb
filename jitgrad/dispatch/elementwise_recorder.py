"""The functions that make and run nodes of elementwise ops, generated as text, as namedtuple generates methods.

They run for every recorded op and for every node in backward. How many operands there are, what is saved and which
gradients are wanted is known when a plan is made; loops and tests for it would cost as much as small kernels do (0.3 of
2.0 us a node). Texts are made once for each pattern of operands and shared by all ops (``functools.cache``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from jitgrad.core.node import FREED, announce_node, edge_of, next_sequence_number, node_observers
from jitgrad.core.storage import counter_of
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.node_types import value_names

__all__ = ["backward_of", "recorder_of"]

# The edge to an operand's node. ``edge_of`` is called only for a leaf that has no node yet, or an unrecorded view.
_EDGE = "({0}._edge or {0}._leaf_edge or edge_of({0})) if {0}._requires_grad else None"
# Mostly no saved tensor was ever written to. Then nodes share one tuple of zeros, one object less for the collector.
_KEEP = """\
        node.saved = ({saved})
        {numbers} = {versions}
        node.versions = ({numbers}) if {any} else zeros
"""
_RECORDER = """\
def make(node_type, backward):
    def record(out, {parameters}):
        node = new(node_type)
        node.backward_plan = backward
{keep}{edges}        node.sequence_number = next_sequence_number()
        if out._base is None:
            out._edge, out._requires_grad = node, True
        else:
            out._rebase(node)
        if node_observers: announce_node(node)
        return node
    return record
"""
# ``find`` looks up the launch for the layout of the incoming gradient. Versions are compared one by one, in the text.
_BACKWARD = """\
def make(backward):
    find, plan = backward.computes.get, backward.plan_launch
    def vjp(node, g):
        saved = node.saved
        if saved is None:
            raise RuntimeError(FREED)
{check}        {run}
        return {results}
    return vjp
"""
_CHECK = """\
        {saved} = saved
        {versions} = node.versions
        if {changed}:
            {saved} = saved = node.unpack()  # which raises after a write, not after ``.data =``
"""


@functools.cache
def recorder_of(operands: tuple[str, ...], saves: tuple[str, ...]) -> Callable[..., Callable[..., Any]]:
    """``make(node_type, backward_plan)``, which returns ``record(out, *operands)``, which makes the node of a result.

    operands: the names of the tensors. saves: those that are saved, and "out" if the result is.
    """
    numbers = [f"version{k}" for k in range(len(saves))]
    keep = _KEEP.format(
        saved="".join("_alias(out), " if n == "out" else f"{n}, " for n in saves),
        numbers="".join(f"{n}, " for n in numbers),
        versions="".join(f"{n}._counter[0], " for n in saves),
        any=" or ".join(numbers),
    )
    return _made(_RECORDER.format(
        parameters=", ".join(operands),
        keep=keep if saves else "",
        edges="".join(f"        node.edge{k} = {_EDGE.format(n)}\n" for k, n in enumerate(operands)),
    ), len(saves))  # fmt: skip


@functools.cache
def backward_of(form: str, place: tuple[int, ...], saves: int, scalars: tuple[str, ...]) -> Callable[..., Any]:
    """``make(backward_plan)``, which returns ``vjp(node, g)``: check saved tensors, launch, put gradients in order.

    form: "kernel" where a kernel computes the gradients, "passed" where each is the incoming one (add). Followed by
    " shaped" if they have to be summed or cast to their inputs' layouts. place: for each operand the number of its
    gradient among the kernel's results, -1 if it gets none. saves: how many tensors are saved. scalars: the names of
    numbers that the kernel gets.
    """
    names = [f"saved{k}" for k in range(saves)]
    versions = [f"version{k}" for k in range(saves)]
    check = _CHECK.format(
        saved="".join(f"{n}, " for n in names),
        versions="".join(f"{n}, " for n in versions),
        changed=" or ".join(f"{n}._counter[0] != {v}" for n, v in zip(names, versions, strict=True)),
    )
    count, passed, shaped = max(place) + 1, form.startswith("passed"), form.endswith("shaped")
    arguments = ", ".join(["g", *names, *[f"node.{slot}" for slot in value_names(scalars)]])
    return _made(_BACKWARD.format(
        check=check if saves else "",
        run="grads = g" if passed else f"grads = (find(g._layout) or plan(g._layout, saved))({arguments})",
        results=_shaped(count, passed) if shaped else _sorted(place, count, passed),
    ), 0)  # fmt: skip


def _shaped(count: int, passed: bool) -> str:
    """The expression of a node's gradients where they have to be fitted to the operands."""
    return f"node.shaped({'[grads] * ' + str(count) if passed else 'grads' if count > 1 else '(grads,)'})"


def _sorted(place: tuple[int, ...], count: int, passed: bool) -> str:
    """The expression of a node's gradients where the kernel's results are the operands' gradients as they are."""
    if not passed and count > 1 and place == tuple(range(count)):
        return "grads"
    one = "grads" if passed or count == 1 else "grads[{}]"
    return f"({''.join((one.format(k) if k >= 0 else 'None') + ', ' for k in place)})"


def _made(text: str, saves: int) -> Any:
    """The function ``make`` of a text."""
    # ``__name__`` is there for tracebacks and profilers, which ask a function's globals for its module.
    scope: dict[str, Any] = {
        "_alias": _alias, "edge_of": edge_of, "new": object.__new__, "next_sequence_number": next_sequence_number,
        "node_observers": node_observers, "announce_node": announce_node,
        "FREED": FREED, "zeros": (0,) * saves, "__name__": __name__,
    }  # fmt: skip
    exec(text, scope)
    return scope["make"]


def _alias(out: Tensor) -> Tensor:
    """A saved result, outside the graph: with its edge, node and tensor would hold each other."""
    alias = wrap(out._data, out._layout)
    alias._counter = counter_of(out)
    return alias
