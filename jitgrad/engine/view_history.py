"""The history of tensors that share memory, after a recorded inplace op on one of them.

The op makes the tensor that it writes to its output. If that tensor is a view, its base becomes the output of a node
``CopySlices``: it takes the view's part out of an incoming gradient, sends it through the op's node, and puts the
result back. Then every living view of the base gets a new history, as an AsStrided view of what the base is now.
A base holds weak references to its views, so programs without inplace ops pay for no more than these.
"""

from __future__ import annotations

import weakref
from typing import Any

from jitgrad.core.grad_mode import enable_grad
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.layout import Layout
from jitgrad.core.node import FREED, Edge, Node, edge_of, next_sequence_number, node_of, number_of
from jitgrad.core.storage import counter_of
from jitgrad.core.tensor import Tensor, method, wrap
from jitgrad.core.view_errors import stale_message
from jitgrad.dispatch.copying import copy_into
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.operand_checks import check_memory
from jitgrad.dispatch.strides import check_bounds, empty_with_strides, extent, offset_in, shares_memory
from jitgrad.dispatch.structured import Structured
from jitgrad.engine.exchanged_data import StridedCopy
from jitgrad.kernels.lazy_array import has_bits
from jitgrad.ops.shape.as_strided import AsStrided
from jitgrad.ops.shape.complex_view import ViewAsComplex, ViewAsReal
from jitgrad.ops.shape.lazy_view import Conj, NegView, resolve_conj
from jitgrad.ops.shape.slicing import zeros_of

__all__ = ["CopySlices", "Place"]


class Place:
    """The strides and offset of a view in its base; called with a tensor of the base's shape, it takes that view.

    conjugate, negative: what the view does to the numbers of its base, whatever bits that has itself.
    """

    __slots__ = ("base", "conjugate", "negative", "offset", "view")

    def __init__(self, base: Tensor, view: Tensor):
        self.base, self.view, self.offset = base._layout, view._layout, offset_in(base, view)
        if not shares_memory(base, view):
            have = extent(self.base.shape, self.base.strides) * self.base.dtype.itemsize
            check_bounds(self.view.shape, self.view.strides, self.offset, self.view.dtype.itemsize, have)
        (conjugate, negative), (of_base, below_zero) = has_bits(view._data), has_bits(base._data)
        # Of a complex number that is conjugated a real view shows one part: at even offsets the real, else the other.
        turned = of_base and not self.view.dtype.is_complex and self.offset % 2 == 1
        self.conjugate = self.view.dtype.is_complex and conjugate != of_base
        self.negative = negative ^ below_zero ^ turned

    def __call__(self, x: Tensor) -> Tensor:
        """The view of ``x``, or of a copy of it if its strides are not those of the base.

        The base may be complex and its view real (``view_as_real``, ``.real``), or the other way round: strides and
        offset count elements of the view, two of which make a complex number.
        """
        if x._layout.strides != self.base.strides:
            x = StridedCopy.apply(x, self.base)
        view = self.view
        if view.dtype.is_complex == x._layout.dtype.is_complex:
            turned = self._turned(x)
            if turned is not x and view.shape == x._layout.shape and view.strides == x._layout.strides:
                return turned
            return AsStrided.apply(turned, view.shape, view.strides, self.offset)
        if view.dtype.is_complex:
            shape, strides = (*view.shape, 2), (*(2 * s for s in view.strides), 1)
            return self._turned(ViewAsComplex.apply(AsStrided.apply(x, shape, strides, 2 * self.offset)))
        pairs = self._turned(ViewAsReal.apply(resolve_conj(x)))
        if pairs._layout.shape == view.shape and pairs._layout.strides == view.strides and not self.offset:
            return pairs
        return AsStrided.apply(pairs, view.shape, view.strides, self.offset)

    def _turned(self, x: Tensor) -> Tensor:
        """``x``, conjugated and negated as the view's numbers are."""
        x = Conj.apply(x) if self.conjugate else x
        return NegView.apply(x) if self.negative else x


class CopySlice(Structured):
    """A copy of ``x`` in which the view at ``place`` has the values of ``y``."""

    samples = cases(lambda: (draw(2, 3), draw(2, seed=1), _column(draw(2, 3))))

    def forward(x, y, place):
        out = StridedCopy.forward(x, _with_dtype(place.base, x._layout))
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
    """The node of a base after an inplace op on a view of it.

    ``writer``: the op's node, whose first input is the view. Edges: the base as it was, the writer's other inputs.
    """

    def __init__(self, base: Tensor, place: Place, writer: Node):
        self.place, self.writer = place, writer
        self.edges = (edge_of(base), *writer.edges[1:])
        self.sequence_number = next_sequence_number()
        writer.enclosing = weakref.ref(self)

    def edge_of_view(self) -> Edge:
        """The edge of the view's gradient, which a node on the way to this one embeds in that of the base.

        It is that of the result which the writer saved, in whose place PyTorch's node saves the view itself.
        """
        base = wrap(empty_with_strides(self.place.base), self.place.base)._attached(self)
        with enable_grad():
            view: Edge = self.place(base)._edge
        return view

    def name(self) -> str:
        """The name that PyTorch gives it."""
        return "torch::autograd::CopySlices"

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """The base as it was, then the writer's other inputs."""
        return (super().next_functions[0], *self.writer.next_functions[1:])

    def vjp(self, g: Any) -> tuple[Any, ...]:
        """Send the view's part of the gradient through the writer; the rest reaches the base as it is."""
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
        check_memory(self.place.view)  # PyTorch, too, refuses the gradient of a write to an expanded view
        if part is None:
            part = zeros_of(self.place.view)
        return (CopySlice.apply(g, part, self.place), *others)

    def release(self) -> None:
        """Drop what the writer saved; a second backward raises even where it saved nothing."""
        self.writer.release()
        self.saved = None

    def frees(self) -> bool:
        """True."""
        return True

    def watched(self) -> tuple[Any, ...]:
        """What the writer saved."""
        return self.writer.watched()


# -- after a write ------------------------------------------------------------------------------------


@method
def _rebase(self: Tensor, edge: Edge | None, before: Any = None) -> None:
    """Make ``edge`` the history of a tensor that an inplace op has written to, and through it of its base and views.

    ``before``: the tensor's edge before the op, if that has been replaced already. ``edge`` is None for an inplace
    op that changed the shape of a view only (``t_``): the base's other views get a new history, no node is made.
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
    """Lower by one the versions of inputs that a node saved and then overwrote.

    The node is made after the write, so it noted a version too many. Its result, the memory as it is now, it noted
    right. Backward will then say of the inputs that they were modified.
    """
    if any(getattr(s, "_counter", None) is counter for s in vars(node).get("saved") or ()):
        pairs = zip(node.saved or (), node.versions, strict=True)
        node.versions = tuple([v - (s._counter is counter and not node.is_output(s)) for s, v in pairs])


def _move(tensor: Tensor, edge: Edge, before: Any) -> None:
    """Set a tensor's edge. If its gradient is retained, that moves to the new node, as in PyTorch."""
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
    """Give each living view of ``base``, except ``but``, a history that starts at what ``base`` is now.

    A view that PyTorch forbids to have one (of several outputs, of a Function, made under ``no_grad``) becomes stale.
    """
    for reference in list(base._views or ()):
        view = reference()
        if view is None or view is but or type(view) is StaleView:
            continue
        if view._view_kind:
            view._stale, view.__class__ = stale_message(view), StaleView
        else:
            _move(view, Place(base, view)(base)._edge, None)


class StaleView(Tensor):
    """A view whose base was written to, and that may get no new history: to use it in a recorded op is an error."""

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
