"""The engine: runs nodes in falling order of their sequence numbers.

An edge always leads to a smaller number, so sorting the reachable nodes is the whole schedule. An
AccumulateGrad runs as soon as its last contribution has arrived. Nothing recurses.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any

from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.node import AccumulateGrad, Edge, LeafHooks, Node, edge_to, node_of, renumbered, shown
from jitgrad.core.saved_tensors import set_hooks
from jitgrad.core.saved_tensors import thread as saving
from jitgrad.core.tensor import Tensor
from jitgrad.engine.accumulate import accumulated, add_into, add_new, first_grad, own_copy
from jitgrad.engine.hooks import call_after_hooks, call_node_hooks, call_tensor_hooks

__all__ = ["current_task", "observers", "queue_callback", "run"]

Gradients = Sequence[Tensor | None]
# Called with (node, "before" or "after", gradients) around every node, or with (node, "error", what arrived) where
# one raises: NaN checks, timing, traces.
observers: list[Callable[[Node, str, Gradients], None]] = []
_leaf_lock = threading.Lock()
_by_number = attrgetter("sequence_number")


class _Thread(threading.local):
    """What runs in this thread: the innermost task, and how many runs are inside each other."""

    task: Task | None = None
    depth = 0


_thread = _Thread()
_numbers = itertools.count()
_DEPTH = 25  # runs within runs, before the next one gets a thread, and with it a stack, of its own


def run(
    roots: Sequence[Edge], gradients: Sequence[Tensor], keep_graph: bool, create_graph: bool,
    wanted: Sequence[Edge] | None = None, accumulate: bool = True, rules: bool = False,
) -> list[Tensor | None]:  # fmt: skip
    """Propagate ``gradients`` from ``roots``; return the gradients at the ``wanted`` edges.

    With ``wanted`` only what leads to them runs; with ``accumulate`` leaves add to ``.grad``.
    ``rules`` runs nodes' rules instead of their kernels, as ``create_graph`` does, and writes into no
    gradient: for gradients that are more than plain tensors.
    """
    task = Task(keep_graph, create_graph, wanted, accumulate, rules)
    if _thread.depth < _DEPTH:
        _run_here(task, roots, gradients)
    else:
        _run_on_new_thread(task, roots, gradients)
    return [task.captured.get(e) for e in wanted] if wanted is not None else []


def _run_here(task: Task, roots: Sequence[Edge], gradients: Sequence[Tensor]) -> None:
    before, outer, packing = grad_state.enabled, _thread.task, saving.hooks
    grad_state.enabled = task.create and not grad_state.inference
    _thread.task = task
    _thread.depth += 1
    try:
        task.run(roots, gradients)
        for callback in task.callbacks:  # which may queue others
            callback()
    finally:
        grad_state.enabled = before
        if saving.hooks is not packing:
            set_hooks(packing)  # what a hook or a node has entered or left without need ends here
        _thread.task = outer
        _thread.depth -= 1


def _run_on_new_thread(task: Task, roots: Sequence[Edge], gradients: Sequence[Tensor]) -> None:
    """Run with the modes of this thread on another, whose stack is empty, and wait for it."""
    modes, packing, raised = dict(vars(grad_state)), saving.hooks, list[BaseException]()

    def work() -> None:
        vars(grad_state).update(modes)
        set_hooks(packing)
        try:
            _run_here(task, roots, gradients)
        except BaseException as error:
            raised.append(error)
        finally:
            set_hooks([])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if raised:
        raise raised.pop()  # kept here, the error would hold its frames, and so the graph, and they it


def current_task() -> Task | None:
    """The run of the engine that this thread is in, the innermost one."""
    return _thread.task


def queue_callback(callback: Callable[[], Any]) -> None:
    """Call ``callback()`` at the end of the backward that is running; RuntimeError if none is."""
    if _thread.task is None:
        raise RuntimeError("Final callbacks can only be installed during backward pass.")
    _thread.task.callbacks.append(callback)


def _fits(buffer: Tensor, grad: Tensor) -> bool:
    """Whether one gradient can be added into another as both lie."""
    layout = buffer._layout
    return layout is grad._layout and layout.contiguous and buffer._base is None


def _after_node_hooks(node: Node, hooks: Any, results: Gradients, grads: Gradients) -> Gradients:
    """What hooks make of a node's gradients; they see one per entry of ``next_functions``, of numbers None."""
    places: list[int] = []
    count = 0
    for pair in node.next_functions:
        is_edge = count < len(node.edges) and pair == shown(node.edges[count])
        places.append(count if is_edge else -1)
        count += is_edge
    seen = [results[k] if k >= 0 else None for k in places]
    found = call_node_hooks(hooks, seen, grads)
    by_edge = {k: g for k, g in zip(places, found, strict=True) if k >= 0}
    return [by_edge.get(k) for k in range(len(node.edges))]


