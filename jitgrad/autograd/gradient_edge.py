"""Where gradients of a tensor go, as an object that stands for the tensor in ``grad`` and ``backward``.

A file of its own, since these two are part of ``import jitgrad``, and the rest of ``graph.py`` is not.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from jitgrad.core.layout import Layout
from jitgrad.core.node import edge_of, node_of, number_of
from jitgrad.core.tensor import Tensor

__all__ = ["GradientEdge", "get_gradient_edge"]


class _Edge(NamedTuple):
    node: Any
    output_nr: int
    ownership_token: Any = None


class GradientEdge(_Edge):
    """Where gradients of a tensor go: (node, output_nr). ``grad`` and ``backward`` take it in the tensor's place."""

    layout: Layout | None = None


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Return the edge of a tensor; RuntimeError if it does not require grad. The tensor itself may be dropped."""
    edge = edge_of(tensor)
    if edge is None:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    found = GradientEdge(node_of(edge), number_of(edge))
    found.layout = tensor._layout
    return found
