"""Who is told of every new tensor: inference mode marks it, a profiler counts its memory, func.grad stamps it.

Generated launchers and ``wrap`` test ``tensor_observers`` and do no more while it is empty.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.core.grad_mode import state
from jitgrad.core.transform_guards import scopes

__all__ = ["announce_tensor", "scope_observer", "tensor_observers"]

tensor_observers: list[Callable[[Any], None]] = []


def announce_tensor(tensor: Any) -> None:
    """Show a new tensor to all observers, which are those of every thread."""
    scope = state.scope
    if scope is not None:
        tensor._scope = scope
        if len(tensor_observers) == len(scopes):
            return
    for observer in tuple(tensor_observers):
        observer(tensor)


def scope_observer(tensor: Any) -> None:
    """Stands among the observers while a function is being differentiated: ``announce_tensor`` itself does the work."""
