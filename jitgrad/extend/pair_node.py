"""The nodes that a kernel_pair records."""

from __future__ import annotations

import inspect
from typing import Any

from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.node import Node, edge_of, next_sequence_number
from jitgrad.dispatch.structured_recorder import StructuredNode

__all__ = ["PairNode"]


class _Undifferentiable(Node):
    """The node of gradients that a loop computed without a rule: it raises when one differentiates through them."""

    origin = ""

    def vjp(self, *grads: Any) -> Any:
        raise RuntimeError(
            f"trying to differentiate twice a function that was marked with @once_differentiable: the backward of "
            f"{self.origin!r} is a loop; give kernel_pair a rule= in tensor ops to differentiate it again"
        )


class PairNode(StructuredNode):
    """A recorded kernel_pair; its recorded backward is the rule, or ends the graph."""

    pair: Any  # the KernelPair

    def vjp_recorded(self, *grads: Any) -> tuple[Any, ...]:
        pair = self.pair
        if pair.tensor_rule is None or pair.backward_loop is None:
            return self._ended(grads)
        values = {**self.values(), "g": grads if pair.op.multiple_results else grads[0]}
        if pair.op.multiple_results:
            outs = values.get("out", ())
            values |= {f"g_{o.removeprefix('out_')}": g for o, g in zip(pair.outputs, grads, strict=True)}
            values |= dict(zip(pair.outputs, outs, strict=False))
        found = pair.tensor_rule(*[values[p] for p in inspect.signature(pair.tensor_rule).parameters])
        found = found if isinstance(found, (tuple, list)) else (found,)
        wanted = pair.wanted()
        if len(found) != len(wanted):
            counts = f"(expected {len(wanted)}, got {len(found)})"
            raise RuntimeError(f"rule of {pair.name} returned an incorrect number of gradients {counts}")
        by_name = dict(zip(wanted, found, strict=True))
        return tuple(by_name[n] if n in self.recorder.wants else None for n in pair.op.grads)

    def _ended(self, grads: Any) -> tuple[Any, ...]:
        """The gradients, computed by the loop and without history, behind a node that raises when it is run."""
        before = grad_state.enabled
        grad_state.enabled = False
        try:
            results = self.vjp(*grads)
        finally:
            grad_state.enabled = before
        node = _Undifferentiable()
        node.origin = self.pair.name
        node.edges = tuple(edge_of(g) for g in grads if g is not None)
        node.sequence_number = next_sequence_number()
        for r in results:
            if r is not None:
                r._edge, r._requires_grad = node, True
        return results
