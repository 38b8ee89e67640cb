"""The text of tensors inside transforms, with the wrappers that PyTorch would show.

In PyTorch every transform wraps tensors, reverse mode too, and prints GradTrackingTensor(lvl=1, ...) or
BatchedTensor(lvl=2, bdim=0, ...). Here only vmap and forward mode wrap; where reverse mode would have, is known from
the scopes in which a tensor was made (scope.py). This file gives Tensor its ``__repr__``.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.core import dtypes, formatting
from jitgrad.core.grad_mode import no_grad, state
from jitgrad.core.node import AccumulateGrad, edge_of, node_of, reachable
from jitgrad.core.tensor import Tensor
from jitgrad.core.transform_guards import transforming
from jitgrad.core.wrapped import Wrapped
from jitgrad.ops.creation.conversion import on_host
from jitgrad.transforms.scope import open_scopes_of

__all__ = ["tensor_repr", "wrapped_text"]

Write = Callable[[Any, bool, str | None], str]


def wrapped_text(x: Any, write: Write) -> str | None:
    """The text of a tensor with PyTorch's wrappers round it; None if PyTorch would show none.

    ``write(tensor, requires_grad, grad_fn_name)``: the text of a plain tensor.
    """
    wrappers: dict[int, int | None] = {}  # {number of a level or scope: dim of the batch; None for differentiation}
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
    """The numbers of all open levels and scopes of this thread, in rising order: their places are PyTorch's lvl."""
    found = {level.number for level in state.levels if level is not state.forward}
    scope = state.scope
    while scope is not None:
        found.add(scope.number)
        scope = scope.parent
    return sorted(found)


def _history(x: Any) -> tuple[bool, str | None]:
    """(whether it is a leaf that requires grad, the name of its grad_fn), as seen from outside of all open scopes.

    The history that counts begins at the arguments of the differentiated functions; variables made for them don't.
    """
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


def tensor_repr(self: Tensor) -> str:
    """What ``repr`` shows of a tensor, inside transforms and outside."""
    found = wrapped_text(self, _plain_text) if transforming() else None
    if found is not None:
        return found
    try:
        node = self.grad_fn
        name = type(node).__name__ if node is not None else None
    except RuntimeError:  # a view made under no_grad, and written to since
        name = "Invalid"
    text = _plain_text(self, self._requires_grad, name)
    return f"Parameter({text})" if getattr(self, "_is_param", False) else text


def _prefix(x: Tensor) -> str:
    """``tensor(``, or the name of a subclass of a program's own."""
    return f"{type(x).__name__}(" if not _is_own(type(x)) else "tensor("


def _is_own(kind: type[Tensor]) -> bool:
    return kind is Tensor or issubclass(kind, Wrapped) or kind.__qualname__ == "Parameter"


def _plain_text(x: Tensor, requires_grad: bool, grad_fn_name: str | None) -> str:
    layout = x._layout
    if x.is_meta:
        return _without_values(x, requires_grad, grad_fn_name)
    values = on_host(x) if layout.numel else np.empty(layout.array_shape, layout.numpy_dtype)
    if layout.dtype is dtypes.bfloat16:  # of which NumPy knows no kind
        values = values.astype(np.float32)
    return formatting.tensor_repr(
        values, requires_grad=requires_grad, grad_fn_name=grad_fn_name,
        device=str(layout.device), default_dtype=dtypes.get_default_dtype().name, shape=layout.shape,
        dtype_suffix=repr(layout.dtype), prefix=_prefix(x),
    )  # fmt: skip


def _without_values(x: Tensor, requires_grad: bool, grad_fn_name: str | None) -> str:
    parts = ["...", "device='meta'", f"size={tuple(x.shape)}"]
    if x.dtype is not dtypes.get_default_dtype():
        parts.append(f"dtype={x.dtype}")
    if grad_fn_name is not None:
        parts.append(f"grad_fn=<{grad_fn_name}>")
    elif requires_grad:
        parts.append("requires_grad=True")
    return f"{_prefix(x)}{', '.join(parts)})"


tensor_repr.__name__ = "__repr__"  # as overrides are told
setattr(Tensor, "__repr__", tensor_repr)  # noqa: B010  (mypy: it takes a Tensor, not an object)
