"""The engine: runs nodes in falling order of their sequence numbers.

An edge always leads to a smaller number, so sorting the reachable nodes is the whole schedule. An
AccumulateGrad runs as soon as its last contribution has arrived. Nothing recurses.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any

from ..ops.accumulate import add_into, add_new, own_copy
from ..tensor import Tensor
from .grad_mode import state as grad_state
from .node import AccumulateGrad, Edge, Node

__all__ = ["observers", "run"]

# Called with (node, "before" or "after", gradients) around every node: NaN checks, timing, traces.
observers: list[Callable[[Node, str, Sequence[Tensor | None]], None]] = []
_leaf_lock = threading.Lock()
_by_number = attrgetter("sequence_number")
Key = Node | Edge


def run(
    roots: Sequence[Edge], gradients: Sequence[Tensor], keep_graph: bool, create_graph: bool,
    wanted: Sequence[Edge] | None = None, accumulate: bool = True, rules: bool = False,
) -> list[Tensor | None]:  # fmt: skip
    """Propagate ``gradients`` from ``roots``; return the gradients at the ``wanted`` edges.

    With ``wanted`` only what leads to them runs; with ``accumulate`` leaves add to ``.grad``.
    ``rules`` runs nodes' rules instead of their kernels, as ``create_graph`` does, and writes into no
    gradient: for gradients that are more than plain tensors.
    """
    task = _Task(keep_graph, create_graph, wanted, accumulate, rules)
    before = grad_state.enabled
    grad_state.enabled = create_graph and not grad_state.inference
    try:
        task.run(roots, gradients)
    finally:
        grad_state.enabled = before
    return [task.captured.get(_key(e)) for e in wanted] if wanted is not None else []


def _key(edge: Edge) -> Key:
    return edge[0] if edge[0].n_outputs == 1 else edge


class _Task:
    """One run of the engine: gradients that wait for their node, and which of them are owned."""

    def __init__(self, keep: bool, create: bool, wanted: Sequence[Edge] | None, accumulate: bool, rules: bool):
        self.keep, self.create, self.accumulate = keep, create, accumulate
        self.rules = rules or create
        self.waiting: dict[Key, Tensor] = {}
        self.owned: set[Key] = set()
        self.leaves: dict[Node, int] = {}
        self.captured: dict[Key, Tensor | None] = {}
        self.wanted = {_key(e) for e in wanted} if wanted is not None else None
        self.needed: set[Node] | None = None

    def run(self, roots: Sequence[Edge], gradients: Sequence[Tensor]) -> None:
        nodes = self.reach(root[0] for root in roots)
        nodes.sort(key=_by_number, reverse=True)
        if self.wanted is not None:
            self.needed = self.find_needed(nodes)
        for root, gradient in zip(roots, gradients, strict=True):
            self.deliver(root, gradient, fresh=False)
        if self.wanted is not None or observers:
            for node in nodes:
                self.step(node)
        else:
            self.sweep(nodes)

    def sweep(self, nodes: list[Node]) -> None:
        """The common road of ``step``: nodes with one output and no hooks, nothing observed."""
        waiting, rules, keep, deliver = self.waiting, self.rules, self.keep, self.deliver
        for node in nodes:
            if node.special:
                self.step(node)
                continue
            grad = waiting.pop(node, None)
            if grad is None:
                self.skip(node)
                continue
            results = node.vjp_recorded(grad) if rules else node.vjp(grad)
            if not keep:
                node.release()
            for edge, result in zip(node.edges, results):
                if edge is None:
                    continue
                target = edge[0]
                if result is None:
                    self.settle(target)
                elif target.special or target in waiting:
                    deliver(edge, result, node.fresh and result is not grad and result._base is None)
                else:
                    waiting[target] = result

    def reach(self, roots: Iterable[Node]) -> list[Node]:
        """All op nodes that lie behind the roots; counts what each leaf has to wait for."""
        leaves, seen, stack = self.leaves, set(), []
        for node in roots:
            if type(node) is AccumulateGrad:
                leaves[node] = leaves.get(node, 0) + 1
            elif node not in seen:
                seen.add(node)
                stack.append(node)
        nodes = []
        while stack:
            node = stack.pop()
            nodes.append(node)
            for edge in node.edges:
                if edge is None:
                    continue
                target = edge[0]
                if type(target) is AccumulateGrad:
                    leaves[target] = leaves.get(target, 0) + 1
                elif target not in seen:
                    seen.add(target)
                    stack.append(target)
        return nodes

    def find_needed(self, nodes: list[Node]) -> set[Node]:
        """The nodes that have to run so that gradients reach the wanted edges."""
        wanted_nodes = {k[0] if isinstance(k, tuple) else k for k in self.wanted or ()}
        needed: set[Node] = set()
        for node in reversed(nodes):
            if any(e is not None and (e[0] in wanted_nodes or e[0] in needed) for e in node.edges):
                needed.add(node)
        return needed

    def step(self, node: Node) -> None:
        """Run one op node, if a gradient has reached it."""
        grads = self.collect(node)
        if grads is None:
            self.skip(node)
            return
        if node.tensor_hooks or node.retained or (self.wanted is not None):
            grads = self.prepare(node, grads)
            if self.needed is not None and node not in self.needed:
                self.skip(node)
                return
        results = self.evaluate(node, grads)
        if not self.keep:
            node.release()
        fresh = node.fresh
        first = grads[0]
        for edge, grad in zip(node.edges, results, strict=True):
            if edge is None:
                continue
            if grad is None:
                self.settle(edge[0])
            else:
                self.deliver(edge, grad, fresh and grad is not first and grad._base is None)

    def collect(self, node: Node) -> list[Tensor | None] | None:
        if node.n_outputs == 1:
            grad = self.waiting.pop(node, None)
            return None if grad is None else [grad]
        grads = [self.waiting.pop((node, k), None) for k in range(node.n_outputs)]
        return grads if any(g is not None for g in grads) else None

    def skip(self, node: Node) -> None:
        """No gradient here: leaves behind this node need not wait for it."""
        for edge in node.edges:
            if edge is not None:
                self.settle(edge[0])

    def prepare(self, node: Node, grads: list[Tensor | None]) -> list[Tensor | None]:
        """Tensor hooks, retained gradients and captures, for each output that has a gradient."""
        for k, grad in enumerate(grads):
            if grad is None:
                continue
            for hook in list((node.tensor_hooks or {}).get(k, {}).values()):
                grad = _hooked(hook, grad)
            grads[k] = grad
            if node.retained and k in node.retained:
                self.retain(node.retained[k](), grad)
            key = _key((node, k))
            if self.wanted is not None and key in self.wanted:
                self.captured[key] = grad
        return grads

    def retain(self, tensor: Tensor | None, grad: Tensor) -> None:
        if tensor is not None and self.accumulate:
            tensor._grad = own_copy(grad) if tensor._grad is None else add_new(tensor._grad, grad)

    def evaluate(self, node: Node, grads: list[Tensor | None]) -> tuple[Tensor | None, ...]:
        for observer in observers:
            observer(node, "before", grads)
        for hook in list((node.pre_hooks or {}).values()):
            grads = list(hook(tuple(grads)) or grads)
        results = node.vjp_recorded(*grads) if self.rules else node.vjp(*grads)
        for hook in list((node.post_hooks or {}).values()):
            results = hook(results, tuple(grads)) or results
        for observer in observers:
            observer(node, "after", results)
        return results

    def deliver(self, edge: Edge, grad: Tensor, fresh: bool) -> None:
        """Add a gradient to what waits at ``edge``: kept, then summed anew, then added in place."""
        target = edge[0]
        key = target if target.n_outputs == 1 else edge
        there = self.waiting.get(key)
        if there is not None:
            fresh = True
            if key in self.owned and not self.rules:
                add_into(there, grad)
                grad = there
            else:
                grad = add_new(there, grad)
                self.owned.add(key)
        if type(target) is AccumulateGrad:
            left = self.leaves[target] = self.leaves[target] - 1
            if not left:
                self.waiting.pop(key, None)
                self.finish_leaf(target, grad, fresh)
                return
        self.waiting[key] = grad

    def settle(self, node: Node) -> None:
        """One contribution less to wait for; the last one lets a leaf accumulate."""
        if type(node) is not AccumulateGrad:
            return
        self.leaves[node] -= 1
        if self.leaves[node] == 0:
            grad = self.waiting.pop(node, None)
            if grad is not None:
                self.finish_leaf(node, grad, fresh=node in self.owned)

    def finish_leaf(self, node: AccumulateGrad, grad: Tensor, fresh: bool) -> None:
        variable = node.variable
        if variable is None:  # the user dropped the leaf: nobody can read its .grad
            return
        for hook in list((variable._leaf_hooks or {}).values()):
            hooked = _hooked(hook, grad)
            fresh = fresh and hooked is grad
            grad = hooked
        if self.wanted is not None and node in self.wanted:
            self.captured[node] = grad
        if not self.accumulate or (self.wanted is not None and node not in self.wanted):
            return
        for pre_hook in list((node.pre_hooks or {}).values()):
            grad = (pre_hook((grad,)) or (grad,))[0]
        with _leaf_lock:  # two threads may end in one leaf
            self.accumulate_into(variable, grad, fresh)
        for post_hook in list((node.post_hooks or {}).values()):
            post_hook((), (grad,))
        for tensor_hook in list((variable.__dict__.get("_post_accumulate_hooks") or {}).values()):
            tensor_hook(variable)

    def accumulate_into(self, variable: Tensor, grad: Tensor, fresh: bool) -> None:
        there = variable._grad
        if there is None:
            variable._grad = grad if self.create or (fresh and not self.rules and grad._layout.contiguous) else own_copy(grad)
        elif self.rules:
            variable._grad = add_new(there, grad)
        else:
            add_into(there, grad)


def _hooked(hook: Callable[[Tensor], Any], grad: Tensor) -> Tensor:
    result = hook(grad)
    return grad if result is None else result
