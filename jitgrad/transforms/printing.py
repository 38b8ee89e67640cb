"""Tensors inside transforms, printed as PyTorch prints its wrappers of them.

There each transform wraps tensors once more; here levels of forward mode and vmap do, and what
reverse mode would have wrapped is known by the scopes that a tensor was made in.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

from jitgrad.core import dtypes, formatting
from jitgrad.core.grad_mode import no_grad, state
from jitgrad.core.node import AccumulateGrad, edge_of, node_of, reachable
from jitgrad.core.tensor import Tensor
from jitgrad.core.transform_guards import transforming
from jitgrad.core.wrapped import Wrapped
from jitgrad.ops.creation.conversion import on_host
from jitgrad.transforms.scope import open_scopes_of

__all__ = ["shown", "tensor_text"]

Write = Callable[[Any, bool, str | None], str]


def shown(x: Any, write: Write) -> str | None:
    """The text of a tensor that transforms have wrapped, or None if none has.

    ``write(tensor, requires_grad, grad_fn_name)``: the text of a plain tensor.
    """
    wrappers: dict[int, int | None] = {}  # numbers of levels and scopes: a batch's dim, None where one differentiates
    value = bottom = x
    with no_grad():
        while isinstance(bottom, Wrapped) and bottom._level.open:
            number = bottom._level.number
            value, place = value.value_and_dim() if isinstance(value, Wrapped) else (value, 0)
            if bottom._level is not state.forward:
                wrappers[number] = place
            bottom = bottom.unwrapped()
    for scope in open_scopes_of(bottom):
        wrappers.setdefault(scope.number, None)
    if not wrappers:
        return None
    text, numbers = write(value, *_history(bottom)), _open_numbers()
    for number, place in sorted(wrappers.items()):
        lvl, inner = numbers.index(number) + 1, textwrap.indent(text, "    ")
        if place is None:
            text = f"GradTrackingTensor(lvl={lvl}, value=\n{inner}\n)"
        else:
            text = f"BatchedTensor(lvl={lvl}, bdim={place}, value=\n{inner}\n)"
    return text


def _open_numbers() -> list[int]:
    """The numbers of all transforms at work in this thread, outermost first."""
    found = {level.number for level in state.levels if level is not state.forward}
    scope = state.scope
    while scope is not None:
        found.add(scope.number)
        scope = scope.parent
    return sorted(found)


def _history(x: Any) -> tuple[bool, str | None]:
    """(whether a leaf requires grad, the name of what made it) outside of the functions being differentiated."""
    edge = edge_of(x) if x._requires_grad else None
    inner: set[int] = set()
    outer: dict[Any, Any] = {}
    scope = state.scope
    while scope is not None:
        inner.update(scope.own)
        outer.update(scope.sources)
        scope = scope.parent
    node = None if edge is None else node_of(edge)
    while node in outer:
        node = outer[node]
    if node is None or all(not isinstance(n, AccumulateGrad) or id(n.variable) in inner for n in reachable([node])):
        return False, None
    return (True, None) if isinstance(node, AccumulateGrad) else (False, type(node).__name__)


def tensor_text(self: Tensor) -> str:
    """What ``repr`` shows of a tensor, inside transforms and outside."""
    found = shown(self, _text) if transforming() else None
    if found is not None:
        return found
    try:
        node = self.grad_fn
        name = type(node).__name__ if node is not None else None
    except RuntimeError:  # a view made under no_grad, and written to since
        name = "Invalid"
    return _text(self, self._requires_grad, name)


def _text(x: Tensor, requires_grad: bool, grad_fn_name: str | None) -> str:
    return formatting.tensor_repr(
        on_host(x), requires_grad=requires_grad, grad_fn_name=grad_fn_name,
        device=str(x._layout.device), default_dtype=dtypes.get_default_dtype().name,
    )  # fmt: skip


setattr(Tensor, "__repr__", tensor_text)  # noqa: B010  (mypy: it takes a Tensor, not an object)
