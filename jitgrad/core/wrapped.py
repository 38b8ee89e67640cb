"""Tensors that a transform sees through: dual numbers of forward mode, batches of vmap.

A transform opens a ``Level`` and hands its function wrapped tensors: they wrap what lies below, and
look like it but for a tangent or a missing dim. An op on wrapped operands is given to the class of
the outermost of them, which says what it means there in terms of ops on what it wraps. Transforms
nest, so that may be wrapped again, by a level opened earlier; a tensor's outermost wrapper always is
that of its latest level. The graph of reverse mode is recorded at the bottom, on plain tensors.
"""

from __future__ import annotations

import copy
import itertools
import weakref
from collections.abc import Iterable
from typing import Any

from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.layout import Layout
from jitgrad.core.tensor import Tensor

__all__ = ["Level", "Wrapped", "innermost", "link_view", "link_views", "outermost", "turn_into"]


class Level:
    """One transform at work in this thread, from ``with`` to the end of the block."""

    _numbers = itertools.count(1)
    randomness = ""  # what random ops do inside; only vmap has a word in it

    def __init__(self) -> None:
        self.number, self.open = next(self._numbers), False
        self.layouts: dict[Layout, Layout] = {}  # of what lies below: of what this level puts round it
        self.wrapped_in_place: list[weakref.ref[Any]] = []  # tensors that writes in place have wrapped where they are

    def layout(self, below: Layout) -> Layout:
        """The layout of a tensor that wraps one of layout ``below``.

        An object of this level's own: plans are kept by the identity of layouts, so wrapped tensors
        never take the paths of plain ones, and those need not look for levels.
        """
        found = self.layouts.get(below)
        if found is None:
            found = self.layouts[below] = self._new_layout(below)
        return found

    def _new_layout(self, below: Layout) -> Layout:
        return copy.copy(below)

    def __enter__(self) -> Level:
        self.open = True
        grad_state.levels = (*grad_state.levels, self)
        return self

    def __exit__(self, *error: Any) -> None:
        self.open = False
        grad_state.levels = tuple(level for level in grad_state.levels if level is not self)
        for reference in self.wrapped_in_place:
            self._turn_back(reference())

    def _turn_back(self, x: Any) -> None:
        """Let a tensor that outlives the level be again what it was, the same object, with what was written to it."""
        if not (isinstance(x, Wrapped) and x._level is self):
            return
        below = x.unwrapped()
        x.__class__, x.__dict__ = type(below), below.__dict__  # shared: views may know ``below`` as their base
        if x._leaf_edge is not None:
            x._leaf_edge._variable = weakref.ref(x)


class Wrapped(Tensor):
    """Base of tensors that wrap others for a transform. What an op means on them, subclasses say."""

    _level: Any
    # The tensor, wrapped alike, whose memory this view shows: what ``_base`` is to plain tensors.
    _wrapped_base: Any = None
    _wrapped_views: Any = None  # weak references to such views

    def unwrapped(self) -> Any:
        """What carries the values: a wrapped tensor of an earlier level, or a plain one."""
        raise NotImplementedError

    def value_and_dim(self) -> tuple[Any, Any]:
        """(what is below, as the transform was given it; the dim of its batch there, or None)."""
        raise NotImplementedError

    def wrap_alias(self) -> None:
        """Put an alias in the place of what this wraps."""
        raise NotImplementedError

    @classmethod
    def elementwise(cls, level: Level, operation: Any, operands: tuple[Any, ...], inplace: bool) -> Any:
        """Apply an elementwise op to operands, the outermost of which are of this class and ``level``."""
        raise NotImplementedError

    @classmethod
    def structured(cls, level: Level, op: Any, args: tuple[Any, ...], inplace: bool) -> Any:
        """Apply a structured op, ``inplace``: its form that writes into the first argument."""
        raise NotImplementedError

    def map(self, function: Any) -> Any:
        """The same lift of what a linear ``function`` makes of what it wraps; None where that is None."""
        raise NotImplementedError

    def map_graph(self, function: Any) -> Any:
        """The same lift of what ``function`` makes of the tensor that carries the graph."""
        raise NotImplementedError

    def wrap_new(self, made: Tensor) -> Any:
        """A new tensor, as ``zeros_like`` of this one gives it."""
        raise NotImplementedError

    @staticmethod
    def map_pair(function: Any, level: Level, x: Any, y: Any) -> Any:
        """Apply a linear ``function`` of two tensors below ``level``."""
        raise NotImplementedError

    @classmethod
    def gradients(cls, level: Level, outs: list[Any], ins: list[Any], grads: list[Any], run: Any) -> list[Any]:
        """Gradients of outs with respect to ins, by way of ``run``, which takes what lies below."""
        raise NotImplementedError


def outermost(values: Iterable[Any]) -> Any:
    """The operand wrapped by the latest open level, lists searched too; None if no operand is wrapped."""
    found: Any = None
    for value in values:
        if isinstance(value, (list, tuple)):
            value = outermost(value)
        if isinstance(value, Wrapped) and value._level.open:
            if found is None or value._level.number > found._level.number:
                found = value
    return found


def innermost(x: Any) -> Any:
    """The plain tensor that carries values, of all samples, and graph of a wrapped one, not the tangents."""
    while isinstance(x, Wrapped) and x._level.open:
        x = x.unwrapped()
    return x


def turn_into(x: Any, other: Any) -> Any:
    """Make a tensor, the same object as before, what another is."""
    x.__dict__.clear()
    x.__class__ = type(other)
    x.__dict__.update(other.__dict__)
    return x


def link_views(x: Any, outs: Any) -> None:
    """Let wrapped results of a view op know what they are views of; a later level may give both a tangent."""
    if not isinstance(x, Wrapped):
        return
    root, memory = x if x._wrapped_base is None else x._wrapped_base, _memory(x)
    for out in outs if isinstance(outs, tuple) else (outs,):
        if out is not x and _memory(out) is memory:
            link_view(root, out)


def link_view(root: Any, view: Any) -> None:
    """Let ``view`` be known as one of ``root``, on each level that has wrapped both."""
    while isinstance(root, Wrapped) and type(view) is type(root) and view._level is root._level:
        if view._wrapped_base is root or view is root:
            return
        view._wrapped_base = root
        root._wrapped_views = [*(r for r in root._wrapped_views or () if r() is not None), weakref.ref(view)]
        root, view = root.unwrapped(), view.unwrapped()


def _memory(x: Any) -> Any:
    """The plain tensor whose memory ``x`` shows."""
    x = innermost(x)
    return x if x._base is None else x._base
