"""Kernels that are needed next, asked for while others are compiled; see `kernels/compile_ahead.py`.

In a process that has to compile, each new combination of arguments is rehearsed: the node of its result is run as
backward would run it, on a gradient whose numbers don't matter. Launches that depend on that gradient or on the op's
arguments are left out, and say which kernels they need. Others are done: plans keep constants that launches have made.
An op whose plan is a list of launches is rehearsed before it runs, others after they were recorded. Plans that are made
on the way are those that backward will use, so this takes next to no time of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from jitgrad.core.grad_mode import no_grad, state
from jitgrad.core.layout import Layout
from jitgrad.core.node import Node, node_observers, node_of
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.core.tensor_observers import tensor_observers
from jitgrad.dispatch.strides import empty_with_strides, owner_of
from jitgrad.kernels.compile_ahead import ask, begun
from jitgrad.kernels.launch import Kernel, observers

__all__ = ["foresee", "foreseen", "rehearse"]

# What was rehearsed: a node's class with the layouts of its result and of what it saves, or a function with those of
# its arguments.
_known: set[Any] = set()


def foreseen(op: Any, record: Callable[..., Any], prepare: Callable[[Any], None] | None = None) -> Callable[..., Any]:
    """``record(out, *args)``, which makes a node of ``op``, for a first call: its backward is rehearsed, too.

    Where nothing is compiled ahead, and of a user's op, whose rules are not ours to call, it is ``record`` itself.
    prepare: called with the node before that.
    """
    if not _foresees(op):
        return record

    def record_and_rehearse(out: Any, *args: Any) -> Any:
        made = record(out, *args)
        if isinstance(out, Tensor) and out._edge is not None:
            node = made or node_of(out._edge)
            if prepare is not None:
                prepare(node)
            if _foresees(op):
                with _rehearsal([out]) as stage:
                    _rehearse_backward(stage, node, out._layout)
        return made

    return record_and_rehearse


def rehearse(
    op: Any, compute: Callable[..., Any], computed: Sequence[Any], record: Callable[[], Callable[..., Any]],
    args: Sequence[Any],
) -> None:  # fmt: skip
    """Rehearse a call of ``op`` on ``args``: ``compute(*computed)``, which launches kernels alone, and its backward.

    record: returns the function that makes the node.
    """
    if not _foresees(op) or op.multiple_results:
        return
    with _rehearsal(computed) as stage:
        found = compute(*computed)
        out = found if isinstance(found, Tensor) else found[0]
        if state.enabled:
            record()(out, *args)
            if out._edge is not None:
                _rehearse_backward(stage, node_of(out._edge), out._layout)


def foresee(compute: Callable[..., Any], *args: Any) -> None:
    """Rehearse ``compute(*args)``, which launches several kernels and reads no values on the host, and its backward.

    Done once for the same function and layouts.
    """
    if not begun() or _watched():
        return
    known = compute, *[getattr(a, "_layout", None) for a in args]
    if known not in _known:
        _known.add(known)
        with _rehearsal(args) as stage:
            out = compute(*args)
            if isinstance(out, Tensor) and out._edge is not None:
                _rehearse_backward(stage, node_of(out._edge), out._layout)


def _foresees(op: Any) -> bool:
    """Whether to rehearse calls of an op: one of ours, where nobody would take note of it."""
    return begun() and not _watched() and op.__module__.startswith(("jitgrad.ops.", "jitgrad.kernels."))


def _watched() -> Any:
    return any(type(o) is not _Stage for o in observers) or node_observers or tensor_observers or state.levels


def _rehearse_backward(stage: _Stage, node: Node, layout: Layout) -> None:
    known = type(node), layout, *[s._layout for s in node.saved or ()]
    if node.planned and not node.special and layout.device == "cpu" and known not in _known:
        _known.add(known)
        g = wrap(empty_with_strides(layout), layout)
        stage.begin_with([g, *(node.saved or ())])
        before, stage.found = stage.found, stage.later
        try:
            with no_grad():
                node.vjp(g)
        finally:
            stage.found = before


class _Stage:
    """An observer that leaves out the launches of its thread that touch certain memory.

    now, later: (text, argument types) of the kernels that these would compile, in order: of forward, and of backward.
    found: that of the two to which launches are added. left_out: that memory by id: the op's arguments, the gradient,
    and all that would be computed from them.
    """

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.now, self.later = list[tuple[Any, Any]](), list[tuple[Any, Any]]()
        self.found = self.now
        self.left_out: dict[int, Any] = {}

    def begin_with(self, tensors: Iterable[Any]) -> None:
        """Leave out what depends on these tensors."""
        for tensor in tensors:
            self._spread(getattr(tensor, "_data", None))

    def _spread(self, array: Any) -> None:
        if isinstance(array, np.ndarray):
            root = owner_of(array)
            self.left_out[id(root)] = root

    def before(self, kernel: Kernel, args: tuple[Any, ...]) -> bool:
        """Whether to leave out a launch, which this thread is about to do."""
        arrays = [a for a in args if isinstance(a, np.ndarray)]
        if threading.get_ident() != self.thread or self.left_out.keys().isdisjoint([id(owner_of(a)) for a in arrays]):
            return False
        for k in kernel.writes:
            self._spread(args[k])
        with suppress(Exception):  # of a kernel that is not compiled, or takes what Numba has no types for
            self.found += filter(None, [kernel.uncompiled(args)])
        return True

    def __call__(self, kernel: Kernel, args: tuple[Any, ...], seconds: float) -> None:
        """A launch was done."""


@contextmanager
def _rehearsal(tensors: Iterable[Any]) -> Iterator[_Stage]:
    """In the block nothing is computed that depends on these tensors; the kernels for that are asked for at its end.

    Less the first of forward, which this process compiles in a moment. A block in another one is a part of that.
    """
    for known in observers:
        if isinstance(known, _Stage) and known.thread == threading.get_ident():
            known.begin_with(tensors)
            yield known
            return
    stage = _Stage()
    stage.begin_with(tensors)
    observers.append(stage)
    try:
        with suppress(Exception):  # whatever is wrong with a call is told when it is made
            yield stage
    finally:
        observers.remove(stage)
    first = stage.now[:1]
    # What is asked for last is compiled first.
    for wanted in [*stage.later, *reversed(stage.now)]:
        if wanted not in first:
            ask(*wanted)
