"""Views: tensors of another tensor's memory. The functions that make them are generated as text, as recorders are.

A view shares version counter and owner of the memory with its base; the owner keeps a weak reference to the view, so
that an inplace op can give it a new history. The caller records the view.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref as reference

from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.inference import is_inference
from jitgrad.core.layout import Layout, cache, intern, layout_of
from jitgrad.core.saved_versions import writes
from jitgrad.core.storage import UNWRITTEN, counter_of
from jitgrad.core.tensor import Tensor

__all__ = ["layout_of_view", "several_views", "view_maker", "view_of", "viewing"]

new = object.__new__

# ``counter_of`` is written out, and Tensor(...) not called, to save calls. Not ``wrap`` either: what observers of new
# tensors set or count, a view has from its base.
_VIEW = """\
def make(layout, kind, {constants}):
    differentiable = layout is not None and layout.dtype.category >= 2
    def view(x{parameters}):
        {before}
        counter = x._counter
        if counter is UNWRITTEN:
            counter = x._counter = [0]
        result = new(Tensor)
        result._data = {data}
        result._layout = layout
        result._counter = counter
        root = x._base
        if root is None:
            root = x
        result._base = root
        if kind or x._view_kind:
            set_kind(result, x, root, kind)
        elif not grad_state.enabled:
            if root._requires_grad or grad_state.inference:
                set_kind(result, x, root, kind)
            else:
                result._view_kind = "no_grad"
        if {differentiable}:
            views = root._views
            if views is None:
                root._views = [reference(result)]
            elif len(views) & 31:
                views.append(reference(result))
            else:
                add_view(root, result)
        return result
    return view
"""


@functools.cache
def view_maker(data: str, parameters: str = "", before: str = "", constants: str = "") -> Callable[..., Any]:
    """``make(layout, kind, *constants)``, which returns ``view(x, *parameters)``, a function that makes views of ``x``.

    data: the expression of the view's array. before: a statement that is run first, and may set ``layout`` to the
    view's. Both use the parameters and constants, of which the names are given; ``layout`` and ``kind``, for which see
    ``Tensor._view_kind``, may be parameters, too.
    """
    text = _VIEW.format(
        data=data, before=before or "pass", constants=constants, parameters=parameters and f", {parameters}",
        differentiable="layout.dtype.category >= 2" if "layout" in parameters else "differentiable",
    )
    scope: dict[str, Any] = {
        "new": object.__new__, "Tensor": Tensor, "UNWRITTEN": UNWRITTEN, "grad_state": grad_state,
        "set_kind": _set_kind, "add_view": _add_view, "reference": reference, "__name__": __name__,
    }  # fmt: skip
    exec(text, scope)
    return scope["make"]


def viewing(layout: Layout, data: str, **constants: Any) -> Callable[[Tensor], Tensor]:
    """The plan of a view of this layout. data: the expression of its array, in which ``x`` is the viewed tensor."""
    return view_maker(data, constants=", ".join(constants))(layout, "", *constants.values())


def view_of(base: Tensor, data: Any, layout: Layout | None = None, kind: str = "") -> Tensor:
    """A view of ``base`` whose array is ``data``. kind: see ``Tensor._view_kind``."""
    if layout is None:
        layout = layout_of_view(base._layout, data)
    return _view(base, data, layout, kind)


def several_views(x: Tensor, places: Sequence[tuple[Any, Layout]]) -> tuple[Tensor, ...]:
    """Views of ``x``, all of its dtype, at (index, layout) pairs. PyTorch refuses writes into one of several views."""
    data = x._data
    if x._view_kind or not grad_state.enabled or grad_state.inference:
        return tuple([_view(x, data[place], layout, "multi") for place, layout in places])
    counter, root, parts = counter_of(x), x if x._base is None else x._base, []
    for place, layout in places:
        part = new(Tensor)
        part._data, part._layout, part._counter, part._base = data[place], layout, counter, root
        part._view_kind = "multi"
        parts.append(part)
    if x._layout.dtype.category >= 2:
        views: Any = root._views or []
        count = len(views)
        if count ^ (count + len(parts)) > max(count, 31):  # a power of two between: see ``_add_view``
            views = [v for v in views if v() is not None]
        root._views = views
        views.extend(map(reference, parts))
    return tuple(parts)


def layout_of_view(base: Layout, data: Any) -> Layout:
    """The layout of an array that shows, in the same dtype, memory of one of layout ``base``."""
    key = base, data.shape, data.strides
    found = _viewed.get(key)
    if found is None:
        found = _viewed[key] = _layout_of_view(base, data)
    return found


_viewed: dict[Any, Layout] = cache()


def _layout_of_view(base: Layout, data: Any) -> Layout:
    if data.size or not base.numel:
        return layout_of(data, base.device)
    # An empty view keeps the strides by which it was taken, as PyTorch's does.
    return intern(data.dtype, data.shape, tuple([s // data.dtype.itemsize for s in data.strides]), base.device)


def _set_kind(view: Tensor, x: Tensor, root: Tensor, kind: str) -> None:
    """Note why writes to a view of ``x`` can't be recorded: its kind, or that no_grad or inference mode was on."""
    made = "inference" if grad_state.inference else kind if grad_state.enabled else "no_grad"
    view._view_kind = x._view_kind or made
    if root._requires_grad and made and made != "multi" and view._layout.dtype.category >= 2 and not is_inference(root):
        view._requires_grad, view._unrecorded = True, writes(view._counter[0])


def _add_view(root: Tensor, view: Tensor) -> None:
    """Add a weak reference to ``root._views``. Dead ones are dropped when their number is a power of two, so that many
    views of one memory cost a constant time each."""
    views: Any = root._views
    count = len(views)
    if count >= 32 and count & (count - 1) == 0:
        root._views = views = [v for v in views if v() is not None]
    views.append(reference(view))


_view = view_maker("data", parameters="data, layout, kind")(None, "")
