"""Nodes of the recorded graph.

An op whose inputs require grad makes one Node, which has edges to the nodes of its inputs, the tensors that its
gradient rules need, and a number higher than that of every earlier node. References lead from outputs to inputs only:
a node never holds its own output, so a graph that nobody needs is freed by reference counts, without the collector.
"""

from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from jitgrad.core.edge import Edge, edge_pair, edge_to, node_of, number_of
from jitgrad.core.grad_mode import state
from jitgrad.core.handles import RemovableHandle, add_hook
from jitgrad.core.saved_versions import unpack_changed

if TYPE_CHECKING:
    from jitgrad.core.tensor import Tensor

__all__ = [
    "FREED",
    "LEAF",
    "SEVERAL",
    "AccumulateGrad",
    "Edge",
    "LeafHooks",
    "Node",
    "announce_node",
    "edge_of",
    "edge_pair",
    "edge_to",
    "next_sequence_number",
    "node_observers",
    "node_of",
    "number_of",
    "reachable",
    "renew_leaf",
    "renumbered_nodes",
]  # fmt: skip

next_sequence_number = itertools.count().__next__
# Weak references to nodes whose numbers users have changed. The engine runs nodes by falling number, which is right as
# long as numbers grow from inputs to outputs; while there are nodes here it counts dependencies instead.
renumbered_nodes: list[weakref.ref[Node]] = []

FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they "
    "have already been freed). Saved intermediate values of the graph are freed when you call "
    ".backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the "
    "graph a second time or if you need to access saved tensors after calling backward."
)

# ``special`` of a node that has several outputs, or is a leaf's, and has nothing else of what the word stands for.
SEVERAL, LEAF = "several outputs", "a leaf"

# Called with every new node, once it has its edges and saved tensors: hooks on saved tensors, anomaly mode. Recorders
# test the list and call ``announce_node`` only if it is not empty: in the ordinary case nothing is called (8 ns).
node_observers: list[Callable[[Node], None]] = []

def announce_node(node: Node) -> None:
    """Call all observers of nodes with a new one."""
    for observer in list(node_observers):  # a copy: an observer may remove itself
        observer(node)


