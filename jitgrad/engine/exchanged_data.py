"""After ``x.data = y`` with another shape, dtype or strides: nodes that were made before meet the new data.

PyTorch's nodes compute with the new values, or fail where the shapes don't fit. Here kernels are planned for layouts,
so a node gets what it saved, and the gradient of what it has returned, in the layouts that it was made for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.core.edge import edge_to, node_of, number_of
from jitgrad.core.layout import Layout, broadcast_shapes
from jitgrad.core.node import AccumulateGrad, Node
from jitgrad.core.tensor import Tensor, method, wrap
from jitgrad.dispatch.copying import copy_into
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.strides import empty_with_strides
from jitgrad.dispatch.structured import Structured
from jitgrad.engine.engine import current_task

__all__ = ["StridedCopy"]


class StridedCopy(Structured):
    """A copy with the strides of ``layout``, gaps included: views by stride and offset can be taken of it."""

    samples = cases(lambda: (draw(2, 3), draw(3, 2).t()._layout))

    def forward(x, layout):
        data = empty_with_strides(layout)
        copy_into(data, layout, x)
        return wrap(data, layout)

    def grad_x(g):
        return g


@method
def _in_layout(self: Tensor, layout: Layout) -> Tensor:
    """The values of a tensor in the layout for which a node was made; RuntimeError where they cannot be broadcast."""
    if tuple(broadcast_shapes(layout.shape, self._layout.shape)) != layout.shape:
        raise RuntimeError(
            f"a tensor of shape {list(layout.shape)} was saved for backward and has now, by ``.data =`` or an unpack "
            f"hook, shape {list(self.shape)}, which cannot be broadcast to that"
        )
    fitted = self if self._layout.dtype is layout.dtype else self.to(layout.dtype)
    fitted = fitted if fitted._layout.shape == layout.shape else fitted.expand(layout.shape)
    return fitted if fitted._layout is layout else StridedCopy.apply(fitted, layout)


@method
def _gets_expanded(self: Tensor) -> bool:
    """Whether the gradient of a leaf in this run is, in PyTorch, an expanded view: its one op is a sum."""
    task = current_task()
    nodes = task.seen if task is not None else ()
    senders = [n for n in nodes for e in n.edges if type(e) is AccumulateGrad and e.variable is self]
    return len(senders) == 1 and senders[0].expands


# -- incoming gradients -------------------------------------------------------------------------------


@method
def _guard_gradient(self: Tensor, layout: Layout) -> None:
    """Let the node of a tensor, whose data is exchanged, get gradients of the shape and dtype of ``layout``."""
    node: Any = node_of(self._edge)
    if not hasattr(node, "output_layouts"):
        node.output_layouts, node.__class__ = {}, _guarded(type(node))
    node.output_layouts.setdefault(number_of(self._edge), layout)


def _guarded(node_type: Any) -> type[Node]:
    """The subclass of ``node_type`` for nodes with ``output_layouts``: {output number: layout of its gradients}.

    It is an attribute of ``node_type``, not an entry of a table: classes of a user's Functions can be freed.
    """
    if "guarded" in vars(node_type):
        return node_type.guarded

    def vjp(self: Any, *gradients: Tensor | None) -> Any:
        return node_type.vjp(self, *_fitted_all(self, gradients))

    def vjp_recorded(self: Any, *gradients: Tensor | None) -> Any:
        return node_type.vjp_recorded(self, *_fitted_all(self, gradients))

    body = {"vjp": vjp, "vjp_recorded": vjp_recorded, "__doc__": node_type.__doc__, "__module__": node_type.__module__}
    node_type.guarded = type(node_type.__name__, (node_type,), body)
    return node_type.guarded


def _fitted_all(node: Any, gradients: Sequence[Tensor | None]) -> list[Tensor | None]:
    fitted = list(gradients)
    for number, layout in node.output_layouts.items():
        g = fitted[number]
        fitted[number] = g if g is None else _fitted(g, layout, node, number)
    return fitted


def _fitted(g: Tensor, layout: Layout, node: Node, number: int) -> Tensor:
    """``g`` summed over broadcast dims and cast; RuntimeError if the shapes don't fit, with PyTorch's words."""
    pairs: Any = zip(reversed(g.shape), reversed(layout.shape), strict=False)
    if len(g.shape) < len(layout.shape) or any(wanted not in (1, got) for got, wanted in pairs):
        raise RuntimeError(
            f"{_sender(node, number)}invalid gradient at index 0 - got {list(g.shape)} "
            f"but expected shape compatible with {list(layout.shape)}"
        )
    g = g if g.shape == layout.shape else g.sum_to_size(layout.shape)
    return g if g.dtype is layout.dtype else g.to(layout.dtype)


def _sender(node: Node, number: int) -> str:
    """"Function SumBackward0 returned an ", of the last node in this run that gives a gradient to an edge."""
    task, edge = current_task(), edge_to(node, number)
    senders = [n for n in task.seen if edge in n.edges] if task is not None else []
    if not senders:
        return ""
    return f"Function {max(senders, key=Node._sequence_nr).name()} returned an "
