"""Wrapped tensors: the dual tensors of forward mode and the batched ones of vmap, and the levels that they belong to.

A transform opens a ``Level`` and calls its function with wrapped tensors. A dual tensor adds a tangent to the tensor
that it wraps, a batched one hides the dim of the batch. An op on wrapped operands is given to the class of the
outermost one, which says what the op means in terms of ops on the wrapped tensors. Since transforms compose, these may
be wrapped too, by a level opened earlier: a tensor's wrappers are nested in the order of their levels, the latest
outermost. The graph of reverse mode is recorded on the plain tensors inside.
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

__all__ = ["Level", "Wrapped", "innermost_tensor", "link_view", "link_views", "outermost_wrapped", "turn_into"]


class Level:
    """One transform at work in this thread, from ``with`` to the end of the block."""

    _numbers = itertools.count(1)
    randomness = ""  # what random ops do inside; only vmap has a word in it

    def __init__(self) -> None:
        self.number, self.open = next(self._numbers), False
        self.layouts: dict[Layout, Layout] = {}  # {layout of the wrapped tensor: layout of its wrapper}
        # Tensors that an inplace op has turned into wrapped ones, the same objects; __exit__ turns them back.
        self.wrapped_in_place: list[weakref.ref[Any]] = []

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
        """Turn a tensor of ``wrapped_in_place`` into the one that it wraps, the same object, if it still exists."""
        if not (isinstance(x, Wrapped) and x._level is self):
            return
        below = x.unwrapped()
        x.__class__, x.__dict__ = type(below), below.__dict__  # shared: views may know ``below`` as their base
        if x._leaf_edge is not None:
            x._leaf_edge._variable = weakref.ref(x)


class Wrapped(Tensor):
    """Base of wrapped tensors. The classes that say what ops mean on them are in jitgrad/transforms/."""

    _level: Any
    # The tensor, wrapped alike, whose memory this view shows: what ``_base`` is to plain tensors.
    _wrapped_base: Any = None
    _wrapped_views: Any = None  # weak references to such views

    def unwrapped(self) -> Any:
        """The tensor inside, without a tangent: one wrapped by an earlier level, or a plain one."""
        raise NotImplementedError

    def value_and_dim(self) -> tuple[Any, Any]:
        """(the tensor that the user gave to the transform, the dim of the batch in it or None)."""
        raise NotImplementedError

    def wrap_alias(self) -> None:
        """Wrap an alias of the tensor inside instead, which then can get flags of its own."""
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
        """A linear ``function`` applied to all inside, tangents too, and wrapped alike; None if that is None."""
        raise NotImplementedError

    def map_graph(self, function: Any) -> Any:
        """``function`` applied to the tensor that carries the graph, and wrapped alike; a tangent stays as it is."""
        raise NotImplementedError

    def wrap_new(self, made: Tensor) -> Any:
        """A new plain tensor ``made``, wrapped as ``zeros_like`` of this one has to be."""
        raise NotImplementedError

    @staticmethod
    def map_pair(function: Any, level: Level, x: Any, y: Any) -> Any:
        """A linear ``function`` of two tensors, applied to what they are at ``level``, and wrapped alike."""
        raise NotImplementedError

    @classmethod
    def gradients(cls, level: Level, outs: list[Any], ins: list[Any], grads: list[Any], run: Any) -> list[Any]:
        """Gradients of ``outs`` by ``ins``; ``run(outs, ins, grads)`` finds those of the tensors inside."""
        raise NotImplementedError


def outermost_wrapped(values: Iterable[Any]) -> Any:
    """The operand wrapped by the latest open level, lists searched too; None if no operand is wrapped."""
    found: Any = None
    for value in values:
        if isinstance(value, (list, tuple)):
            value = outermost_wrapped(value)
        if isinstance(value, Wrapped) and value._level.open:
            if found is None or value._level.number > found._level.number:
                found = value
    return found


def innermost_tensor(x: Any) -> Any:
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
    """Note of wrapped results of a view op what they are views of: an inplace op may give base and views a tangent."""
    if not isinstance(x, Wrapped):
        return
    root, memory = x if x._wrapped_base is None else x._wrapped_base, _memory(x)
    for out in outs if isinstance(outs, tuple) else (outs,):
        if out is not x and _memory(out) is memory:
            link_view(root, out)


def link_view(root: Any, view: Any) -> None:
    """Note that ``view`` is a view of ``root``, at each level that has wrapped both."""
    while isinstance(root, Wrapped) and type(view) is type(root) and view._level is root._level:
        if view._wrapped_base is root or view is root:
            return
        view._wrapped_base = root
        root._wrapped_views = [*(r for r in root._wrapped_views or () if r() is not None), weakref.ref(view)]
        root, view = root.unwrapped(), view.unwrapped()


def _memory(x: Any) -> Any:
    """The plain tensor that owns the memory of ``x``."""
    x = innermost_tensor(x)
    return x if x._base is None else x._base
