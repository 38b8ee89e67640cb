"""The nodes that a kernel_pair records."""

from __future__ import annotations

from typing import Any

from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.node import Node, edge_of, next_sequence_number
from jitgrad.core.wrapped import outermost_wrapped
from jitgrad.dispatch.structured_node import StructuredNode
from jitgrad.extend.pair_backward import named

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
    vjp_toward = Node.vjp_toward  # a structured op's would call the rules, for which there are placeholders here

    def vjp_recorded(self, *grads: Any) -> tuple[Any, ...]:
        pair = self.pair
        if pair.backward_loop is None:
            return self.vjp(*grads)
        values = named(pair.names, grads, self.values())
        if pair.tensor_rule is None:
            return self._ended(grads, values)
        found = pair.tensor_rule(*[values[p] for p in pair.rule_parameters])
        found = found if isinstance(found, (tuple, list)) else (found,)
        wanted = pair.wanted()
        if len(found) != len(wanted):
            counts = f"(expected {len(wanted)}, got {len(found)})"
            what = f"rule of {pair.name} returned an incorrect number of gradients {counts}"
            raise RuntimeError(f"{what}; it must return those of {wanted}, in this order")
        return self._in_order(dict(zip(wanted, found, strict=True)), values)

    def _in_order(self, found: dict[str, Any], values: dict[str, Any]) -> tuple[Any, ...]:
        """The gradients in the order of the edges; a number has none."""
        tensors = [n for n in self.pair.op.grads if values[f"{n}_layout"] is not None]
        return tuple([found[n] if n in self.recorder.wants else None for n in tensors])

    def _ended(self, grads: Any, values: dict[str, Any]) -> tuple[Any, ...]:
        """The gradients, computed by the loop and without history, behind a node that raises when it is run."""
        before = grad_state.enabled
        grad_state.enabled = False
        try:
            wrapped = grad_state.levels and outermost_wrapped(list(values.values())) is not None
            backward = self.pair.backward_loop
            results = self._in_order((backward.batched if wrapped else backward.run)(values), values)
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
