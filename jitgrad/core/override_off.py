"""``__torch_function__`` of the classes that leave ops as they are."""

from __future__ import annotations

from typing import Any

from jitgrad.core.grad_mode import state

__all__ = ["DISABLED"]


class _Disabled:
    """The ``__torch_function__`` of classes that leave ops as they are; no function, so that it is bound to nothing."""

    def __call__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        before, state.overrides = state.overrides, max(state.overrides, 1)
        try:
            return func(*args, **(kwargs or {}))
        finally:
            state.overrides = before

    def __repr__(self) -> str:
        return "<built-in method _disabled_torch_function_impl>"


DISABLED = _Disabled()
