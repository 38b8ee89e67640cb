"""The switch that has constructors of sparse tensors look at their indices."""

from __future__ import annotations

import functools
import warnings
from typing import Any

from jitgrad.core.user_frame import user_level

__all__ = ["check_sparse_tensor_invariants", "enabled", "warn_of_beta"]

_state = [False]
_said: set[str] = set()
_UNCHECKED = (
    "Sparse invariant checks are implicitly disabled. Memory errors (e.g. SEGFAULT) will occur when operating on a "
    "sparse tensor which violates the invariants, but checks incur performance overhead. To silence this warning, "
    "explicitly opt in or out. See `torch.sparse.check_sparse_tensor_invariants.__doc__` for guidance. "
)
_BETA = (
    "Sparse CSR tensor support is in beta state. If you miss a functionality in the sparse tensor support, please "
    "submit a feature request to https://github.com/pytorch/pytorch/issues."
)


def _warn_once(text: str) -> None:
    """PyTorch's warning, the first time. Its words of memory errors are not true here: the first op looks."""
    if text not in _said:
        _said.add(text)
        warnings.warn(text, UserWarning, stacklevel=user_level())


def warn_of_beta() -> None:
    """What PyTorch says of the first compressed matrix."""
    _warn_once(_BETA)


def enabled(given: bool | None) -> bool:
    """Whether a constructor checks indices, which was told so or not."""
    if given is None:
        _warn_once(_UNCHECKED)
    return _state[0] if given is None else given


class check_sparse_tensor_invariants:
    """Have constructors check indices: by ``enable()``, in a ``with`` block, or in a decorated function."""

    @staticmethod
    def is_enabled() -> bool:
        """Whether constructors check indices."""
        return _state[0]

    @staticmethod
    def enable() -> None:
        """Check from now on."""
        _said.add(_UNCHECKED)
        _state[0] = True

    @staticmethod
    def disable() -> None:
        """Check no more, unless a call asks for it."""
        _said.add(_UNCHECKED)
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
        _said.add(_UNCHECKED)
        _state[0] = self.state

    def __exit__(self, *error: Any) -> None:
        _state[0], self.saved_state = bool(self.saved_state), None

    def __call__(self, function: Any) -> Any:
        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.state):
                return function(*args, **kwargs)

        return checked
