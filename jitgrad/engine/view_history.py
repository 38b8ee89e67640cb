"""In-place writes to tensors that share memory: whose history changes, and how.

A write to ``x`` makes ``x`` the output of the node that wrote. If ``x`` is a view, that node takes
the place of a part of its base's history: the base becomes the output of a ``CopySlices``, which
cuts the part out of an incoming gradient, sends it through the node, and puts the result back. After
either, every living view of the base gets a new history, as a strided view of what the base is now.
Nothing of this costs anything where nothing is written: a base knows its views by weak references.
"""

from __future__ import annotations

from typing import Any

from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.layout import Layout
from jitgrad.core.node import FREED, Edge, Node, edge_of, next_sequence_number, node_of, number_of
from jitgrad.core.storage import counter_of
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.copying import copy_into
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.strides import empty_laid, offset_in
from jitgrad.dispatch.structured import Structured
from jitgrad.dispatch.view_errors import stale_message
from jitgrad.ops.shape.slicing import AsStrided, ViewAsComplex, ViewAsReal, zeros_of

__all__ = ["CopySlices", "Place"]


class Laid(Structured):
    """A copy with the strides of ``layout``."""

    name, function, method = "laid", False, False
    samples = cases(lambda: (draw(2, 3), draw(3, 2).t()._layout))

    def forward(x, layout):
        data = empty_laid(layout)
        copy_into(data, layout, x)
        return wrap(data, layout)

    def grad_x(g):
        return g


class Place:
    """Where a view lies in its base: applied to a tensor like the base, it gives the part like the view."""

    __slots__ = ("base", "offset", "view")

    def __init__(self, base: Tensor, view: Tensor):
        self.base, self.view, self.offset = base._layout, view._layout, offset_in(base, view)

    def __call__(self, x: Tensor) -> Tensor:
        """The part, as a view of ``x`` (of a copy, if ``x`` lies otherwise in memory than the base)."""
        if x._layout.strides != self.base.strides:
            x = Laid.apply(x, self.base)
        view = self.view
        if view.dtype.is_complex == x._layout.dtype.is_complex:
            return AsStrided.apply(x, view.shape, view.strides, self.offset)
        if view.dtype.is_complex:
            shape, strides = (*view.shape, 2), (*(2 * s for s in view.strides), 1)
            return ViewAsComplex.apply(AsStrided.apply(x, shape, strides, 2 * self.offset))
        pairs = ViewAsReal.apply(x)
        if pairs._layout.shape == view.shape and pairs._layout.strides == view.strides and not self.offset:
            return pairs
        return AsStrided.apply(pairs, view.shape, view.strides, self.offset)


class CopySlice(Structured):
    """A copy of ``x`` whose part at ``place`` is ``y``."""

    name, function, method = "copy_slice", False, False
    samples = cases(lambda: (draw(2, 3), draw(2, seed=1), _column(draw(2, 3))))

    def forward(x, y, place):
        out = Laid.forward(x, _with_dtype(place.base, x._layout))
        part = place(out)
        copy_into(part._data, part._layout, y)
        return out

    def grad_x(g, y_layout, place):
        return CopySlice.apply(g, zeros_of(y_layout), place)

    def grad_y(g, place):
        return place(g)


def _column(x: Tensor) -> Place:
    return Place(x, x.select(1, 1))


def _with_dtype(layout: Layout, like: Layout) -> Layout:
    return layout if layout.numpy_dtype is like.numpy_dtype else like


class CopySlices(Node):
    """History of a base, part of which was rewritten by another node."""

    def __init__(self, base: Tensor, place: Place, writer: Node):
        self.place, self.writer = place, writer
        self.edges = (edge_of(base), *writer.edges[1:])
        self.sequence_number = next_sequence_number()

    def name(self) -> str:
        """The name that PyTorch gives it."""
        return "torch::autograd::CopySlices"

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """The base as it was, and what was written."""
        return (super().next_functions[0], *self.writer.next_functions[1:])

    def vjp(self, g: Any) -> tuple[Any, ...]:
        """Send the part of the gradient through the writer, the rest past it."""
        return self._split(g, self.writer.vjp)

    def vjp_recorded(self, g: Any) -> tuple[Any, ...]:
        """The same, recorded."""
        return self._split(g, self.writer.vjp_recorded)

    def _split(self, g: Tensor, through: Any) -> tuple[Any, ...]:
        if self.saved is None:
            raise RuntimeError(FREED)
        part, *others = through(self.place(g))
        self.owned = self.writer.owned
        if self.edges[0] is None:
            return (None, *others)
        if part is None:
            part = zeros_of(self.place.view)
        return (CopySlice.apply(g, part, self.place), *others)

    def release(self) -> None:
        """Drop what the writer saved; a second backward raises even where it saved nothing."""
        self.writer.release()
        self.saved = None


# -- after a write ------------------------------------------------------------------------------------


def rebase(self: Tensor, edge: Edge | None, before: Any = None) -> None:
    """Make ``edge`` the history of a tensor that was written to, and of the base it is a view of.

    ``before`` is its edge before the write, if that has been replaced already. Without an edge, this is a
    view of which only the shape has changed: the other views of its base see a new version of it.
    """
    if edge is None:
        _refresh(self._base, self)
        return
    _count_back(node_of(edge), counter_of(self))
    base = self._base
    if base is None:
        _move(self, edge, before)
        base = self
    else:
        node = CopySlices(base, Place(base, self), node_of(edge))
        _move(base, node, None)
    if base._views:
        _refresh(base)


def _count_back(node: Node, counter: list[int]) -> None:
    """What the node saved of the memory that it then wrote to, it saved one version earlier.

    Not so its result: that is saved as it is now.
    """
    if any(getattr(s, "_counter", None) is counter for s in vars(node).get("saved") or ()):
        pairs = zip(node.saved or (), node.versions, strict=True)
        node.versions = tuple([v - (s._counter is counter and not node.is_output(s)) for s, v in pairs])


def _move(tensor: Tensor, edge: Edge, before: Any) -> None:
    """Change a tensor's history; a retained gradient is that of the tensor as it is now."""
    old = before if before is not None else tensor._edge
    retained = node_of(old).retained if old is not None else None
    if retained is not None:
        kept = retained.get(number_of(old))
        if kept is not None and kept() is tensor:
            del retained[number_of(old)]
            node = node_of(edge)
            node.special, node.retained = True, {number_of(edge): kept}
    tensor._edge, tensor._requires_grad = edge, True


def _refresh(base: Tensor, but: Tensor | None = None) -> None:
    """Give each living view of ``base`` its place in what ``base`` is now."""
    for reference in list(base._views or ()):
        view = reference()
        if view is None or view is but or type(view) is StaleView:
            continue
        if view._view_kind:
            view._stale, view.__class__ = stale_message(view), StaleView
        else:
            _move(view, Place(base, view)(base)._edge, None)


class StaleView(Tensor):
    """A view without a history of its own, whose base was written to: recording it is an error."""

    _stale: str

    def _refuse(self) -> Any:
        if grad_state.enabled:
            raise RuntimeError(self._stale)
        return None

    _edge = property(_refuse)
    _requires_grad = property(lambda self: bool(self._refuse()))
    requires_grad = property(lambda self: True)
    is_leaf = property(lambda self: False)


StaleView.__name__ = StaleView.__qualname__ = "Tensor"
Tensor._rebase = rebase  # type: ignore[method-assign]