class Node:
    """A recorded op. Subclasses are named as PyTorch names grad_fns, e.g. ``MulBackward0``.

    edges: one for each differentiable input, in the order of the inputs; None where no gradient is wanted.
    saved: the tensors that the gradient rules need; None once backward has freed them.
    versions: for each saved tensor the value of its version counter when it was saved.
    n_outputs: the number of tensors that the op returned, and so of gradients that ``vjp`` takes.

    The attributes below are class-level defaults, set on a node only where it differs: making a node is part of every
    recorded op.
    """

    edges: tuple[Edge | None, ...] = ()
    saved: tuple[Any, ...] | None = ()
    versions: tuple[int, ...] = ()
    sequence_number = 0
    n_outputs = 1
    # Whether ``vjp`` returns tensors that nobody else holds, which may then become ``.grad``.
    owned = True
    # Whether its one gradient, where it is not owned, is new memory or a view of the incoming gradient: then it is
    # owned as soon as nobody holds that.
    owned_if_taken = False
    # Whether it has ``vjp_into(g, there)``, which adds its one gradient to one that waits already.
    adds = False
    # Whether its one gradient is the incoming one expanded, as a view or, where ``vjp`` launches a kernel, written out.
    expands = False
    # Whether the node has anything of: several outputs, hooks, retained gradients, a leaf. The engine tests this one
    # attribute, and all of those only if it is set; SEVERAL and LEAF say that this is all there is.
    special: bool | str = False
    # Whether ``release`` does no more than to drop the saved tensors, so that the engine need not call it.
    plain_release = False
    # Whether ``vjp`` launches kernels that were planned for the layouts of what was saved; see `relaid`.
    planned = False
    # Whether ``vjp`` is to be called even if no gradient has arrived at any output.
    runs_without_gradient = False
    tensor_hooks: dict[int, OrderedDict[int, Callable[..., Any]]] | None = None  # by number of the output
    retained: dict[int, Any] | None = None  # {number of the output: weak reference to the tensor that keeps its .grad}
    pre_hooks: OrderedDict[int, Callable[..., Any]] | None = None
    post_hooks: OrderedDict[int, Callable[..., Any]] | None = None
    # Of the node of an in-place op on a view: a weak reference to the CopySlices that runs it as a part of itself.
    enclosing: Callable[[], Any] | None = None

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
        """A dictionary in which users may keep what they like about this node."""
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
        """Call the hooks in ``hooks``, which the caller keeps and may change, on the gradient of output 0."""
        self.special = True
        if self.tensor_hooks is None:
            self.tensor_hooks = {}
        self.tensor_hooks[0] = hooks

    def _sequence_nr(self) -> int:
        """The number by which the engine orders nodes; a node made later has a larger one."""
        return self.sequence_number

    def _set_sequence_nr(self, number: int) -> None:
        """Set the number. Of the nodes that could run next, the engine takes the one with the largest."""
        self.sequence_number = number
        renumbered_nodes.append(weakref.ref(self, renumbered_nodes.remove))

    def __call__(self, *grads: Tensor | None) -> Any:
        """The gradients of the inputs as a tuple, given those of the outputs; of a single input its gradient alone.

        TypeError for too few or too many gradients, and for one that is neither a tensor nor None.
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
            # ``next_functions`` may have entries for Python numbers (see ElementwiseNode), which get no gradient.
            found += (None,) * (len(self.next_functions) - len(found))
        return found[0] if len(found) == 1 else found

    def _in_order(self, grads: Iterable[Tensor | None]) -> tuple[Tensor | None, ...]:
        """What ``vjp`` has returned in the order of ``next_functions``."""
        return tuple(grads)

    def vjp(self, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        """Return the gradients of the inputs, given those of the outputs; nothing is recorded."""
        raise NotImplementedError

    def vjp_recorded(self, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        """The gradients of the inputs, computed by differentiable ops, so that they are recorded (``create_graph``)."""
        return self.vjp(*grads)

    def vjp_toward(self, nodes: Container[Node], recorded: bool) -> Callable[..., tuple[Tensor | None, ...]]:
        """``vjp`` or ``vjp_recorded``; gradients of edges that lead to none of ``nodes`` may be left out, as None."""
        return self.vjp_recorded if recorded else self.vjp

    def is_output(self, saved: Tensor) -> bool:
        """Whether a saved tensor is this node's own result."""
        return False

    def output_number(self, index: int) -> int | None:
        """Which of the node's outputs saved tensor ``index`` is, counted from 0; None if it is none of them."""
        return None

    def edge_of_output(self, number: int) -> Edge:
        """The edge along which the gradient of a saved output flows.

        It leads to this node, but for the node of an in-place op on a view, which is not in the graph: the view's
        gradient flows to the CopySlices that has taken its place.
        """
        outer = self.enclosing() if self.enclosing is not None else None
        return edge_to(self, number) if outer is None else outer.edge_of_view()

    def saved_names(self) -> list[str]:
        """PyTorch's name of each saved tensor ("self", "other", "result"); empty if they have none."""
        return []

    def saved_lists(self) -> tuple[str, ...]:
        """Those of ``saved_names`` that stand for a list of tensors."""
        return ()

    def nontensor_value(self, name: str) -> Any:
        """The number, option or shape that the node keeps under PyTorch's ``name``; None if there is none."""
        return None

    def release(self) -> None:
        """Free the saved tensors; a second backward through the node then raises. Without any it may run again."""
        if self.saved or self.frees():
            self.saved = None

    def frees(self) -> bool:
        """Whether ``release`` makes a second backward raise."""
        return bool(self.saved)

    def watched(self) -> tuple[Any, ...]:
        """The saved tensors that have to be as they were when it runs."""
        return self.saved or ()

    def unpack(self) -> tuple[Any, ...]:
        """The saved tensors; RuntimeError if they are freed, or one was written to since it was saved."""
        saved = self.saved
        if saved is None:
            raise RuntimeError(FREED)
        for tensor, version in zip(saved, self.versions, strict=True):
            if tensor._counter[0] != version:
                return unpack_changed(self, saved)
        return saved

    def relaid(self, tensor: Tensor, layout: Any) -> Tensor:
        """A saved tensor, which had ``layout`` when it was saved and whose data was exchanged, as backward takes it.

        Kernels were planned for that layout. A user's backward takes the tensor as it is now.
        """
        return tensor._in_layout(layout) if self.planned and tensor._layout is not layout else tensor


