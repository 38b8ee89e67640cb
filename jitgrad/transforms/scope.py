"""Scopes: a function that is being differentiated must not write to tensors that it captures.

``func.grad``, ``vjp`` and ``jvp`` open a ``Scope`` round the call of their function. Tensors made meanwhile get it as
``_scope``, so they can be told from captured ones; a write to these is an error, since its gradient would be lost.
PyTorch knows by its wrappers. Printing asks scopes, too, which wrappers PyTorch would show. While no scope is
open, a list is empty (``scopes`` in core/transform_guards.py), and inplace ops test no more than that. A write through
a view of a captured tensor, or by ``mark_dirty``, is judged by the owner of the memory.
"""

from __future__ import annotations

from typing import Any

from jitgrad.core.grad_mode import state
from jitgrad.core.saved_tensors import thread
from jitgrad.core.tensor_observers import scope_observer, tensor_observers
from jitgrad.core.transform_guards import scopes
from jitgrad.core.wrapped import Level, Wrapped

__all__ = ["Scope", "open_scopes_of"]

_HOOKS = (
    "torch.func.{grad, vjp, jacrev, hessian} don't yet support saved tensor hooks. Please open an issue with your use "
    "case."
)


class Scope:
    """One call of a function that is being differentiated, as a context manager round it.

    ``level``: in forward mode the level that makes the inputs dual; None in reverse mode.
    """

    __slots__ = ("before", "level", "number", "open", "own", "parent", "sources", "unchecked")

    def __init__(self, level: Level | None = None):
        self.level, self.open, self.parent = level, False, None
        self.number = next(Level._numbers) if level is None else level.number
        self.own: Any = ()  # ids of the leaves that the function is differentiated by
        self.sources: Any = {}  # {node of a variable with a history: the node of the argument that it aliases}
        self.before: Any = None  # the thread's setting that __enter__ changes and __exit__ restores
        # Set while an inplace op that has passed the check is carried out by writes to the tensors that its target
        # wraps: these may belong to the caller.
        self.unchecked = False

    def __enter__(self) -> Scope:
        if self.level is None:
            if thread.hooks:
                raise RuntimeError(_HOOKS)
            self.before, thread.disabled = thread.disabled, _HOOKS
        else:
            self.before, state.computes_tangents = state.computes_tangents, True
        self.open, self.parent, state.scope = True, state.scope, self
        tensor_observers.append(scope_observer)
        scopes.append(self)
        return self

    def __exit__(self, *error: Any) -> None:
        self.open, state.scope = False, self.parent
        self.sources = {}  # tensors made inside may live on and hold the scope; it must not hold the graph
        scopes.remove(self)
        tensor_observers.remove(scope_observer)
        if self.level is None:
            thread.disabled = self.before
        else:
            state.computes_tangents = self.before

    def holds(self, x: Any) -> bool:
        """Whether a tensor was made inside, or is one of the inputs."""
        while isinstance(x, Wrapped) and x._level.open:
            if x._level is self.level:
                return True
            x = x.unwrapped()
        return self in open_scopes_of(x)


def open_scopes_of(x: Any) -> list[Scope]:
    """The open scopes in which a plain tensor, or the base of a view, was made; innermost first."""
    scope = x._scope
    if scope is None and x._base is not None:
        scope = x._base._scope
    found = []
    while scope is not None:
        if scope.open:
            found.append(scope)
        scope = scope.parent
    return found
