"""What Python code takes from PyTorch's compiled module ``torch._C``: switches of ``__torch_function__``, and types."""

from __future__ import annotations

from typing import Any

from jitgrad.core.device import device
from jitgrad.core.dtypes import dtype
from jitgrad.core.errors import LinAlgError
from jitgrad.core.grad_mode import set_enabled, state
from jitgrad.core.layout import Size
from jitgrad.core.missing_names import explain_missing_names
from jitgrad.core.override_off import DISABLED
from jitgrad.core.tensor import Tensor
from jitgrad.overrides import (
    DisableTorchFunction,
    DisableTorchFunctionSubclass,
    has_torch_function,
    has_torch_function_unary,
    has_torch_function_variadic,
)
from jitgrad.random import Generator

__all__ = [
    "DisableTorchFunction", "DisableTorchFunctionSubclass", "Generator", "Size", "TensorBase", "device", "dtype",
]  # fmt: skip

_has_torch_function, _has_torch_function_unary = has_torch_function, has_torch_function_unary
_has_torch_function_variadic, _disabled_torch_function_impl = has_torch_function_variadic, DISABLED
TensorBase = _TensorBase = Tensor
_LinAlgError = LinAlgError


class _EnableTorchFunction:
    """While this object lives, everything may take over ops again."""

    def __init__(self) -> None:
        self._before, state.overrides = state.overrides, 0

    def __del__(self) -> None:
        state.overrides = self._before


def _is_torch_function_enabled() -> bool:
    return state.overrides == 0


def _is_torch_function_all_disabled() -> bool:
    return state.overrides == 2


def _get_tracing_state() -> None:
    """Nothing is ever traced."""


def _set_grad_enabled(mode: bool) -> Any:
    return set_enabled(mode)


def _log_api_usage_once(event: str) -> None:
    """PyTorch counts uses of its parts; nothing is counted here."""


explain_missing_names(__name__)