def reachable(roots: Iterable[Node], closed: Container[Node] = ()) -> Iterator[Node]:
    """``roots`` and every node that gradients from them reach, each once.

    closed: nodes that the walk does not enter; what is reached through them only is left out, too.
    """
    stack = list(roots)  # no recursion: graphs are deeper than Python's stack
    seen = set(stack)
    while stack:
        node = stack.pop()
        yield node
        for edge in node.edges:
            if edge is not None and (target := node_of(edge)) not in seen and target not in closed:
                seen.add(target)
                stack.append(target)


class LeafHooks:
    """The hooks of a leaf, ``before`` and ``after`` a gradient is added to ``.grad``, and its node, weakly."""

    __slots__ = ("after", "before", "node")

    def __init__(self) -> None:
        self.before: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self.after: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self.node: Callable[[], AccumulateGrad | None] | None = None


class AccumulateGrad(Node):
    """The node of a leaf: adds what arrives to the leaf's ``.grad``.

    The leaf holds its node, and the node has a weak reference to the leaf; PyTorch does the reverse. There is no cycle
    either way, but so the node is made once, not for every op on a parameter. The difference is seen only if a leaf is
    dropped while its graph lives: its ``.grad`` could not be read any more, and ``variable`` is None. A leaf with hooks
    has it as in PyTorch, because they are called even if only the graph is left: its node holds it.
    """

    sequence_number = (1 << 64) - 1  # a leaf's node is run as soon as its gradient is complete
    special = LEAF
    _kept: Tensor | None = None  # the leaf, if it has hooks

    def __init__(self, variable: Tensor):
        self._variable = weakref.ref(variable)
        if node_observers:
            announce_node(self)

    def name(self) -> str:
        """The name that PyTorch gives it."""
        return "torch::autograd::AccumulateGrad"

    @property
    def variable(self) -> Tensor | None:
        """The leaf; None if it was freed."""
        return self._variable()

    def __call__(self, *grads: Tensor | None) -> Any:
        """Add a gradient to the leaf's ``.grad``."""
        variable, g = self.variable, grads[0]
        if variable is not None and variable._requires_grad and g is not None:
            there = variable._grad
            variable._grad = g.detach().clone() if there is None else there.detach() + g.detach()
        return ()

    def release(self) -> None:
        """Empty: no tensors are saved."""

    def _register_hook_dict(self, hooks: OrderedDict[int, Callable[..., Any]]) -> None:
        variable = self.variable
        if variable is not None:
            leaf_hooks(variable).before = hooks


def edge_of(tensor: Tensor) -> Edge | None:
    """The edge along which the gradient of ``tensor`` flows: to its op's node or a leaf's; None if there is none."""
    if tensor._edge is not None:
        return tensor._edge
    if not tensor._requires_grad:
        return None
    if tensor._leaf_edge is not None:
        return tensor._leaf_edge
    if tensor._unrecorded is not None:
        tensor._check_reachable()
        return None
    # Made with the first use, not with the flag: buffers that are switched on and off would make nodes for nothing.
    node = AccumulateGrad(tensor)
    if tensor._leaf_hooks is None:
        tensor._leaf_edge = node
        return node
    return _node_of_hooked(tensor, node)


def renew_leaf(leaf: Tensor) -> None:
    """Forget the node of a leaf whose memory was exchanged; the next use makes one, and old graphs keep theirs."""
    leaf._leaf_edge = None
    if leaf._leaf_hooks is not None:
        leaf._leaf_hooks.node = None


def leaf_hooks(leaf: Tensor) -> LeafHooks:
    """The hooks of a leaf. When first asked for, the references between leaf and node are turned round.

    From then on the node holds the leaf, and the leaf has a weak reference to the node; see AccumulateGrad.
    """
    hooks: LeafHooks | None = leaf._leaf_hooks
    if hooks is None:
        hooks = leaf._leaf_hooks = LeafHooks()
        if leaf._leaf_edge is not None:
            node = leaf._leaf_edge
            node._kept, hooks.node = leaf, weakref.ref(node)
            leaf._leaf_edge = None
    return hooks


def _node_of_hooked(leaf: Tensor, new: AccumulateGrad) -> AccumulateGrad:
    """The node of a leaf with hooks: the one that a living graph still holds, else ``new``."""
    hooks: LeafHooks = leaf._leaf_hooks
    node = hooks.node() if hooks.node is not None else None
    if node is not None:
        return node
    new._kept, hooks.node = leaf, weakref.ref(new)
    return new
