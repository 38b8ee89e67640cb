"""Methods that subclasses define with parameters of their own."""

from __future__ import annotations

from typing import Any

__all__ = ["any_signature"]


def any_signature(method: Any) -> Any:
    """The method itself, without its type: a subclass may define it with any parameters.

    To a type checker ``forward(self, x)`` would else be no valid override of ``forward(self, *input)``, which promises
    to take any number of arguments.
    """
    return method
