"""Nodes of the recorded graph.

An op whose inputs require grad makes one Node: edges to its inputs' nodes, what its rules need, and
a number that only grows. Nothing here refers forward: a node never holds its own output, so a graph
that nobody needs dies by reference count.
"""

from __future__ import annotations

import itertools
import re
import weakref
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Union

from jitgrad.core.grad_mode import state
from jitgrad.core.handles import RemovableHandle, add_hook

if TYPE_CHECKING:
    from jitgrad.core.tensor import Tensor

__all__ = [
    "FREED",
    "AccumulateGrad",
    "Edge",
    "LeafHooks",
    "Node",
    "announce_node",
    "edge_of",
    "edge_pair",
    "edge_to",
    "modified_message",
    "next_sequence_number",
    "node_observers",
    "node_of",
    "number_of",
    "reachable",
    "renew_leaf",
    "renumbered_nodes",
    "short_name",
]  # fmt: skip

# To the first output of a node, which the node itself stands for, or to another, a tuple of both. A tuple for each
# would be one more object for Python's collector in every recorded op.
Edge = Union["Node", tuple["Node", int]]

next_sequence_number = itertools.count().__next__
# Nodes whose numbers users have changed, weakly: while there are any, the engine asks who needs whom.
renumbered_nodes: list[weakref.ref[Node]] = []

FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they "
    "have already been freed). Saved intermediate values of the graph are freed when you call "
    ".backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the "
    "graph a second time or if you need to access saved tensors after calling backward."
)

# Called with every new node, once it holds its edges and what it saves: hooks on saved tensors, anomaly mode.
# Recorders test the list and call ``announce_node``, so that while it is empty nothing is called at all.
node_observers: list[Callable[[Node], None]] = []

# What an error of a saved tensor that was written to advises; the last one counts. Anomaly mode knows better.
hints = [
    "enable anomaly detection to find the operation that failed to compute its gradient, with "
    "torch.autograd.set_detect_anomaly(True, check_nan=False)."
]


def edge_to(node: Node, number: int) -> Edge:
    """The edge to output ``number`` of a node."""
    return (node, number) if number else node


def edge_pair(edge: Edge | None) -> tuple[Node | None, int]:
    """An edge as ``next_functions`` has it: (node, number), of None (None, 0)."""
    return (None, 0) if edge is None else (node_of(edge), number_of(edge))


def node_of(edge: Edge) -> Node:
    """The node that an edge leads to."""
    return edge[0] if isinstance(edge, tuple) else edge


def number_of(edge: Edge) -> int:
    """The output of that node which it leads to."""
    return edge[1] if isinstance(edge, tuple) else 0


def announce_node(node: Node) -> None:
    """Show a new node to whoever asked to see them."""
    for see in list(node_observers):
        see(node)


