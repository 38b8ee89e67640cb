"""Results of ops without a derivative in PyTorch: they require grad, and their node raises when a gradient arrives."""

from __future__ import annotations

import functools
from typing import Any

from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.node import Node, edge_of, next_sequence_number
from jitgrad.core.tensor import Tensor

__all__ = ["underived"]


class _Underived(Node):
    """The node of a result of an op without a derivative."""

    error: Exception

    def name(self) -> str:
        return "torch::autograd::NotImplemented"

    def vjp(self, *grads: Any) -> Any:
        raise self.error


# PyTorch prints such a grad_fn as <NotImplemented>, a name that in Python belongs to something else.
_Underived.__name__ = _Underived.__qualname__ = "NotImplemented"


@functools.cache
def _named(name: str) -> type[_Underived]:
    return type(name, (_Underived,), {"name": lambda self: name})


def underived(
    op: str, result: Tensor, *operands: Any, error: Exception | None = None, node_name: str = ""
) -> Tensor:  # fmt: skip
    """``result``, recorded as depending on ``operands`` if one requires grad; backward through it raises ``error``.

    By default that is PyTorch's RuntimeError for an op without any derivative; with ``node_name``, which ops have whose
    derivative is only missing so far, NotImplementedError.
    """
    tensors = [o for o in operands if isinstance(o, Tensor)]
    if grad_state.enabled and any(t._requires_grad for t in tensors):
        node = _named(node_name)() if node_name else _Underived()
        if node_name and error is None:
            error = NotImplementedError(f"the derivative for '{op}' is not implemented.")
        node.error = error or RuntimeError(f"derivative for {op} is not implemented")
        node.edges = tuple(edge_of(t) for t in tensors)
        node.sequence_number = next_sequence_number()
        result._rebase(node)
    return result
