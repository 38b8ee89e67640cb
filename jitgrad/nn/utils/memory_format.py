"""Weights of convolutions in another memory format."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.core.missing_names import explain_missing_names

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]

explain_missing_names(__name__)


def _convert(module: Any, kinds: tuple[Any, ...], memory_format: Any) -> Any:
    for part in module.modules():
        if isinstance(part, kinds):
            part.weight.data = part.weight.detach().clone(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """Lay out the weights of all Conv2d and ConvTranspose2d of a module in a memory format; returns the module."""
    return _convert(module, (jitgrad.nn.Conv2d, jitgrad.nn.ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """Lay out the weights of all Conv3d and ConvTranspose3d of a module in a memory format; returns the module."""
    return _convert(module, (jitgrad.nn.Conv3d, jitgrad.nn.ConvTranspose3d), memory_format)
