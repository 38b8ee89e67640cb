"""What a function that is being differentiated may do: nothing to tensors that it captures.

``func.grad``, ``vjp`` and ``jvp`` open a ``Scope`` round the call of their function. New tensors are
stamped with it meanwhile, so what was made inside is told from what is captured: that is not to be
written to, for the gradient of the write would be lost. PyTorch wraps tensors instead; the stamps also
know how its wrappers would print. While no scope is open, an empty list says so.
"""

from __future__ import annotations

from typing import Any

from jitgrad.core.grad_mode import state
from jitgrad.core.saved_tensors import thread
from jitgrad.core.tensor_observers import stamping, tensor_observers
from jitgrad.core.transform_guards import scopes
from jitgrad.core.wrapped import Level, Wrapped

__all__ = ["Scope", "open_scopes_of"]

_HOOKS = (
    "torch.func.{grad, vjp, jacrev, hessian} don't yet support saved tensor hooks. Please open an issue with your use "
    "case."
)


class Scope:
    """The call of a function that is being differentiated, from ``with`` to the end of the block.

    ``level``: the level of a function differentiated in forward mode; its inputs are that level's duals.
    """

    __slots__ = ("before", "level", "number", "open", "own", "parent", "sources", "unchecked")

    def __init__(self, level: Level | None = None):
        self.level, self.open, self.parent = level, False, None
        self.number = next(Level._numbers) if level is None else level.number
        self.own: Any = ()  # ids of the variables that are differentiated
        self.sources: Any = {}  # nodes of variables that have a history, and what made the arguments they stand for
        self.before: Any = None  # this thread's setting that the block changes
        self.unchecked = False  # whether writes go unchecked just now, being parts of one that was checked

    def __enter__(self) -> Scope:
        if self.level is None:
            if thread.hooks:
                raise RuntimeError(_HOOKS)
            self.before, thread.disabled = thread.disabled, _HOOKS
        else:
            self.before, state.pushing = state.pushing, True
        self.open, self.parent, state.scope = True, state.scope, self
        tensor_observers.append(stamping)
        scopes.append(self)
        return self

    def __exit__(self, *error: Any) -> None:
        self.open, state.scope = False, self.parent
        self.sources = {}  # what was made inside may live on, and this with it
        scopes.remove(self)
        tensor_observers.remove(stamping)
        if self.level is None:
            thread.disabled = self.before
        else:
            state.pushing = self.before

    def holds(self, x: Any) -> bool:
        """Whether a tensor was made inside, or is one of the inputs."""
        while isinstance(x, Wrapped) and x._level.open:
            if x._level is self.level:
                return True
            x = x.unwrapped()
        return self in open_scopes_of(x)


def open_scopes_of(x: Any) -> list[Scope]:
    """The open scopes that a plain tensor, or what it is a view of, was made in."""
    scope = x._scope
    if scope is None and x._base is not None:
        scope = x._base._scope
    found = []
    while scope is not None:
        if scope.open:
            found.append(scope)
        scope = scope.parent
    return found
