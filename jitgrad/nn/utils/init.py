"""Modules made without initial values."""

from __future__ import annotations

import inspect
from typing import Any

import jitgrad
from jitgrad.core.missing_names import explain_missing_names

__all__ = ["skip_init"]

explain_missing_names(__name__)


def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Any:
    """Make a module whose parameters have memory but no initial values. RuntimeError for classes without ``device``."""
    if not issubclass(module_cls, jitgrad.nn.Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    device = kwargs.pop("device", "cpu")
    return module_cls(*args, device="meta", **kwargs).to_empty(device=device)
