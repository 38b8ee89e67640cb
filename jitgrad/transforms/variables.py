"""Reverse mode as a function transform: the inputs of a function become variables of the one recorded graph.

``func.grad`` and ``func.vjp`` open no level. Their function runs on new variables, the graph is recorded on
plain tensors as ever, and the engine runs from the outputs to the variables. What is then handed to the caller
keeps its history only if that leads to something besides these variables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.core.grad_mode import state
from jitgrad.core.inference import differentiable
from jitgrad.core.node import AccumulateGrad, Node, edge_of, node_of, reachable
from jitgrad.core.tensor import Tensor
from jitgrad.core.wrapped import innermost_tensor
from jitgrad.ops.creation.constants import zeros_like
from jitgrad.transforms.batched import Batch, with_batches
from jitgrad.transforms.gradients import gradients, new_variable, plain_tensors, requires_grad, without_history
from jitgrad.transforms.scope import Scope

__all__ = ["Variables"]


class Variables:
    """The tensors with respect to which one call of a function is differentiated.

    ValueError for an input that is no tensor, RuntimeError for one of whole numbers.
    """

    def __init__(self, inputs: Sequence[Any]):
        for x in inputs:
            if not isinstance(x, Tensor):
                raise ValueError(f"Thing passed to transform API must be Tensor, got {type(x)}")
            if x._layout.dtype.category < 2:
                raise RuntimeError("only Tensors of floating point dtype can require gradients")
        self.recorded = state.enabled  # the caller's grad mode: without it, what is handed back has no history
        self.scope = Scope()
        # Nodes whose history leads to these variables only, so that several questions walk over each node once. They
        # live as long as this object, which func.vjp hands out with the outputs whose history they are.
        self.closed: set[Node] = set()
        self.leaves = _variables(inputs)
        plain = [*map(innermost_tensor, self.leaves)] if state.levels else self.leaves
        for x in plain:
            x._scope = self.scope  # as if made inside the function, which so may write to them
        self.scope.own = {id(x) for x in plain if x._edge is None}
        nodes = [node_of(x._edge) for x in plain if x._edge is not None]
        self.scope.sources = {n: node_of(n.edges[0]) for n in nodes}  # type: ignore[arg-type]

    def run(self, function: Callable[[list[Any]], Any]) -> Any:
        """Return ``function(variables)``; recorded, and watched for writes to tensors that it captures."""
        with differentiable(), self.scope:
            return function(self.leaves)

    def gradients(self, outs: Sequence[Tensor], weights: Sequence[Tensor]) -> list[Any]:
        """The gradient of ``outs``, weighted by ``weights``, for each variable; zeros where none arrives."""
        create = state.enabled and (self.reaches_out(outs) or any(map(requires_grad, weights)))
        found = gradients(outs, self.leaves, weights, create_graph=create)
        full = [zeros_like(x) if g is None else g for g, x in zip(found, self.leaves, strict=True)]
        return self._released(full, state.enabled, set(self.closed))  # of gradients no nodes are kept

    def reaches_out(self, outs: Sequence[Tensor]) -> bool:
        """Whether the history of ``outs`` leads to a leaf other than these variables."""
        return self._reaches_out(outs, self.closed)

    def _reaches_out(self, outs: Sequence[Tensor], closed: set[Node]) -> bool:
        plain = [t for o in outs for t in plain_tensors(o) if t._requires_grad]
        starts = {node_of(e) for t in plain if (e := edge_of(t)) is not None}
        found = []
        for node in reachable(starts - closed, closed):
            if isinstance(node, AccumulateGrad) and not self.ends(node.variable):
                return True
            found.append(node)
        closed.update(found)
        return False

    def ends(self, leaf: Tensor | None) -> bool:
        """Whether nobody can ask for a leaf's gradient once the function has returned."""
        if leaf is None:  # the user has dropped it
            return True
        scope = leaf._scope
        if scope is not None and not scope.open and id(leaf) in scope.own:  # a variable of this function or another
            return True
        while scope is not None and scope is not self.scope:  # made while this one ran, perhaps by one inside
            scope = scope.parent
        return scope is not None

    def released(self, results: Sequence[Any]) -> list[Any]:
        """Results as the caller gets them: without history where that leads to these variables only."""
        return self._released(results, self.recorded, self.closed)

    def _released(self, results: Sequence[Any], recorded: bool, closed: set[Node]) -> list[Any]:
        return [
            x if not isinstance(x, Tensor) or not requires_grad(x) or (recorded and self._reaches_out([x], closed))
            else without_history(x)
            for x in results
        ]  # fmt: skip


def _variables(inputs: Sequence[Any]) -> list[Any]:
    if state.enabled and not state.levels:
        return [new_variable(x) for x in inputs]
    with differentiable():
        # Inside vmap each sample needs a variable of its own: else the engine would sum their gradients.
        batches = [level for level in state.levels if isinstance(level, Batch)]
        return [new_variable(with_batches(x, batches)) for x in inputs]
