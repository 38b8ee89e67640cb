"""Where ops become public: functions of jitgrad and methods of Tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..tensor import Tensor

__all__ = ["FUNCTIONS", "OPS", "public"]

FUNCTIONS: dict[str, Callable[..., Any]] = {}
OPS: dict[str, Any] = {}  # every differentiable op by its name, for generated tests
F = TypeVar("F", bound=Callable[..., Any])


def public(function: F, name: str = "", *, function_too: bool = True, method_too: bool = True) -> F:
    """Publish ``function`` as ``jitgrad.NAME`` and ``Tensor.NAME``."""
    name = name or function.__name__
    if function_too:
        FUNCTIONS[name] = function
    if method_too:
        setattr(Tensor, name, function)
    return function
