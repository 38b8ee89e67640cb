"""Classes of nodes that keep each edge, and each value that is no tensor, in an attribute of its own.

Python's garbage collector runs more often the more containers a program makes, and visits all that live. In programs
of many small ops, whose graphs are long, a third of the time went there while edges and values were tuples: a product
of two matrices was six containers. Now it is three: its tensor, its node, and the tuple of saved tensors. In a deep
graph it also matters that one node leads to the next directly: by way of a tuple the collector takes three times as
long (6.5 and 2.5 us an op in a chain of 400,000).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

__all__ = ["edge_names", "node_type_for", "value_names"]


def edge_names(count: int) -> list[str]:
    """The attributes of a node's edges."""
    return [f"edge{k}" for k in range(count)]


def value_names(values: Sequence[str]) -> list[str]:
    """The attributes of a node's values, given what the rules call them."""
    return [f"_value_{name}" for name in values]


def node_type_for(
    node_type: Any, edges: int, values: Sequence[str] = (), adds: bool = False, plain_release: bool = False
) -> Any:  # fmt: skip
    """The subclass of ``node_type``, of the same name, for nodes with so many edges and these values.

    ``edges`` and ``saved_nontensors`` read and write them as tuples; an edge that is never set is None. edges: 0 for
    nodes whose number of edges varies: theirs are a tuple. adds: whether nodes add their gradient to one that waits.
    plain_release: see `Node`; that of ``node_type`` if False.
    """
    # Kept by the class, not in a table of all: those of a user's ops can be freed.
    kept: dict[Any, Any] | None = vars(node_type).get("compact")
    if kept is None:
        kept = node_type.compact = {}
    key = edges, tuple(values), adds, plain_release
    if key not in kept:
        names = edge_names(edges)
        body: dict[str, Any] = dict.fromkeys(names)
        body |= {
            "__doc__": node_type.__doc__, "__module__": node_type.__module__, "adds": adds or node_type.adds,
            "plain_release": plain_release or node_type.plain_release,
        }  # fmt: skip
        if names:
            body["edges"] = _as_tuple(names)
        if values:
            body["saved_nontensors"] = _as_tuple(value_names(values))
        kept[key] = type(node_type.__name__, (node_type,), body)
    return kept[key]


def _as_tuple(names: list[str]) -> property:
    """A property that is the tuple of these attributes."""
    read: Callable[[Any], Any]
    if len(names) > 1:
        read = attrgetter(*names)  # C code, which returns a tuple of several attributes
    elif names == edge_names(1):
        read = lambda node: (node.edge0,)  # read twice for each node in a run of backward, so without another call
    else:
        one = attrgetter(names[0])
        read = lambda node: (one(node),)

    def write(node: Any, values: Any) -> None:
        for name, value in zip(names, values, strict=True):
            setattr(node, name, value)

    return property(read, write)
