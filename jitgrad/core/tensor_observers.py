"""Observers of new tensors: inference mode marks them, a profiler counts their memory, func.grad notes their scope.

Every place that makes a tensor of new memory, generated launchers included, tests ``tensor_observers`` and calls
``announce_tensor`` only if it is not empty. Measured, the test is within the noise of a tensor's creation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.core.grad_mode import state
from jitgrad.core.transform_guards import scopes

__all__ = ["announce_tensor", "scope_observer", "tensor_observers"]

tensor_observers: list[Callable[[Any], None]] = []


def announce_tensor(tensor: Any) -> None:
    """Call all observers with a new tensor. They are those of all threads, and look themselves whose it is."""
    scope = state.scope
    if scope is not None:
        tensor._scope = scope
        # As many observers as open scopes: all of them are ``scope_observer``, which has nothing to do.
        if len(tensor_observers) == len(scopes):
            return
    for observer in tuple(tensor_observers):
        observer(tensor)


def scope_observer(tensor: Any) -> None:
    """Keeps ``tensor_observers`` non-empty while a function is being differentiated, once for each open Scope.

    ``announce_tensor`` itself sets the scope: a call for it would double its cost, 0.08 us for each tensor.
    """
