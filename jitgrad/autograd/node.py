"""Nodes of the recorded graph.

An op whose inputs require grad makes one Node: edges to its inputs' nodes, what its rules need, and
a number that only grows. Nothing here refers forward: a node never holds its own output, so a graph
that nobody needs dies by reference count.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..tensor import Tensor

__all__ = ["FREED", "AccumulateGrad", "Edge", "Node", "edge_of", "modified", "next_sequence_number"]

Edge = tuple["Node", int]
next_sequence_number = itertools.count().__next__

FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they "
    "have already been freed). Saved intermediate values of the graph are freed when you call "
    ".backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the "
    "graph a second time or if you need to access saved tensors after calling backward."
)


class Node:
    """A recorded op. Subclasses are named as PyTorch names grad_fns, e.g. ``MulBackward0``.

    ``edges[k]`` is (node, output number) of the k-th differentiable input, or None where no gradient
    is wanted. ``saved`` holds the tensors that the rules name, ``versions`` what their version
    counters showed; both are None once freed.
    """

    edges: tuple[Edge | None, ...] = ()
    saved: tuple[Any, ...] | None = ()
    versions: tuple[int, ...] = ()
    sequence_number = 0
    n_outputs = 1
    # Whether ``vjp`` returns tensors that nobody else holds, which may then become ``.grad``.
    fresh = True
    # Whether the engine must look closer: several outputs, hooks, retained gradients, or a leaf.
    special = False
    tensor_hooks: dict[int, dict[int, Callable[..., Any]]] | None = None
    retained: dict[int, Any] | None = None
    pre_hooks: dict[int, Callable[..., Any]] | None = None
    post_hooks: dict[int, Callable[..., Any]] | None = None

    def name(self) -> str:
        """The node's printed name."""
        return type(self).__name__

    def __repr__(self) -> str:
        return f"<{type(self).__name__} object at {id(self):#x}>"

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """(node, output number) of every input; (None, 0) where no gradient flows."""
        return tuple(edge or (None, 0) for edge in self.edges)

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dictionary for the user's own notes on this node."""
        return self.__dict__.setdefault("_metadata", {})

    def vjp(self, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        """Return the gradients of the inputs, given those of the outputs; nothing is recorded."""
        raise NotImplementedError

    def vjp_recorded(self, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        """The same, written in differentiable ops (``create_graph=True``)."""
        return self.vjp(*grads)

    def is_output(self, saved: Tensor) -> bool:
        """Whether a saved tensor is this node's own result."""
        return False

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
                raise RuntimeError(modified(tensor, version, self))
        return saved


def modified(tensor: Tensor, version: int, node: Node) -> str:
    """The words for a saved tensor that was written to; ``node`` saved it, perhaps as its own output."""
    title = tensor.type().replace("jitgrad.", "torch.")
    shape = ", ".join(map(str, tensor.shape))
    edge = tensor._edge or ((node, 0) if node.is_output(tensor) else None)
    source = f", which is output {edge[1]} of {edge[0].name().split('Backward')[0]}," if edge else ""
    return (
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[{title} [{shape}]]{source} is at version {tensor._counter[0]}; expected version {version} "
        "instead. Hint: enable anomaly detection to find the operation that failed to compute its "
        "gradient, with torch.autograd.set_detect_anomaly(True, check_nan=False)."
    )


class AccumulateGrad(Node):
    """The node of a leaf: adds what arrives to the leaf's ``.grad``.

    The leaf holds its node, the node only a weak reference to the leaf: no cycle, and no new node
    per op. A leaf that the user has dropped takes its ``.grad`` with it.
    """

    sequence_number = 1 << 62
    special = True

    def __init__(self, variable: Tensor):
        self._variable = weakref.ref(variable)

    def name(self) -> str:
        """The name that PyTorch gives it."""
        return "torch::autograd::AccumulateGrad"

    @property
    def variable(self) -> Tensor | None:
        """The leaf, or None once nobody else holds it."""
        return self._variable()

    def release(self) -> None:
        """A leaf keeps nothing that could be freed."""


def edge_of(tensor: Tensor) -> Edge | None:
    """Return where gradients of ``tensor`` go: its op's node, its leaf's node, or None."""
    if tensor._edge is not None:
        return tensor._edge
    if not tensor._requires_grad:
        return None
    if tensor._leaf_edge is None:
        tensor._leaf_edge = (AccumulateGrad(tensor), 0)
    return tensor._leaf_edge
