"""PyTorch's path for the handles that registering a hook returns; they live in ``core/handles.py``."""

from __future__ import annotations

import warnings
from typing import Any, TypeVar

from jitgrad.core.handles import RemovableHandle

__all__ = ["RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]

F = TypeVar("F")


def unserializable_hook(f: F) -> F:
    """Mark a hook as one that is not to be saved with its tensor: ``warn_if_has_hooks`` is silent about it."""
    vars(f)["__torch_unserializable__"] = True
    return f


def warn_if_has_hooks(tensor: Any) -> None:
    """Warn of each hook of a tensor that saving it would lose."""
    for hook in (tensor._backward_hooks or {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(
                f"backward hook {hook!r} on tensor will not be serialized.  If this is expected, you can decorate the "
                "function with @torch.utils.hooks.unserializable_hook to suppress this warning",
                stacklevel=2,
            )
