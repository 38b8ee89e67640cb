"""Results of ops without a derivative in PyTorch: they require grad, and their node raises when a gradient arrives."""

from __future__ import annotations

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


def underived(op: str, result: Tensor, *operands: Any, error: Exception | None = None) -> Tensor:
    """``result``, recorded as depending on ``operands`` if one requires grad; backward through it raises.

    error: what it raises, unless that is PyTorch's RuntimeError for an op without any derivative.
    """
    tensors = [o for o in operands if isinstance(o, Tensor)]
    if grad_state.enabled and any(t._requires_grad for t in tensors):
        node = _Underived()
        node.error = error or RuntimeError(f"derivative for {op} is not implemented")
        node.edges = tuple(edge_of(t) for t in tensors)
        node.sequence_number = next_sequence_number()
        result._rebase(node)
    return result
