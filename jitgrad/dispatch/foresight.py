"""Kernels that are needed next, asked for while others are compiled; see `kernels/compile_ahead.py`.

In a process that has to compile, each new combination of arguments is rehearsed: the node of its result is run as
backward would run it, on a gradient whose numbers don't matter, with launches that do nothing but say which kernels
they need. An op whose plan is a list of launches is rehearsed before it runs, others after they were recorded. Plans
that are made on the way are those that backward will use, so this takes next to no time of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from jitgrad.core.grad_mode import no_grad, state
from jitgrad.core.layout import Layout
from jitgrad.core.node import Node, node_observers, node_of
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.core.tensor_observers import tensor_observers
from jitgrad.dispatch.strides import empty_with_strides
from jitgrad.kernels.compile_ahead import ask, begun
from jitgrad.kernels.launch import Kernel, observers

__all__ = ["foreseen", "rehearse"]

# Nodes that were rehearsed: their class, and the layouts of their result and of what they save.
_known: set[Any] = set()


def foreseen(op: Any, record: Callable[..., Any], prepare: Callable[[Any], None] | None = None) -> Callable[..., Any]:
    """``record(out, *args)``, which makes a node of ``op``, for a first call: its backward is rehearsed, too.

    Where nothing is compiled ahead, and of a user's op, whose rules are not ours to call, it is ``record`` itself.
    prepare: called with the node first.
    """
    if not _foresees(op):
        return record

    def record_and_rehearse(out: Any, *args: Any) -> Any:
        made = record(out, *args)
        if isinstance(out, Tensor) and out._edge is not None:
            node = made or node_of(out._edge)
            if prepare is not None:
                prepare(node)
            with _asking():
                _rehearse_backward(node, out._layout)
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
    with _asking() as needed:
        found = compute(*computed)
        out = found if isinstance(found, Tensor) else found[0]
        del needed[:1]  # which is compiled here in a moment
        if state.enabled:
            record()(out, *args)
            if out._edge is not None:
                _rehearse_backward(node_of(out._edge), out._layout)


def _foresees(op: Any) -> bool:
    """Whether to rehearse calls of an op: one of ours, where nobody would take note of it."""
    watched = observers or node_observers or tensor_observers or state.levels
    return begun() and not watched and op.__module__.startswith(("jitgrad.ops.", "jitgrad.kernels."))


def _rehearse_backward(node: Node, layout: Layout) -> None:
    known = type(node), layout, *[s._layout for s in node.saved or ()]
    if node.planned and not node.special and layout.device == "cpu" and known not in _known:
        _known.add(known)
        with no_grad():
            node.vjp(wrap(empty_with_strides(layout), layout))


class _Stage:
    """An observer of launches in the place of those of one thread; ``needed``: what these would compile, in order."""

    def __init__(self) -> None:
        self.thread, self.needed = threading.get_ident(), list[tuple[Any, Any]]()

    def before(self, kernel: Kernel, args: tuple[Any, ...]) -> bool:
        """Whether to leave out a launch, which this thread is about to do."""
        if threading.get_ident() != self.thread:
            return False
        with suppress(Exception):  # of a kernel that is not compiled, or takes what Numba has no types for
            compiled, given = kernel.compiled_for(args)
            types = tuple([compiled.typeof_pyval(a) for a in given])
            if types not in compiled.overloads:
                self.needed.append((compiled.made, types))
        return True

    def __call__(self, kernel: Kernel, args: tuple[Any, ...], seconds: float) -> None:
        """A launch of another thread was done."""


@contextmanager
def _asking() -> Iterator[list[tuple[Any, Any]]]:
    """Launches of the block are left out; what they would compile is in the list, and asked for when the block ends."""
    stage = _Stage()
    observers.append(stage)
    try:
        with suppress(Exception):  # whatever is wrong with a call is told when it is made
            yield stage.needed
    finally:
        observers.remove(stage)
    for made, types in stage.needed:
        ask(made, types)