class Node:
    """A recorded op. Subclasses are named as PyTorch names grad_fns, e.g. ``MulBackward0``.

    ``edges[k]`` leads to the node of the k-th differentiable input; None where no gradient is wanted.
    ``saved`` holds the tensors that the rules name, ``versions`` what their version counters showed; both are
    None once freed.
    """

    edges: tuple[Edge | None, ...] = ()
    saved: tuple[Any, ...] | None = ()
    versions: tuple[int, ...] = ()
    sequence_number = 0
    n_outputs = 1
    # Whether ``vjp`` returns tensors that nobody else holds, which may then become ``.grad``.
    owned = True
    # Whether the engine must look closer: several outputs, hooks, retained gradients, or a leaf.
    special = False
    # Whether ``vjp`` is to be called even if no gradient has arrived at any output.
    runs_without_gradient = False
    tensor_hooks: dict[int, OrderedDict[int, Callable[..., Any]]] | None = None
    retained: dict[int, Any] | None = None
    pre_hooks: OrderedDict[int, Callable[..., Any]] | None = None
    post_hooks: OrderedDict[int, Callable[..., Any]] | None = None

    def name(self) -> str:
        """The node's printed name."""
        return type(self).__name__

    def __repr__(self) -> str:
        return f"<{type(self).__name__} object at {id(self):#x}>"

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """(node, output number) of every input; (None, 0) where no gradient flows."""
        return tuple(map(edge_pair, self.edges))

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dictionary for the user's own notes on this node."""
        return self.__dict__.setdefault("_metadata", {})

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow through this node: always."""
        return True

    def register_hook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call ``fn(grad_inputs, grad_outputs)``, two tuples, whenever this node has run.

        It may return a tuple that takes the place of ``grad_inputs``. Returns a handle with ``remove()``.
        """
        self.special = True
        if self.post_hooks is None:
            self.post_hooks = OrderedDict()
        return add_hook(self.post_hooks, fn)

    def register_prehook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call ``fn(grad_outputs)``, a tuple, whenever this node is about to run.

        It may return a tuple that takes the place of ``grad_outputs``. Returns a handle with ``remove()``.
        """
        self.special = True
        if self.pre_hooks is None:
            self.pre_hooks = OrderedDict()
        return add_hook(self.pre_hooks, fn)

    def _register_hook_dict(self, hooks: OrderedDict[int, Callable[..., Any]]) -> None:
        """Call the hooks of a dictionary that somebody else keeps on the gradient of output 0."""
        self.special = True
        if self.tensor_hooks is None:
            self.tensor_hooks = {}
        self.tensor_hooks[0] = hooks

    def _sequence_nr(self) -> int:
        """The number by which the engine orders nodes: those made later are larger."""
        return self.sequence_number

    def _set_sequence_nr(self, number: int) -> None:
        """Change the number: of nodes that could run next, the engine takes that with the largest."""
        self.sequence_number = number
        renumbered_nodes.append(weakref.ref(self, renumbered_nodes.remove))

    def __call__(self, *grads: Tensor | None) -> Any:
        """Return the gradients of the inputs (of a single one: that), given those of the outputs.

        TypeError for too few or too many, and for what is neither a tensor nor None.
        """
        if len(grads) != self.n_outputs:
            raise TypeError(f"expected {self.n_outputs} arguments, got {len(grads)} instead")
        for place, g in enumerate(grads):
            if not (g is None or hasattr(g, "_layout")):
                raise TypeError(f"argument {place} is not a Variable")
        if all(g is None for g in grads):
            found: tuple[Tensor | None, ...] = (None,) * len(self.next_functions)
        else:
            found = self._in_order((self.vjp_recorded if state.enabled else self.vjp)(*grads))
            found += (None,) * (len(self.next_functions) - len(found))  # numbers, where they count as inputs
        return found[0] if len(found) == 1 else found

    def _in_order(self, grads: Iterable[Tensor | None]) -> tuple[Tensor | None, ...]:
        """What ``vjp`` returned, one for each of ``next_functions``."""
        return tuple(grads)

    def vjp(self, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        """Return the gradients of the inputs, given those of the outputs; nothing is recorded."""
        raise NotImplementedError

    def vjp_recorded(self, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        """The same, written in differentiable ops (``create_graph=True``)."""
        return self.vjp(*grads)

    def is_output(self, saved: Tensor) -> bool:
        """Whether a saved tensor is this node's own result."""
        return False

    def output_number(self, index: int) -> int | None:
        """Which of the node's outputs its saved tensor ``index`` is; None where it is none."""
        return None

    def saved_names(self) -> list[str]:
        """PyTorch's names of the saved tensors, one for each; empty if they have none."""
        return []

    def saved_lists(self) -> tuple[str, ...]:
        """Those of the names that stand for several tensors."""
        return ()

    def nontensor_value(self, name: str) -> Any:
        """What the node knows under PyTorch's ``name`` that is no saved tensor; None if there is nothing."""
        return None

    def release(self) -> None:
        """Drop what was saved, if anything was; a second backward then raises."""
        if self.saved:
            self.saved = None

    def unpack(self) -> tuple[Any, ...]:
        """Return the saved tensors, after checking that nobody wrote into them since."""
        saved = self.saved
        if saved is None:
            raise RuntimeError(FREED)
        for tensor, version in zip(saved, self.versions, strict=True):
            if tensor._counter[0] != version:
                raise RuntimeError(modified_message(tensor, version, self))
        return saved


def reachable(roots: Iterable[Node], closed: Container[Node] = ()) -> Iterator[Node]:
    """Every node that gradients from ``roots`` reach, those included, once, but ``closed`` ones and what these hide."""
    stack = list(roots)
    seen = set(stack)
    while stack:
        node = stack.pop()
        yield node
        for edge in node.edges:
            if edge is not None and (target := node_of(edge)) not in seen and target not in closed:
                seen.add(target)
                stack.append(target)