def _by_need(nodes: list[Node]) -> list[Node]:
    """Nodes in an order in which each comes after all that give it gradients, of those that could be next the largest
    number first: for numbers that users have changed.
    """
    missing: Counter[Node] = Counter(node_of(e) for n in nodes for e in n.edges if e is not None)
    turn = itertools.count()
    ready = [(-n.sequence_number, next(turn), n) for n in nodes if not missing[n]]
    heapq.heapify(ready)
    order: list[Node] = []
    while ready:
        node = heapq.heappop(ready)[2]
        order.append(node)
        for edge in node.edges:
            if edge is None or type(edge) is AccumulateGrad:
                continue
            target = node_of(edge)
            missing[target] -= 1
            if not missing[target]:
                heapq.heappush(ready, (-target.sequence_number, next(turn), target))
    return order


class Task:
    """One run of the engine: gradients that wait for their node, and which of them are owned."""

    def __init__(self, keep: bool, create: bool, wanted: Sequence[Edge] | None, accumulate: bool, rules: bool):
        self.keep, self.create, self.accumulate = keep, create, accumulate
        self.rules = rules or create
        self.waiting: dict[Edge, Tensor] = {}
        self.borrowed: set[Edge] = set()  # where what waits has other owners, and must not be written to
        self.leaves: dict[Node, int] = {}
        self.captured: dict[Edge, Tensor | None] = {}
        self.wanted = set(wanted) if wanted is not None else None
        self.wanted_nodes = set(map(node_of, wanted or ()))
        self.needed: set[Node] | None = None  # with ``wanted``: the nodes that have to run
        self.seen: set[Node] = set()
        self.callbacks: list[Callable[[], Any]] = []
        self.number = next(_numbers)

    def run(self, roots: Sequence[Edge], gradients: Sequence[Tensor]) -> None:
        nodes = self.reach(map(node_of, roots))
        if renumbered:
            nodes = _by_need(nodes)
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
        """The common path of ``step``: nodes with one output and no hooks, nothing captured or observed."""
        waiting, rules, keep, deliver, borrowed = self.waiting, self.rules, self.keep, self.deliver, self.borrowed
        captures = self.wanted_nodes
        active = captures | self.needed if self.needed is not None else None
        for node in nodes:
            if node.special or (captures and node in captures):
                self.step(node)
                continue
            grad = waiting.pop(node, None)
            if grad is None:
                self.step(node)
                continue
            results = node.vjp_recorded(grad) if rules else node.vjp(grad)
            if not keep:
                node.release()
            owned = node.owned
            for edge, result in zip(node.edges, results):
                if edge is None:
                    continue
                target = edge[0] if isinstance(edge, tuple) else edge
                if active is not None and target not in active:
                    continue
                if result is None:
                    self.settle(target)
                elif target.special:
                    deliver(edge, result, owned and result is not grad and result._base is None)
                elif (there := waiting.get(target)) is None:
                    waiting[target] = result
                    if result is grad or not owned:
                        borrowed.add(target)
                else:
                    layout = result._layout
                    fits = there._layout is layout and layout.contiguous and not rules
                    if fits and target not in borrowed and there._base is None:
                        add_into(there, result)
                        continue
                    borrowed.discard(target)
                    if fits and owned and result is not grad and result._base is None:
                        add_into(result, there)
                        waiting[target] = result
                    else:
                        waiting[target] = add_new(there, result)

    def reach(self, roots: Iterable[Node]) -> list[Node]:
        """All op nodes that lie behind the roots; counts what each leaf has to wait for."""
        leaves, seen, stack = self.leaves, self.seen, []
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
                target = edge[0] if isinstance(edge, tuple) else edge
                if type(target) is AccumulateGrad:
                    leaves[target] = leaves.get(target, 0) + 1
                elif target not in seen:
                    seen.add(target)
                    stack.append(target)
        return nodes

    def restrict(self, nodes: list[Node], roots: Sequence[Edge]) -> list[Node]:
        """The nodes that lead to the wanted edges, and those whose gradients are wanted; counts leaves anew."""
        wanted = self.wanted_nodes
        leaves: dict[Node, int] = {}
        # To accumulate is an op's last step: it runs. To capture a gradient is done before.
        needed = {n for n in nodes if n in wanted} if self.accumulate else set()
        for node in reversed(nodes):
            if any(e is not None and ((n := node_of(e)) in wanted or n in needed) for e in node.edges):
                needed.add(node)
        for edge in (*roots, *(e for n in needed for e in n.edges)):
            if type(edge) is AccumulateGrad and edge in wanted:
                leaves[edge] = leaves.get(edge, 0) + 1
        self.needed, self.leaves = needed, leaves
        return [n for n in nodes if n in needed or n in wanted]

    def step(self, node: Node) -> None:
        """Run one op node with all that may be attached to it."""
        grads: Gradients = self.collect(node)
        if self.wanted is not None and node in self.wanted_nodes and not self.accumulate:
            if self.needed is not None and node not in self.needed:
                self.capture(node, self.tensor_hooks(node, grads))
                return
            self.capture(node, grads)
        results = self.evaluate(node, grads)
        if not self.keep:
            node.release()
        owned = node.owned and not node.post_hooks and not observers  # they may have kept what they saw
        for edge, grad in zip(node.edges, results, strict=True):
            if edge is None:
                continue
            if grad is None:
                self.settle(node_of(edge))
            elif self.leads_on(edge):
                self.deliver(edge, grad, owned and grad._base is None and not any(grad is g for g in grads))

    def leads_on(self, edge: Edge | None) -> bool:
        """Whether a gradient at this edge is of use to the run."""
        if self.needed is None:
            return True
        return edge is not None and ((node := node_of(edge)) in self.needed or node in self.wanted_nodes)

    def collect(self, node: Node) -> list[Tensor | None]:
        if node.n_outputs == 1:
            return [self.waiting.pop(node, None)]
        return [self.waiting.pop(edge_to(node, k), None) for k in range(node.n_outputs)]

    def capture(self, node: Node, grads: Gradients) -> None:
        for k, grad in enumerate(grads):
            edge = edge_to(node, k)
            if self.wanted is not None and edge in self.wanted:
                self.captured[edge] = grad

    def evaluate(self, node: Node, grads: Gradients) -> Sequence[Tensor | None]:
        """Hooks and the node itself; where anything fails, observers hear of it first."""
        try:
            grads = self.tensor_hooks(node, grads)
            for observer in list(observers):
                observer(node, "before", grads)
            if node.pre_hooks:
                grads = call_node_hooks(node.pre_hooks, grads)
            results = self.vjp(node, grads)
            if node.post_hooks:
                results = [r if self.leads_on(e) else None for e, r in zip(node.edges, results, strict=True)]
                results = _after_node_hooks(node, node.post_hooks, results, tuple(grads))
            for observer in list(observers):
                observer(node, "after", results)
        except BaseException:
            for observer in list(observers):
                observer(node, "error", grads)
            raise
        return results

    def vjp(self, node: Node, grads: Gradients) -> Sequence[Tensor | None]:
        if not node.runs_without_gradient and all(g is None for g in grads):
            return (None,) * len(node.edges)
        return node.vjp_recorded(*grads) if self.rules else node.vjp(*grads)

    def tensor_hooks(self, node: Node, grads: Gradients) -> Gradients:
        """The gradients as the hooks of the node's outputs leave them; those to be retained are kept."""
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
        """Add a gradient to what waits at ``edge``: into either of the two that nobody else holds, or anew."""
        there = self.waiting.get(edge)
        if there is None:
            if not owned:
                self.borrowed.add(edge)
            self.waiting[edge] = grad
        elif edge not in self.borrowed and not self.rules and _fits(there, grad):
            add_into(there, grad)
        else:
            self.waiting[edge] = self.sum(edge, there, grad, owned)
        if type(edge) is AccumulateGrad:
            left = self.leaves[edge] = self.leaves[edge] - 1
            if not left:
                self.finish_leaf(edge, self.waiting.pop(edge), edge not in self.borrowed)

    def sum(self, edge: Edge, there: Tensor, grad: Tensor, owned: bool) -> Tensor:
        self.borrowed.discard(edge)
        if owned and not self.rules and _fits(grad, there):
            add_into(grad, there)
            return grad
        return add_new(there, grad)

    def settle(self, node: Node) -> None:
        """One contribution less to wait for; the last one lets a leaf accumulate."""
        if type(node) is not AccumulateGrad or node not in self.leaves:
            return
        self.leaves[node] -= 1
        if self.leaves[node] == 0:
            self.finish_leaf(node, self.waiting.pop(node, None), owned=node not in self.borrowed)

    def finish_leaf(self, node: AccumulateGrad, grad: Tensor | None, owned: bool) -> None:
        """Everything for this leaf has arrived (or nothing has): hooks, then capture, then ``.grad``."""
        variable = node.variable
        if variable is None:  # the user dropped the leaf: nobody can read its .grad
            return
        try:
            self.finish_variable(node, variable, grad, owned)
        except BaseException:
            for observer in list(observers):
                observer(node, "error", (grad,))
            raise

    def finish_variable(self, node: AccumulateGrad, variable: Tensor, grad: Tensor | None, owned: bool) -> None:
        hooks: LeafHooks | None = variable._leaf_hooks
        if hooks is not None and hooks.before:
            grad, owned = call_tensor_hooks(hooks.before, grad), False  # hooks may have kept it
        if self.wanted is not None and node in self.wanted:
            self.captured[node] = grad
        if not self.accumulate:
            return
        if node.pre_hooks:
            (grad,), owned = call_node_hooks(node.pre_hooks, (grad,)), False
        if grad is not None and variable._requires_grad:  # no longer, perhaps
            with _leaf_lock:  # two threads may end in one leaf
                taken = variable._grad is None
                self.accumulate_into(variable, grad, owned)
                grad = variable._grad if taken else grad
            if hooks is not None and hooks.after:
                call_after_hooks(hooks.after, variable)
        if node.post_hooks:
            call_node_hooks(node.post_hooks, (), (grad,))

    def accumulate_into(self, variable: Tensor, grad: Tensor, owned: bool) -> None:
        there = variable._grad
        if there is None:
            variable._grad = first_grad(variable, grad, owned and not self.rules)
        elif self.rules:
            variable._grad = add_new(there, grad)
        else:
            accumulated(there, grad)
