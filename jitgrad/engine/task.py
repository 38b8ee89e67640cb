"""One run of backward over the nodes behind its roots.

An edge always leads to a node with a smaller sequence number, so the reachable nodes in falling order of their numbers
are a schedule: no node runs before all of its gradients have arrived. An AccumulateGrad, the node of a leaf, runs as
soon as its last gradient has arrived, so that hooks which step or communicate during backward get it early.
Nothing recurses: a chain of a million nodes needs no deep stack.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from jitgrad.core.inference import check_write
from jitgrad.core.node import LEAF, SEVERAL, AccumulateGrad, Edge, LeafHooks, Node, edge_to, node_of, renumbered_nodes
from jitgrad.core.saved_versions import exchanged
from jitgrad.core.storage import count_write
from jitgrad.core.tensor import Tensor
from jitgrad.engine.accumulate import (
    add_gradients,
    add_into,
    add_new,
    add_to_grad,
    add_unlike,
    can_add_into,
    first_grad,
    own_copy,
    taken_over,
)  # fmt: skip
from jitgrad.engine.hooks import Gradients, call_after_hooks, call_node_hooks, call_post_hooks, call_tensor_hooks
from jitgrad.kernels.threads import fork_safe

__all__ = ["Task", "observers"]

# Called with (node, "before", the gradients that arrived) and (node, "after", those that it returns) around every
# node, leaves that get a gradient included; with (node, "error", the gradients that arrived) where one raises.
observers: list[Callable[[Node, str, Gradients], None]] = []
_leaf_lock = fork_safe(threading.Lock())  # two threads may run backward to the same leaf
_by_number = attrgetter("sequence_number")


def notify(node: Node, when: str, gradients: Gradients) -> None:
    """Tell the observers of a node; one of them may remove itself meanwhile."""
    for observer in list(observers):
        observer(node, when, gradients)


def _by_dependence(nodes: list[Node]) -> list[Node]:
    """Nodes in an order in which each comes after all that give it gradients; of those that are ready, the one with the
    largest sequence number first.

    For graphs in which a user has changed numbers (``_set_sequence_nr``), so that edges need not lead to smaller ones.
    """
    waits_for: Counter[Node] = Counter(node_of(e) for n in nodes for e in n.edges if e is not None)
    turn = itertools.count()
    ready = [(-n.sequence_number, next(turn), n) for n in nodes if not waits_for[n]]
    heapq.heapify(ready)
    order: list[Node] = []
    while ready:
        node = heapq.heappop(ready)[2]
        order.append(node)
        for edge in node.edges:
            if edge is None or type(edge) is AccumulateGrad:
                continue
            target = node_of(edge)
            waits_for[target] -= 1
            if not waits_for[target]:
                heapq.heappush(ready, (-target.sequence_number, next(turn), target))
    return order


class Task:
    """One run of the engine.

    keep: nodes keep what they saved. create: backward itself is recorded. wanted: edges whose gradients are asked for;
    only nodes that lead to them run. accumulate: add to ``.grad`` of leaves. rules: run the nodes' rules, which are
    ops, in place of their kernels. ends: wanted gradients are taken as they arrive, and nothing behind them runs.
    """

    wanted: set[Edge] | None = None
    wanted_nodes: frozenset[Node] = frozenset()
    ends: frozenset[Node] = frozenset()
    needed: set[Node] | None = None  # with ``wanted``: the nodes that have to run
    active: set[Node] | None = None  # with ``wanted``: those, and the nodes whose gradients are asked for

    def __init__(self, keep: bool, create: bool, wanted: Sequence[Edge] | None, accumulate: bool, rules: bool,
                 ends: bool = False):  # fmt: skip
        self.keep, self.create, self.accumulate = keep, create, accumulate
        self.rules = rules or create
        self.waiting: dict[Edge, Tensor] = {}  # the sum of the gradients that have arrived at an edge so far
        # Edges whose waiting gradient others may hold too: further ones must not be added into it. All else is owned.
        self.borrowed: set[Edge] = set()
        self.leaves: dict[Node, int] = {}  # how many gradients each leaf's node still has to wait for
        self.captured: dict[Edge, Tensor | None] = {}  # what was found at the wanted edges
        self.seen: set[Node] = set()  # all op nodes behind the roots
        self.callbacks: list[Callable[[], Any]] = []
        if wanted is not None:
            self.wanted, self.wanted_nodes = set(wanted), frozenset(map(node_of, wanted))
            self.ends = self.wanted_nodes if ends else self.ends

    def run(self, roots: Sequence[Edge], gradients: Sequence[Tensor]) -> None:
        """Run the nodes behind the roots, starting with these gradients at them."""
        nodes = self.reach(map(node_of, roots))
        if renumbered_nodes:
            nodes = _by_dependence(nodes)
        else:
            nodes.sort(key=_by_number, reverse=True)
        if self.wanted is not None:
            nodes = self.restrict(nodes, roots)
        for root, gradient in zip(roots, gradients, strict=True):
            if self.leads_on(root):
                self.deliver(root, gradient, owned=False)
        if observers:
            for node in nodes:
                self.step(node)
        else:
            self.sweep(nodes)

    def will_run(self, node: Node) -> bool:
        """Whether this run computes gradients of the node's outputs."""
        if self.wanted is None:
            return node in self.seen or node in self.leaves
        return node in (self.needed or ()) or node in self.wanted_nodes

    def sweep(self, nodes: list[Node]) -> None:
        """Run nodes in order: those with one output, no hooks and no wanted gradient right here, others by ``step``.

        Sums of gradients follow the rules of ``deliver``, written out here to save three calls a node.
        """
        waiting, rules, keep, deliver, borrowed = self.waiting, self.rules, self.keep, self.deliver, self.borrowed
        captures, leaves = self.wanted_nodes, self.leaves
        add = add_unlike if exchanged else add_gradients
        active = self.active
        for node in nodes:
            if captures and node in captures:
                self.step(node)
                continue
            if node.special is SEVERAL:
                grad, grads = None, self.collect(node)
                owned, results = node.owned, self.vjp(node, grads)
                if owned and any(r is g is not None for r in results for g in grads):
                    owned = False
            elif node.special or (grad := waiting.pop(node, None)) is None:
                self.step(node)
                continue
            elif node.adds and self.added(node, grad):
                continue
            else:
                if active is not None:
                    results = node.vjp_toward(active, rules)(grad)
                else:
                    results = node.vjp_recorded(grad) if rules else node.vjp(grad)
                owned = node.owned
                if not owned and node.owned_if_taken and not rules:
                    results, owned = taken_over(results, grad, node not in borrowed)
            if not keep:
                if not node.plain_release:
                    node.release()
                elif node.saved:
                    node.saved = None
            for edge, result in zip(node.edges, results):
                if edge is None:
                    continue
                target = edge[0] if isinstance(edge, tuple) else edge
                if active is not None and target not in active:
                    continue
                if result is None:
                    self.settle(target)
                    continue
                if (special := target.special) and special is not LEAF:
                    deliver(edge, result, owned and result is not grad and result._base is None)
                    continue
                if (there := waiting.get(target)) is None:
                    waiting[target] = result
                    if result is grad or not owned:
                        borrowed.add(target)
                else:
                    layout = result._layout
                    fits = there._layout is layout and layout.contiguous and not rules
                    if fits and target not in borrowed and there._base is None:
                        add_into(there, result)
                    else:
                        borrowed.discard(target)
                        if fits and owned and result is not grad and result._base is None:
                            add_into(result, there)
                            waiting[target] = result
                        else:
                            waiting[target] = add(there, result)
                if special:
                    left = leaves[target] = leaves[target] - 1
                    if not left:
                        self.finish_waiting(target)  # type: ignore[arg-type]

    def added(self, node: Any, grad: Tensor) -> bool:
        """Let a node add its one gradient to the one that waits where it leads, if that is owned; whether it could."""
        edges = node.edges
        edge = edges[0] if len(edges) == 1 else next((e for e in edges if e is not None), None)
        if edge is None or self.rules or exchanged or (self.active is not None and not self.leads_on(edge)):
            return False
        there = self.waiting.get(edge)
        if there is None or edge in self.borrowed:
            return False
        special = (edge[0] if isinstance(edge, tuple) else edge).special
        if special and special is not LEAF:
            return False
        layout = there._layout
        if there._base is not None or not layout.contiguous or layout.dtype is not grad._layout.dtype:
            return False
        if layout.special or layout.device != "cpu" or type(there._data) is not np.ndarray:
            return False
        try:
            count_write(there)
        except RuntimeError:
            check_write(there)  # which lets inference tensors be written to in their mode
        node.vjp_into(grad, there)
        if not self.keep and (not node.plain_release or node.saved):
            node.release()
        if special:
            self.leaves[edge] -= 1
            if not self.leaves[edge]:
                self.finish_waiting(edge)
        return True

    def reach(self, roots: Iterable[Node]) -> list[Node]:
        """The op nodes behind the roots; counts in ``leaves`` how many gradients each leaf waits for."""
        leaves, seen, ends, stack = self.leaves, self.seen, self.ends, []
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
            if node in ends:
                continue
            for edge in node.edges:
                if edge is None:
                    continue
                target = edge[0] if isinstance(edge, tuple) else edge
                if type(target) is AccumulateGrad:
                    leaves[target] = leaves.get(target, 0) + 1
                elif target not in seen:
                    seen.add(target)
                    stack.append(target)
        return nodes

    def restrict(self, nodes: list[Node], roots: Sequence[Edge]) -> list[Node]:
        """Those of the nodes that lead to wanted edges or have them; counts ``leaves`` for the wanted leaves alone.

        ``nodes`` is in the order in which they run, so reading it backwards meets each node after all that it leads to.
        """
        wanted = self.wanted_nodes
        leaves: dict[Node, int] = {}
        # backward(inputs=...) accumulates into non-leaves by their retained gradients, which are stored when the node
        # runs; grad() takes a wanted gradient before the node would run.
        needed = set(wanted.intersection(nodes)) if self.accumulate else set[Node]()
        active, ends = needed | wanted, self.ends
        for node in reversed(nodes):
            if node in ends:
                continue
            for edge in node.edges:
                if edge is not None and (edge[0] if isinstance(edge, tuple) else edge) in active:
                    needed.add(node)
                    active.add(node)
                    break
        for edges in (roots, *[n.edges for n in needed]):
            for edge in edges:
                if type(edge) is AccumulateGrad and edge in wanted:
                    leaves[edge] = leaves.get(edge, 0) + 1
        self.needed, self.active, self.leaves = needed, active, leaves
        return [n for n in nodes if n in active]

    def step(self, node: Node) -> None:
        """Run one op node with hooks, retained and wanted gradients, and observers."""
        grads: Gradients = self.collect(node)
        if self.wanted is not None and node in self.wanted_nodes and not self.accumulate:
            if self.needed is not None and node not in self.needed:
                self.capture(node, grads if node in self.ends else self.tensor_hooks(node, grads))
                return
            self.capture(node, grads)
        results = self.evaluate(node, grads)
        if not self.keep:
            node.release()
        owned = node.owned and not node.post_hooks and not observers  # hooks and observers may have kept a gradient
        for edge, grad in zip(node.edges, results, strict=True):
            if edge is None:
                continue
            if grad is None:
                self.settle(node_of(edge))
            elif self.leads_on(edge):
                self.deliver(edge, grad, owned and grad._base is None and not any(grad is g for g in grads))

    def leads_on(self, edge: Edge | None) -> bool:
        """Whether anything that was asked for depends on a gradient at this edge."""
        return self.active is None or (edge is not None and node_of(edge) in self.active)

    def collect(self, node: Node) -> list[Tensor | None]:
        """Take the gradients that wait at the node, one per output."""
        if node.n_outputs == 1:
            return [self.waiting.pop(node, None)]
        return [self.waiting.pop(edge_to(node, k), None) for k in range(node.n_outputs)]

    def capture(self, node: Node, grads: Gradients) -> None:
        """Keep those of a node's gradients that were asked for."""
        for k, grad in enumerate(grads):
            edge = edge_to(node, k)
            if self.wanted is not None and edge in self.wanted:
                self.captured[edge] = grad

    def evaluate(self, node: Node, grads: Gradients) -> Sequence[Tensor | None]:
        """The gradients that a node returns, its hooks called before and after; observers are told of errors too."""
        try:
            grads = self.tensor_hooks(node, grads)
            notify(node, "before", grads)
            if node.pre_hooks:
                grads = call_node_hooks(node.pre_hooks, grads)
            results = self.vjp(node, grads)
            if node.post_hooks:
                results = [r if self.leads_on(e) else None for e, r in zip(node.edges, results, strict=True)]
                results = call_post_hooks(node, node.post_hooks, results, tuple(grads))
            notify(node, "after", results)
        except BaseException:
            notify(node, "error", grads)
            raise
        return results

    def vjp(self, node: Node, grads: Gradients) -> Sequence[Tensor | None]:
        """Call the node; where no gradient has arrived, most nodes return none."""
        if not node.runs_without_gradient and all(g is None for g in grads):
            return (None,) * len(node.edges)
        if self.active is not None:
            return node.vjp_toward(self.active, self.rules)(*grads)
        return node.vjp_recorded(*grads) if self.rules else node.vjp(*grads)

    def tensor_hooks(self, node: Node, grads: Gradients) -> Gradients:
        """The gradients after the hooks of the node's output tensors; stores those that are to be retained."""
        if not node.tensor_hooks and not node.retained:
            return grads
        grads = list(grads)
        for k, hooks in list((node.tensor_hooks or {}).items()):
            grads[k] = call_tensor_hooks(hooks, grads[k])
        for k, reference in list((node.retained or {}).items()):
            tensor, grad = reference(), grads[k]
            if tensor is not None and grad is not None:
                tensor._grad = own_copy(grad) if tensor._grad is None else add_new(tensor._grad, grad)
        return grads

    def deliver(self, edge: Edge, grad: Tensor, owned: bool) -> None:
        """Add a gradient to the one that waits at ``edge``; ``owned``: nobody else holds it.

        The first one is kept as it is. A sum goes into either of the two that is owned, else into a new tensor; under
        ``rules`` always into a new one, since it may be recorded or wrapped.
        """
        there = self.waiting.get(edge)
        if there is None:
            if not owned:
                self.borrowed.add(edge)
            self.waiting[edge] = grad
        elif edge not in self.borrowed and not self.rules and can_add_into(there, grad):
            add_into(there, grad)
        else:
            self.waiting[edge] = self.sum(edge, there, grad, owned)
        if type(edge) is AccumulateGrad:
            left = self.leaves[edge] = self.leaves[edge] - 1
            if not left:
                self.finish_waiting(edge)

    def sum(self, edge: Edge, there: Tensor, grad: Tensor, owned: bool) -> Tensor:
        """The sum of the gradient waiting at an edge, which can't be written to, and another; it is owned."""
        self.borrowed.discard(edge)
        if owned and not self.rules and can_add_into(grad, there):
            add_into(grad, there)
            return grad
        return add_unlike(there, grad) if exchanged else add_gradients(there, grad)

    def settle(self, node: Node) -> None:
        """Note that one edge to ``node`` brings no gradient. A leaf that waited for no other is finished."""
        if type(node) is not AccumulateGrad or node not in self.leaves:
            return
        self.leaves[node] -= 1
        if self.leaves[node] == 0:
            self.finish_leaf(node, self.waiting.pop(node, None), owned=node not in self.borrowed)

    def finish_waiting(self, node: AccumulateGrad) -> None:
        """The last gradient for a leaf has been added to those that wait."""
        grad = self.waiting.pop(node)
        owned = node not in self.borrowed and grad._base is None
        if observers or (variable := node.variable) is None:
            self.finish_leaf(node, grad, owned)
        else:
            self.finish_variable(node, variable, grad, owned)

    def finish_leaf(self, node: AccumulateGrad, grad: Tensor | None, owned: bool) -> None:
        """The last gradient for a leaf has arrived; ``grad`` is their sum, None if all edges brought none."""
        variable = node.variable
        if variable is None:  # the user dropped the leaf: nobody can read its .grad
            return
        observed = bool(observers) and grad is not None
        try:
            if observed:
                notify(node, "before", (grad,))
            self.finish_variable(node, variable, grad, owned)
            if observed:
                notify(node, "after", ())
        except BaseException:
            notify(node, "error", (grad,))
            raise

    def finish_variable(self, node: AccumulateGrad, variable: Tensor, grad: Tensor | None, owned: bool) -> None:
        """Call a leaf's hooks, capture its gradient if it was asked for, add it to ``.grad``; in PyTorch's order."""
        hooks: LeafHooks | None = variable._leaf_hooks
        if hooks is not None and hooks.before:
            grad, owned = call_tensor_hooks(hooks.before, grad), False  # a hook may have kept it
        if self.wanted is not None and node in self.wanted:
            self.captured[node] = grad
        if not self.accumulate:
            return
        if node.pre_hooks:
            (grad,), owned = call_node_hooks(node.pre_hooks, (grad,)), False
        if grad is not None and variable._requires_grad:  # the flag may have been cleared since forward
            with _leaf_lock:
                if (there := variable._grad) is None:
                    grad = variable._grad = first_grad(variable, grad, owned and not self.rules)
                else:
                    variable._grad = add_gradients(there, grad) if self.rules else add_to_grad(there, grad)
            if hooks is not None and hooks.after:
                call_after_hooks(hooks.after, variable)
        if node.post_hooks:
            call_node_hooks(node.post_hooks, (), (grad,))
