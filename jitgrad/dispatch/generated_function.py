"""Functions whose text is generated, and compiled when they are first called.

A program calls few of all ops, and compiling one function's text takes 0.3 ms of the import.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from types import FunctionType
from typing import Any

from jitgrad.dispatch.op_calls import set_code

__all__ = ["generated_function"]


def generated_function(name: str, scope: dict[str, Any], make: Callable[[], FunctionType]) -> Any:
    """A function that becomes what ``make()`` returns, a function of the same ``scope``, when it is first called.

    It stays the same object: only its code and defaults change. scope: the function's global names; "complete" is
    added to them.
    """

    def complete() -> FunctionType:
        made = make()
        set_code(function, made)
        return made  # not ``function``, whose code may pass calls to observers

    scope["__builtins__"], scope["complete"] = builtins, complete
    function = FunctionType(_incomplete.__code__, scope, name)
    return function


def _incomplete(*args: Any, **kwargs: Any) -> Any:
    return complete()(*args, **kwargs)  # type: ignore[name-defined]  # noqa: F821
