"""Results of ops that PyTorch has no derivative of: their node refuses when a gradient arrives."""

from __future__ import annotations

from typing import Any

from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.node import Node, edge_of, next_sequence_number
from jitgrad.core.tensor import Tensor

__all__ = ["underived"]


class _Underived(Node):
    """Stands behind a result whose op PyTorch has no derivative for."""

    op = ""

    def vjp(self, *grads: Any) -> Any:
        raise RuntimeError(f"derivative for {self.op} is not implemented")


_Underived.__name__ = _Underived.__qualname__ = "NotImplemented"


def underived(op: str, result: Tensor, *operands: Any) -> Tensor:
    """Record that ``result`` depends on ``operands`` in a way that backward refuses."""
    tensors = [o for o in operands if isinstance(o, Tensor)]
    if grad_state.enabled and any(t._requires_grad for t in tensors):
        node = _Underived()
        node.op, node.edges = op, tuple(edge_of(t) for t in tensors)
        node.sequence_number = next_sequence_number()
        result._rebase(node)
    return result
