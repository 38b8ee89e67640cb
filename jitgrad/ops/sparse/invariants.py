"""The switch that has constructors of sparse tensors look at their indices."""

from __future__ import annotations

import functools
from typing import Any

__all__ = ["check_sparse_tensor_invariants", "enabled"]

_state = [False]


def enabled() -> bool:
    """Whether constructors check indices where they aren't told."""
    return _state[0]


class check_sparse_tensor_invariants:
    """Have constructors check indices: by ``enable()``, in a ``with`` block, or in a decorated function."""

    @staticmethod
    def is_enabled() -> bool:
        """Whether constructors check indices."""
        return _state[0]

    @staticmethod
    def enable() -> None:
        """Check from now on."""
        _state[0] = True

    @staticmethod
    def disable() -> None:
        """Check no more, unless a call asks for it."""
        _state[0] = False

    def __init__(self, enable: bool = True):
        self.state = enable
        self.saved_state: bool | None = None

    def __enter__(self) -> None:
        if self.saved_state is not None:
            raise RuntimeError(
                "This context manager instance is already activated. Use a different context manager instance for "
                "context nesting."
            )
        self.saved_state = _state[0]
        _state[0] = self.state

    def __exit__(self, *error: Any) -> None:
        _state[0], self.saved_state = bool(self.saved_state), None

    def __call__(self, function: Any) -> Any:
        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.state):
                return function(*args, **kwargs)

        return checked