def short_name(node: Node) -> str:
    """A node's name as errors have it: "Mul" for MulBackward0, "Fill2" for FillBackward2."""
    return re.sub(r"Backward(0?|(\d+))$", r"\2", node.name())


def modified_message(tensor: Tensor, version: int, node: Node) -> str:
    """The words for a saved tensor that was written to; ``node`` saved it, perhaps as its own output."""
    title = tensor.type().replace("jitgrad.", "torch.")
    shape = ", ".join(map(str, tensor.shape))
    edge = tensor._edge or (node if node.is_output(tensor) else None)
    source = f", which is output {number_of(edge)} of {short_name(node_of(edge))}," if edge else ""
    return (
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[{title} [{shape}]]{source} is at version {tensor._counter[0]}; expected version {version} "
        f"instead. Hint: {hints[-1]}"
    )


class LeafHooks:
    """The hooks of a leaf: those before its gradient is added to ``.grad`` and those after, and its node, weakly."""

    __slots__ = ("after", "before", "node")

    def __init__(self) -> None:
        self.before: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self.after: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self.node: Callable[[], AccumulateGrad | None] | None = None


class AccumulateGrad(Node):
    """The node of a leaf: adds what arrives to the leaf's ``.grad``.

    The leaf holds its node, the node only a weak reference to the leaf: no cycle, and no new node
    per op. A leaf that the user has dropped takes its ``.grad`` with it. Once a leaf has hooks it is the
    other way round: they have to be called even where only the graph is left.
    """

    sequence_number = (1 << 64) - 1
    special = True
    _kept: Tensor | None = None

    def __init__(self, variable: Tensor):
        self._variable = weakref.ref(variable)
        if node_observers:
            announce_node(self)

    def name(self) -> str:
        """The name that PyTorch gives it."""
        return "torch::autograd::AccumulateGrad"

    @property
    def variable(self) -> Tensor | None:
        """The leaf, or None once nobody else holds it."""
        return self._variable()

    def __call__(self, *grads: Tensor | None) -> Any:
        """Add a gradient to the leaf's ``.grad``."""
        variable, g = self.variable, grads[0]
        if variable is not None and variable._requires_grad and g is not None:
            there = variable._grad
            variable._grad = g.detach().clone() if there is None else there.detach() + g.detach()
        return ()

    def release(self) -> None:
        """A leaf keeps nothing that could be freed."""

    def _register_hook_dict(self, hooks: OrderedDict[int, Callable[..., Any]]) -> None:
        variable = self.variable
        if variable is not None:
            leaf_hooks(variable).before = hooks


def edge_of(tensor: Tensor) -> Edge | None:
    """Return where gradients of ``tensor`` go: its op's node, its leaf's node, or None."""
    if tensor._edge is not None:
        return tensor._edge
    if not tensor._requires_grad:
        return None
    if tensor._leaf_edge is not None:
        return tensor._leaf_edge
    if tensor._unrecorded is not None:
        tensor._check_reachable()
        return None
    node = AccumulateGrad(tensor)
    if tensor._leaf_hooks is None:
        tensor._leaf_edge = node
        return node
    return _node_of_hooked(tensor, node)


def renew_leaf(leaf: Tensor) -> None:
    """Let a leaf have another node from now on: it has other memory than what was used so far."""
    leaf._leaf_edge = None
    if leaf._leaf_hooks is not None:
        leaf._leaf_hooks.node = None


def leaf_hooks(leaf: Tensor) -> LeafHooks:
    """The hooks of a leaf. From the first on its node holds the leaf, and the leaf its node weakly."""
    hooks: LeafHooks | None = leaf._leaf_hooks
    if hooks is None:
        hooks = leaf._leaf_hooks = LeafHooks()
        if leaf._leaf_edge is not None:
            node = leaf._leaf_edge
            node._kept, hooks.node = leaf, weakref.ref(node)
            leaf._leaf_edge = None
    return hooks


def _node_of_hooked(leaf: Tensor, new: AccumulateGrad) -> AccumulateGrad:
    hooks: LeafHooks = leaf._leaf_hooks
    node = hooks.node() if hooks.node is not None else None
    if node is not None:
        return node
    new._kept, hooks.node = leaf, weakref.ref(new)
    return new
