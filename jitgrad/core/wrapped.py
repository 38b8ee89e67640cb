"""Wrapped tensors, the dual tensors of forward mode and the batched ones of vmap, and the levels that they belong to.

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
from jitgrad.core.override_off import DISABLED
from jitgrad.core.tensor import Tensor

__all__ = ["Level", "Wrapped", "innermost_tensor", "link_view", "link_views", "outermost_wrapped", "turn_into"]


class Level:
    """One running transform of a thread, as a context manager.

    number: grows with every level that is opened, so a larger one is further inside. open: False once the block has
    ended; a wrapped tensor that has escaped from it counts as the tensor inside.
    """

    _numbers = itertools.count(1)
    randomness = ""  # vmap's argument: what random ops do inside; "" for transforms that have no say in it
    # Called with (tensor, level) when samples are written into a tensor without a batch, which all of them share; None
    # makes such a write an error, as PyTorch does. jacfwd sets it, because there every sample has the same value and
    # only tangents differ: the user wrote to an ordinary tensor and sees no batch at all.
    give_batch: Any = None

    def __init__(self) -> None:
        self.number, self.open = next(self._numbers), False
        self.layouts: dict[Layout, Layout] = {}  # {layout of the wrapped tensor: layout of its wrapper}
        # Tensors that an inplace op has turned into wrapped ones, the same objects; __exit__ turns them back.
        self.wrapped_in_place: list[weakref.ref[Any]] = []

    def layout(self, below: Layout) -> Layout:
        """The layout of a tensor that wraps one of layout ``below``: an equal one, but an object of this level's own.

        Ops find plans by the identity of their operands' layouts. A layout that no plan was made for leads a wrapped
        operand to the slow path, where levels are looked for; so the fast path of plain tensors needs no test for them.
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
        """Turn ``x`` of ``wrapped_in_place``, None if it was freed, into the tensor that it wraps, the same object."""
        if not (isinstance(x, Wrapped) and x._level is self):
            return
        below = x.unwrapped()
        x.__class__, x.__dict__ = type(below), below.__dict__  # shared: views may know ``below`` as their base
        if x._leaf_edge is not None:
            x._leaf_edge._variable = weakref.ref(x)  # the node knew the object that ``below`` was


class Wrapped(Tensor):
    """Base of wrapped tensors; the classes that define what ops do on them are in jitgrad/transforms/."""

    __torch_function__ = DISABLED
    _level: Any
    # The tensor, wrapped alike, whose memory this view shows: what ``_base`` is to plain tensors.
    _wrapped_base: Any = None
    _wrapped_views: Any = None  # weak references to such views
    _primal: Any  # of a dual tensor: the tensor inside, and its tangent
    _tangent: Any

    def unwrapped(self) -> Any:
        """The tensor inside (of a dual tensor the primal): one wrapped by an earlier level, or a plain one."""
        raise NotImplementedError

    def value_and_dim(self) -> tuple[Any, Any]:
        """(the tensor that the user has passed to the transform, the dim of it that is the batch, or None)."""
        raise NotImplementedError

    def wrap_alias(self) -> None:
        """Replace the tensor inside by a detached alias, whose ``requires_grad`` can be set without its owner's."""
        raise NotImplementedError

    @classmethod
    def elementwise(cls, level: Level, operation: Any, operands: tuple[Any, ...], inplace: bool) -> Any:
        """Apply an elementwise op to operands; those wrapped last are of this class and ``level``."""
        raise NotImplementedError

    @classmethod
    def structured(cls, level: Level, op: Any, args: tuple[Any, ...], inplace: bool) -> Any:
        """Apply a structured op; if ``inplace``, the form of it that writes into its first argument."""
        raise NotImplementedError

    def map(self, function: Any) -> Any:
        """``function``, which is linear, of the tensor inside and of a tangent, wrapped as this one is.

        None if ``function`` returns None.
        """
        raise NotImplementedError

    def map_graph(self, function: Any) -> Any:
        """``function``, which keeps shapes, of the tensor inside, wrapped as this one is; a tangent stays as it is."""
        raise NotImplementedError

    def wrap_new(self, made: Tensor) -> Any:
        """A new plain tensor wrapped as the result of ``zeros_like`` of this one: a batch, but without a tangent."""
        raise NotImplementedError

    @staticmethod
    def map_pair(function: Any, level: Level, x: Any, y: Any) -> Any:
        """``function``, which is linear, of two tensors without their wrappers of ``level``, and wrapped alike."""
        raise NotImplementedError

    @classmethod
    def gradients(cls, level: Level, outs: list[Any], ins: list[Any], grads: list[Any], run: Any) -> list[Any]:
        """Gradients of ``outs`` by ``ins``; ``run(outs, ins, grads)`` computes those of the tensors inside."""
        raise NotImplementedError


def outermost_wrapped(values: Iterable[Any]) -> Any:
    """The value whose wrapper is of the latest open level, also among the items of lists; None if none is wrapped."""
    found: Any = None
    for value in values:
        if isinstance(value, (list, tuple)):
            value = outermost_wrapped(value)
        if isinstance(value, Wrapped) and value._level.open:
            if found is None or value._level.number > found._level.number:
                found = value
    return found


def innermost_tensor(x: Any) -> Any:
    """The plain tensor inside of all wrappers, which is part of the graph: all samples of batches, no tangents."""
    while isinstance(x, Wrapped) and x._level.open:
        x = x.unwrapped()
    return x


def turn_into(x: Any, other: Any) -> Any:
    """Give ``x`` the class and all attributes of ``other``, so that who holds it holds the result of an inplace op."""
    x.__dict__.clear()
    x.__class__ = type(other)
    x.__dict__.update(other.__dict__)
    return x


def link_views(x: Any, outs: Any) -> None:
    """Note which wrapped tensor the wrapped results of a view op are views of.

    An inplace op can give a wrapped tensor a tangent or a batch; its base and all views have to get one with it.
    """
    if not isinstance(x, Wrapped):
        return
    root, memory = x if x._wrapped_base is None else x._wrapped_base, _memory(x)
    for out in outs if isinstance(outs, tuple) else (outs,):
        if out is not x and _memory(out) is memory:
            link_view(root, out)


def link_view(root: Any, view: Any) -> None:
    """Note that ``view`` is a view of ``root``, for their wrappers of every level that both have."""
    while isinstance(root, Wrapped) and type(view) is type(root) and view._level is root._level:
        if view._wrapped_base is root or view is root:
            return
        view._wrapped_base = root
        living = (r for r in root._wrapped_views or () if r() is not None)
        root._wrapped_views = [*living, weakref.ref(view)]
        root, view = root.unwrapped(), view.unwrapped()


def _memory(x: Any) -> Any:
    """The plain tensor that owns the memory of ``x``: the base, if that is a view."""
    x = innermost_tensor(x)
    return x if x._base is None else x._base
