"""``torch.utils._python_dispatch``: modes and classes that see PyTorch's dispatcher, of which there is none here.

What asks for such classes gets False; a mode of a program's own can be defined, not entered: ``TorchFunctionMode`` of
``jitgrad.overrides`` sees calls.
"""

from __future__ import annotations

from typing import Any

from jitgrad.core.absent import absent, absent_names

__all__ = ["TorchDispatchMode", "is_traceable_wrapper_subclass"]

_REASON = "there is no dispatcher below autograd; TorchFunctionMode of torch.overrides sees calls of ops"
TorchDispatchMode = absent("jitgrad.utils._python_dispatch", "TorchDispatchMode", _REASON)


def is_traceable_wrapper_subclass(t: Any) -> bool:
    """Whether a tensor is made of others that a compiler could take out: never."""
    return False


def _get_current_dispatch_mode() -> None:
    """No mode is ever on."""


def _disable_current_modes() -> Any:
    import contextlib

    return contextlib.nullcontext()


absent_names(__name__, "BaseTorchDispatchMode return_and_correct_aliasing transform_subclass", _REASON)
