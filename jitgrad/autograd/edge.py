"""Edges of the recorded graph: where gradients of a tensor go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Union

if TYPE_CHECKING:
    from .node import Node

__all__ = ["Edge", "edge_to", "node_of", "number_of", "shown"]

# To the first output of a node, which the node itself stands for, or to another, a tuple of both. A tuple for each
# would be one more object for Python's collector in every recorded op.
Edge = Union["Node", tuple["Node", int]]


def edge_to(node: Node, number: int) -> Edge:
    """The edge to output ``number`` of a node."""
    return (node, number) if number else node


def shown(edge: Edge | None) -> tuple[Node | None, int]:
    """An edge as ``next_functions`` has it: (node, number), of None (None, 0)."""
    return (None, 0) if edge is None else (node_of(edge), number_of(edge))


def node_of(edge: Edge) -> Node:
    """The node that an edge leads to."""
    return edge[0] if isinstance(edge, tuple) else edge


def number_of(edge: Edge) -> int:
    """The output of that node which it leads to."""
    return edge[1] if isinstance(edge, tuple) else 0
