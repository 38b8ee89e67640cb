"""Running backward: with the modes of the thread that asks, and on a stack that is deep enough."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.node import Edge
from jitgrad.core.saved_tensors import set_hooks
from jitgrad.core.saved_tensors import thread as saving
from jitgrad.core.tensor import Tensor
from jitgrad.engine.task import Task, observers

__all__ = ["Task", "current_task", "observers", "queue_callback", "run", "run_observers"]

# Called with (roots, create_graph, wanted, accumulate) of each run before it begins.
run_observers: list[Callable[[Sequence[Edge], bool, Sequence[Edge] | None, bool], None]] = []


class _Thread(threading.local):
    """The innermost task that runs in this thread, and how many runs are nested (a hook or node may call backward)."""

    task: Task | None = None
    depth = 0


_thread = _Thread()
# So many nested runs share a stack; the next one gets a thread of its own, so thousands may be nested, as in PyTorch.
_DEPTH = 25


def run(
    roots: Sequence[Edge], gradients: Sequence[Tensor], keep_graph: bool, create_graph: bool,
    wanted: Sequence[Edge] | None = None, accumulate: bool = True, rules: bool = False,
    ends: bool = False,
) -> list[Tensor | None]:  # fmt: skip
    """Propagate ``gradients`` from ``roots``; return the gradients at the ``wanted`` edges, None where none arrives.

    With ``wanted`` only nodes that lead to these edges run. With ``accumulate`` gradients are added to ``.grad`` of the
    leaves. ``rules``: run the nodes' rules, which are ops, in place of their kernels, as ``create_graph`` does, and
    add into no gradient in place; needed where ``gradients`` are wrapped tensors. ``ends``: take wanted gradients as
    they arrive, before hooks of their tensors, and run nothing behind them.
    """
    for observer in tuple(run_observers):
        observer(roots, create_graph, wanted, accumulate)
    task = Task(keep_graph, create_graph, wanted, accumulate, rules, ends)
    if _thread.depth < _DEPTH:
        _run_here(task, roots, gradients)
    else:
        _run_on_new_thread(task, roots, gradients)
    return [task.captured.get(e) for e in wanted] if wanted is not None else []


def _run_here(task: Task, roots: Sequence[Edge], gradients: Sequence[Tensor]) -> None:
    """Run a task in this thread; grad mode and saved-tensor hooks are afterwards what they were before."""
    before, outer, packing, overrides = grad_state.enabled, _thread.task, saving.hooks, grad_state.overrides
    grad_state.enabled = task.create and not grad_state.inference
    grad_state.overrides = 2  # rules are ops on plain tensors, whatever the classes of those that were saved
    _thread.task = task
    _thread.depth += 1
    try:
        task.run(roots, gradients)
        for callback in task.callbacks:  # the list may grow meanwhile: callbacks may queue others
            callback()
    finally:
        grad_state.enabled, grad_state.overrides = before, overrides
        if saving.hooks is not packing:
            set_hooks(packing)  # a hook or a node has entered or left saved_tensors_hooks and did not undo it
        _thread.task = outer
        _thread.depth -= 1


def _run_on_new_thread(task: Task, roots: Sequence[Edge], gradients: Sequence[Tensor]) -> None:
    """Run a task in a new thread, whose stack is empty, with this thread's modes; wait for it."""
    modes, packing, raised = dict(vars(grad_state)), saving.hooks, list[BaseException]()

    def work() -> None:
        vars(grad_state).update(modes)
        set_hooks(packing)
        try:
            _run_here(task, roots, gradients)
        except BaseException as error:
            raised.append(error)
        finally:
            set_hooks([])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if raised:
        raise raised.pop()  # in the list it would be part of a cycle, list - error - frame - list, that holds the graph


def current_task() -> Task | None:
    """The innermost run of the engine in this thread; None outside of backward."""
    return _thread.task


def queue_callback(callback: Callable[[], Any]) -> None:
    """Call ``callback()`` at the end of the backward that is running; RuntimeError if none is."""
    if _thread.task is None:
        raise RuntimeError("Final callbacks can only be installed during backward pass.")
    _thread.task.callbacks.append(callback)
